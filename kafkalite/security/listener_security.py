"""ListenerSecurity: the security settings of one listener."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.config.definitions import typed
from kafkalite.config.keys import broker_keys
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.definitions import Value
    from kafkalite.config.security_protocols import SecurityProtocol


ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that does not authenticate."""


class ConfigValues(Protocol):
    """The settings of a broker, such as `BrokerConfig`."""

    def get(self, key: str) -> Value:
        """Return the value of a key; raises KeyError for an unknown key."""


class ProposedValues(NamedTuple):
    """The settings that a broker would have after a change."""

    get: Callable[[str], Value]
    """Returns the value of a key; raises KeyError for an unknown key."""


class ListenerSecurity(NamedTuple):
    """The security protocol and the settings of one listener.

    Settings are read when they are needed, so dynamic changes apply. As in Kafka, a setting of the
    listener, `listener.name.LISTENER.KEY`, has precedence over `KEY`. The name is in lower case.
    """

    name: builtins.str
    protocol: SecurityProtocol
    config: ConfigValues

    @property
    def prefix(self) -> builtins.str:
        """The start of the names of this listener's settings."""
        return f"listener.name.{self.name.lower()}."

    def get(self, key: builtins.str) -> Value:
        """Return the listener's value of `key`, else the broker's; KeyError for an unknown key."""
        try:
            return self.config.get(self.prefix + key)
        except KeyError:
            return self.config.get(key)

    def has_own(self, key: builtins.str) -> bool:
        """Return whether the listener has a value of its own for `key`."""
        try:
            self.config.get(self.prefix + key)
        except KeyError:
            return False
        return True

    def mechanism_get(self, mechanism: builtins.str, key: builtins.str) -> Value:
        """Return the value of `key` for a SASL mechanism; raises KeyError for an unknown key.

        `listener.name.LISTENER.MECHANISM.KEY` has precedence over the values of the listener and of
        the broker. Raises ConfigError if that value is invalid.
        """
        text = self.mechanism_text(mechanism, key)
        return self.get(key) if text is None else broker_keys()[key].parse(text)

    def mechanism_int(self, mechanism: builtins.str, key: builtins.str) -> builtins.int:
        """Return the value of an integer key for a SASL mechanism, as `mechanism_get`.

        Raises TypeError for another type or null.
        """
        return typed(key, self.mechanism_get(mechanism, key), builtins.int, "an integer")

    def jaas_config(self, mechanism: builtins.str) -> builtins.str | None:
        """Return the JAAS text of a SASL mechanism; None without one.

        As in Kafka, a server ignores a `sasl.jaas.config` without listener and mechanism.
        """
        return self.mechanism_text(mechanism, "sasl.jaas.config")

    def mechanism_text(self, mechanism: builtins.str, key: builtins.str) -> builtins.str | None:
        """Return the text of `listener.name.LISTENER.MECHANISM.KEY`; None if it is not set.

        The text may be invalid.
        """
        try:
            value = self.config.get(f"{self.prefix}{mechanism.lower()}.{key}")
        except KeyError:
            return None
        return None if value is None else builtins.str(value)

    def str_or_none(self, key: builtins.str) -> builtins.str | None:
        """Return the value of a string key; None if it is null. Raises TypeError otherwise."""
        value = self.get(key)
        return None if value is None else typed(key, value, builtins.str, "a string")

    def str(self, key: builtins.str) -> builtins.str:
        """Return the value of a string key; raises TypeError for another type or null."""
        value = self.str_or_none(key)
        if value is None:
            raise TypeError(f"{key} is null")
        return value

    def int(self, key: builtins.str) -> builtins.int:
        """Return the value of an integer key; raises TypeError for another type or null."""
        return typed(key, self.get(key), builtins.int, "an integer")

    def list(self, key: builtins.str) -> tuple[builtins.str, ...]:
        """Return the items of a list key, none if it is null; raises TypeError for another type."""
        value = self.get(key)
        return () if value is None else typed(key, value, tuple, "a list")
