"""Local control endpoints: files by which commands of the same user find token and authority.

The file of an endpoint has the name of its port. It has paths only, no token. It is ignored after
the end of the broker's process: another user's server could then have the port, and would receive
the token.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from kafkalite.ports.files import OsFiles, join
from kafkalite.ports.key_files import read_key_file, remove_key_file, write_key_file
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.processes import is_running, own_process_id
from kafkalite.ports.temporary import private_directory

_DIRECTORY: Final = "kafkalite-control"
_PROCESS_FIELD: Final = "process_id"
_SCHEMES: Final = ("http", "https")


class LocalEndpoint(NamedTuple):
    """An endpoint on this machine."""

    scheme: str
    """`http` or `https`."""
    token_file: str | None
    """The file with the token; None if there is no such file."""
    authority_file: str | None
    """The certificate of the authority that made the certificate of the endpoint, if known."""


def publish_endpoint(port: int, endpoint: LocalEndpoint) -> None:
    """Write the file of an endpoint, and remove those of ended processes; raises OSError."""
    directory = private_directory(_DIRECTORY)
    for name in OsFiles().list(directory):
        if name.isascii() and name.isdigit() and find_endpoint(int(name)) is None:
            remove_key_file(join(directory, name))
    content = {_PROCESS_FIELD: own_process_id(), **endpoint._asdict()}
    path = join(directory, f"{port}")
    write_key_file(path, json.dumps(content).encode())


def withdraw_endpoint(port: int) -> None:
    """Remove the file of an endpoint; a file that cannot be removed stays."""
    with suppress(OSError):
        remove_key_file(join(private_directory(_DIRECTORY), f"{port}"))


def find_endpoint(port: int) -> LocalEndpoint | None:
    """Return the endpoint of this user on a port of this machine; None if there is no file."""
    try:
        found = json.loads(read_key_file(join(private_directory(_DIRECTORY), f"{port}")))
        is_served = is_running(found.pop(_PROCESS_FIELD))
        endpoint = LocalEndpoint(**found)
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        return None
    return endpoint if is_served and endpoint.scheme in _SCHEMES else None
