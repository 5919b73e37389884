"""The requests of a run: those that clients sent, in the order of arrival, with what they name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import entities_in_request
from kafkalite.protocol.codec import api_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalite.gateway.exchanges import Exchange

_EPOCHS: Final = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
_TIMEOUTS: Final = ("session_timeout_ms", "transaction_timeout_ms")
_GENERATED: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9]+", re.IGNORECASE
)
"""The parts of client ids that libraries and programs generate."""


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition of a topic."""

    topic: str
    index: int

    def __str__(self) -> str:
        """Return the name with which Kafka prints it."""
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One request of a client."""

    api_key: int
    client_id: str
    partitions: tuple[Partition, ...] = ()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    names_member: bool = False
    """Whether the sender gives the id of its member."""
    names_instance: bool = False
    """Whether the sender is a static member."""
    epoch: int = -1
    """The generation or the epoch of the member; -1 without one."""
    acks: int = 0
    """Of a Produce request; -1 means all replicas in sync."""
    follows_end: bool = False
    """Whether the request before with its transactional id was an EndTxn."""
    timeout_ms: int = 0
    """The session timeout or the transaction timeout that the request sets; 0 without one."""

    @property
    def api(self) -> str:
        """Kafka's name of the API."""
        return api_name(self.api_key)


def seen(exchange: Exchange) -> SeenRequest | None:
    """Return what a request names; None if its fields cannot be read."""
    request = exchange.request
    if request is None:
        return None
    key = exchange.api_key

    def named(entity: Entity) -> tuple[str, ...]:
        found = entities_in_request(key, entity, request)
        return tuple(dict.fromkeys(each for each in found if each))

    return SeenRequest(
        api_key=key,
        client_id=exchange.client_id or "",
        partitions=tuple(_partitions(exchange, request)),
        groups=named(Entity.GROUP),
        transactional_ids=named(Entity.TRANSACTIONAL_ID),
        names_member=bool(getattr(request, "member_id", "")),
        names_instance=any(named(Entity.INSTANCE)),
        epoch=_first(request, _EPOCHS, -1),
        acks=getattr(request, "acks", 0),
        timeout_ms=_first(request, _TIMEOUTS, 0),
    )


def _first(request: Any, names: Sequence[str], default: int) -> int:  # noqa: ANN401 - any request
    found = (getattr(request, name, None) for name in names)
    return next((each for each in found if isinstance(each, int)), default)


def _partitions(exchange: Exchange, request: Any) -> list[Partition]:  # noqa: ANN401 - as above
    """Return the partitions in a request, each once; topics may be given by their ids."""
    names = exchange.node.image.topics_by_id
    found = dict.fromkeys(entities_in_request(exchange.api_key, Entity.PARTITION, request))
    topics = [
        (names[each.topic].name if each.topic in names else each.topic, each) for each in found
    ]
    return [Partition(topic, each.partition) for topic, each in topics if isinstance(topic, str)]


class RequestRecorder:
    """Records the requests of a cluster; `observe` is an observer of its exchanges."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: list[SeenRequest] = []
        self._exchanges: list[Exchange] = []
        self._pending: dict[int, tuple[Exchange, SeenRequest]] = {}
        self._ended: set[str] = set()
        """The transactional ids whose latest request was an EndTxn."""
        self._watchers: list[Callable[[SeenRequest, Exchange], None]] = []

    def observe(self, exchange: Exchange) -> None:
        """Add a request when it arrives, and notice its end."""
        known = self._pending.pop(id(exchange), None)
        request = self._arrived(exchange) if known is None else known[1]
        if request is None:
            return
        with self._lock:
            if known is None:
                self._requests.append(request)
                self._exchanges.append(exchange)
            if exchange.is_pending:
                self._pending[id(exchange)] = (exchange, request)
        for watch in tuple(self._watchers):
            watch(request, exchange)

    def _arrived(self, exchange: Exchange) -> SeenRequest | None:
        request = seen(exchange)
        if request is None or not request.transactional_ids:
            return request
        ids = {*request.transactional_ids}
        follows_end = bool(ids & self._ended)
        self._ended -= ids
        if request.api_key == ApiKey.END_TXN:
            self._ended |= ids
        return replace(request, follows_end=follows_end)

    def watch(self, function: Callable[[SeenRequest, Exchange], None]) -> None:
        """Call a function, on the broker's thread, with each request that arrives or ends."""
        self._watchers.append(function)

    def requests(self) -> list[SeenRequest]:
        """Return the requests in the order of arrival."""
        with self._lock:
            return list(self._requests)

    def exchanges(self) -> list[Exchange]:
        """Return the requests with their answers, in the order of arrival."""
        with self._lock:
            return list(self._exchanges)

    def waiting(self) -> list[str]:
        """Return what each client waits for, such as "shop waits for JoinGroup"."""
        with self._lock:
            pending = [request for _, request in self._pending.values()]
        counts = Counter((each.client_id or "a client without id", each.api) for each in pending)
        return [
            f"{client} waits for {api}" + (f" ({count} times)" if count > 1 else "")
            for (client, api), count in sorted(counts.items())
        ]


def client_patterns(runs: Sequence[Iterable[SeenRequest]]) -> dict[str, str]:
    """Return a pattern for each client id, which selects the same client in every run.

    It is the client id if every run has it. Otherwise its numbers and UUIDs are replaced by `*`; if
    not every run has such an id either, the pattern is `*`.
    """
    ids = [{each.client_id for each in run} for run in runs]
    generic = [{_GENERATED.sub("*", each) for each in run} for run in ids]
    patterns = {}
    for client_id in set().union(*ids):
        pattern = _GENERATED.sub("*", client_id)
        if all(client_id in run for run in ids):
            patterns[client_id] = client_id
        else:
            patterns[client_id] = pattern if all(pattern in run for run in generic) else "*"
    return patterns
