# ruff: noqa: PTH108, PTH116, PTH123
"""Files with keys and certificates: read whole, and written for OpenSSL, which reads only files."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kafkalite.ports.system import IS_WINDOWS, OPEN_FLAGS, replace

if TYPE_CHECKING:
    from collections.abc import Iterator


_MAX_STORE_BYTES = 16 * 1024 * 1024


def read_key_file(path: str) -> bytes:
    """Return the content of a file; raises OSError."""
    with open(path, "rb") as file:
        return file.read()


def remove_key_file(path: str) -> None:
    """Remove a file; no effect if it is absent. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def modification_time_ns(path: str) -> int | None:
    """Return the time of the last change of a file, None if it does not exist."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def write_key_file(path: str, content: bytes, *, is_public: bool = False) -> None:
    """Write a file, replacing an existing one; raises OSError.

    Only this user can read it, unless it is public: then everyone can, if the umask permits it.
    """
    mode = 0o644 if is_public else 0o600
    new_path = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new_path)
    descriptor = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, mode)
    with open(descriptor, "wb") as file:
        file.write(content)
    replace(new_path, path)


@contextmanager
def temporary_key_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, which only this user can read.

    The file is closed, because Windows refuses to open a temporary file twice.
    """
    import tempfile  # noqa: PLC0415 - imported only with TLS: a start should be fast

    descriptor, path = tempfile.mkstemp(prefix="kafkalite-")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        yield path
    finally:
        os.unlink(path)


def read_small_file(path: str, max_bytes: int) -> bytes:
    """Return the content of a file; raises OSError, also if it is too large or no regular file."""
    with open(path, "rb", opener=_open_regular) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"{path} is larger than {max_bytes} bytes")
    return content


def read_store_file(path: str) -> bytes:
    """Return the content of a key store or trust store; raises OSError as `read_small_file`.

    A client can change the path while the broker runs, and a pipe would stop it.
    """
    return read_small_file(path, _MAX_STORE_BYTES)


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file; a pipe is refused, and does not make the caller wait for its writer."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def is_open_to_others(path: str) -> bool:
    """Return whether users outside of the file's group may read or write it; raises OSError.

    On Windows, where modes do not show that, it returns False.
    """
    return not IS_WINDOWS and bool(os.stat(path).st_mode & (stat.S_IROTH | stat.S_IWOTH))
