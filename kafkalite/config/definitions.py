"""Definitions of configuration keys: type, default, validator, importance and update mode.

Every key has an entry in `config/tables/`: a row with its properties, then lines with its
documentation. The format is text instead of Python calls because four hundred rows are easier to
read as a table, and because a string constant costs nothing at the start.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.config.sasl_classes import SASL_CLASSES
from kafkalite.config.validators import Validator, check_throttled_replicas, parse_validator
from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

KNOWN_CLASSES: Final[Mapping[str, frozenset[str]]] = {
    **SASL_CLASSES,
    "group.streams.topology.description.plugin.class": frozenset(
        ("org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin",)
    ),
}
"""Key of type CLASS → the classes that it may name, in addition to the default."""

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed configuration value; lists are tuples, passwords and class names are strings."""


def typed(key: str, value: Value, kind: type[T], noun: str) -> T:
    """Return the value of a key; raises TypeError if it has another type."""
    if not isinstance(value, kind):
        raise TypeError(f"{key} is not {noun}")
    return value


class ConfigError(Exception):
    """An invalid value of a key; `message` has Kafka's wording."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.message = message


class ConfigType(IntEnum):
    """Types of values, numbered as DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """Whether a value can be changed dynamically, and for which nodes."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


_INTEGER_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
# Java's number formats: Python accepts more, such as underscores, other digits and "inf".
_INTEGER = r"[+-]?[0-9]+"
_DOUBLE = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"
_BOOLEANS = {"true": True, "false": False}


class ConfigKey(NamedTuple):
    """One key of one kind of resource."""

    name: str
    type: ConfigType
    default: Value
    validator: Validator | None
    importance: str
    mode: UpdateMode
    is_internal: bool
    documentation: str

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a secret, which is never shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Return the parsed value of `text`; raises ConfigError if this key does not accept it."""
        value = parse_value(self.name, self.type, text)
        is_class = self.type is ConfigType.CLASS
        if is_class and value != self.default and value not in KNOWN_CLASSES.get(self.name, ()):
            # Without a JVM no class can be loaded, so all other classes do not exist.
            raise _invalid(self.name, text, f"Class {value} could not be found.")
        if isinstance(value, tuple) and self.validator is not check_throttled_replicas:
            value = tuple(dict.fromkeys(value))
        if self.validator is not None and (reason := self.validator(self.name, value)) is not None:
            raise ConfigError(self.name, reason)
        return value


def _invalid(name: str, text: str, reason: str) -> ConfigError:
    return ConfigError(name, f"Invalid value {text} for configuration {name}: {reason}")


def parse_value(name: str, kind: ConfigType, text: str) -> Value:
    """Return `text` as a value of type `kind`, trimmed and parsed like in Kafka."""
    trimmed = text.strip()
    if kind in (ConfigType.STRING, ConfigType.CLASS):
        return trimmed
    if kind is ConfigType.PASSWORD:
        return text
    if kind is ConfigType.LIST:
        return tuple(item.strip() for item in trimmed.split(",")) if trimmed else ()
    if kind is ConfigType.BOOLEAN:
        if trimmed.lower() not in _BOOLEANS:
            raise _invalid(name, trimmed, "Expected value to be either true or false")
        return _BOOLEANS[trimmed.lower()]
    pattern = _DOUBLE if kind is ConfigType.DOUBLE else _INTEGER
    is_plain = trimmed.isascii() and trimmed.isdigit()
    if not is_plain and not re.fullmatch(pattern, trimmed):
        raise _invalid(name, text, f"Not a number of type {kind.name}")
    if kind is ConfigType.DOUBLE:
        return float(trimmed)
    number = int(trimmed)
    limit = 1 << _INTEGER_BITS[kind]
    if not -limit <= number < limit:
        raise _invalid(name, text, f"Not a number of type {kind.name}")
    return number


def value_to_text(value: Value) -> str | None:
    """Return a value as Kafka prints it; None for None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return java_double_text(value)
    return str(value)


def java_double_text(value: float) -> str:
    """Return a double as Java's Double.toString: "0.5", "1.7976931348623157E308"."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not value or _SMALLEST_PLAIN <= abs(value) < _FIRST_SCIENTIFIC:
        return repr(value)
    sign = "-" if value < 0 else ""
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    exponent = f"{value:.16e}".partition("e")[2]
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


_SMALLEST_PLAIN = 1e-3
_FIRST_SCIENTIFIC = 1e7
"""The limits within which Java prints a double without an exponent."""

_NO_DEFAULT = "required"
_NULL = "null"
_EMPTY = '""'


def _key_from_row(row: str, documentation: str) -> ConfigKey:
    """Parse `name type default validator importance [mode] [internal]`."""
    name, kind_text, default_text, validator_text, importance, *options = row.split()
    kind = ConfigType[kind_text.upper()]
    default: Value = None
    if default_text not in (_NO_DEFAULT, _NULL):
        default = parse_value(name, kind, "" if default_text == _EMPTY else default_text)
    modes = [word for word in options if word != "internal"]
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        validator=None if validator_text == "-" else parse_validator(validator_text),
        importance=importance,
        mode=UpdateMode(modes[0]) if modes else UpdateMode.READ_ONLY,
        is_internal="internal" in options,
        documentation=documentation,
    )


class KeyTable(Mapping[str, ConfigKey]):
    """The keys of tables, sorted by name; each is parsed when it is first used."""

    __slots__ = ("_keys", "_lines")

    def __init__(self, *tables: str) -> None:
        self._keys: dict[str, ConfigKey] = {}
        lines: dict[str, list[str]] = {}
        for table in tables:
            entry: list[str] = []
            for line in table.splitlines():
                if line and line[0] != " ":
                    entry = lines[line[: line.index(" ")]] = []
                entry.append(line)
        self._lines = {name: lines[name] for name in sorted(lines)}

    def __getitem__(self, name: str) -> ConfigKey:
        key = self._keys.get(name)
        if key is None:
            row, *documentation = self._lines[name]
            sentence = " ".join(line.strip() for line in documentation if line)
            key = self._keys[name] = _key_from_row(row, sentence)
        return key

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)
