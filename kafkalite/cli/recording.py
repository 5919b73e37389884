"""How a recording is asked for: options that every command that records has, and what they make."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from kafkalite.capture.recorder import Recorder

_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MIN_FILE_BYTES: Final = 64 * 1024
_MAX_SNAP_BYTES: Final = 1024**3

ONLY_RECORDING: Final = ("keep_secrets", "snap_records", "rotate_bytes", "rotate_seconds")
"""Where `add_recording_options` puts what was asked; None or False where nothing was."""


def add_recording_options(parser: ArgumentParser) -> None:
    """Let `parser` take how to record."""
    parser.add_argument(
        "--keep-secrets",
        action="store_true",
        help="record passwords and tokens too [blanked]",
    )
    parser.add_argument(
        "--snap-records",
        metavar="BYTES",
        type=_snap_bytes,
        help="record so much of each record's key, value and header values [all]",
    )
    parser.add_argument(
        "--rotate-bytes",
        metavar="SIZE",
        type=_file_bytes,
        help="begin a new capture file after so much, such as 500k, 64m or 1g [64m]",
    )
    parser.add_argument(
        "--rotate-seconds",
        metavar="SECONDS",
        type=_seconds,
        help="begin a new capture file after so long [never]",
    )


def recorder_from(
    asked: Namespace, directory: str, now_ns: Callable[[], int], tell: Callable[[str], None]
) -> Recorder:
    """Return the recording that was asked for, begun; CaptureError when it cannot be.

    `tell` is given a line when the disk fails.
    """
    from kafkalite.capture.recorder import Recorder  # noqa: PLC0415 - most brokers record nothing
    from kafkalite.capture.rotation import DEFAULT_FILE_BYTES, CaptureError  # noqa: PLC0415
    from kafkalite.capture.scribe import CaptureOptions  # noqa: PLC0415

    if not directory.strip():
        raise CaptureError("the directory for captures is empty: name one")
    options = CaptureOptions(
        keep_secrets=asked.keep_secrets,
        snap_records=asked.snap_records,
        file_bytes=asked.rotate_bytes or DEFAULT_FILE_BYTES,
        file_s=asked.rotate_seconds,
    )
    path = os.path.expanduser(directory)  # noqa: PTH111 - Path adds nothing here
    return Recorder(path, now_ns, options, tell)


def _file_bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})([kmg]?)", text, re.ASCII | re.IGNORECASE)
    size = int(found[1]) * _UNITS[found[2].lower()] if found else 0
    if size < _MIN_FILE_BYTES:
        raise ArgumentTypeError(f"{text!r} is not a size of 64k or more, such as 64m")
    return size


def _snap_bytes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text) <= _MAX_SNAP_BYTES:
        raise ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(text)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text, re.ASCII)
    if not found or not float(text):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return float(text)
