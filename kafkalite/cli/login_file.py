"""The JAAS file of `--jaas` and of KAFKA_OPTS: users and login modules of listeners with SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.options import JAAS
from kafkalite.security.sasl.jaas import JaasError
from kafkalite.security.sasl.jaas_files import (
    MissingSectionError,
    login_file,
    login_settings,
    scram_users,
)
from kafkalite.security.sasl.users import PASSWORD_MECHANISMS
from kafkalite.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.security.sasl.users import User
    from kafkalite.server.settings import Settings

JAVA_OPTIONS: Final = "KAFKA_OPTS"
"""The environment variable with the options of Kafka's JVM."""

_MAX_LENGTH: Final = 16 * 1024 * 1024
"""The maximum length of a file, in characters: a device may have no end."""
_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"


def with_login_file(settings: Settings, option: str | None, java_options: str = "") -> Settings:
    """Return settings with the login modules and SCRAM users of a JAAS file, if one is named.

    `option` is the path of `--jaas`, which has precedence over the path in `java_options`. Users
    and login modules in the settings have precedence over those of the file. The file of
    `java_options` may be one for clients: it needs no section for a listener if the settings have
    users, and has no effect without a listener with SASL. Raises SettingsError.
    """
    path = login_file(java_options) if option is None else option
    if path is None:
        return settings
    source = JAVA_OPTIONS if option is None else str(JAAS.flag)
    names = [spec.name for spec in settings.listeners if spec.protocol.uses_sasl]
    if not names and option is not None:
        raise SettingsError(
            f"{source} needs a listener with SASL, such as --listen SASL_PLAINTEXT://127.0.0.1:9092"
        )
    if not names:
        return settings
    mechanisms = {name: _enabled(settings.config, name) for name in names}
    try:
        added = login_settings(_read(source, path), settings.config, mechanisms)
        found = [user for name in names for user in scram_users(added, name, mechanisms[name])]
    except JaasError as error:
        if isinstance(error, MissingSectionError) and option is None and settings.users:
            return settings
        raise SettingsError(f"{source}: {path}: {error}") from None
    users = (*settings.users, *_new_users(settings.users, found))
    return settings._replace(config={**settings.config, **added}, users=users)


def _read(source: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - Path adds nothing here
            text = file.read(_MAX_LENGTH + 1)
    except OSError as error:
        raise SettingsError(f"{source}: cannot read the file {path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{source}: {path} is not a text in UTF-8: {error}") from error
    if len(text) > _MAX_LENGTH:
        raise SettingsError(f"{source}: {path} has more than {_MAX_LENGTH} characters")
    return text


def _enabled(config: Mapping[str, str], listener: str) -> Sequence[str]:
    """Return the mechanisms of a listener, in upper case."""
    default = config.get(_MECHANISMS_KEY, ",".join(PASSWORD_MECHANISMS))
    text = config.get(f"listener.name.{listener.lower()}.{_MECHANISMS_KEY}", default)
    return [each.strip().upper() for each in text.split(",") if each.strip()]


def _new_users(known: Sequence[User], found: Sequence[User]) -> Iterator[User]:
    """Yield users whose names have no password for their mechanisms yet."""
    taken = {(user.name, mechanism) for user in known for mechanism in user.mechanisms}
    for user in found:
        pair = (user.name, user.mechanisms[0])
        if pair not in taken:
            taken.add(pair)
            yield user
