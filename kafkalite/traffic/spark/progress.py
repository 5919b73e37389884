"""Progress of long runs: a bar on a terminal, otherwise one line per step."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TextIO

_REFRESH_INTERVAL_S: Final = 0.2
_KB: Final = 1_000
_MB: Final = 1_000_000
_MS_PER_S: Final = 1_000


class Done(NamedTuple):
    """Finished files and bytes of a step."""

    files: int
    size: int

    def __str__(self) -> str:
        return f"{files_text(self.files)}, {size_text(self.size)}"


def files_text(number: int, kind: str = "file") -> str:
    """Return a number of files with the noun."""
    return f"{number:,} {kind}" if number == 1 else f"{number:,} {kind}s"


def size_text(size: float) -> str:
    """Return a number of bytes in MB, or in KB if it is less than 1 MB."""
    return f"{size / _KB:,.1f} KB" if size < _MB else f"{size / _MB:,.1f} MB"


class ProgressReporter(Protocol):
    """Receives the progress of a run."""

    def step(self, what: str) -> None:
        """Report the start or the result of a step."""

    def reading(
        self, what: str, whole: Done, so_far: Callable[[], Done | None]
    ) -> AbstractContextManager[None]:
        """Report progress inside this block; `so_far` returns None if progress is unknown."""


class Silent:
    """Reports nothing."""

    def step(self, what: str) -> None:
        """Do nothing."""

    @contextmanager
    def reading(
        self,
        what: str,  # noqa: ARG002 - the protocol's arguments
        whole: Done,  # noqa: ARG002
        so_far: Callable[[], Done | None],  # noqa: ARG002
    ) -> Iterator[None]:
        """Do nothing."""
        yield


class Console:
    """Writes progress to a stream."""

    def __init__(self, stream: TextIO, now_ms: Callable[[], int]) -> None:
        self._stream = stream
        self._now_ms = now_ms

    def step(self, what: str) -> None:
        """Print a line."""
        self._stream.write(f"{what}\n")
        self._stream.flush()

    @contextmanager
    def reading(self, what: str, whole: Done, so_far: Callable[[], Done | None]) -> Iterator[None]:
        """Show a bar on a terminal; print a line with the speed at the end."""
        began_ms = self._now_ms()
        if self._stream.isatty():
            with _bar(self._stream, what, whole, so_far):
                yield
        else:
            self.step(f"{what}: {whole}")
            yield
        seconds = max(1, self._now_ms() - began_ms) / _MS_PER_S
        speed = size_text(whole.size / seconds)
        self.step(f"{what}: done, {whole} in {seconds:,.1f} s ({speed}/s)")


@contextmanager
def _bar(
    stream: TextIO, what: str, whole: Done, so_far: Callable[[], Done | None]
) -> Iterator[None]:
    from rich import progress  # noqa: PLC0415 - only needed on terminals
    from rich.console import Console as Terminal  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[files]:,}/" + files_text(whole.files)),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    over = threading.Event()
    with progress.Progress(*columns, console=Terminal(file=stream), transient=True) as shown:
        task = shown.add_task(what, total=whole.size, files=0)

        def look() -> None:
            while not over.wait(_REFRESH_INTERVAL_S):
                done = so_far()
                if done is not None:
                    shown.update(task, completed=done.size, files=done.files)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()
