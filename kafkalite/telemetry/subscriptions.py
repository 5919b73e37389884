"""Subscriptions of client instances: the metrics that a client pushes, and how often.

The rules and the order of the metrics are those of Kafka's ClientMetricsManager, because the
subscription id depends on them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.config.client_metrics import parse_subscription
from kafkalite.coordinator.java_order import in_java_order, string_hash, uuid_hash
from kafkalite.metadata.image import ResourceType
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps, pause
from kafkalite.storage.crc import crc32c

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.config.client_metrics import Subscription
    from kafkalite.metadata.image import ConfigResource

DEFAULT_INTERVAL_MS = 300_000
"""The longest interval of pushes, and that of a client without subscriptions."""

ALL_METRICS = "*"

NO_SUBSCRIPTIONS: Final[Mapping[str, ParsedSubscription]] = MappingProxyType({})

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


class ParsedSubscription(NamedTuple):
    """A subscription, and the settings that it was parsed from."""

    settings: Mapping[str, str]
    subscription: Subscription


def parse_subscriptions(
    settings: Mapping[str, Mapping[str, str]],
    parsed: Mapping[str, ParsedSubscription] = NO_SUBSCRIPTIONS,
) -> Mapping[str, ParsedSubscription]:
    """Return the subscriptions by name, in the order in which Kafka evaluates them.

    Those in `parsed` are used again if their settings are the same: expressions are compiled
    slowly. This pauses if there are many.
    """
    subscriptions = {}
    for name in in_steps(in_java_order(settings, string_hash)):
        known = parsed.get(name)
        if known is None or known.settings != settings[name]:
            known = ParsedSubscription(settings[name], parse_subscription(settings[name]))
            pause()
        subscriptions[name] = known
    return subscriptions


def subscription_of(
    subscriptions: Mapping[str, ParsedSubscription],
    instance_id: bytes,
    client: Mapping[str, str | None],
) -> InstanceSubscription:
    """Return the subscription of an instance whose client has these attributes.

    This pauses if there are many subscriptions.
    """
    selected = [
        each.subscription
        for each in in_steps(subscriptions.values())
        if each.subscription.selects(client)
    ]
    interval_ms = min([DEFAULT_INTERVAL_MS, *(each.interval_ms for each in selected)])
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
