"""Wireshark's Kafka dissector and ours agree on the traffic of real clients.

Both read recordings of a real Kafka. The test compares every frame's envelope, and of every message
that tshark can decode the fields that it has names for. The tables below have the reasons of all
permitted differences.
"""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.capture.model import Direction, Exchange, Problem
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.messages import (
    is_known,
    parse_request,
    parse_response,
    response_version,
)
from kafkalite.protocol import codec
from kafkalite.protocol.spec import FieldSpec, load_spec, snake_case
from tests.clients.dissection import NULL, DissectedFrame, dissect
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.protocol.spec import StructSpec

pytestmark = pytest.mark.client

CAPTURES = Path(__file__).parents[1] / "captures" / "kafka-4.3.1"

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
"""The field's entity, or its name if it has none → tshark's name of the field."""

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
"""tshark's complaints about messages that it cannot decode: APIs (None: any) and reasons."""

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
"""Messages that tshark decodes wrongly, and the reasons."""


@pytest.mark.endurance
@pytest.mark.parametrize(
    "capture",
    sorted(CAPTURES.glob("*.pcapng.gz")),
    ids=lambda path: path.name.partition(".")[0],
)
def test_tshark_and_kafkalite_decode_the_same_fields(capture: Path) -> None:
    problems: list[Problem] = []
    recorded = list(exchanges(read([capture], problems.append)))
    assert problems == []
    ports = {exchange.connection.broker.port for exchange in recorded}
    with required():
        lanes = dissect(capture, ports)
    by_connection: dict[tuple[int, int], list[Exchange]] = defaultdict(list)
    for recorded_exchange in sorted(
        recorded, key=lambda recorded_exchange: recorded_exchange.position
    ):
        lane = (recorded_exchange.connection.client.port, recorded_exchange.connection.broker.port)
        by_connection[lane].append(recorded_exchange)
    compared: Counter[str] = Counter()
    for (client, broker), connection_exchanges in by_connection.items():
        with_response = [
            recorded_exchange
            for recorded_exchange in connection_exchanges
            if recorded_exchange.response is not None
        ]
        for exchange, frame in zip(connection_exchanges, lanes[client, broker], strict=True):
            compare(exchange, Direction.REQUEST, frame, compared)
        for exchange, frame in zip(with_response, lanes[broker, client], strict=True):
            compare(exchange, Direction.RESPONSE, frame, compared)
    assert compared["envelopes"] == sum(
        1 + (exchange.response is not None) for exchange in recorded
    )
    assert compared["fields"] >= 10, "nearly nothing could be compared"


def compare(
    exchange: Exchange, direction: Direction, frame: DissectedFrame, compared: Counter[str]
) -> None:
    """Compare one frame; count the compared envelopes and fields."""
    name = codec.api_name(exchange.api_key)
    compare_envelope(exchange, direction, frame)
    compared["envelopes"] += 1
    is_list_of_versions = name == "ApiVersions" and direction is Direction.RESPONSE
    if frame.complaints and not is_list_of_versions:
        # Some complaints are consequences of others, so it is enough that one has a reason.
        description = f"{name} v{exchange.api_version} {direction.name}: {frame.complaints}"
        assert any(is_explained(complaint, name) for complaint in frame.complaints), description
        return
    if not is_known(exchange.api_key, exchange.api_version) and direction is Direction.REQUEST:
        return
    fields = fields_of(exchange, direction)
    if (name, exchange.api_version, direction) in DIFFERENCES:
        return
    for field in (fields.keys() | frame.fields.keys()) & COMPARED:
        assert fields.get(field, []) == frame.fields.get(field, []), (
            f"{name} v{exchange.api_version} {direction.name}: {field}"
        )
        compared["fields"] += 1


def compare_envelope(exchange: Exchange, direction: Direction, frame: DissectedFrame) -> None:
    """Compare API, version, correlation and client id."""
    assert frame.first_value("kafka.correlation_id") == str(exchange.correlation_id)
    if direction is Direction.RESPONSE:
        # A response has no API key; tshark knows it if it knows the request.
        assert frame.first_value("kafka.response_key") in {None, str(exchange.api_key)}
        return
    assert frame.first_value("kafka.api_key") == str(exchange.api_key)
    assert frame.first_value("kafka.api_version") == str(exchange.api_version)
    assert frame.first_value("kafka.client_id") == (
        NULL if exchange.client_id is None else exchange.client_id
    )


def is_explained(complaint: str, name: str) -> bool:
    """Whether a table has the reason for which tshark did not decode a message."""
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
    values: dict[str, list[str]] = defaultdict(list)
    collect(message, spec.fields, spec.structs, version, values)
    return values


def collect(
    message: Any,
    fields: Sequence[FieldSpec],
    structs: Mapping[str, StructSpec],
    version: int,
    values: dict[str, list[str]],
) -> None:
    """Put the values of a struct into `values`."""
    for field in fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.attribute)
        struct = structs.get(field.type)
        tshark_name = BY_ENTITY.get(field.entity or "") or BY_NAME.get(field.name)
        for item in (value or ()) if field.is_array else (value,):
            if struct is not None and item is not None:
                collect(item, struct.fields, structs, version, values)
            elif tshark_name is not None:
                values[tshark_name].append(NULL if item is None else str(item))


def test_each_difference_has_a_reason() -> None:
    reasons = [*(reason for _, _, reason in COMPLAINTS), *DIFFERENCES.values()]
    assert all("tshark" in reason for reason in reasons)
    assert {name for name, _, _ in DIFFERENCES} <= {codec.api_name(key) for key in codec.api_keys()}
