"""The pages about topics and records."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from kafkalite.control.commands.records import Header, NewRecordFields, ProduceRecords, ReadRecords
from kafkalite.control.commands.topics import CreateTopic, ListTopics
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.internal_requests import answer_of
from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer
from tests.unit.control.asgi_client import ask_for_text
from tests.unit.control.console.schema_server import schema_server, serialized_values
from tests.unit.control.console.served_console import HOSTILE, ServedConsole, served_console
from tests.unit.control.group_members import TOPIC
from tests.unit.storage.logs import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


async def produce(console: ServedConsole, *records: NewRecordFields) -> None:
    await ProduceRecords(TOPIC, records, 0).perform(console.broker)


async def test_many_topics_are_paged(console: ServedConsole) -> None:
    topics = [NewTopic(f"t{number:05}", 1) for number in range(300)]
    console.members.cluster.metadata.create_topics(topics)
    text = await console.get("/topics")
    assert "100 of 301" in text
    assert text.count("<tr>") == 101
    assert "t00299" in await console.get("/topics", page=4)
    found = await console.get("/topics", q="T0001")
    assert "10 of 10" in found
    assert "__consumer_offsets" not in found
    assert "__consumer_offsets" in await console.get("/topics", internal=1)
    assert "No topic is selected" in await console.get("/topics", q="none")


async def test_a_topic_is_created_and_deleted(console: ServedConsole) -> None:
    fields = {"name": "new", "partitions": "3", "config": "retention.ms=5", "back": "/console/"}
    answer = await console.post("/topics/create", **fields, preview=1)
    assert answer.status == 200
    assert "POST /v1/topics" in answer.body
    assert "new" not in {each.name for each in (await console.source.ask(ListTopics())).topics}
    answer = await console.post("/topics/create", **fields)
    assert answer.headers["location"] == "/console/topic?topic=new"
    text = await console.get("/topic", topic="new")
    assert text.index("retention.ms") < text.index("cleanup.policy")
    assert "DELETE /v1" not in text
    answer = await console.post("/topics/delete", topic="new", back="/console/topics")
    assert "curl -X DELETE" in answer.body
    assert 'name="confirmed" value="yes"' in answer.body
    await console.get("/topic", topic="new")
    answer = await console.post(
        "/topics/delete", topic="new", back="/console/topics", confirmed="yes"
    )
    assert (answer.status, answer.headers["location"]) == (303, "/console/topics")
    assert "there is no topic" in await console.get("/topic", 404, topic="new")


async def test_a_refused_command_is_explained(console: ServedConsole) -> None:
    answer = await console.post("/topics/create", name=TOPIC, back="/console/topics")
    assert answer.status == 400
    assert "TOPIC_ALREADY_EXISTS" in answer.body
    assert 'href="/console/topics"' in answer.body
    answer = await console.post("/topics/create", name=TOPIC, partitions="x")
    assert "partitions must be a whole number" in answer.body


async def test_partitions_of_a_topic_are_shown_and_paged(console: ServedConsole) -> None:
    await CreateTopic("wide", 250).perform(console.broker)
    await produce(console, NewRecordFields("v"))
    text = await console.get("/topic", topic=TOPIC)
    assert "/console/records?topic=orders&amp;partition=1" in text
    assert "data-changes" in text
    assert "201\u2013250 of 250" in await console.get("/topic", topic="wide", page=3)


async def test_records_are_browsed_by_offset(console: ServedConsole) -> None:
    await produce(console, *(NewRecordFields(f"v{number}") for number in range(120)))
    text = await console.get("/records", topic=TOPIC)
    assert "Offsets 70 to 120 of 0 to 120" in text
    assert "offset=20" in links(text)["earlier"]
    text = await console.get("/records", topic=TOPIC, offset=20)
    assert ">v69<" in text
    assert ">v70<" not in text
    assert "offset=70" in links(text)["later"]
    assert "--isolation" not in text
    assert "GET /v1/topics/orders/records?partition=0&amp;start=20" in text


async def test_a_search_says_how_far_it_looked(console: ServedConsole) -> None:
    await produce(console, *(NewRecordFields(f"v{number}", key="k") for number in range(120)))
    text = await console.get("/records", topic=TOPIC, key="k")
    assert "50 records examined. The search has not reached the end" in text
    text = await console.get(f"/records{links(text)['continue']}")
    assert "Offsets 50 to 100" in text
    text = await console.get("/records", topic=TOPIC, text="V119")
    assert "120 records examined" in text
    assert "not reached" not in text
    assert "No record is selected" in await console.get("/records", topic=TOPIC, text="none")
    assert ">v0<" in await console.get("/records", topic=TOPIC, at="5m")


def links(text: str) -> dict[str, str]:
    """Return the queries of the links of a page by their texts."""
    found = re.findall(r'<a (?:rel="\w+" )?href="([^"]*)">(\w+)</a>', text)
    return {name: f"?{urlsplit(html.unescape(address)).query}" for address, name in found}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"offset": "x"}, "offset must be a whole number"),
        ({"partition": "9"}, "has the partitions 0 to 1, but not 9"),
        ({"at": "soon"}, "is no point in time"),
        ({"at": "42"}, "at must be a time"),
        ({"as": "xml"}, "as must be auto, text, json, hex"),
        ({"topic": ""}, "topic must be the name of a topic"),
    ],
)
async def test_a_wrong_field_is_named(
    console: ServedConsole, fields: dict[str, str], message: str
) -> None:
    assert message in html.unescape(
        await console.get(f"/records?{urlencode({'topic': TOPIC, **fields})}", 400)
    )


async def test_a_record_is_shown_in_each_format(console: ServedConsole) -> None:
    await produce(console, NewRecordFields('{"a":[1]}', key_base64="AP8=", headers=(Header("h"),)))
    text = await console.get("/record", topic=TOPIC, partition=0, offset=0)
    assert "9 bytes as json" in text
    assert "00 ff" in text
    assert html.escape('"a": [\n', quote=False) in text.replace("&#34;", '"')
    text = await console.get("/record?as=hex&topic=orders&offset=0")
    assert "7b 22 61" in text
    missing = await console.get("/record", 404, topic=TOPIC, partition=0, offset=1)
    assert "has no record at offset 1" in missing


async def test_a_huge_record_is_shown_in_part(console: ServedConsole) -> None:
    await produce(console, NewRecordFields("x" * 900_000))
    text = await console.get("/records", topic=TOPIC)
    assert "878.9 KiB" in text
    assert len(text) < 20_000
    text = await console.get("/record", topic=TOPIC, offset=0)
    assert "878.9 KiB as text, the first 64.0 KiB are shown" in text
    assert len(text) < 100_000
    text = await console.get("/produce", topic=TOPIC, offset=0)
    assert "The record has 900,000 bytes" in text


async def test_a_record_is_produced_again(console: ServedConsole) -> None:
    headers = (Header("a", "1"), Header("b", value_base64="/w=="))
    await produce(console, NewRecordFields(f"\n{HOSTILE}", key_base64="AP8=", headers=headers))
    text = await console.get("/produce", topic=TOPIC, partition=0, offset=0)
    assert "<script>alert" not in text
    fields = form_of(text)
    answer = await console.post("/topics/produce", **fields)
    assert answer.headers["location"] == "/console/record?topic=orders&partition=0&offset=1"
    first, second = (await console.source.ask(ReadRecords(TOPIC))).records
    for name in ("key_base64", "value", "value_base64", "headers"):
        assert getattr(first, name) == getattr(second, name)


def form_of(text: str) -> dict[str, str]:
    """Return the fields of the last form of a page, as a browser sends them."""
    form = text[text.rindex("<form") :]
    areas = re.findall(r'<textarea id="\w+" name="(\w+)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL)
    selects = re.findall(r'<select id="\w+" name="(\w+)">.*?<option selected>(\w+)<', form)
    inputs = re.findall(r'<input[^>]* name="(\w+)" value="([^"]*)"', form)
    given = dict([*inputs, *areas, *selects])
    return {
        name: html.unescape(each).replace("\n", "\r\n")
        if name in dict(areas)
        else html.unescape(each)
        for name, each in given.items()
    }


async def test_the_command_of_a_form_is_shown(console: ServedConsole) -> None:
    answer = await console.post(
        "/topics/produce", topic=TOPIC, value="v", preview=1, back="/console/x"
    )
    assert "POST /v1/topics/orders/records" in answer.body
    assert 'name="preview"' not in answer.body
    assert not (await console.source.ask(ReadRecords(TOPIC))).records


async def test_a_form_of_another_site_is_refused(console: ServedConsole) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "origin": "http://evil.test"}
    for path in ("delete", "create", "produce"):
        answer = await ask_for_text(
            console.app,
            f"/console/topics/{path}",
            method="POST",
            body=b"topic=orders&name=x&value=v&confirmed=yes",
            headers=headers,
        )
        assert answer.status == 403
        answer = await ask_for_text(console.app, f"/console/topics/{path}?topic=orders")
        assert answer.status == 405


@pytest.mark.parametrize("name", ["text", "json", "hex", "auto"])
async def test_nothing_of_a_record_is_markup(console: ServedConsole, name: str) -> None:
    header = Header(HOSTILE, HOSTILE)
    for value in (HOSTILE.strip("\x00"), f'{{"a": "{HOSTILE[:25]}"}}', "</code></pre><b>"):
        await produce(console, NewRecordFields(value, key=HOSTILE, headers=(header,)))
    fields = {"topic": TOPIC, "offset": 0, "as": name, "key": HOSTILE}
    for path in ("/records", "/record"):
        text = await console.get(f"{path}?{urlencode(fields)}")
        assert "<script>alert" not in text
        assert "<b>" not in text
        shown = re.sub(r'value="[^"]*"', "", text)
        assert "\u202e" not in shown
        assert "\x00" not in shown
    text = await console.get("/produce", topic=TOPIC, offset=1)
    assert "<script>alert" not in text
    for path in ("/topic", "/records", "/record", "/produce"):
        text = await console.get(path, 404, topic=HOSTILE)
        assert "<script>alert" not in text
    assert "<script>alert" not in await console.get("/topics", q=HOSTILE)


async def test_values_are_shown_by_the_schemas_of_a_registry() -> None:
    values = serialized_values()
    answers = {path: each for value in values.values() for path, each in value.answers.items()}
    with schema_server(answers) as server:
        async with served_console(schema_registry_url=server.url) as console:
            key = b64encode(values["avro string"].content).decode()
            for value in values.values():
                content = b64encode(value.content).decode()
                await produce(console, NewRecordFields(key_base64=key, value_base64=content))
            await produce(console, NewRecordFields(value_base64="AAAAAAl4"))
            text = html.unescape(await console.get("/records", topic=TOPIC))
            for shown in (
                '"price": {"amount": "-12.50"',
                '"units": "1099511627776"',
                '"number":1.5',
            ):
                assert shown in text
            assert "has no schema 9" in text
            text = html.unescape(await console.get("/record", topic=TOPIC, offset=0))
            assert f"Avro, schema {values['avro'].schema_id}" in text
            assert '  "price": {\n    "amount": "-12.50"' in text
            plain = await console.get("/record?as=hex&topic=orders&offset=0")
            assert "00 00 00 00" in plain
            assert "Avro, schema" not in plain


async def test_nothing_of_a_schema_is_markup() -> None:
    fields = [{"name": HOSTILE, "type": "string"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    answers = {
        "/schemas/ids/7": {"schema": json.dumps(schema)},
        "/schemas/ids/8": {"schema": "", "schemaType": HOSTILE},
    }
    with schema_server(answers) as server:
        async with served_console(schema_registry_url=server.url) as console:
            for start in (b"\x00\x00\x00\x00\x07", b"\x00\x00\x00\x00\x08"):
                value = start + bytes([2 * len(HOSTILE.encode())]) + HOSTILE.encode()
                await produce(console, NewRecordFields(value_base64=b64encode(value).decode()))
            for path in ("/records?topic=orders", "/record?topic=orders&offset=0",
                         "/record?topic=orders&offset=1"):  # fmt: skip
                text = await console.get(path)
                assert "alert(1)" in text
                assert "<script>alert" not in text
                assert "\u202e" not in text
                assert "\x00" not in text


def stream_of(text: str) -> dict[str, str]:
    """Return the query of the stream of changes of a page; empty without one."""
    found = re.search(r'data-changes="([^"]*)"', text)
    return {} if found is None else dict(parse_qsl(urlsplit(html.unescape(found[1])).query))


async def test_pages_with_the_latest_records_are_live(console: ServedConsole) -> None:
    await produce(console, *(NewRecordFields(f"v{number}") for number in range(60)))
    of_topic = {"topic": TOPIC, "first": "0", "last": "1"}
    of_partition = {**of_topic, "last": "0"}
    assert stream_of(await console.get("/topic", topic=TOPIC)).items() >= of_topic.items()
    for fields in ({}, {"offset": 20}, {"text": "v5"}):
        stream = stream_of(await console.get("/records", topic=TOPIC, **fields))
        assert stream == {"page": "/records", **of_partition}
    assert stream_of(await console.get("/records", topic=TOPIC, offset=0)) == {}
    assert stream_of(await console.get("/record", topic=TOPIC, offset=0)) == {}


async def test_a_record_of_a_transaction_leads_to_its_id(console: ServedConsole) -> None:
    await console.begin_transaction("pay")
    (status,) = (await console.source.ask(ListTransactions())).transactions
    producer = BatchProducer(status.producer_id, status.producer_epoch, 0)
    records = batch(b"v", attributes=TRANSACTIONAL, producer=producer).data
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(records))
    topic = ProduceRequest.TopicProduceData(
        topic_id=console.members.topic_id(), partition_data=[data]
    )
    request = ProduceRequest(transactional_id="pay", acks=-1, timeout_ms=1_000, topic_data=[topic])
    await answer_of(console.broker, request)
    text = await console.get("/record", topic=TOPIC, offset=0)
    assert 'href="/console/transaction?id=pay"' in text
    assert stream_of(text)["topic"] == TOPIC  # until the transaction has ended


async def test_links_of_a_page_have_its_query(console: ServedConsole) -> None:
    await produce(console, *(NewRecordFields(f"v{number}") for number in range(60)))
    text = await console.get("/records?topic=orders&as=hex")
    fields = dict(parse_qsl(links(text)["earlier"].removeprefix("?")))
    assert fields == {"topic": TOPIC, "partition": "0", "as": "hex", "offset": "0"}
