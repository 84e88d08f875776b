"""Known key formats are masked, each alone and in the middle of a text; what only looks like a key is left."""

import random
import string

import pytest

from domain.masking import MASK, masking

ANY, UPPER, HEX = string.ascii_letters + string.digits, string.ascii_uppercase + string.digits, "0123456789abcdef"
_random = random.Random(7)


def some(length: int, of: str = ANY) -> str:
    return "".join(_random.choice(of) for _ in range(length))


KEYS = {
    "openai": "sk-" + some(20) + "1T3BlbkFJ" + some(20),
    "openai project": "sk-proj-9" + some(40),
    "anthropic": "sk-ant-api03-" + some(80),
    "github": "ghp_" + some(36),
    "github fine-grained": f"github_pat_{some(22)}_{some(59)}",
    "gitlab": "glpat-" + some(20),
    "aws": "AKIA" + some(16, UPPER),
    "aws temporary": "ASIA" + some(16, UPPER),
    "slack": f"xoxb-123456789012-1234567890123-{some(24)}",
    "slack hook": f"https://hooks.slack.com/services/T{some(8, UPPER)}/B{some(8, UPPER)}/{some(24)}",
    "google": "AIza" + some(35),
    "stripe": "sk_live_" + some(24),
    "stripe restricted": "rk_live_" + some(24),
    "sendgrid": f"SG.{some(22)}.{some(43)}",
    "npm": "npm_" + some(36),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + some(70),
    "hugging face": "hf_" + some(34),
    "twilio": "SK" + some(32, HEX),
    "telegram": f"123456789:AA{some(33)}",
    "digitalocean": "dop_v1_" + some(64, HEX),
    "ours": f"pctx_{some(16, 'abcdefgh234567')}_{some(52, 'abcdefgh234567')}",
    "jwt": f"eyJ{some(30)}.eyJ{some(60)}.{some(43)}",
    "pem": f"-----BEGIN RSA PRIVATE KEY-----\n{some(64)}\n{some(64)}\n-----END RSA PRIVATE KEY-----",
}

mask = masking(())


@pytest.mark.parametrize("kind", KEYS)
def test_a_known_kind_of_key_is_masked_wherever_it_stands(kind: str) -> None:
    assert mask(KEYS[kind]) == MASK
    assert mask(f"用 key={KEYS[kind]}, now") == f"用 key={MASK}, now"


def test_of_a_connection_string_only_the_key_is_masked() -> None:
    text = f"AccountName=x;AccountKey={some(86)}==;EndpointSuffix=core.windows.net"
    assert mask(text) == f"AccountName=x;AccountKey={MASK};EndpointSuffix=core.windows.net"


@pytest.mark.parametrize(
    "text",
    [
        "sk-your-key-goes-here-please", "xoxb-your-token", "AKIA is how they begin", "SKETCH", "npm_config_registry=x",
        "3f6384a7c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6", "018f2b9c-7d4e-7a10-9c3b-1f2e3d4c5b6a", "eyJhbGciOiJub25lIn0",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", "task-12:AAb", "postgresql://user:pass@host/db",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_key_is_left_as_it_is(text: str) -> None:
    assert mask(text) == text


def test_marked_secrets_are_masked_the_longest_first_and_short_ones_not_in_texts() -> None:
    assert masking(["token-1", "token-12", "ab", 7, None])("token-12 token-1 ab 7") == f"{MASK} {MASK} ab 7"
