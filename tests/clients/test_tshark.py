"""Wireshark's Kafka dissector and ours agree on the traffic of real clients.

Recordings of a real Kafka are read by both: every frame's envelope, and of every message that
tshark can decode the fields that it has a name for. Where they differ, it is for one of the
reasons in the tables below.
"""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.capture.messages import is_known, parse_request, parse_response, response_version
from kafkalite.capture.model import Direction, Exchange, Problem
from kafkalite.capture.reading import exchanges, read
from kafkalite.protocol import codec
from kafkalite.protocol.spec import FieldSpec, load_spec, snake_case
from tests.clients.dissection import NULL, Dissected, dissect
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.protocol.spec import StructSpec

pytestmark = pytest.mark.client

CAPTURES = Path(__file__).parents[1] / "captures" / "kafka-4.3.1"
DAILY = (
    "aiokafka-transactions",
    "confluent-kafka-classic",
    "java-classic",
    "kafka-python",
    "kafkajs",
)
"""Read with every run; the others with the long one."""

BY_ENTITY: Final = {
    "topicName": "kafka.topic_name",
    "groupId": "kafka.consumer_group",
    "producerId": "kafka.producer_id",
    "transactionalId": "kafka.transactional_id",
}
BY_NAME: Final = {
    **dict.fromkeys(
        ("PartitionIndex", "Partition", "Index", "PartitionId", "Partitions", "PartitionIndexes"),
        "kafka.partition_id",
    ),
    **dict.fromkeys(("ErrorCode", "PartitionErrorCode"), "kafka.error"),
    **dict.fromkeys(
        ("CommittedOffset", "BaseOffset", "FetchOffset", "Offset", "HighWatermark"),
        "kafka.offset",
    ),
    **dict.fromkeys(
        ("LeaderEpoch", "CurrentLeaderEpoch", "CommittedLeaderEpoch"), "kafka.leader_epoch"
    ),
    **dict.fromkeys(("ProducerEpoch", "V3AndBelowProducerEpoch"), "kafka.producer_epoch"),
    **dict.fromkeys(("GenerationId", "GenerationIdOrMemberEpoch"), "kafka.generation_id"),
    "ThrottleTimeMs": "kafka.throttle_time",
    "MemberId": "kafka.member_id",
    "GroupInstanceId": "kafka.consumer_group_instance",
    "LogStartOffset": "kafka.log_start_offset",
    "LastStableOffset": "kafka.last_stable_offset",
    "SessionTimeoutMs": "kafka.session_timeout",
    "RebalanceTimeoutMs": "kafka.rebalance_timeout",
    "ProtocolType": "kafka.protocol_type",
    "Host": "kafka.host",
    "Port": "kafka.port",
    "Mechanism": "kafka.sasl_mechanism",
    "MinBytes": "kafka.min_bytes",
    "SessionId": "kafka.fetch_session_id",
    "Acks": "kafka.required_acks",
}
"""What a field's value is, or else its name → tshark's name of the field."""

COMPARED: Final = frozenset((*BY_ENTITY.values(), *BY_NAME.values()))

COMPLAINTS: Final = (
    ("Unsupported .* version", None, "the version is newer than tshark"),
    ("Unknown .* API key", None, "the API is newer than tshark"),
    ("Request missing", None, "the answer to a request that tshark did not decode"),
    (
        "Dissected message does not end",
        {"JoinGroup", "SyncGroup"},
        "tshark 4.0 takes metadata and assignments for missing where lengths are not compact",
    ),
)
"""What tshark says of messages that it did not decode, of which APIs (None: any), and why."""

DIFFERENCES: Final = {
    (
        "ElectLeaders",
        2,
        Direction.REQUEST,
    ): "tshark 4.0 reads v2 as if its lengths were not compact",
    (
        "ApiVersions",
        5,
        Direction.RESPONSE,
    ): "the refusal of a version is in v0, which tshark misses",
}
"""Messages that tshark decodes, but not as Kafka writes them, and how that comes."""


def captures() -> list[object]:
    """Return every recording, those for the long run marked."""
    return [
        pytest.param(
            path,
            id=path.name.partition(".")[0],
            marks=() if path.name.partition(".")[0] in DAILY else pytest.mark.endurance,
        )
        for path in sorted(CAPTURES.glob("*.pcapng.gz"))
    ]


