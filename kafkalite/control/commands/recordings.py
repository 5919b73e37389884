"""Commands about captures of the traffic of a running broker: start, stop, list and return them.

The words in a shell are those of a recording, because `kafkalite capture` runs a proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import (
    CommandError,
    Family,
    Row,
    Words,
    one_line,
    running_cluster,
)
from kafkalite.ports.texts import count_text
from kafkalite.ports.times import iso_of
from kafkalite.server.captures import UnknownCaptureError, contents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.server.broker import Broker
    from kafkalite.server.captures import Capture

_NAME: Final = About("name that `recording list` prints", metavar="NAME")


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """A capture of the traffic of the broker."""

    name: Annotated[
        str,
        About(
            "Name of the capture; `external` for the one that the program started: with "
            "`--capture`, or in Python."
        ),
    ]
    directory: Annotated[str, About("Directory with its files, on the machine of the broker.")]
    state: Annotated[str, About("State.", choices=("recording", "stopped"))]
    files: Annotated[int, About("Number of capture files in the directory.")]
    size_bytes: Annotated[int, About("Bytes in these files.")]
    started_ms: Annotated[
        int | None,
        About(
            "When it was started, in milliseconds since the Unix epoch by the clock; null if it "
            "has no file."
        ),
    ]


@dataclass(frozen=True, slots=True)
class CaptureList:
    """Captures, oldest first."""

    captures: Annotated[tuple[CaptureStatus, ...], About("All captures.")]


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Record the traffic of all clients from now on.

    The recording of a client that is connected already begins with the next request that it sends
    while none of its requests is being served. Secrets are not recorded. One capture can be
    recorded at a time. The files are in a directory next to the data directory; if the data is in
    memory or in a temporary directory, they are removed when the broker stops.
    """

    name: Annotated[
        str | None,
        About(
            "name of the capture: 1 to 63 of a-z, 0-9 and '-'; by default a number",
            parse=str,
            metavar="NAME",
        ),
    ] = None

    async def perform(self, broker: Broker) -> CaptureStatus:
        """Start the capture; raises ValueError if that is impossible."""
        running_cluster(broker)
        try:
            return _status(await broker.captures.start(self.name))
        except OSError as error:
            raise _refusal("started", error) from error


@dataclass(frozen=True, slots=True)
class ListCaptures:
    """List all captures."""

    async def perform(self, broker: Broker) -> CaptureList:
        """Return all captures."""
        running_cluster(broker)
        try:
            return CaptureList(tuple(map(_status, await broker.captures.all())))
        except OSError as error:
            raise _refusal("listed", error) from error


@dataclass(frozen=True, slots=True)
class StopCapture:
    """Stop a capture, and return it when its files are complete."""

    name: Annotated[str, _NAME]

    async def perform(self, broker: Broker) -> CaptureStatus:
        """Stop the capture; raises UnknownCaptureError for an unknown name."""
        running_cluster(broker)
        return _status(await broker.captures.stop(self.name))


@dataclass(frozen=True, slots=True)
class DownloadCapture:
    """Return a capture as one file in the format pcapng, also while it is recorded.

    That of the program is not returned, because its directory may have more files.
    """

    name: Annotated[str, _NAME]

    async def perform(self, broker: Broker) -> AsyncIterator[bytes]:
        """Return the content; raises UnknownCaptureError for an unknown name."""
        running_cluster(broker)
        try:
            return contents(await broker.captures.files(self.name))
        except OSError as error:
            raise _refusal("read", error) from error


@dataclass(frozen=True, slots=True)
class DeleteCapture:
    """Delete a capture that is not recorded, with its files, and return it.

    That of the program is not deleted.
    """

    name: Annotated[str, _NAME]

    async def perform(self, broker: Broker) -> CaptureStatus:
        """Delete the capture; raises UnknownCaptureError for an unknown name."""
        running_cluster(broker)
        try:
            return _status(await broker.captures.delete(self.name))
        except OSError as error:
            raise _refusal("deleted", error) from error


def _refusal(what: str, error: OSError) -> CommandError:
    return CommandError(f"no capture can be {what}: {error.filename}: {error.strerror}")


def _status(capture: Capture) -> CaptureStatus:
    return CaptureStatus(
        capture.name,
        capture.directory,
        "recording" if capture.is_recording else "stopped",
        capture.files,
        capture.size_bytes,
        capture.started_ms,
    )


def line_of(status: CaptureStatus) -> str:
    """Return a capture as one line."""
    since = "" if status.started_ms is None else f", started {iso_of(status.started_ms)}"
    size = f"{count_text(status.files, 'file')} with {count_text(status.size_bytes, 'byte')}"
    return f"{status.name}: {status.state}{since}, {size} in {status.directory}"


def _lines(listed: CaptureList, _: object) -> list[str]:
    return list(map(line_of, listed.captures)) or ["there are no captures"]


_PATH, _PATH_OF_ONE = "/v1/captures", "/v1/captures/{name}"

COMMANDS = Family(
    (
        Row(
            ListCaptures,
            CaptureList,
            "GET",
            _PATH,
            (Words("recording list", "Print all captures."),),
            _lines,
        ),
        Row(
            StartCapture,
            CaptureStatus,
            "POST",
            _PATH,
            (
                Words(
                    "recording start",
                    "Record the traffic of all clients from now on.",
                    ("name",),
                    is_optional=True,
                ),
            ),
            one_line(line_of),
            {"name": "rebalance"},
            201,
        ),
        Row(
            StopCapture,
            CaptureStatus,
            "POST",
            f"{_PATH_OF_ONE}/stop",
            (Words("recording stop", "Stop a capture.", ("name",)),),
            one_line(line_of),
            {},
            not_found=UnknownCaptureError,
        ),
        Row(
            DownloadCapture,
            bytes,
            "GET",
            f"{_PATH_OF_ONE}/file",
            (Words("recording download", "Write a capture to the output, as pcapng.", ("name",)),),
            not_found=UnknownCaptureError,
            media_type="application/x-pcapng",
            file_name="{name}.pcapng",
        ),
        Row(
            DeleteCapture,
            CaptureStatus,
            "DELETE",
            _PATH_OF_ONE,
            (Words("recording delete", "Delete a capture with its files.", ("name",)),),
            one_line(lambda status: f"deleted {line_of(status)}"),
            not_found=UnknownCaptureError,
        ),
    ),
    {"recording": "Record the traffic of a running broker: start, stop and download captures."},
)
