"""Properties of a broker from environment variables, and notices about all other variables."""

from __future__ import annotations

import difflib
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalite.config.broker import is_known_key
from kafkalite.config.keys import broker_keys
from kafkalite.docker.variables import (
    BITNAMI_MARKS,
    BITNAMI_PREFIX,
    IGNORED,
    KUBERNETES,
    KUBERNETES_VALUE,
    OPTION_NAMES,
    OTHER_IMAGES,
    PREFIX,
    REMOVED_PROPERTIES,
    SECRET_FILES,
    STORE_FILES,
    ZOOKEEPER,
    property_name,
    variable_name,
)
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FILE_SUFFIX: Final = "_FILE"
_HANDLED: Final = frozenset(
    (
        *OPTION_NAMES,
        *(file.name for file in STORE_FILES),
        *(f"{name}{_FILE_SUFFIX}" for name in SECRET_FILES),
        "KAFKA_TLS_TRUSTSTORE_FILE",
    )
)
ALONE: Final = "; this container is a cluster of its own"
"""The end of the notice about ZooKeeper."""
_MAX_SUGGESTIONS: Final = 3
_MAX_NAME_LENGTH: Final = 200


class VariableError(ValueError):
    """Variables that no broker can start with; the text is one line and names them."""


class Properties(NamedTuple):
    """Properties of a broker, and the variable that sets each of them."""

    values: dict[str, str]
    variables: dict[str, str]
    notices: tuple[str, ...] = ()
    uses_bitnami: bool = False
    """Whether the environment is that of bitnami/kafka, whose defaults apply then."""

    def variable_of(self, name: str) -> str:
        """Return the variable that sets a property, or would set it."""
        return self.variables.get(name, variable_name(name))

    def set(self, name: str, value: str, variable: str) -> None:
        """Set a property; raises VariableError if another variable has another value for it."""
        other = self.variables.get(name, variable)
        if other != variable and self.values[name] != value:
            raise VariableError(
                f"{other} and {variable} both set {name}, to different values: remove one of them"
            )
        self.values[name] = value
        self.variables[name] = variable


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


_IGNORED_PATTERNS: Final = tuple(row.pattern for row in IGNORED)


def read_properties(environment: Mapping[str, str], mounted: Mapping[str, str]) -> Properties:
    """Return the properties in variables and in a mounted file; variables take precedence.

    Raises VariableError for two variables that contradict each other.
    """
    uses_bitnami = any(
        value.strip() and (name.startswith(BITNAMI_PREFIX) or name in BITNAMI_MARKS)
        for name, value in environment.items()
    )
    properties = Properties(dict(mounted), {}, uses_bitnami=uses_bitnami)
    notices: list[str] = []
    zookeeper = sorted(name for name in environment if _matches(name, ZOOKEEPER))
    if zookeeper:
        notices.append(f"{', '.join(zookeeper)}: there is no ZooKeeper{ALONE}")
    notices += [
        f"{name} has no effect: set {other}"
        for name, other in OTHER_IMAGES.items()
        if environment.get(name, "").strip() and not environment.get(other, "").strip()
    ]
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in _HANDLED or not value.strip():
            continue
        if name == f"{PREFIX}PORT" and value.startswith(KUBERNETES_VALUE):
            continue
        if _matches(name, (*_IGNORED_PATTERNS, *ZOOKEEPER, *KUBERNETES)):
            continue
        key = property_name(name)
        if is_known_key(key) and key not in REMOVED_PROPERTIES:
            properties.set(key, _unescaped(value.strip(), name), name)
        else:
            notices += _notice(name, key)
    return properties._replace(notices=tuple(notices))


def _unescaped(value: str, variable: str) -> str:
    """Return a value as Kafka reads it: the images write variables to a properties file unchanged.

    So a backslash continues a line, or precedes a quotation mark.
    """
    if "\\" not in value:
        return value
    import javaproperties  # noqa: PLC0415 - rarely needed

    try:
        return javaproperties.unescape(re.sub(r"\\\r?\n[ \t]*", "", value))
    except javaproperties.InvalidUEscapeError as error:
        raise VariableError(f"{variable}: {error}") from None


def _notice(name: str, key: str) -> list[str]:
    """Return the notice about a variable without effect, none if another text reports it."""
    if key in REMOVED_PROPERTIES:
        reason = REMOVED_PROPERTIES[key].replace("`", "")
        return [f"{name} has no effect: {reason}"] if reason else []
    similar = similar_variables(name) if len(name) <= _MAX_NAME_LENGTH else []
    valid = (
        f"; valid names that resemble it: {', '.join(similar)}"
        if similar
        else ("; the name of a property of brokers is valid, such as KAFKA_NUM_PARTITIONS")
    )
    if len(name) > _MAX_NAME_LENGTH:
        name, key = f"{name[:_MAX_NAME_LENGTH]}…", f"{key[:_MAX_NAME_LENGTH]}…"
    return [f"{name} has no effect: {key} is not a property of brokers{valid}"]


def similar_variables(name: str) -> list[str]:
    """Return the valid variables whose names resemble `name`, at most three."""
    prefix = BITNAMI_PREFIX if name.startswith(BITNAMI_PREFIX) else PREFIX
    known = {f"{prefix}{variable_name(key).removeprefix(PREFIX)}": key for key in broker_keys()}
    names = [*known, *OPTION_NAMES]
    return difflib.get_close_matches(name, names, n=_MAX_SUGGESTIONS, cutoff=0.85)
