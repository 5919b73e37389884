"""Settings: everything a broker process is told when it starts, wherever it was told."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.server.addresses import check_ports_suffice, plan_listeners

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.server.addresses import ListenerSpec

_UNMET = {
    "authorizer.class.name": ("", "nobody is refused: authorisation is not served"),
    "remote.log.storage.system.enable": ("false", "all data stays here: no tiered storage"),
}
"""By key: the value that asks for nothing, and what follows from any other."""


class SettingsError(ValueError):
    """Settings that cannot be met; the text is one line for people."""


class Settings(NamedTuple):
    """What a broker process serves, and where.

    `config` holds broker settings by Kafka's names. Its `listeners`, `advertised.listeners` and
    `log.dirs` count where `listen`, `advertise` and `data_directory` are left out; its `node.id`
    is the first node's. `as_version` is the release of Kafka that brokers present themselves as.
    """

    listen: Sequence[str] = ()
    advertise: Sequence[str] = ()
    brokers: int = 1
    data_directory: str | None = None
    topics: Mapping[str, int] = MappingProxyType({})
    config: Mapping[str, str] = MappingProxyType({})
    as_version: str | None = None

    @property
    def node_ids(self) -> range:
        """The ids of the nodes; SettingsError when there are none."""
        text = self.config.get("node.id", self.config.get("broker.id", "1")).strip()
        if not text.isascii() or not text.isdigit():
            raise SettingsError(f"node.id must be a number from 0, not {text!r}")
        if self.brokers < 1:
            raise SettingsError(f"a cluster of {self.brokers} brokers serves nobody")
        return range(int(text), int(text) + self.brokers)

    @property
    def listeners(self) -> tuple[ListenerSpec, ...]:
        """The listeners of each node; AddressError or SettingsError for impossible ones."""
        listen = self.listen or self._client_listeners("listeners")
        advertise = self.advertise or self._client_listeners("advertised.listeners")
        specs = plan_listeners(listen, advertise)
        check_ports_suffice(specs, self.brokers)
        protocols = dict(
            pair.strip().partition(":")[::2]
            for pair in self.config.get("listener.security.protocol.map", "").split(",")
        )
        for spec in specs:
            protocol = protocols.get(spec.name, spec.name)
            if protocol.startswith(("SASL_", "SSL")):
                raise SettingsError(
                    f"listener {spec.name} wants {protocol}, and only PLAINTEXT is spoken: "
                    "other listeners can be given by --listen"
                )
        return specs

    @property
    def log_directory(self) -> str | None:
        """Where data is kept, None for a private temporary directory."""
        if self.data_directory is not None:
            return self.data_directory
        named = self.config.get("log.dirs", self.config.get("log.dir", ""))
        directories = [each.strip() for each in named.split(",") if each.strip()]
        if len(directories) > 1:
            raise SettingsError(
                f"log.dirs names {len(directories)} directories, and only one can be used: "
                "choose it by --data-dir"
            )
        return directories[0] if directories else None

    @property
    def unmet(self) -> Mapping[str, str]:
        """What was asked for and is not served, though clients can be: the consequence by key."""
        return {
            key: consequence
            for key, (nothing, consequence) in _UNMET.items()
            if self.config.get(key, nothing).strip().lower() != nothing
        }

    def _client_listeners(self, key: str) -> list[str]:
        """Return the addresses under `key`, those of the controller left out."""
        controllers = {
            name.strip() for name in self.config.get("controller.listener.names", "").split(",")
        }
        texts = [text.strip() for text in self.config.get(key, "").split(",") if text.strip()]
        return [text for text in texts if text.partition("://")[0] not in controllers]
