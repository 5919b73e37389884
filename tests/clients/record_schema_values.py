"""Records values of Confluent's serializers, with the answers of a registry, for tests.

The serializers need libraries that the tests do not have. In an environment with them:

    pip install 'confluent-kafka[avro,json,protobuf,schemaregistry]'
    python -m tests.clients.record_schema_values
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from confluent_kafka import __version__
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

FILE: Final = Path(__file__).with_name("schema_values.json")

MONEY: Final = {
    "type": "record", "name": "Money", "namespace": "shop",
    "fields": [
        {"name": "amount", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "currency", "type": {
            "type": "enum", "name": "Currency", "symbols": ["EUR", "USD"]}},
    ],
}  # fmt: skip
ORDER: Final = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": "shop.Money"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
        {"name": "weight", "type": "double"},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}  # fmt: skip
AT: Final = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
VALUE: Final = {
    "id": str(UUID(int=7)),
    "price": {"amount": Decimal("-12.50"), "currency": "USD"},
    "at": AT,
    "day": date(2026, 3, 1),
    "tags": ["a", "ä"],
    "counts": {"x": -1, "y": 2**40},
    "note": "first",
    "raw": b"\x00\xff",
    "weight": 1.5,
    "next": None,
}


def main() -> None:
    client = SchemaRegistryClient.new_client({"url": "mock://recorded"})
    values = [*avro(client), *json_schema(client), *protobuf(client)]
    FILE.write_text(
        json.dumps({"confluent-kafka": __version__, "values": values}, indent=1, sort_keys=True)
        + "\n",
        encoding="utf-8",
    )


def entry(name: str, content: bytes, expected: object, answers: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "content": base64.b64encode(content).decode(),
        "expected": expected,
        "answers": answers,
    }


def avro(client: SchemaRegistryClient) -> list[dict[str, Any]]:
    money, order = json.dumps(MONEY), json.dumps(ORDER)
    client.register_schema("money", Schema(money, "AVRO"))
    reference = SchemaReference("shop.Money", "money", 1)
    serialize = AvroSerializer(client, Schema(order, "AVRO", [reference]))
    value = {**VALUE, "next": {**VALUE, "note": None}}
    content = serialize(value, SerializationContext("orders", MessageField.VALUE))
    shown = {
        **VALUE,
        "price": {"amount": "-12.50", "currency": "USD"},
        "at": "2026-03-01T12:00:00.250Z",
        "day": "2026-03-01",
        "raw": "\x00\xff",
    }
    expected = {**shown, "next": {**shown, "note": None}}
    number = int.from_bytes(content[1:5], "big")
    references = [{"name": "shop.Money", "subject": "money", "version": 1}]
    answers = {
        f"/schemas/ids/{number}": {"schema": order, "references": references},
        "/subjects/money/versions/1": {"subject": "money", "version": 1, "schema": money},
    }
    plain = AvroSerializer(client, '"string"')("key", SerializationContext("o", MessageField.KEY))
    number = int.from_bytes(plain[1:5], "big")
    return [
        entry("avro", content, expected, answers),
        entry("avro string", plain, "key", {f"/schemas/ids/{number}": {"schema": '"string"'}}),
    ]


def json_schema(client: SchemaRegistryClient) -> list[dict[str, Any]]:
    schema = json.dumps({"title": "Payment", "type": "object"})
    value = {"number": 1.5, "name": "ä"}
    content = JSONSerializer(schema, client)(
        value, SerializationContext("payments", MessageField.VALUE)
    )
    number = int.from_bytes(content[1:5], "big")
    answer = {"schema": schema, "schemaType": "JSON"}
    return [entry("json", content, value, {f"/schemas/ids/{number}": answer})]


def protobuf(client: SchemaRegistryClient) -> list[dict[str, Any]]:
    file, money = descriptor_pb2.FileDescriptorProto(), descriptor_pb2.FileDescriptorProto()
    types = descriptor_pb2.FieldDescriptorProto
    money.name, money.package, money.syntax = "shop/money.proto", "shop", "proto3"
    amount = money.message_type.add(name="Money")
    amount.field.add(name="units", number=1, type=types.TYPE_INT64, label=1)
    file.name, file.package, file.syntax = "shop/order.proto", "shop", "proto3"
    file.dependency.extend([money.name, "google/protobuf/timestamp.proto"])
    file.message_type.add(name="Unused")
    outer = file.message_type.add(name="Order")
    outer.nested_type.add(name="Unused")
    line = outer.nested_type.add(name="Line")
    line.field.add(name="item_name", number=1, type=types.TYPE_STRING, label=1)
    line.field.add(
        name="price", number=2, type=types.TYPE_MESSAGE, type_name=".shop.Money", label=1
    )
    line.field.add(name="counts", number=3, type=types.TYPE_INT32, label=3)
    line.field.add(
        name="at", number=4, type=types.TYPE_MESSAGE, label=1,
        type_name=".google.protobuf.Timestamp",
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    for each in (timestamp, money, file):
        pool.Add(each)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order.Line"))
    message = kind(item_name="ä")
    message.price.units = 2**40
    message.at.FromDatetime(AT)
    serialize = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    content = serialize(message, SerializationContext("lines", MessageField.VALUE))
    number = int.from_bytes(content[1:5], "big")
    path = f"/schemas/ids/{number}"
    references = client.get_schema(number).references or ()
    (subject,) = [
        f"{each.subject}" for each in references if not f"{each.name}".startswith("google/")
    ]
    answer = {
        "schemaType": "PROTOBUF",
        "references": [{"name": money.name, "subject": subject, "version": 1}],
    }
    used = base64.b64encode(money.SerializeToString()).decode()
    answers = {
        path: {**answer, "schema": 'syntax = "proto3"; // the text of the file'},
        f"{path}?format=serialized": {
            **answer, "schema": base64.b64encode(file.SerializeToString()).decode(),
        },
        f"/subjects/{quote(subject, safe='')}/versions/1?format=serialized": {
            "schemaType": "PROTOBUF", "schema": used,
        },
    }  # fmt: skip
    expected = {
        "item_name": "ä",
        "price": {"units": str(2**40)},
        "counts": [],
        "at": "2026-03-01T12:00:00.250Z",
    }
    return [entry("protobuf", content, expected, answers)]


if __name__ == "__main__":
    main()
