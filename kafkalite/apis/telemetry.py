"""GetTelemetrySubscriptions and PushTelemetry: the metrics that clients push (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.tables.kafkalite import CLIENT_TELEMETRY
from kafkalite.gateway.api import Api
from kafkalite.gateway.refusals import client_address
from kafkalite.protocol._generated.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkalite.protocol._generated.messages.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions
from kafkalite.storage.compression import CompressedDataError, decompress
from kafkalite.telemetry.instances import (
    ACCEPTED_COMPRESSION_TYPES,
    ClientAttributes,
    Push,
    check_instance_id,
)
from kafkalite.telemetry.metrics import AcceptedPush
from kafkalite.telemetry.otlp import InvalidMetricsError, MissingPackageError, decode_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.telemetry.instances import Instances
    from kafkalite.telemetry.metrics import DecodedMetric

_UNKNOWN_SOFTWARE = ("unknown", "unknown")
_MAX_BYTES_KEY = "telemetry.max.bytes"
_CLOSE_KEY = "telemetry"
"""The key in `Call.on_close` of the function that forgets the instance of the connection."""


def handle_get_telemetry_subscriptions(
    call: Call, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the metrics that the client should push, and how often.

    Raises KafkaError THROTTLING_QUOTA_EXCEEDED before the end of the client's interval.
    """
    node = call.node
    instances = _instances(call)
    instance_id = instances.id_of(request.client_instance_id)
    subscription = instances.get_subscription(
        _attributes(call, instance_id), instance_id, call.context, node.clock.now_ms()
    )
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=node.config.int(_MAX_BYTES_KEY),
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def handle_push_telemetry(call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Store the metrics of a client.

    Raises KafkaError INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
    UNSUPPORTED_COMPRESSION_TYPE or TELEMETRY_TOO_LARGE as in Kafka, and INVALID_RECORD if the
    metrics cannot be decompressed or decoded.
    """
    node = call.node
    instance_id = request.client_instance_id
    check_instance_id(instance_id)
    now_ms = node.clock.now_ms()
    push = Push(
        instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        len(request.metrics),
    )
    instance = _instances(call).admit_push(
        push, _attributes(call, instance_id), call.context, now_ms
    )
    if not node.config.bool(CLIENT_TELEMETRY):
        return PushTelemetryResponse()
    try:
        metrics = _decode(call, request)
    except KafkaError as error:
        instance.last_error = error.code
        raise
    accepted = AcceptedPush(
        instance.client,
        node.id,
        call.principal,
        instance.subscription.interval_ms,
        request.terminating,
        now_ms,
    )
    node.cluster.pushed_metrics.add(accepted, metrics)
    return PushTelemetryResponse()


def _decode(call: Call, request: PushTelemetryRequest) -> Sequence[DecodedMetric]:
    """Return the metrics of a push; raises KafkaError INVALID_RECORD if that is impossible."""
    if not request.metrics:
        return ()
    limit = call.node.config.int(_MAX_BYTES_KEY)
    try:
        return decode_metrics(decompress(request.compression_type, request.metrics, limit))
    except MissingPackageError:
        return ()
    except (CompressedDataError, InvalidMetricsError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the pushed metrics are invalid: {error}"
        ) from error


def _instances(call: Call) -> Instances:
    """Return the instances of the node, with its present subscriptions."""
    node = call.node
    instances = node.telemetry_instances
    instances.update_subscriptions(node.image.configs)
    context = call.context
    context.on_close[_CLOSE_KEY] = lambda: instances.close_connection(context)
    return instances


def _attributes(call: Call, instance_id: bytes) -> ClientAttributes:
    name, version = call.context.client_software or _UNKNOWN_SOFTWARE
    connection = call.connection
    return ClientAttributes(
        uuid_to_text(instance_id),
        call.client_id,
        name,
        version,
        client_address(call),
        None if connection is None or connection.port is None else str(connection.port),
    )


def _may_take_long(call: Call, request: object) -> bool:
    """Whether a request is served with pauses, because there are many subscriptions."""
    del request
    return call.node.telemetry_instances.has_many_subscriptions(call.node.image.configs)


APIS = (
    Api(
        key=GetTelemetrySubscriptionsRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_get_telemetry_subscriptions,
        may_take_long=_may_take_long,
    ),
    Api(
        key=PushTelemetryRequest.API_KEY,
        versions=Versions(0, 0),
        handler=handle_push_telemetry,
        may_take_long=_may_take_long,
    ),
)
