"""Trim policies as data: what is to be made of which messages, once something must be cut.

A rule says which messages it is for (by role, tool, age and size) and which strategies are tried on them, in order.
The first rule that fits a message decides; a message without one is treated as every trim treats it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from domain.bounds import FromOne, FromZero
from domain.events import Value

TEXT_STRATEGIES = ("fields", "structure", "extract", "cut", "reference")
"""What makes a message smaller in its place: declared fields, JSON without its least telling leaves, the most telling
leaves or lines, head and tail, one line under which the whole can be expanded."""

UNIT_STRATEGIES = ("summary", "drop")
"""What takes a whole unit out of the window: into the summary, or out of the prompt."""

STRATEGY_NAME = r"^[a-z][a-z0-9_-]{0,40}$"

SUPERSEDED = "superseded"
"""The strategy of every trim: an answer that a newer one to the same call replaced becomes one line."""

Shrink = Callable[[str, int], str]
"""A strategy of a user's own: a text and a budget in tokens to a smaller text. The same input, the same output."""


class Step(Value):
    """One strategy of a ladder, and how many tokens what it makes may have."""

    use: Annotated[str, Field(pattern=STRATEGY_NAME)]
    limit: FromOne | None = None


def _as_step(given: Any) -> Any:
    return {"use": given} if isinstance(given, str) else given


class Rule(Value):
    """Which messages, and what to try on them. What is left out fits every message; a tool's name may end in `*`.
    Ages count whole turns of the user and trims of the view. An empty ladder leaves a message
    to what every trim does."""

    roles: tuple[Literal["user", "assistant", "tool"], ...] = ()
    tools: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    older_than_turns: FromZero = 0
    older_than_trims: FromZero = 0
    larger_than: FromZero = 0
    ladder: tuple[Annotated[Step, BeforeValidator(_as_step)], ...] = ()

    @model_validator(mode="after")
    def _tools_have_one_role(self) -> "Rule":
        if self.tools and set(self.roles) - {"tool"}:
            raise ValueError("a rule for tools is for the role tool alone")
        return self

    def fits(self, role: str, tool: str | None, age: "Age", tokens: int) -> bool:
        """Whether this rule is for such a message."""
        return (
            (not self.roles or role in self.roles)
            and (not self.tools or (role == "tool" and any(_named(tool or "", name) for name in self.tools)))
            and age.turns >= self.older_than_turns
            and age.trims >= self.older_than_trims
            and tokens > self.larger_than
        )


def _named(tool: str, pattern: str) -> bool:
    return tool.startswith(pattern[:-1]) if pattern.endswith("*") else tool == pattern


@dataclass(frozen=True, slots=True)
class Age:
    """How many turns of the user came after a unit, and how many trims it has seen."""

    turns: int
    trims: int


@dataclass(frozen=True, slots=True)
class Made:
    """What a strategy made of the message at `seq`, or why it made nothing. `shown` tells that the prompt holds it."""

    seq: int
    strategy: str
    limit: int
    text: str | None
    error: str | None = None
    shown: bool = False

    def dump(self) -> list[Any]:
        return [self.seq, self.strategy, self.limit, self.text, self.error, self.shown]


@dataclass(slots=True)
class Strategies:
    """The strategies that users registered, for one compile. What is `recorded` is not asked for again, and all that
    was asked for is `tried`, so that a replay needs none of them."""

    registered: Mapping[str, Shrink] = field(default_factory=dict)
    recorded: Mapping[tuple[int, str, int], Made] = field(default_factory=dict)
    tried: dict[tuple[int, str, int], Made] = field(default_factory=dict)

    def made(self, name: str, seq: int, text: str, limit: int, count: Callable[[str], int]) -> Made:
        """What the strategy makes of a text; a failure, and what is no smaller, is an outcome too."""
        key = (seq, name, limit)
        if key not in self.tried:
            self.tried[key] = self.recorded.get(key) or self._asked(key, text, count)
        return self.tried[key]

    def told(self, shown: Sequence[Made]) -> tuple[Made, ...]:
        """What the next prompt carries on, and all else that a replay of this one would ask for."""
        keys = {(one.seq, one.strategy, one.limit) for one in shown}
        others = [one for key, one in sorted(self.tried.items()) if key not in keys]
        return (*shown, *(replace(one, shown=False) for one in others))

    def _asked(self, key: tuple[int, str, int], text: str, count: Callable[[str], int]) -> Made:
        seq, name, limit = key
        if name not in self.registered:
            return Made(seq, name, limit, None, "no strategy of this name is registered")
        try:
            found: object = self.registered[name](text, limit)
        except Exception as error:
            return Made(seq, name, limit, None, f"{type(error).__name__}: {error}")
        if not isinstance(found, str) or not found.strip():
            return Made(seq, name, limit, None, "gave no text")
        spent = count(found)
        if spent > limit or spent >= count(text):
            return Made(seq, name, limit, None, f"gave {spent} tokens where {limit} were the limit")
        return Made(seq, name, limit, found)


def recorded(made: Sequence[Made], mask: Callable[[str], str]) -> dict[tuple[int, str, int], Made]:
    """What was recorded of earlier compiles, by message, strategy and limit; secrets marked since are masked."""
    return {(one.seq, one.strategy, one.limit): masked(one, mask) for one in made}


def masked(made: Made, mask: Callable[[str], str]) -> Made:
    return made if made.text is None else replace(made, text=mask(made.text))


def rule_for(rules: Sequence[Rule], role: str, tool: str | None, age: Age, tokens: int) -> Rule | None:
    """The first rule that is for such a message."""
    return next((rule for rule in rules if rule.fits(role, tool, age, tokens)), None)


def ages(users: Sequence[int], trims: Sequence[int]) -> Callable[[int], Age]:
    """Ages of units by their last seq, from the seqs of the users' messages and the heads at which trims were made."""

    def age(last: int) -> Age:
        return Age(sum(seq > last for seq in users), sum(head >= last for head in trims))

    return age
