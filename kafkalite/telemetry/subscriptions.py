"""Subscriptions of client instances: the metrics that a client pushes, and how often.

The rules and the order of the metrics are those of Kafka's ClientMetricsManager, because the
subscription id depends on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.config.client_metrics import parse_subscription
from kafkalite.coordinator.java_order import in_java_order, string_hash, uuid_hash
from kafkalite.metadata.image import ResourceType
from kafkalite.storage.crc import crc32c

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.config.client_metrics import Subscription
    from kafkalite.metadata.image import ConfigResource

DEFAULT_INTERVAL_MS = 300_000
"""The longest interval of pushes, and that of a client without subscriptions."""

ALL_METRICS = "*"

_UINT32_MASK = 0xFFFF_FFFF
_INT32_SIGN = 0x8000_0000


class InstanceSubscription(NamedTuple):
    """The subscriptions that select one client instance, as one."""

    id: int
    metrics: Sequence[str]
    interval_ms: int


def subscription_settings(
    configs: Mapping[ConfigResource, Mapping[str, str]],
) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of all client metrics subscriptions, by name."""
    return {
        resource.name: values
        for resource, values in configs.items()
        if resource.type is ResourceType.CLIENT_METRICS and values
    }


def parse_subscriptions(settings: Mapping[str, Mapping[str, str]]) -> list[Subscription]:
    """Return the subscriptions in the order in which Kafka evaluates them."""
    return [parse_subscription(settings[name]) for name in in_java_order(settings, string_hash)]


def subscription_of(
    subscriptions: Sequence[Subscription], instance_id: bytes, client: Mapping[str, str | None]
) -> InstanceSubscription:
    """Return the subscription of an instance whose client has these attributes."""
    selected = [each for each in subscriptions if each.selects(client)]
    interval_ms = min((each.interval_ms for each in selected), default=DEFAULT_INTERVAL_MS)
    interval_ms = min(interval_ms, DEFAULT_INTERVAL_MS)
    requested = dict.fromkeys(
        metric for each in selected for metric in in_java_order(each.metrics, string_hash)
    )
    metrics = [ALL_METRICS] if ALL_METRICS in requested else in_java_order(requested, string_hash)
    return InstanceSubscription(
        subscription_id(metrics, interval_ms, instance_id), metrics, interval_ms
    )


def subscription_id(metrics: Sequence[str], interval_ms: int, instance_id: bytes) -> int:
    """Return the id of a subscription: CRC-32C of its text XOR the hash code of the instance id."""
    text = f"[{', '.join(metrics)}]{interval_ms}"
    number = (crc32c(text.encode("utf-8", "replace"), 0) ^ uuid_hash(instance_id)) & _UINT32_MASK
    return number - (1 << 32) if number & _INT32_SIGN else number
