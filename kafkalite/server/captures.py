"""Captures: the recordings that commands start and stop, each in a directory of its own.

The directories are below one that the broker chooses. It is next to the data directory, and not in
it, because Kafka does not start with unknown directories in `log.dirs`. For data that ends with the
broker, it is a temporary directory, which ends with the broker, too.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalite.capture.recording.file_rotation import SUFFIX, CaptureError, started_ms_of
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.temporary import new_temporary_directory
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.ports.temporary import TemporaryDirectory
    from kafkalite.server.broker import Broker

MAX_CAPTURES: Final = 1_000
"""The maximum number of captures that a broker keeps."""
EXTERNAL: Final = "external"
"""The name of a capture that the program started: `--capture`, or `start_recording` in Python."""

_MAX_NAME: Final = 63
_NAME_FORMAT: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NUMBERED: Final = re.compile(r"capture-([0-9]{1,9})", re.ASCII)
_SUFFIX: Final = "-captures"
_PIECE_BYTES: Final = 256 * 1024


class RecordingError(ValueError):
    """A capture that cannot be started, stopped, read or deleted; the text is one sentence."""


class UnknownCaptureError(RecordingError):
    """A name that no capture has."""


class Capture(NamedTuple):
    """A capture, and the capture files in its directory."""

    name: str
    directory: str
    is_recording: bool
    files: int
    size_bytes: int
    started_ms: int | None
    """When it was started, by the clock of the broker; None if it has no file."""


class CaptureFile(NamedTuple):
    """A file of a capture; its size grows while it is written."""

    path: str
    size_bytes: int


class Captures:
    """The captures of a broker; at most one of them is recorded.

    A capture that the program started has the name EXTERNAL. It can only be listed and stopped,
    because its directory may have more than this broker recorded.
    """

    __slots__ = (
        "_broker",
        "_changes",
        "_external",
        "_is_closed",
        "_name",
        "_recorder",
        "_starting",
        "_temporary",
    )

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._name = ""
        """The name of the capture that is recorded."""
        self._recorder: Recorder | None = None
        self._external: Recorder | None = None
        self._temporary: TemporaryDirectory | None = None
        self._changes = asyncio.Lock()
        self._starting: asyncio.Future[Capture] | None = None
        self._is_closed = False

    async def all(self) -> Sequence[Capture]:
        """Return all captures, oldest first."""
        name = self._recorded_name()
        root = self._root()
        found = {} if root is None else await asyncio.to_thread(_captures_in, root)
        if self._recorder is not None and name not in found:  # its directory was removed
            found[name] = await asyncio.to_thread(_capture, name, self._recorder.directory)
        captures = [each._replace(is_recording=each.name == name) for each in found.values()]
        if self._external is not None:
            captures.append(await self._external_capture(self._external, name))
        return sorted(captures, key=lambda each: (each.started_ms or 0, each.name))

    async def find(self, name: str) -> Capture:
        """Return a capture; raises UnknownCaptureError."""
        captures = await self.all()
        for each in captures:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in captures)
        known = f"they are {names}" if names else "there are none"
        raise UnknownCaptureError(f"there is no capture {name[:_MAX_NAME]!r}; {known}")

    async def start(self, name: str | None = None) -> Capture:
        """Record all connections: present ones from their next request on, new ones completely.

        Without a name, the capture gets a number. Raises RecordingError, and OSError if its
        directory cannot be created.
        """
        if name is not None and not _is_name(name):
            raise RecordingError(
                f"name must be 1 to {_MAX_NAME} of a-z, 0-9 and '-', with no '-' at its ends, and "
                f"not {EXTERNAL!r}: {name[:_MAX_NAME]!r} is not valid"
            )
        # A client that disconnects does not end a start half-way.
        self._starting = starting = asyncio.ensure_future(self._start(name))
        return await asyncio.shield(starting)

    async def _start(self, name: str | None) -> Capture:
        async with self._changes:
            if self._is_closed:
                raise RecordingError("the broker has stopped")
            if present := self._recorded_name():
                raise RecordingError(
                    f"the capture {present} is recorded, and only one can be at a time: stop it "
                    "first"
                )
            root = self._root()
            if root is None:
                self._temporary = new_temporary_directory(SystemEntropy().uuid())
                root = self._temporary.path
            used_name, recorder = await asyncio.to_thread(self._new_recorder, root, name)
            try:
                self._broker.nodes.start_recording(recorder)
            except RuntimeError as error:  # the program has started to record meanwhile
                await asyncio.to_thread(recorder.close)
                raise RecordingError(f"{error}") from error
            self._name, self._recorder = used_name, recorder
        self._broker.log.info("capture started", directory=recorder.directory)
        return await self.find(used_name)

    def _new_recorder(self, root: str, name: str | None) -> tuple[str, Recorder]:
        """Return the name of a capture, and its recorder."""
        from kafkalite.capture.recording.recorder import Recorder  # noqa: PLC0415 - rarely used

        os.makedirs(root, 0o700, exist_ok=True)  # noqa: PTH103 - paths are plain text here
        names = _captures_in(root)
        if len(names) >= MAX_CAPTURES:
            raise RecordingError(f"there are {len(names)} captures, which is the maximum")
        name = name or _next_name(names)
        directory = os.path.join(root, name)  # noqa: PTH118 - as above
        try:
            os.mkdir(directory, 0o700)  # noqa: PTH102 - as above
        except FileExistsError as error:
            raise RecordingError(
                f"there is a capture {name} already: use another name, or delete it"
            ) from error
        log = self._broker.log

        def warn(line: str) -> None:
            log.error(line, directory=directory)

        try:
            return name, Recorder(directory, self._broker.clock.now_ns, warn=warn)
        except CaptureError as error:
            with suppress(OSError):
                os.rmdir(directory)  # noqa: PTH106 - as above
            raise RecordingError(f"{error}") from error

    async def stop(self, name: str) -> Capture:
        """Stop a capture, and return it when its files are complete.

        Raises UnknownCaptureError, and RecordingError if it is not recorded.
        """
        async with self._changes:
            capture = await self.find(name)
            if not capture.is_recording:
                raise RecordingError(f"the capture {name} is not recorded: it was stopped before")
            await self._stop()
            stopped = await asyncio.to_thread(_capture, name, capture.directory)
        return stopped._replace(started_ms=capture.started_ms)

    async def _stop(self) -> None:
        self._name, self._recorder = "", None
        recorder = self._broker.nodes.stop_recording()
        if recorder is not None:
            await asyncio.to_thread(recorder.close)
            self._broker.log.info("capture stopped", directory=recorder.directory)

    async def delete(self, name: str) -> Capture:
        """Delete a capture with its files, and return it.

        Raises UnknownCaptureError, RecordingError if it is recorded or that of the program, and
        OSError.
        """
        import shutil  # noqa: PLC0415 - it imports all compressions

        async with self._changes:
            capture = await self.find(name)
            _check_is_own(capture)
            if capture.is_recording:
                raise RecordingError(f"the capture {name} is recorded: stop it first")
            await asyncio.to_thread(shutil.rmtree, capture.directory)
            return capture

    async def files(self, name: str) -> Sequence[CaptureFile]:
        """Return the files of a capture, oldest first.

        Raises UnknownCaptureError, RecordingError for that of the program, and OSError.
        """
        capture = await self.find(name)
        _check_is_own(capture)
        return await asyncio.to_thread(_files_in, capture.directory)

    async def close(self) -> None:
        """Stop the capture that a command started; remove what ends with the broker."""
        async with self._changes:
            self._is_closed = True
            if self._recorder is not None:
                await self._stop()
            temporary, self._temporary = self._temporary, None
            if temporary is not None:
                await asyncio.to_thread(temporary.remove)

    def _recorded_name(self) -> str:
        """Return the name of the capture that is recorded, empty if there is none."""
        recorder = self._broker.nodes.recorder
        if recorder is None:
            return ""
        if recorder is self._recorder:
            return self._name
        self._external = recorder
        return EXTERNAL

    def _root(self) -> str | None:
        """Return the directory with the captures; None if there was none yet."""
        broker = self._broker
        if broker.is_in_memory or broker.is_temporary:
            return None if self._temporary is None else self._temporary.path
        return f"{os.path.abspath(broker.data_directory)}{_SUFFIX}"  # noqa: PTH100 - plain text

    @staticmethod
    async def _external_capture(recorder: Recorder, recorded_name: str) -> Capture:
        found = await asyncio.to_thread(_capture, EXTERNAL, recorder.directory)
        started_ms = recorder.started_ns // NANOSECONDS_PER_MILLISECOND
        return found._replace(is_recording=recorded_name == EXTERNAL, started_ms=started_ms)


async def contents(files: Sequence[CaptureFile]) -> AsyncIterator[bytes]:
    """Yield the content of files as one file in pieces; sections of pcapng can follow each other.

    Bytes that are written later are omitted.
    """
    for path, size in files:
        file = await asyncio.to_thread(open, path, "rb")
        try:
            remaining = size
            while remaining:
                piece = await asyncio.to_thread(file.read, min(remaining, _PIECE_BYTES))
                if not piece:
                    break
                remaining -= len(piece)
                yield piece
        finally:
            file.close()


def _check_is_own(capture: Capture) -> None:
    if capture.name == EXTERNAL:
        raise RecordingError(
            f"the program that runs the broker chose the directory {capture.directory}, which "
            "commands neither read nor change: use the files there"
        )


def _is_name(name: str) -> bool:
    return name != EXTERNAL and _NAME_FORMAT.fullmatch(name) is not None


def _next_name(names: Mapping[str, Capture]) -> str:
    numbers = [int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))]
    return f"capture-{max(numbers, default=0) + 1}"


def _captures_in(root: str) -> dict[str, Capture]:
    """Return the captures below a directory by name; links are not followed."""
    try:
        with os.scandir(root) as entries:
            found = [
                (each.name, each.path)
                for each in entries
                if _is_name(each.name) and each.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return {}
    return {name: _capture(name, path) for name, path in found}


def _capture(name: str, directory: str) -> Capture:
    try:
        files = _files_in(directory)
    except FileNotFoundError:  # removed meanwhile
        files = []
    size = sum(each.size_bytes for each in files)
    first = os.path.basename(files[0].path) if files else ""  # noqa: PTH119 - plain text
    directory = os.path.abspath(directory)  # noqa: PTH100 - plain text
    return Capture(name, directory, False, len(files), size, started_ms_of(first))


def _files_in(directory: str) -> list[CaptureFile]:
    """Return the capture files in a directory by name, which begins with a time."""
    found = []
    with os.scandir(directory) as entries:
        for each in entries:
            if each.name.endswith(SUFFIX) and each.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    found.append(CaptureFile(each.path, each.stat(follow_symlinks=False).st_size))
    return sorted(found)
