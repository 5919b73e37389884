"""A recorder without a writer process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.capture.recording import recorder as recorder_module
from kafkalite.capture.recording.file_rotation import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

NAME = "kafkalite-20231114T221320.250000000Z-000{}.pcapng"
STARTED_MS = 1_700_000_000_250
"""The time in the name of the first file."""
CONTENT = "first "


class FakeRecorder:
    """Writes one file, records no connection, and can fail to start."""

    failure: str | None = None

    def __init__(
        self,
        directory: str,
        now_ns: Callable[[], int],
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        if self.failure is not None:
            raise CaptureError(self.failure)
        self.directory = directory
        self.started_ns = now_ns()
        self.warn = warn
        self.is_closed = False
        Path(directory, NAME.format(0)).write_text(CONTENT)

    def close(self) -> None:
        self.is_closed = True


def use_fake_recorder(monkeypatch: pytest.MonkeyPatch) -> type[FakeRecorder]:
    """Let captures have recorders of a class of its own, which is returned."""

    class Recorder(FakeRecorder):
        pass

    monkeypatch.setattr(recorder_module, "Recorder", Recorder)
    return Recorder
