"""A folder that reproduces a prompt: to be attached to a bug report. Secrets are masked in all of it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from promptctx import Client
from promptctx.cli.differences import unified_lines
from promptctx.cli.to_files import safe_name
from promptctx.prompt import Prompt

_HOW = """# {session}, version {version}

| | |
| --- | --- |
| prompt | `{id}` |
| SHA-256 of its payload | `{content_hash}` |
| mode, format, model | {mode}, {format}, {model} |
| tokens | {tokens} of {budget} |
| compiled at seq | {seq} |

`request.json` is the request as it was sent{sent}. `report.json` accounts for every unit and item: what is in the
prompt, what is not, and why. `inputs.json` is all that it was made from. {diff} `sha256.json` names the hashes of these
files.

Replay it on the server that made it{or_here}:

    {command}
"""

_DIFF = "`diff.txt` and `diff.json` tell what changed against the version before."


def write_folder(client: Client, prompt_id: str, to: Path | None, *, bundle: bool) -> tuple[Path, list[str]]:
    """The folder and the names of its files. One that holds something else is left alone."""
    prompt = client.prompt(prompt_id)
    folder = to or Path(f"reproduce-{safe_name(prompt.session)}-{prompt.version}")
    if folder.exists() and any(folder.iterdir()) and not (folder / "sha256.json").is_file():
        raise typer.BadParameter(f"{folder} holds other files; choose an empty folder.", param_hint="--to")
    files = _files(client, prompt)
    if bundle:
        files["bundle.jsonl"] = prompt.bundle()
    files["README.md"] = _readme(prompt, bundle=bundle).encode()
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    files["sha256.json"] = _json(hashes)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder, sorted(files)


def _files(client: Client, prompt: Prompt) -> dict[str, bytes]:
    files = {
        "request.json": _json(request_of(prompt)),
        "report.json": _json(prompt.report),
        "inputs.json": _json({"request": prompt.request, "inputs": prompt.inputs, "content_hash": prompt.content_hash}),
    }
    if prompt.version > 1:
        found = client.diff(prompt.parent or f"{prompt.session}@{prompt.version - 1}", prompt.id)
        files["diff.json"] = _json(found)
        files["diff.txt"] = "\n".join(map(_plain, unified_lines(found))).encode("utf-8", "backslashreplace") + b"\n"
    return files


def _plain(line: Text) -> str:
    return line.plain


def request_of(prompt: Prompt) -> Mapping[str, Any]:
    """What the provider was sent: the keyword arguments of its call."""
    if prompt.format == "anthropic":
        return prompt.anthropic()
    return prompt.openai() if prompt.format == "openai" else dict(prompt.payload)


def _readme(prompt: Prompt, *, bundle: bool) -> str:
    command = f"promptctx replay {prompt.id}"
    return _HOW.format(
        session=prompt.session, version=prompt.version, id=prompt.id, content_hash=prompt.content_hash,
        mode=prompt.mode, format=prompt.format, model=prompt.model or "none named", tokens=prompt.tokens,
        budget=prompt.budget, seq=prompt.inputs["session"]["seq"],
        sent={"openai": " to chat completions", "anthropic": " to messages"}.get(prompt.format, ""),
        diff=_DIFF if prompt.version > 1 else "It is the first version: there is none to compare it with.",
        or_here=", or on any other" if bundle else "",
        command=f"promptctx restore bundle.jsonl && {command}" if bundle else command,
    )  # fmt: skip


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True, default=dict)
    return text.encode("utf-8", "backslashreplace") + b"\n"
