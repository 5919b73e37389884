"""Properties files; unknown keys in them are ignored with a warning, as in Kafka.

Files for Apache Kafka can have keys of plug-ins, of other releases and of other programs. In
`--config`, which is only for kafkalite, an unknown key is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import javaproperties

from kafkalite.config.broker import is_known_key
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from kafkalite.server.logging import Log


def read_properties(path: str, log: Log, as_version: str | None = None) -> dict[str, str]:
    """Return the broker configurations in a file; log a warning for each unknown key.

    Known are the keys of 4.4, and those of the release `as_version`. Raises SettingsError if the
    file cannot be read.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - Path adds nothing here
            config = dict(javaproperties.load(file))
    except OSError as error:
        raise SettingsError(f"cannot read properties file {path}: {error.strerror}") from error
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise SettingsError(f"cannot read properties file {path}: {error}") from error
    known = {name: value for name, value in config.items() if is_known_key(name, as_version)}
    for name in config:
        if name not in known:
            log.warning("unknown setting is ignored", file=path, key=name)
    return known
