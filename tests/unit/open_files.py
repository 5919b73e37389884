"""Files of the operating system that are closed when the object that uses them is collected."""

from __future__ import annotations

import weakref

from kafkalite.ports.files import OsFiles


def new_files(owner: object) -> OsFiles:
    """Return files that are closed with `owner`.

    A process that runs thousands of tests would otherwise have more than 1,024 open files, and
    select(2) does not accept their numbers.
    """
    files = OsFiles()
    weakref.finalize(owner, _close, files)
    return files


def _close(files: OsFiles) -> None:
    for file in tuple(files._open):
        file.close()
