"""Throttling: clients that exceed a quota are answered at once, and their next request is delayed.

An answer has the time for which its client is throttled. The connection is muted for that time, as
in Kafka (KIP-219): no further request is served. The step is installed while the cluster has
quotas of users or client ids.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.coordinator.contract import Event
from kafkalite.gateway.error_messages import truncate_message
from kafkalite.gateway.exchanges import names_in_request
from kafkalite.gateway.refusals import client_address, report_refusal_of_request
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol import catalogue, codec
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import Quota
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.message import with_fields
from kafkalite.security.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Meters,
    TokenBucket,
    WindowedRate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.cluster.node import Node
    from kafkalite.config.broker import BrokerConfig
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.security.quotas import QuotaEntity

    Quotas = Mapping[QuotaEntity, Mapping[str, float]]

_NS_PER_PERCENT_OF_A_SECOND: Final = 10_000_000.0
_RESPONSE_LENGTH_BYTES: Final = 4
_MAX_EXPLAINED_SUBJECTS: Final = 10

_MAX_THROTTLE_MS: Final = (1 << 31) - 1
"""The largest value of `throttle_time_ms`."""

_NAMED: Final = (Entity.TOPIC, Entity.GROUP, Entity.TRANSACTIONAL_ID)
"""The entities of a request whose histories say that the client was throttled."""


class MutationQuota:
    """The quota of one request that creates or deletes partitions."""

    __slots__ = ("_bucket", "_is_strict", "_now_ms", "throttle_ms")

    def __init__(self, bucket: TokenBucket, now_ms: int, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._is_strict = is_strict
        self.throttle_ms = 0

    def charge(self, partitions: int) -> None:
        """Count mutations; raises KafkaError THROTTLING_QUOTA_EXCEEDED if they are refused."""
        if not self._is_strict:
            self.throttle_ms = self._bucket.record(partitions, self._now_ms)
            return
        throttle_ms = self._bucket.take(partitions, self._now_ms)
        if throttle_ms:
            self.throttle_ms = throttle_ms
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            raise KafkaError(code, code.message)


class _NodeMeters(NamedTuple):
    """The meters of one node: each node measures its own clients."""

    produce: Meters
    fetch: Meters
    request: Meters
    mutation: Meters
    """The same for all nodes."""

    @classmethod
    def create(cls, config: BrokerConfig, mutation: Meters) -> _NodeMeters:
        count, window_s = config.int("quota.window.num"), config.int("quota.window.size.seconds")
        return cls(
            Meters(WindowedRate, PRODUCER_BYTE_RATE, count, window_s),
            Meters(WindowedRate, CONSUMER_BYTE_RATE, count, window_s),
            Meters(WindowedRate, REQUEST_PERCENTAGE, count, window_s),
            mutation,
        )


def new_mutation_meters(config: BrokerConfig) -> Meters:
    """Return the meters of created and deleted partitions.

    They belong to the cluster: the controller makes these changes for the clients of all nodes.
    """
    return Meters(
        TokenBucket,
        CONTROLLER_MUTATION_RATE,
        config.int("controller.quota.window.num"),
        config.int("controller.quota.window.size.seconds"),
    )


class _MeasuredRequest:
    """A request whose use of the quotas is measured."""

    __slots__ = (
        "_api", "_bandwidth_ms", "_busy_ns", "_call", "_client", "_meters", "_mutations", "_quota",
        "_request", "_request_ms", "_started_ns", "_version",
    )  # fmt: skip

    def __init__(
        self,
        api: Api,
        version: int,
        call: Call,
        request: Any,  # noqa: ANN401 - any API
        meters: _NodeMeters,
    ) -> None:
        self._api = api
        self._version = version
        self._call = call
        self._request = request
        self._meters = meters
        self._client = _client_of(call)
        self._quota = catalogue.row(api.key).quota
        self._mutations: MutationQuota | None = None
        self._started_ns = 0
        self._busy_ns: int | None = None
        """The time of the handler; None until it has returned."""
        self._bandwidth_ms = 0
        self._request_ms: int | None = None
        """Milliseconds by which the quota of request time is exceeded; None if not measured yet."""

    def begin(self) -> Call:
        """Start the measurement, and return the call with the quotas that the handler needs."""
        call, clock = self._call, self._call.node.clock
        creations: MutationQuota | None = None
        if self._quota is Quota.FETCH:
            # More would be throttled for certain.
            limit = self._meters.fetch.max_amount(*self._client)
            self._request.max_bytes = int(min(self._request.max_bytes, limit))
        elif self._quota is Quota.CONTROLLER_MUTATION:
            is_strict = catalogue.row(self._api.key).refuses_beyond_quota(self._version)
            creations = self._mutations = self._mutation_quota(is_strict=is_strict)
        elif self._api.key == ApiKey.METADATA:
            # Topics beyond the quota are not created, but the answer is not throttled.
            creations = self._mutation_quota(is_strict=True)
        fetch_quota = self._is_fetch_throttled if self._api.key == ApiKey.FETCH else None
        self._started_ns = clock.now_ns()
        return call.with_quotas(creations, fetch_quota)

    def handled(self) -> None:
        """End what `begin` started: the handler has returned or raised an exception."""
        self._busy_ns = self._call.node.clock.now_ns() - self._started_ns
        if self._mutations is not None:
            self._bandwidth_ms = self._mutations.throttle_ms

    def throttle(self, outcome: object) -> tuple[str, int]:
        """Return the quota that is exceeded most, and the milliseconds of throttling.

        `outcome` is the response, or the KafkaError of a refused request.
        """
        now_ms = self._call.node.clock.now_ms()
        response, code = (
            (None, outcome.code) if isinstance(outcome, KafkaError) else (outcome, None)
        )
        self._measure_request_time(now_ms, code)
        if code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            self._measure_bandwidth(response, now_ms)
        throttles = (REQUEST_PERCENTAGE, self._request_ms or 0), (
            self._quota.value, self._bandwidth_ms,
        )  # fmt: skip
        key, throttle_ms = max(throttles, key=lambda each: each[1])
        return key, min(throttle_ms, _MAX_THROTTLE_MS)

    def _mutation_quota(self, *, is_strict: bool) -> MutationQuota | None:
        now_ms = self._call.node.clock.now_ms()
        bucket = self._meters.mutation.find(*self._client, now_ms)
        if not isinstance(bucket, TokenBucket):
            return None
        return MutationQuota(bucket, now_ms, is_strict=is_strict)

    def _measure_request_time(self, now_ms: int, code: ErrorCode | None = None) -> None:
        if self._request_ms is not None:
            return
        self._request_ms = 0
        # As in Kafka, a request for nodes counts if its client may not act for the cluster.
        is_exempt = self._quota is Quota.EXEMPT or (
            self._api.key == ApiKey.PRODUCE and not self._request.acks
        )
        if is_exempt and code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return
        meter = self._meters.request.find(*self._client, now_ms)
        if meter is not None:
            busy_ns = self._busy_ns
            if busy_ns is None:
                busy_ns = self._call.node.clock.now_ns() - self._started_ns
            exceeded_ms = meter.record(busy_ns / _NS_PER_PERCENT_OF_A_SECOND, now_ms)
            self._request_ms = min(exceeded_ms, self._meters.request.window_ms)

    def _measure_bandwidth(self, response: Any, now_ms: int) -> None:  # noqa: ANN401 - as above
        if self._quota is Quota.PRODUCE:
            meter = self._meters.produce.find(*self._client, now_ms)
            if meter is not None:
                self._bandwidth_ms = meter.record(self._call.request_bytes, now_ms)
        elif self._quota is Quota.FETCH and self._api.key != ApiKey.FETCH and response is not None:
            # A share group has acquired the records for its member, so the member gets them.
            meter = self._meters.fetch.find(*self._client, now_ms)
            if meter is not None:
                self._bandwidth_ms = meter.record(_size_bytes(self._version, response), now_ms)

    def _is_fetch_throttled(self, response: Any) -> bool:  # noqa: ANN401 - the response class
        """Whether a Fetch exceeds a quota; its records are not sent then and do not count."""
        now_ms = self._call.node.clock.now_ms()
        self._measure_request_time(now_ms)
        meter = self._meters.fetch.find(*self._client, now_ms)
        if isinstance(meter, WindowedRate):
            size = _size_bytes(self._version, response)
            self._bandwidth_ms = meter.record(size, now_ms)
            if self._bandwidth_ms or self._request_ms:
                meter.add(-size, now_ms)
        return bool(self._bandwidth_ms or self._request_ms)


class Throttling:
    """The step that measures clients against their quotas; see `gateway.steps.Step`.

    Brokers and controllers measure their own clients, as in Kafka, so each gateway has a step of
    its own. `mutations` are the meters of `new_mutation_meters`, the same for all steps.
    """

    def __init__(self, mutations: Meters) -> None:
        self._mutations = mutations
        self._quotas: Quotas = {}
        self.has_quotas = False
        """Whether clients can have quotas; otherwise the step has nothing to do."""
        self._meters: dict[int, _NodeMeters] = {}
        """Meters by node id."""

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Use the quotas of an image."""
        del delta
        for node_id in self._meters.keys() - image.brokers.keys():
            del self._meters[node_id]
        if image.client_quotas is self._quotas:
            return
        self._quotas = image.client_quotas
        for meters in self._meters.values():
            for each in meters:
                each.apply(self._quotas)
        self.has_quotas = any(IP not in dict(entity) for entity in self._quotas)

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Return a handler that throttles clients."""
        handle = partial(self._handle, api, version, handler)

        def handle_of_client(call: Call, request: object) -> object:
            # Requests between nodes have no quotas.
            return handler(call, request) if call.sender is not None else handle(call, request)

        return handle_of_client

    def _meters_of(self, node: Node) -> _NodeMeters:
        meters = self._meters.get(node.id)
        if meters is None:
            meters = self._meters[node.id] = _NodeMeters.create(node.config, self._mutations)
            for each in meters:
                each.apply(self._quotas)
        return meters

    def _handle(
        self,
        api: Api,
        version: int,
        handler: Handler,
        call: Call,
        request: Any,  # noqa: ANN401 - any API
    ) -> object:
        measured = _MeasuredRequest(api, version, call, request, self._meters_of(call.node))

        def throttle(response: Any) -> object:  # noqa: ANN401 - any API
            throttle_ms = self._throttle(measured, api, call, request, response)
            return with_throttle_time(response, throttle_ms) if throttle_ms else response

        def refuse(error: Exception) -> object:
            if not isinstance(error, KafkaError):
                raise error
            throttle_ms = self._throttle(measured, api, call, request, error)
            if not throttle_ms:
                raise error
            report_refusal_of_request(call, api.name, error, request)
            response = api.refuse(request, error.code, truncate_message(error.message))
            return with_throttle_time(response, throttle_ms)

        measured_call = measured.begin()
        try:
            answer = handler(measured_call, request)
        except KafkaError as error:
            measured.handled()
            return refuse(error)
        except BaseException:
            measured.handled()
            raise
        measured.handled()
        return chain(answer, throttle, refuse)

    @staticmethod
    def _throttle(
        measured: _MeasuredRequest, api: Api, call: Call, request: object, outcome: object
    ) -> int:
        """Mute the connection if a quota is exceeded; return for how many milliseconds."""
        key, throttle_ms = measured.throttle(outcome)
        if throttle_ms > 0:
            if call.connection is not None:
                call.connection.mute(throttle_ms)
            _record(call, api, request, key)
        return throttle_ms


def with_throttle_time(response: Any, throttle_ms: int) -> Waiting[Any]:  # noqa: ANN401 - any API
    """Return a copy of a response with its throttle time, as one that has just arrived.

    The response itself may be an answer to other requests, too. After such a response, the session
    serves no request that it has received already, if the connection is muted.
    """
    if hasattr(response, "throttle_time_ms"):
        response = with_fields(response, throttle_time_ms=throttle_ms)
    arrived: Waiting[Any] = Waiting()
    arrived.resolve(response)
    return arrived


def _client_of(call: Call) -> tuple[str, str]:
    """Return the user and the client id."""
    return call.principal.partition(":")[2], call.client_id or ""


def _size_bytes(version: int, response: Any) -> int:  # noqa: ANN401 - Fetch or ShareFetch
    pieces: list[bytes | memoryview] = []
    codec.response_builder(response.API_KEY, version)(response, pieces)
    return _RESPONSE_LENGTH_BYTES + sum(map(len, pieces))


def _record(call: Call, api: Api, request: Any, key: str) -> None:  # noqa: ANN401 - any API
    """Write to the history of the cluster that a request exceeded a quota."""
    user, client_id = _client_of(call)
    text = (
        f"{api.name} of client {client_id!r}, user {user!r}, exceeded the quota {key}: the client "
        "is throttled"
    )
    facts = {"api": api.name, "quota": key, "user": user, "client_id": client_id}
    node = call.node
    names = [(Entity.CLIENT, client_address(call))]
    for kind in _NAMED:
        named = names_in_request(node.image, api.key, kind, request)
        names += [(kind, name) for name in named[:_MAX_EXPLAINED_SUBJECTS]]
    for kind, name in names:
        event = Event(name, "throttled", text, facts, kind)
        node.history.add(event, node.clock.now_ms())
