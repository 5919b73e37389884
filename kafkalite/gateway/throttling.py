"""Throttling: clients that exceed a quota get their answers at once, and are served again later.

An answer has the time for which its client is throttled. The next request of the connection is
handled when that time is over, as in Kafka (KIP-219). The step is installed while the cluster has
quotas of users or client ids.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.coordinator.contract import Event, SubjectKind
from kafkalite.gateway.api import Eras
from kafkalite.gateway.steps import DisconnectError, StepOrder
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol import catalogue, codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import Entity, Quota
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
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
    from collections.abc import Callable, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.gateway import Gateway
    from kafkalite.gateway.steps import Handler
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.security.quotas import Entity as QuotaEntity

    Quotas = Mapping[QuotaEntity, Mapping[str, float]]

_NS_PER_PERCENT_OF_A_SECOND: Final = 10_000_000.0
_RESPONSE_LENGTH_BYTES: Final = 4
_MAX_EXPLAINED_SUBJECTS: Final = 10

_IS_STRICT: Final[Mapping[int, Eras[bool]]] = {
    ApiKey.CREATE_TOPICS: Eras((0, False), (6, True)),
    ApiKey.DELETE_TOPICS: Eras((0, False), (5, True)),
    ApiKey.CREATE_PARTITIONS: Eras((0, False), (3, True)),
}
"""Whether mutations beyond the quota are refused, or only throttled, by version (KIP-599)."""

_SUBJECTS: Final = {
    Entity.TOPIC: SubjectKind.TOPIC,
    Entity.GROUP: SubjectKind.GROUP,
    Entity.TRANSACTIONAL_ID: SubjectKind.TRANSACTIONAL_ID,
}


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

    @classmethod
    def create(cls, config: BrokerConfig) -> _NodeMeters:
        count, window_s = config.int("quota.window.num"), config.int("quota.window.size.seconds")
        return cls(
            Meters(WindowedRate, PRODUCER_BYTE_RATE, count, window_s),
            Meters(WindowedRate, CONSUMER_BYTE_RATE, count, window_s),
            Meters(WindowedRate, REQUEST_PERCENTAGE, count, window_s),
            Meters(
                TokenBucket,
                CONTROLLER_MUTATION_RATE,
                config.int("controller.quota.window.num"),
                config.int("controller.quota.window.size.seconds"),
            ),
        )


class Throttling:
    """The step that measures clients against their quotas; see `Step`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._quotas: Quotas = {}
        self._meters: dict[int, _NodeMeters] = {}
        """Meters by node id."""
        self._muted_until_ms: dict[Call, int] = {}

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Use the quotas of an image; the step is installed while clients can have any."""
        del delta
        if image.client_quotas is self._quotas:
            return
        self._quotas = image.client_quotas
        for meters in self._meters.values():
            for each in meters:
                each.apply(self._quotas)
        if any(_clients_with_quotas(self._quotas)):
            self._gateway.install(self, StepOrder.THROTTLE)
        else:
            self._gateway.remove(self)

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Return a handler that throttles clients."""
        handle = partial(self._handle, api, version, handler)

        def handle_or_delay(call: Call, request: object) -> object:
            if call.sender is not None:  # requests between nodes have no quotas
                return handler(call, request)
            muted_until_ms = self._muted_until_ms.pop(call, 0)
            if muted_until_ms > call.node.clock.now_ms():
                return _delayed(call, muted_until_ms, partial(handle, call, request))
            return handle(call, request)

        return handle_or_delay

    def _meters_of(self, call: Call) -> _NodeMeters:
        node = call.node
        meters = self._meters.get(node.id)
        if meters is None:
            meters = self._meters[node.id] = _NodeMeters.create(node.config)
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
        clock, meters, client = call.node.clock, self._meters_of(call), _client_of(call)
        quota = catalogue.row(api.key).quota
        if quota is Quota.FETCH:
            # More would be throttled for certain.
            limit = meters.fetch.max_amount(*client)
            request.max_bytes = int(min(request.max_bytes, limit))
        elif quota is Quota.CONTROLLER_MUTATION:
            call.mutation_quota = _mutation_quota(api, version, meters, client, clock.now_ms())
        started_ns = clock.now_ns()
        answer = handler(call, request)
        busy_ns = clock.now_ns() - started_ns

        def throttle(response: Any) -> object:  # noqa: ANN401 - any API
            now_ms = clock.now_ms()
            measured = _Measured(client, quota, now_ms, busy_ns, version, response)
            key, throttle_ms = max(
                _request_throttle(measured, meters),
                _throttle(measured, meters, call),
                key=lambda each: each[1],
            )
            if throttle_ms <= 0:
                return response
            self._mute(call, now_ms + throttle_ms)
            _record(call, api, request, key, throttle_ms)
            if quota is Quota.FETCH:
                response = _throttled_fetch(request, response)
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle_ms
            return response

        return chain(answer, throttle)

    def _mute(self, call: Call, until_ms: int) -> None:
        self._muted_until_ms[call] = until_ms
        call.on_close[self] = partial(self._forget, call)

    def _forget(self, call: Call) -> None:
        self._muted_until_ms.pop(call, None)