@pytest.mark.parametrize("capture", captures())
def test_both_read_the_same(capture: Path) -> None:
    problems: list[Problem] = []
    read_here = list(exchanges(read([capture], problems.append)))
    assert problems == []
    ports = {each.connection.broker.port for each in read_here}
    with required():
        lanes = dissect(capture, ports)
    by_connection: dict[tuple[int, int], list[Exchange]] = defaultdict(list)
    for each in sorted(read_here, key=lambda each: each.position):
        ends = (each.connection.client.port, each.connection.broker.port)
        by_connection[ends].append(each)
    compared: Counter[str] = Counter()
    for (client, broker), asked in by_connection.items():
        answered = [each for each in asked if each.response is not None]
        for exchange, theirs in zip(asked, lanes[client, broker], strict=True):
            compare(exchange, Direction.REQUEST, theirs, compared)
        for exchange, theirs in zip(answered, lanes[broker, client], strict=True):
            compare(exchange, Direction.RESPONSE, theirs, compared)
    assert compared["envelopes"] == sum(1 + (each.response is not None) for each in read_here)
    assert compared["fields"] >= 10, "nearly nothing could be compared"


def compare(
    exchange: Exchange, direction: Direction, theirs: Dissected, compared: Counter[str]
) -> None:
    """Compare one frame; count what was compared."""
    name = codec.api_name(exchange.api_key)
    compare_envelope(exchange, direction, theirs)
    compared["envelopes"] += 1
    is_list_of_versions = name == "ApiVersions" and direction is Direction.RESPONSE
    if theirs.complaints and not is_list_of_versions:
        # Some complaints follow from others; one that is explained explains them.
        told = f"{name} v{exchange.api_version} {direction.name}: {theirs.complaints}"
        assert any(is_explained(each, name) for each in theirs.complaints), told
        return
    if not is_known(exchange.api_key, exchange.api_version) and direction is Direction.REQUEST:
        return
    ours = fields_of(exchange, direction)
    if (name, exchange.api_version, direction) in DIFFERENCES:
        return
    for field in (ours.keys() | theirs.fields.keys()) & COMPARED:
        assert ours.get(field, []) == theirs.fields.get(field, []), (
            f"{name} v{exchange.api_version} {direction.name}: {field}"
        )
        compared["fields"] += 1


def compare_envelope(exchange: Exchange, direction: Direction, theirs: Dissected) -> None:
    """Compare API, version, correlation and client id."""
    assert theirs.first("kafka.correlation_id") == str(exchange.correlation_id)
    if direction is Direction.RESPONSE:
        # An answer has no API of its own; tshark knows it where it knows the request.
        assert theirs.first("kafka.response_key") in {None, str(exchange.api_key)}
        return
    assert theirs.first("kafka.api_key") == str(exchange.api_key)
    assert theirs.first("kafka.api_version") == str(exchange.api_version)
    assert theirs.first("kafka.client_id") == (
        NULL if exchange.client_id is None else exchange.client_id
    )


def is_explained(complaint: str, name: str) -> bool:
    """Whether a table says why tshark did not decode a message."""
    return any(
        re.search(pattern, complaint) is not None and (names is None or name in names)
        for pattern, names, _ in COMPLAINTS
    )


def fields_of(exchange: Exchange, direction: Direction) -> dict[str, list[str]]:
    """Return the values of one of our messages by tshark's names, in the order of the bytes."""
    name, version = codec.api_name(exchange.api_key), exchange.api_version
    if direction is Direction.REQUEST:
        message = parse_request(exchange)
    else:
        message = parse_response(exchange)
        version = response_version(exchange.response or b"", exchange.api_key, version)
    spec = load_spec("apis", f"{snake_case(name)}_{direction.name.lower()}")
    found: dict[str, list[str]] = defaultdict(list)
    collect(message, spec.fields, spec.structs, version, found)
    return found


def collect(
    message: Any,
    fields: Sequence[FieldSpec],
    structs: Mapping[str, StructSpec],
    version: int,
    found: dict[str, list[str]],
) -> None:
    """Put the values of a struct into `found`."""
    for field in fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.attribute)
        struct = structs.get(field.type)
        theirs = BY_ENTITY.get(field.entity or "") or BY_NAME.get(field.name)
        for each in (value or ()) if field.is_array else (value,):
            if struct is not None and each is not None:
                collect(each, struct.fields, structs, version, found)
            elif theirs is not None:
                found[theirs].append(NULL if each is None else str(each))


def test_each_difference_has_its_reason() -> None:
    reasons = [*(reason for _, _, reason in COMPLAINTS), *DIFFERENCES.values()]
    assert all("tshark" in reason for reason in reasons)
    assert {name for name, _, _ in DIFFERENCES} <= {codec.api_name(key) for key in codec.api_keys()}
