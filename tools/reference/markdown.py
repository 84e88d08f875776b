"""Pieces of Markdown."""

from collections.abc import Iterable


def block(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Rows of Markdown. What a cell says must not end it."""
    told = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [" | ".join(row) for row in [head, ["---"] * len(head), *told]]
    return "".join(f"| {line} |\n" for line in lines) if told else "Nothing.\n"
