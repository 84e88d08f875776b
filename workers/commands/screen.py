"""Progress of long work on a terminal, on stderr; nothing where nobody looks on."""

from collections.abc import Iterator
from contextlib import contextmanager

from workers.engine.walking import Progress


@contextmanager
def shown_progress(verb: str, what: str = "events") -> Iterator[Progress]:
    """A bar. What is read by a program goes to stdout and stays free of it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    screen = Console(stderr=True)
    columns = (
        TextColumn(verb), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + what),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(verb, total=0)

        def told(done: int, total: int) -> None:
            bar.update(task, advance=done, total=total)

        yield told
