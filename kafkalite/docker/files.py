"""Files of a container: mounted files, volumes, and the users that `kafka-storage format` adds."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from kafkalite.docker.credentials import Credential
from kafkalite.docker.properties import VariableError
from kafkalite.docker.variables import PROPERTY_FILES
from kafkalite.ports.key_files import write_key_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT_VARIABLE: Final = "KAFKALITE_ROOT"
"""The directory that has the image's files, by default `/`."""

_FORMATTED_FILE: Final = "var/lib/kafkalite/formatted.json"
_CLUSTER_ID_FILE: Final = "var/lib/kafkalite/cluster-id"


class ImageFiles:
    """The files of one container, below a root directory."""

    def __init__(self, root: str = "/") -> None:
        self._root = root

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ImageFiles:
        """Return the files of the container with this environment."""
        return cls(environment.get(ROOT_VARIABLE) or "/")

    def path(self, path: str) -> str:
        """Return the real path of a path in the image."""
        return os.path.join(self._root, path.lstrip("/"))  # noqa: PTH118 - Path adds nothing here

    def read_text(self, path: str) -> str | None:
        """Return the content of a file; None if it cannot be read.

        Bytes that are not UTF-8, as in key stores, are replaced.
        """
        return _text_of(self.path(path))

    def read_argument(self, path: str) -> str | None:
        """Return the content of a file that an argument of a program names; see `read_text`.

        A relative path begins at the working directory.
        """
        return self.read_text(path) if path.startswith("/") else _text_of(path)

    def is_mounted(self, path: str) -> bool:
        """Return whether a volume is mounted at a path."""
        return os.path.ismount(self.path(path))

    def mounted_properties(self) -> dict[str, str]:
        """Return the properties of the first mounted properties file, none without one.

        Raises VariableError if it is not a properties file.
        """
        for path in PROPERTY_FILES:
            text = self.read_text(path)
            if text is not None:
                return parse_properties(text, path)
        return {}

    def formatted_users(self) -> list[Credential]:
        """Return the users that `add_formatted_users` stored.

        Raises VariableError if another program has changed the file.
        """
        text = self.read_text(_FORMATTED_FILE)
        try:
            return [] if text is None else [Credential(*user) for user in json.loads(text)]
        except (ValueError, TypeError):
            raise VariableError(
                f"/{_FORMATTED_FILE} has not the users of kafka-storage format: remove the file"
            ) from None

    def is_directory(self, path: str) -> bool:
        """Return whether a directory exists."""
        return os.path.isdir(self.path(path) if path.startswith("/") else path)  # noqa: PTH112

    def formatted_cluster_id(self) -> str | None:
        """Return the id that `set_formatted_cluster_id` stored; None without one."""
        text = self.read_text(_CLUSTER_ID_FILE)
        return None if text is None else text.strip() or None

    def set_formatted_cluster_id(self, cluster_id: str) -> None:
        """Store the id of the cluster for the next start of the broker; raises OSError."""
        path = self.path(_CLUSTER_ID_FILE)
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        write_key_file(path, cluster_id.encode())

    def add_formatted_users(self, users: Sequence[Credential]) -> None:
        """Store users for the next start of the broker; raises OSError."""
        path = self.path(_FORMATTED_FILE)
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        stored = dict.fromkeys([*self.formatted_users(), *users])
        # Every user of the container can write the directory, so the file may be a link, or open to
        # others.
        write_key_file(path, json.dumps([list(user) for user in stored]).encode())


def _text_of(real_path: str) -> str | None:
    try:
        with open(real_path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return None


def parse_properties(text: str, path: str) -> dict[str, str]:
    """Return the properties of brokers in a text; raises VariableError if it is invalid.

    Other properties are left out: the files of images have those of clients and plug-ins, too.
    """
    import javaproperties  # noqa: PLC0415 - rarely used

    from kafkalite.config.broker import is_known_key  # noqa: PLC0415 - rarely used

    try:
        found = javaproperties.loads(text)
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise VariableError(f"cannot read properties file {path}: {error}") from error
    return {name: value for name, value in found.items() if is_known_key(name)}
