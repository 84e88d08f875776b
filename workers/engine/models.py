"""Models: what is asked of them, and what that cost, whether they answer or not."""

from collections.abc import Callable
from typing import Any, TypeVar

from workers.engine.deps import Deps
from workers.llm import Model, ModelFailed, Usage
from workers.store import model_calls

Json = dict[str, Any]
Read = TypeVar("Read")


def ask(
    deps: Deps, model: Model, tenant: str, stream: int, task: str, told: str, text: str, limit: int,
    read: Callable[[str], Read],
) -> Read:  # fmt: skip
    """What `read` makes of the answer to one question, of at most `limit` tokens. Outside of any unit, for it may take
    long. Raises ModelFailed, as `read` does for an answer that is of no use."""
    usage, outcome = Usage(), model_calls.ANSWERED
    try:
        answer = model.answer(told, text, limit)
        usage = answer.usage
        return read(answer.text)
    except ModelFailed as failed:
        usage, outcome = failed.usage or usage, failed.reason
        raise
    finally:
        call = {
            "task": task, "model": model.name[:200], "outcome": outcome[:200],
            "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out,
        }  # fmt: skip
        with deps.database.write(tenant) as unit:
            model_calls.note(unit, tenant, stream, deps.clock.now(), call)
