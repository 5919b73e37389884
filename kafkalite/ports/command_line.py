"""The command line of this process, as other processes see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_STATE_FIELD = 3
_START_FIELD, _END_FIELD = 48, 49
"""Fields of /proc/PID/stat: the state, and the addresses of the command line."""


def hide_passwords(texts: Iterable[str], separator: str = ":") -> None:
    """Overwrite the passwords of arguments such as `alice:secret` in the command line.

    A password begins after the first `separator` of each text.

    Linux shows the memory of a process in which its arguments are. On other systems, and where
    that memory cannot be written, nothing changes.
    """
    try:
        with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123 - pathlib is slow to import
            # The name of the program is in parentheses and may have spaces.
            fields = stat.read().rpartition(b") ")[2].split()
        start = int(fields[_START_FIELD - _STATE_FIELD])
        end = int(fields[_END_FIELD - _STATE_FIELD])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123 - as above
            memory.seek(start)
            arguments = memory.read(end - start)
            memory.seek(start)
            memory.write(without_passwords(arguments, texts, separator))
    except (OSError, ValueError, IndexError):
        return


def hide_option(flag: str, value: str) -> None:
    """Overwrite the value of an option, such as `--token=secret` or `--token secret`."""
    hide_passwords((f"{flag}={value}",), "=")
    hide_passwords((f"{flag}\0{value}",), "\0")


def without_passwords(arguments: bytes, texts: Iterable[str], separator: str = ":") -> bytes:
    """Return arguments that end with a null byte, with the passwords of texts overwritten."""
    for text in texts:
        name, colon, password = text.partition(separator)
        secret = password.encode(errors="surrogateescape")
        if secret:
            head = f"{name}{colon}".encode(errors="surrogateescape")
            arguments = arguments.replace(head + secret + b"\0", head + b"*" * len(secret) + b"\0")
    return arguments
