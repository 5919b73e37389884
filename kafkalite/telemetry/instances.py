"""Client instances of one node, and the decisions about their telemetry requests.

The rules are those of Kafka's ClientMetricsManager and ClientMetricsInstance. Instances are in
memory only: after a restart, clients request their subscriptions again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NoReturn

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID, is_reserved, uuid_to_text
from kafkalite.storage.compression import CODECS
from kafkalite.telemetry.subscriptions import (
    NO_SUBSCRIPTIONS,
    parse_subscriptions,
    subscription_of,
    subscription_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from kafkalite.metadata.image import ConfigResource
    from kafkalite.telemetry.subscriptions import InstanceSubscription

MAX_INSTANCES = 16_384
"""Instances that a node remembers; the one that was used least recently is forgotten first."""

MIN_EXPIRATION_MS = 60_000
"""The shortest time after which an instance without requests is forgotten."""

_INTERVALS_UNTIL_EXPIRATION = 3
_MANY_SUBSCRIPTIONS = 64

ACCEPTED_COMPRESSION_TYPES = (4, 3, 1, 2)
"""zstd, lz4, gzip and snappy: Kafka's order of preference."""

_RETRIED_AT_ONCE = frozenset(
    (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
)
"""Errors after which a client may request its subscription before the end of the interval."""


class ClientAttributes(NamedTuple):
    """The attributes of a client that the selectors of subscriptions match."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str | None


class Push(NamedTuple):
    """The fields of a PushTelemetry request that decide about it."""

    instance_id: bytes
    subscription_id: int
    is_terminating: bool
    compression_type: int
    size_bytes: int


class Instance:
    """One client instance: its attributes, its subscription, and the times of its requests."""

    __slots__ = (
        "client",
        "expires_at_ms",
        "is_terminating",
        "last_connection",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "subscription",
        "version",
    )

    def __init__(
        self, client: ClientAttributes, subscription: InstanceSubscription, version: int
    ) -> None:
        self.client = client
        self.subscription = subscription
        self.version = version
        self.last_get_ms = self.last_push_ms = self.expires_at_ms = 0
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.last_connection: Hashable = None

    def accept_get(self, now_ms: int) -> bool:
        """Whether a subscription may be requested now; if so, the time is stored."""
        last_ms = max(self.last_get_ms, self.last_push_ms)
        if now_ms - last_ms < self.subscription.interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def accept_push(self, now_ms: int) -> bool:
        """Whether metrics may be pushed now: once after a subscription, else once per interval."""
        is_first = self.last_get_ms > self.last_push_ms
        if not is_first and now_ms - self.last_push_ms < self.subscription.interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class Instances:
    """The client instances of one node.

    `new_id` returns a random id. A connection is any hashable object; it is the same for all
    requests of one connection.
    """

    __slots__ = (
        "_by_connection", "_by_id", "_configs", "_max_bytes", "_new_id", "_settings",
        "_subscriptions", "_version",
    )  # fmt: skip

    def __init__(self, max_bytes: int, new_id: Callable[[], bytes]) -> None:
        self._max_bytes = max_bytes
        self._new_id = new_id
        self._configs: Mapping[ConfigResource, Mapping[str, str]] | None = None
        self._settings: Mapping[str, Mapping[str, str]] = {}
        self._subscriptions = NO_SUBSCRIPTIONS
        self._version = 0
        """Number of changes of the subscriptions."""
        self._by_id: OrderedDict[bytes, Instance] = OrderedDict()
        self._by_connection: dict[Hashable, bytes] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def update_subscriptions(self, configs: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        """Use the subscriptions in these settings from now on."""
        before = self._configs
        if configs is before:
            return
        settings = subscription_settings(configs)
        if settings == self._settings:
            self._configs = configs
            return
        subscriptions = parse_subscriptions(settings, self._subscriptions)
        if self._configs is not before:
            return  # another request has used these settings, or later ones, during a pause
        self._configs, self._settings, self._subscriptions = configs, settings, subscriptions
        self._version += 1

    def has_many_subscriptions(self, configs: Mapping[ConfigResource, object]) -> bool:
        """Whether it takes long to use these settings, or to select the subscriptions of a client.

        Most requests of a client need neither.
        """
        if configs is not self._configs:
            return len(configs) > _MANY_SUBSCRIPTIONS
        return len(self._subscriptions) > _MANY_SUBSCRIPTIONS

    def id_of(self, requested: bytes) -> bytes:
        """Return the id of the instance of a request: a new one if the request has none."""
        instance_id = requested
        while instance_id == ZERO_UUID or (requested == ZERO_UUID and instance_id in self._by_id):
            instance_id = self._new_id()
        return instance_id

    def get_subscription(
        self, client: ClientAttributes, instance_id: bytes, connection: Hashable, now_ms: int
    ) -> InstanceSubscription:
        """Return the subscription of an instance.

        Raises KafkaError THROTTLING_QUOTA_EXCEEDED before the end of the interval.
        """
        instance = self._use(instance_id, client, connection, now_ms)
        if not instance.accept_get(now_ms) and instance.last_error not in _RETRIED_AT_ONCE:
            _refuse_early(instance)
        instance.last_error = ErrorCode.NONE
        return instance.subscription

    def admit_push(
        self, push: Push, client: ClientAttributes, connection: Hashable, now_ms: int
    ) -> Instance:
        """Return the instance that pushes; raises KafkaError if the push is refused."""
        instance = self._use(push.instance_id, client, connection, now_ms)
        try:
            self._check_push(instance, push, now_ms)
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.is_terminating = push.is_terminating
        instance.last_error = ErrorCode.NONE
        return instance

    def _check_push(self, instance: Instance, push: Push, now_ms: int) -> None:
        name = instance.client.client_instance_id
        if instance.is_terminating:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the client instance {name} has sent its terminating push already",
            )
        if not instance.accept_push(now_ms) and not push.is_terminating:
            _refuse_early(instance)
        if push.subscription_id != instance.subscription.id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                f"the client instance {name} has subscription {instance.subscription.id}, "
                f"not {push.subscription_id}",
            )
        if push.compression_type not in CODECS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"no compression has the number {push.compression_type}",
            )
        if push.size_bytes > self._max_bytes:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"the push has {push.size_bytes} bytes, more than {self._max_bytes}",
            )

    def _use(
        self, instance_id: bytes, client: ClientAttributes, connection: Hashable, now_ms: int
    ) -> Instance:
        """Return an instance, created if it is unknown, and evaluated again after changes."""
        instance = self._by_id.get(instance_id)
        if instance is not None and instance.expires_at_ms <= now_ms:
            self._by_connection.pop(instance.last_connection, None)
            del self._by_id[instance_id]
            instance = None
        if instance is None or instance.version < self._version:
            client = client if instance is None else instance.client
            subscription = subscription_of(self._subscriptions, instance_id, client._asdict())
            instance = self._by_id[instance_id] = Instance(client, subscription, self._version)
            self._by_connection[connection] = instance_id
            if len(self._by_id) > MAX_INSTANCES:
                self._by_id.popitem(last=False)
        self._by_id.move_to_end(instance_id)
        instance.last_connection = connection
        instance.expires_at_ms = now_ms + max(
            MIN_EXPIRATION_MS, _INTERVALS_UNTIL_EXPIRATION * instance.subscription.interval_ms
        )
        return instance

    def close_connection(self, connection: Hashable) -> None:
        """Forget the instance that was created last on this connection."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._by_id.pop(instance_id, None)


def check_instance_id(instance_id: bytes) -> None:
    """Raise KafkaError INVALID_REQUEST if no client instance can have this id."""
    if is_reserved(instance_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{uuid_to_text(instance_id)} is not the id of a client instance",
        )


def _refuse_early(instance: Instance) -> NoReturn:
    raise KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"the client instance {instance.client.client_instance_id} sent a request before the end "
        f"of its interval of {instance.subscription.interval_ms} ms",
    )
