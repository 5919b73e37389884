"""What a long run says while it works: on a terminal how far it is, elsewhere a line a step."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TextIO

_LOOKS_EVERY_S: Final = 0.2
_MB: Final = 1_000_000
_MS_PER_S: Final = 1_000


class Done(NamedTuple):
    """How far a step is."""

    files: int
    size: int


class Teller(Protocol):
    """Is told what a run does."""

    def step(self, what: str) -> None:
        """Take that a step begins, or what it came to."""

    def reading(
        self, what: str, whole: Done, so_far: Callable[[], Done | None]
    ) -> AbstractContextManager[None]:
        """Tell how far it is, as long as this lasts; `so_far` says None where nobody knows."""


class Silent:
    """Says nothing."""

    def step(self, what: str) -> None:
        """Say nothing."""

    @contextmanager
    def reading(
        self,
        what: str,  # noqa: ARG002 - a Teller's
        whole: Done,  # noqa: ARG002
        so_far: Callable[[], Done | None],  # noqa: ARG002
    ) -> Iterator[None]:
        """Say nothing."""
        yield


class Console:
    """Says it to people."""

    def __init__(self, stream: TextIO, now_ms: Callable[[], int]) -> None:
        self._stream = stream
        self._now_ms = now_ms

    def step(self, what: str) -> None:
        """Print a line."""
        self._stream.write(f"{what}\n")
        self._stream.flush()

    @contextmanager
    def reading(self, what: str, whole: Done, so_far: Callable[[], Done | None]) -> Iterator[None]:
        """Show a bar on a terminal, and print a line with the speed in the end."""
        began_ms = self._now_ms()
        if self._stream.isatty():
            with _bar(self._stream, what, whole, so_far):
                yield
        else:
            self.step(f"{what}: {whole.files:,} files, {whole.size / _MB:,.1f} MB")
            yield
        seconds = max(1, self._now_ms() - began_ms) / _MS_PER_S
        speed = whole.size / _MB / seconds
        self.step(
            f"{what}: done, {whole.files:,} files, {whole.size / _MB:,.1f} MB in {seconds:,.1f} s"
            f" ({speed:,.1f} MB/s)"
        )


@contextmanager
def _bar(
    stream: TextIO, what: str, whole: Done, so_far: Callable[[], Done | None]
) -> Iterator[None]:
    from rich import progress  # noqa: PLC0415 - on terminals alone
    from rich.console import Console as Terminal  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[files]:,}/" + f"{whole.files:,} files"),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    over = threading.Event()
    with progress.Progress(*columns, console=Terminal(file=stream), transient=True) as shown:
        task = shown.add_task(what, total=whole.size, files=0)

        def look() -> None:
            while not over.wait(_LOOKS_EVERY_S):
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
