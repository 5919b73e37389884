"""Properties files as Kafka's own: what a broker here does not know is told, and left aside.

Files written for a real Kafka hold keys of plug-ins, of other releases and of other programs. Kafka
starts with them and says so; so do we. A `--config` is written for kafkalite, and an unknown key
there is a mistake that must not go unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import javaproperties

from kafkalite.config.broker import is_known_key
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from kafkalite.server.logging import Log


def read_properties(path: str, log: Log) -> dict[str, str]:
    """Return the broker settings in the file, with a warning for each key that is none.

    SettingsError when the file cannot be read.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - Path adds nothing here
            found = dict(javaproperties.load(file))
    except OSError as error:
        raise SettingsError(f"cannot read properties file {path}: {error.strerror}") from error
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise SettingsError(f"cannot read properties file {path}: {error}") from error
    for name in found:
        if not is_known_key(name):
            log.warning("unknown setting is ignored", file=path, key=name)
    return {name: value for name, value in found.items() if is_known_key(name)}
