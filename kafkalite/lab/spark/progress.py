"""Progress of long runs: a bar on a terminal, otherwise one line per step."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TextIO

_REFRESH_INTERVAL_S: Final = 0.2
_KB: Final = 1_000
_MB: Final = 1_000_000
_MS_PER_S: Final = 1_000


class Amount(NamedTuple):
    """A number of files, and their size in bytes."""

    files: int
    size: int

    def __str__(self) -> str:
        return f"{count_text(self.files, 'file')}, {size_text(self.size)}"


def size_text(size: float) -> str:
    """Return a number of bytes in MB, or in KB if it is less than 1 MB."""
    return f"{size / _KB:,.1f} KB" if size < _MB else f"{size / _MB:,.1f} MB"


class ProgressReporter(Protocol):
    """Receives the progress of a run."""

    def step(self, description: str) -> None:
        """Report the start or the result of a step."""

    def reading(
        self, description: str, total: Amount, current: Callable[[], Amount | None]
    ) -> AbstractContextManager[None]:
        """Report progress inside this block; `current` returns None if progress is unknown."""


class SilentReporter:
    """Reports nothing."""

    def step(self, description: str) -> None:
        """Do nothing."""

    @contextmanager
    def reading(
        self,
        description: str,  # noqa: ARG002 - the protocol's arguments
        total: Amount,  # noqa: ARG002
        current: Callable[[], Amount | None],  # noqa: ARG002
    ) -> Iterator[None]:
        """Do nothing."""
        yield


class ConsoleReporter:
    """Writes progress to a stream."""

    def __init__(self, stream: TextIO, now_ms: Callable[[], int]) -> None:
        self._stream = stream
        self._now_ms = now_ms

    def step(self, description: str) -> None:
        """Print a line."""
        self._stream.write(f"{description}\n")
        self._stream.flush()

    @contextmanager
    def reading(
        self, description: str, total: Amount, current: Callable[[], Amount | None]
    ) -> Iterator[None]:
        """Show a bar on a terminal; print a line with the speed at the end."""
        start_ms = self._now_ms()
        if self._stream.isatty():
            with _bar(self._stream, description, total, current):
                yield
        else:
            self.step(f"{description}: {total}")
            yield
        seconds = max(1, self._now_ms() - start_ms) / _MS_PER_S
        speed = size_text(total.size / seconds)
        self.step(f"{description}: done, {total} in {seconds:,.1f} s ({speed}/s)")


@contextmanager
def _bar(
    stream: TextIO, description: str, total: Amount, current: Callable[[], Amount | None]
) -> Iterator[None]:
    from rich import progress  # noqa: PLC0415 - only needed on terminals
    from rich.console import Console as Terminal  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[files]:,}/" + count_text(total.files, "file")),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    is_finished = threading.Event()
    with progress.Progress(*columns, console=Terminal(file=stream), transient=True) as bar:
        task = bar.add_task(description, total=total.size, files=0)

        def refresh() -> None:
            while not is_finished.wait(_REFRESH_INTERVAL_S):
                done = current()
                if done is not None:
                    bar.update(task, completed=done.size, files=done.files)

        refresher = threading.Thread(target=refresh, daemon=True)
        refresher.start()
        try:
            yield
        finally:
            is_finished.set()
            refresher.join()
