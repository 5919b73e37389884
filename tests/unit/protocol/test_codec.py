"""Lookup of codecs by API key and version, and of records by type."""

import subprocess
import sys

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.headers import RequestHeader
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataKey
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol._generated.records.topic import TopicRecord
from kafkalite.protocol._generated.records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.versions import Versions

BROKER_KEYS = {
    *range(4), *range(8, 52), 55, 57, 60, 61, 64, 65, 66, 68, 69, 71, 72,
    *range(74, 82), *range(83, 95),
}  # fmt: skip


def test_every_served_api_has_a_codec() -> None:
    assert set(codec.api_keys()) == BROKER_KEYS
    assert len(BROKER_KEYS) == 79


def test_a_client_has_one_module_per_api_and_a_broker_one_per_version() -> None:
    modules = [
        {codec_of(8, version).__module__.rpartition(".")[2] for version in (2, 8)}
        for codec_of in (
            codec.request_builder,
            codec.response_parser,
            codec.request_parser,
            codec.response_builder,
        )
    ]
    client, broker = {"offset_commit"}, {"offset_commit_v2", "offset_commit_v8"}
    assert modules == [client, client, broker, broker]


def test_versions_and_names_of_apis_are_found_by_key() -> None:
    assert codec.api_versions(8) == Versions(0, 10)
    assert codec.api_versions(22) == Versions(0, 5)
    assert codec.api_versions(22, unstable=True) == Versions(0, 6)
    assert codec.api_name(8) == "OffsetCommit"


def test_header_versions_depend_on_the_api_version() -> None:
    assert [codec.is_flexible(8, version) for version in (7, 8)] == [False, True]
    assert [codec.response_header_version(8, version) for version in (7, 8)] == [0, 1]
    assert [codec.response_header_version(18, version) for version in (0, 3, 4)] == [0, 0, 0]
    assert not codec.is_flexible(17, 1)


def test_a_request_goes_from_client_to_broker_and_its_answer_back() -> None:
    for key in codec.api_keys():
        for version in codec.api_versions(key).within(codec.api_versions(key)):
            request, response = codec.request_class(key)(), codec.response_class(key)()
            for message, builder, parser in (
                (request, codec.request_builder, codec.request_parser),
                (response, codec.response_builder, codec.response_parser),
            ):
                out: codec.Out = []
                builder(key, version)(message, out)
                frame = b"".join(out)
                assert parser(key, version)(frame, 0, len(frame)) == (message, len(frame))


def test_message_classes_are_found_by_api_key() -> None:
    assert codec.request_class(8) is OffsetCommitRequest
    assert codec.response_class(8) is OffsetCommitResponse


@pytest.mark.parametrize(("key", "version"), [(8, 11), (68, 2), (4, 0), (1000, 0)])
def test_unknown_api_or_version_has_no_codec(key: int, version: int) -> None:
    for lookup in (codec.request_parser, codec.response_builder):
        with pytest.raises(KeyError):
            lookup(key, version)


def test_request_header_is_built_and_parsed() -> None:
    header = RequestHeader(
        request_api_key=3, request_api_version=12, correlation_id=7, client_id="c"
    )
    out: codec.Out = []
    codec.builder("request_header", 2)(header, out)
    frame = b"".join(out)
    assert frame == b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01c\x00"
    assert codec.parser("request_header", 2)(frame, 0, len(frame)) == (header, len(frame))


def test_a_record_begins_with_its_numbers() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    value = OffsetCommitValue(offset=3, metadata="m", commit_timestamp=9)
    key_bytes, value_bytes = codec.encode_key(key), codec.encode_value(value, 3)
    assert key_bytes == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01"
    assert value_bytes[:2] == b"\x00\x03"
    assert codec.decode_key(key_bytes) == key
    assert codec.decode_value(key.RECORD_TYPE, value_bytes) == value


def test_record_types_are_numbered_per_log() -> None:
    assert codec.decode_key(b"\x00\x02\x00\x01g") == GroupMetadataKey(group="g")
    key = TransactionLogKey(transactional_id="x")
    assert codec.decode_key(codec.encode_key(key), "transaction") == key
    value = TransactionLogValue(producer_id=5)
    assert codec.decode_value(0, codec.encode_value(value, 1), "transaction") == value


def test_unknown_record_type_returns_none() -> None:
    assert codec.decode_key(b"\x03\xe8rest") is None


def test_unknown_value_version_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="version 9"):
        codec.decode_value(1, b"\x00\x09")


def test_a_subscription_begins_with_its_version() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"])
    data = codec.encode_value(subscription, 1)
    assert data[:2] == b"\x00\x01"
    assert codec.decode_message(subscription.CODEC, data) == subscription


def test_metadata_records_are_framed() -> None:
    record = TopicRecord(name="t", topic_id=bytes(range(16)))
    data = codec.encode_metadata_record(record, 0)
    assert data[:3] == b"\x01\x02\x00"
    assert codec.decode_metadata_record(data) == record


@pytest.mark.parametrize(
    "data", [b"\x02\x02\x00", b"\x01\x7f\x00", b"\x01\x02\x09", b"\x01\x80\x01\x00"]
)
def test_unknown_metadata_records_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        codec.decode_metadata_record(data)


def test_codecs_load_no_construct_and_no_spec() -> None:
    code = (
        "import sys; from kafkalite.protocol import codec\n"
        "for key in codec.api_keys():\n"
        "    newest = codec.api_versions(key).highest\n"
        "    codec.request_parser(key, newest), codec.response_builder(key, newest)\n"
        "names = {'construct', 'kafkalite.protocol.spec', 'kafkalite.protocol.schema'}\n"
        "sys.exit(bool(names & set(sys.modules)))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
