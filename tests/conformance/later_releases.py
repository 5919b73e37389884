"""The releases of Kafka that are compared, and all differences of those after the emulated one.

Every other answer of these releases is equal: in the scenarios of three nodes, of authentication,
of ACLs and of quotas, and in the comparison of authorizations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Difference(NamedTuple):
    """One entry of `advertised` or one field that differs; None also stands for an absent entry."""

    later: str | None
    emulated: str | None
    reason: str


_DEAD_LETTERS: Final = "share groups can write rejected records to dead-letter queues"
_REMOTE_COPY: Final = "segments can stay in the local log before their upload to remote storage"
_STREAMS_ASSIGNORS: Final = "assignors of streams groups can be selected"
_STREAMS_RACKS: Final = "standby tasks can be distributed by tags of clients"
_RECORD_SIZE: Final = "the size of decompressed records can be limited"
_UNVERIFIED: Final = "checks of OAuth tokens that are omitted must be named"

KAFKA_4_4: Final[Mapping[str, Difference]] = {
    "API API_VERSIONS": Difference(
        "up to 5", "up to 4", "clients name the cluster and the node that they mean to reach"
    ),
    "API TXN_OFFSET_COMMIT": Difference("up to 6", "up to 5", "topics are named by their ids"),
    "API DELETE_GROUPS": Difference("up to 3", "up to 2", "each group has an error message"),
    "API STREAMS_GROUP_HEARTBEAT": Difference(
        "up to 1", "up to 0", "lags have 64 bits; the coordinator requests topology descriptions"
    ),
    "API STREAMS_GROUP_DESCRIBE": Difference(
        "up to 1", "up to 0", "the answer has the assignor and the topology description"
    ),
    "feature metadata.version": Difference(
        "7-33=33", "7-30=30", "the metadata log has records of later features"
    ),
    "feature share.version": Difference("0-2=2", "0-1=1", _DEAD_LETTERS),
    "broker setting errors.deadletterqueue.auto.create.topics.enable": Difference(
        "false", None, _DEAD_LETTERS
    ),
    "broker setting errors.deadletterqueue.topic.name.prefix": Difference(
        "dlq.", None, _DEAD_LETTERS
    ),
    "broker setting group.streams.assignors": Difference("sticky", None, _STREAMS_ASSIGNORS),
    "broker setting group.streams.rack.aware.assignment.tags": Difference("", None, _STREAMS_RACKS),
    "broker setting group.streams.topology.description.plugin.class": Difference(
        None, None, "a plugin can store the topology descriptions"
    ),
    "broker setting log.remote.copy.lag.bytes": Difference("-1", None, _REMOTE_COPY),
    "broker setting log.remote.copy.lag.ms": Difference("0", None, _REMOTE_COPY),
    "broker setting max.decompressed.message.bytes": Difference("2147483639", None, _RECORD_SIZE),
    "broker setting sasl.oauthbearer.allow.unverified.audience": Difference(
        "false", None, _UNVERIFIED
    ),
    "broker setting sasl.oauthbearer.allow.unverified.issuer": Difference(
        "false", None, _UNVERIFIED
    ),
    "topic setting errors.deadletterqueue.group.enable": Difference("false", None, _DEAD_LETTERS),
    "topic setting max.decompressed.message.bytes": Difference("2147483639", None, _RECORD_SIZE),
    "topic setting remote.copy.lag.bytes": Difference("-1", None, _REMOTE_COPY),
    "topic setting remote.copy.lag.ms": Difference("0", None, _REMOTE_COPY),
    "group setting errors.deadletterqueue.copy.record.enable": Difference(
        "false", None, _DEAD_LETTERS
    ),
    "group setting errors.deadletterqueue.topic.name": Difference("", None, _DEAD_LETTERS),
    "group setting streams.assignor.name": Difference("sticky", None, _STREAMS_ASSIGNORS),
    "group setting streams.rack.aware.assignment.tags": Difference("", None, _STREAMS_RACKS),
}

_NO_MESSAGE: Final = "the refusal to change settings of brokers has no message"

_HOST: Final = "an ACL needs a host"

ANSWERS_OF_KAFKA_4_4: Final[Mapping[str, Difference]] = {
    **{
        f"AlterConfigs v{version} broker with nothing.responses[].error_message": Difference(
            "none", "text", _NO_MESSAGE
        )
        for version in range(3)
    },
    **{
        f"CreateAcls v{version} for host ''.results[0].{field}": Difference(later, emulated, _HOST)
        for version in (1, 2, 3)
        for field, later, emulated in (
            ("error_code", "42 INVALID_REQUEST", "0 NONE"),
            ("error_message", "text", "empty"),
        )
    },
}
"""Path of a field in the comparison of authorizations → its values."""

_TOPIC_SETTING: Final = "topic setting "


class Release(NamedTuple):
    """A release of Kafka that is compared with kafkalite."""

    version: str | None
    """None for the pinned version, which has the emulated release."""
    differences: Mapping[str, Difference]
    """What it advertises otherwise than kafkalite does."""
    answers: Mapping[str, Difference]
    """The fields of its answers that differ from those of kafkalite."""

    @property
    def added_topic_settings(self) -> Mapping[str, str | None]:
        """The default values of the topic settings that kafkalite does not have."""
        return {
            name.removeprefix(_TOPIC_SETTING): difference.later
            for name, difference in self.differences.items()
            if name.startswith(_TOPIC_SETTING) and difference.emulated is None
        }


RELEASES: Final[Mapping[str, Release]] = {
    "4.3": Release(None, {}, {}),
    "4.4": Release("4.4.0", KAFKA_4_4, ANSWERS_OF_KAFKA_4_4),
}
