"""Formatters of console consumers; `tests/kafka_tools` compares those of logs with Kafka's."""

from __future__ import annotations

import pytest

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.records import ConsumerRecord
from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.formatters import formatter_of

RECORD = ConsumerRecord(
    TopicPartition("orders", 1),
    offset=7,
    value=b"value",
    key=None,
    headers=(("a", b"1"), ("b", None)),
    timestamp_ms=5,
    leader_epoch=0,
    is_log_append_time=True,
)


def test_selected_parts_are_printed() -> None:
    names = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    shown = formatter_of(None, {f"print.{name}": "true" for name in names})
    assert shown(RECORD, 2) == (
        b"LogAppendTime:5\tPartition:1\tOffset:7\tDelivery:2\tEpoch:NOT_PRESENT\ta:1,b:null\tnull\t"
        b"value\n"
    )


def test_numbers_are_deserialized() -> None:
    name = "org.apache.kafka.common.serialization.LongDeserializer"
    shown = formatter_of(None, {"value.deserializer": name, "line.separator": ";"})
    assert shown(RECORD._replace(value=(5).to_bytes(8))) == b"5;"
    with pytest.raises(ToolError, match="deserializer is not 8"):
        shown(RECORD)


def test_other_formatters_have_names_of_any_release() -> None:
    assert formatter_of("kafka.tools.NoOpMessageFormatter", {})(RECORD) == b""
    logged = formatter_of("org.apache.kafka.tools.consumer.LoggingMessageFormatter", {})
    assert logged(RECORD) == b"value\nLogAppendTime:5, key:null, value:value\n"
    offsets = formatter_of(
        "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter", {}
    )
    assert offsets(RECORD) == b""
    assert offsets(RECORD._replace(key=b"\0\x63rest")) == b""


@pytest.mark.parametrize(
    ("name", "properties", "error"),
    [
        ("my.Formatter", {}, "--formatter my.Formatter is not supported here"),
        (None, {"print.what": "true"}, "--property print.what is not supported here"),
        (None, {"key.deserializer": "a.B"}, "a.B is not supported here"),
    ],
)
def test_unknown_names_are_refused(
    name: str | None, properties: dict[str, str], error: str
) -> None:
    with pytest.raises(ToolError, match=error):
        formatter_of(name, properties)
