"""Creates the recorder that the options of a command define."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from kafkalite.capture.recording.recorder import Recorder


def recorder_from(
    arguments: Namespace,
    directory: str,
    now_ns: Callable[[], int],
    report: Callable[[str], None],
) -> Recorder:
    """Return a started recording with the options of `RECORDING_OPTIONS`.

    `report` is called with one line if the disk fails. Raises CaptureError if it cannot start.
    """
    from kafkalite.capture.recording.capture_writer import CaptureOptions  # noqa: PLC0415
    from kafkalite.capture.recording.file_rotation import DEFAULT_FILE_BYTES, CaptureError  # noqa: PLC0415
    from kafkalite.capture.recording.recorder import Recorder  # noqa: PLC0415 - rarely used

    if not directory.strip():
        raise CaptureError("the directory for captures is empty: name a directory")
    options = CaptureOptions(
        keep_secrets=arguments.keep_secrets,
        max_field_bytes=arguments.truncate_records,
        file_bytes=arguments.rotate_bytes or DEFAULT_FILE_BYTES,
        file_s=arguments.rotate_seconds,
    )
    path = os.path.expanduser(directory)  # noqa: PTH111 - Path adds nothing here
    return Recorder(path, now_ns, options, report)
