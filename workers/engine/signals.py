"""How a thread that waits for progress learns of it at once; what other processes do is found by looking again."""

import threading


class Signals:
    """One condition for all progress of this process: waiters look at the database, the signal only wakes them."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def mark(self) -> int:
        """Take this before looking at the database, and pass it to `wait`: no progress in between is missed."""
        with self._condition:
            return self._count

    def progressed(self) -> None:
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait(self, mark: int, seconds: float) -> None:
        """Until there was progress since `mark`, at most `seconds`."""
        with self._condition:
            self._condition.wait_for(lambda: self._count != mark, seconds)