def _clients_with_quotas(quotas: Quotas) -> list[QuotaEntity]:
    """Return the entities with quotas of users and client ids."""
    return [entity for entity in quotas if IP not in dict(entity)]


def _client_of(call: Call) -> tuple[str, str]:
    """Return the user and the client id."""
    return call.principal.partition(":")[2], call.client_id or ""


def _mutation_quota(
    api: Api, version: int, meters: _NodeMeters, client: tuple[str, str], now_ms: int
) -> MutationQuota | None:
    bucket = meters.mutation.find(*client, now_ms)
    if not isinstance(bucket, TokenBucket):
        return None
    eras = _IS_STRICT.get(api.key)
    return MutationQuota(bucket, now_ms, is_strict=eras is not None and eras.at(version))


class _Measured(NamedTuple):
    """A request that was handled."""

    client: tuple[str, str]
    quota: Quota
    now_ms: int
    busy_ns: int
    version: int
    response: Any


def _request_throttle(measured: _Measured, meters: _NodeMeters) -> tuple[str, int]:
    """Return the milliseconds by which the quota of request time is exceeded, at most a window."""
    if measured.quota is Quota.EXEMPT:
        return REQUEST_PERCENTAGE, 0
    meter = meters.request.find(*measured.client, measured.now_ms)
    if meter is None:
        return REQUEST_PERCENTAGE, 0
    percent = measured.busy_ns / _NS_PER_PERCENT_OF_A_SECOND
    return REQUEST_PERCENTAGE, min(meter.record(percent, measured.now_ms), meters.request.window_ms)


def _throttle(measured: _Measured, meters: _NodeMeters, call: Call) -> tuple[str, int]:
    """Return the milliseconds by which the quota of the API itself is exceeded."""
    quota, now_ms, throttle_ms = measured.quota, measured.now_ms, 0
    if quota is Quota.PRODUCE:
        meter = meters.produce.find(*measured.client, now_ms)
        if meter is not None:
            throttle_ms = meter.record(call.request_bytes, now_ms)
    elif quota is Quota.FETCH:
        meter = meters.fetch.find(*measured.client, now_ms)
        if isinstance(meter, WindowedRate):
            size = _size_bytes(measured.version, measured.response)
            throttle_ms = meter.record(size, now_ms)
            if throttle_ms:
                meter.add(-size, now_ms)  # the client gets none of the records
    elif quota is Quota.CONTROLLER_MUTATION and call.mutation_quota is not None:
        throttle_ms = call.mutation_quota.throttle_ms
        call.mutation_quota = None
    return quota.value, throttle_ms


def _size_bytes(version: int, response: Any) -> int:  # noqa: ANN401 - Fetch or ShareFetch
    pieces: list[bytes | memoryview] = []
    codec.response_builder(response.API_KEY, version)(response, pieces)
    return _RESPONSE_LENGTH_BYTES + sum(map(len, pieces))


def _throttled_fetch(request: Any, response: Any) -> Any:  # noqa: ANN401 - Fetch or ShareFetch
    """Return a response without records; the client asks for them again."""
    if request.API_KEY != ApiKey.FETCH:
        return response  # a share group has acquired the records for its member
    is_incremental = request.session_epoch > 0
    return type(response)(session_id=request.session_id if is_incremental else 0)


def _record(call: Call, api: Api, request: Any, key: str, throttle_ms: int) -> None:  # noqa: ANN401 - any API
    """Write to the history of the cluster that a request exceeded a quota."""
    user, client_id = _client_of(call)
    text = (
        f"{api.name} of client {client_id!r}, user {user!r}, exceeded the quota {key}: the client "
        "is throttled"
    )
    facts = {"api": api.name, "quota": key, "throttle_time_ms": throttle_ms, "user": user,
             "client_id": client_id}  # fmt: skip
    node = call.node
    for entity, kind in _SUBJECTS.items():
        subjects = dict.fromkeys(catalogue.entities_in_request(api.key, entity, request))
        for subject in [*subjects][:_MAX_EXPLAINED_SUBJECTS]:
            event = Event(subject, "throttled", text, facts, kind)
            node.history.add(event, node.clock.now_ms())


def _delayed(call: Call, deadline_ms: int, handle: Callable[[], object]) -> Waiting[Any]:
    """Return a Waiting for the answer to a request that is handled at `deadline_ms`."""
    pending: list[Waiting[Any]] = []

    def abandon() -> None:
        timer.cancel()
        for each in pending:
            each.abandon()

    waiting: Waiting[Any] = Waiting(on_abandon=abandon)

    def end() -> None:
        try:
            answer: Any = handle()
        except KafkaError as refusal:
            answer = refusal.without_traceback()
        except ProtocolViolation as violation:
            answer = DisconnectError(violation.reason)
        except Exception as error:  # noqa: BLE001 - the gateway reports it like that of any handler
            answer = error
        if isinstance(answer, Waiting):
            pending.append(answer)
            answer.then(waiting.resolve)
        else:
            waiting.resolve(answer)

    timer = call.node.clock.call_at(deadline_ms, end)
    return waiting
