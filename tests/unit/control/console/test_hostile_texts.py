"""What clients control, in every page: it is text, it is short, and it changes no other text."""

from __future__ import annotations

import re
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import kafkalite.control.console
from kafkalite.control.commands.faults import AddFault
from kafkalite.control.commands.nodes import AddNode
from kafkalite.control.commands.records import Header, NewRecordFields, ProduceRecords
from kafkalite.control.commands.snapshots import CreateSnapshot
from kafkalite.control.console.page import url_of
from kafkalite.control.topic_records import produce
from kafkalite.coordinator.contract import SUBJECTS, Event
from kafkalite.gateway.fault_rules import Action, Match, Trigger
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.record_format import NewRecord
from tests.unit.control.console.served_console import NOW_MS, ServedConsole, served_console
from tests.unit.control.group_members import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MARKUP: Final = "</script></title></textarea><script>alert(1)</script><img src=x onerror=alert(1)>"
ATTRIBUTES: Final = '" onfocus=alert(1) autofocus x=\'" style="x'
DIRECTIONS: Final = "\u202egnp.exe\u2066\u200f"
CONTROLS: Final = "\x1b[31m\x07\x7f\x85\u2028\ufeff"
TEMPLATE: Final = "{{7*7}}javascript:alert(1)"
HOSTILE: Final = f"{MARKUP}{ATTRIBUTES}{DIRECTIONS}{CONTROLS}{TEMPLATE}"
SHORT: Final = f"<script>alert(1)</script>\" onfocus=alert(1) x='{DIRECTIONS}{CONTROLS}"
LONG: Final = f"{HOSTILE}{'x' * 30_000}"
MAX_PAGE: Final = 800_000
_SOURCE: Final = "".join(
    each.read_text(encoding="utf-8")
    for each in (Path(kafkalite.control.console.__file__).parent / "templates").glob("*.j2")
)
ELEMENTS: Final = frozenset(re.findall(r"<([a-z][a-z0-9]*)", _SOURCE))
ATTRIBUTE_NAMES: Final = frozenset(
    name.lower() for name in re.findall(r"[\s}]([a-z][a-zA-Z0-9-]*)=[\"']", _SOURCE)
) | {"autofocus", "checked", "defer", "hidden", "open", "required", "reversed", "selected"}
ADDRESSES: Final = ("href", "src", "action", "hx-get", "data-changes")


class Document(HTMLParser):
    """What a browser sees: its texts, and what the templates do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in ELEMENTS:
            self.problems.append(f"<{tag}>")
        self.problems += [f"{tag} {name}" for name in values if name not in ATTRIBUTE_NAMES]
        if tag == "script" and not (values.get("src") or "").startswith("/console/static/"):
            self.problems.append("a script")
        for name in ADDRESSES:
            address = values.get(name)
            if address and not address.startswith(("/console/", "#", "http://127.0.0.1:")):
                self.problems.append(f"{name} {address[:80]}")
        # Forms send these back, so they have the text as it is.
        self.texts += [value for name, value in attrs if value and name != "value"]

    def handle_data(self, data: str) -> None:
        if self.lasttag != "textarea":  # as the values of inputs
            self.texts.append(data)


def check(text: str) -> Document:
    """Check a page, and return it."""
    document = Document()
    document.feed(text)
    document.close()
    assert document.problems == []
    shown = {each for text in document.texts for each in text}
    assert {each for each in shown if not each.isprintable()} <= {*"\n\t"}
    assert "49javascript" not in text
    assert len(text) < MAX_PAGE
    return document


def test_the_check_finds_what_is_hostile() -> None:
    for text in (
        MARKUP,
        f"<a title=\"{ATTRIBUTES}'>",
        DIRECTIONS,
        CONTROLS,
        "<a href=javascript:1>",
    ):
        with pytest.raises(AssertionError):
            check(text)


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        yield found


def add_events(console: ServedConsole, name: str, text: str) -> None:
    facts = {"member_id": text, "client_id": text, "client_host": text, text: [text, {text: text}]}
    for kind in SUBJECTS:
        for word in ("joined", "refused", "fenced", "generation", text):
            event = Event(name, word, text, {**facts, "generation": 1, "members": [text]}, kind)
            console.broker.history.add(event, NOW_MS)


@pytest.mark.parametrize("text", [HOSTILE, LONG], ids=["short", "long"])
async def test_names_of_groups_and_members(console: ServedConsole, text: str) -> None:
    name = text[:4_000]
    await console.members.commit(name, 1, metadata=SHORT)
    await console.members.join_classic(f"{name[:100]}b", instance=name)
    add_events(console, name, text)
    number = console.broker.history.about(name)[0].number
    for path, fields in (
        ("/", {}),
        ("/groups", {}),
        ("/groups", {"q": name}),
        ("/group", {"group": name}),
        ("/group", {"group": name, "step": 1}),
        ("/group", {"group": f"{name[:100]}b"}),
        ("/entry", {"entry": number, "group": name}),
    ):
        assert "alert(1)" in "".join(check(await console.get(path, **fields)).texts)


async def test_transactional_ids(console: ServedConsole) -> None:
    await console.begin_transaction(HOSTILE)
    add_events(console, HOSTILE, HOSTILE)
    for path in ("/transactions", "/transaction", "/"):
        document = check(await console.get(path, id=HOSTILE, q=HOSTILE[:20]))
        assert "alert(1)" in "".join(document.texts)


@pytest.mark.parametrize("size", [1, 40_000])
async def test_requests_and_their_clients(console: ServedConsole, size: int) -> None:
    text = f"{HOSTILE}{'x' * (size % 30_000)}"
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=text, metadata=text.encode() * 10)
    join = JoinGroupRequest(
        group_id=text, member_id=text, protocol_type=text, protocols=[protocol] * 5
    )
    console.log(join, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), client_id=text)
    row = OffsetCommitRequest.OffsetCommitRequestPartition(committed_metadata=text)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=text, partitions=[row] * 5)
    console.log(
        OffsetCommitRequest(group_id=text, topics=[topic]),
        client_id=text,
        fault=SHORT,
        identity=text,
    )
    for number in (1, 2):
        document = check(await console.get("/request", number=number))
        assert "alert(1)" in "".join(document.texts)
    assert "alert(1)" in "".join(check(await console.get("/requests")).texts)
    selected: dict[str, Any] = dict.fromkeys(
        ("group", "topic", "client_id", "transactional_id"), HOSTILE
    )
    check(await console.get("/requests", **selected))
    refused = await console.get("/requests", 400, api=HOSTILE)
    assert "is not an API of Kafka" in "".join(check(refused).texts)


@pytest.mark.parametrize(
    "content",
    [
        HOSTILE.encode(),
        HOSTILE.encode("utf-16"),
        b"\xff\xfe" + HOSTILE.encode(),
        f'{{"{MARKUP}": "{DIRECTIONS}", "half": "\\ud800"}}'.encode(),
        HOSTILE.encode() * 2_000,
        b"[" * 600_000,
        bytes(600_000),
    ],
    ids=["text", "utf-16", "no utf-8", "json", "large text", "nested json", "zeros"],
)
async def test_records(console: ServedConsole, content: bytes) -> None:
    record = NewRecordFields(
        key_base64=b64encode(content[:100_000]).decode(),
        value_base64=b64encode(content).decode(),
        headers=tuple(
            Header(HOSTILE, value_base64=b64encode(content[:10_000]).decode()) for _ in range(20)
        ),
    )
    await ProduceRecords(TOPIC, (record,), 0).perform(console.broker)
    for path in ("/records", "/record", "/produce"):
        for wished in ("auto", "text", "json", "hex"):
            fields: dict[str, Any] = {"topic": TOPIC, "partition": 0, "offset": 0, "as": wished}
            check(await console.get(path, **fields))
    check(await console.get("/records", topic=TOPIC, text=HOSTILE, key=HOSTILE))
    check(await console.get("/records", 400, topic=TOPIC, at=HOSTILE))


async def test_headers_that_are_no_text(console: ServedConsole) -> None:
    headers = (("", None), ("x", b"\xed\xa0\x80"), (HOSTILE, b""), ("e\u0301" * 200, b"v"))
    await produce(console.broker, TOPIC, [NewRecord(b"k", b"v", NOW_MS, headers)], 0)
    for path in ("/records", "/record", "/produce"):
        check(await console.get(path, topic=TOPIC, partition=0, offset=0))


async def test_faults_snapshots_and_nodes(console: ServedConsole) -> None:
    match = Match(client_id=SHORT, group=SHORT, principal=f"User:{SHORT}", software=SHORT)
    await AddFault(match, Trigger(), Action(delay_ms=1)).perform(console.broker)
    await CreateSnapshot().perform(console.broker)
    await AddNode(config={"broker.rack": SHORT}).perform(console.broker)
    check(await console.get("/"))
    assert "alert(1)" in "".join(check(await console.get("/faults")).texts)
    check(await console.get("/controls"))


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/topics/create", {"name": HOSTILE}),
        ("/topics/create", {"name": "new", "config": f"{HOSTILE}=1"}),
        ("/topics/create", {"name": "new", "partitions": HOSTILE}),
        ("/topics/produce", {"topic": HOSTILE, "value": "v"}),
        ("/topics/produce", {"topic": TOPIC, "value": HOSTILE, "value_as": HOSTILE}),
        ("/topics/produce", {"topic": TOPIC, "value": HOSTILE, "value_as": "hex"}),
        ("/topics/produce", {"topic": TOPIC, "value": "v", "headers": HOSTILE.partition(":")[0]}),
        ("/faults/add", {"match.api": HOSTILE, "action.delay_ms": "1"}),
        ("/faults/remove", {"fault_id": HOSTILE}),
        ("/controls/advance", {"advance_ms": HOSTILE}),
        ("/controls/node-stop", {"node_id": HOSTILE}),
        ("/controls/fork", {"name": HOSTILE}),
        ("/controls/snapshot-load", {"path": HOSTILE}),
        ("/controls/capture", {"name": HOSTILE}),
        ("/controls/capture-stop", {"name": HOSTILE}),
    ],
)
async def test_refused_commands(console: ServedConsole, path: str, fields: dict[str, str]) -> None:
    answer = await console.post(path, **fields, back=HOSTILE)
    assert answer.status == 400
    check(answer.body)
    answer = await console.post(path, **fields, back=f"/console/{HOSTILE}", preview=1)
    check(answer.body)


async def test_a_file_that_does_not_exist(console: ServedConsole) -> None:
    check(await console.get("/controls/capture-download", 400, name=HOSTILE))
    check(await console.get("/controls/capture-download", 400))


async def test_commands_that_are_confirmed(console: ServedConsole) -> None:
    for path in (
        "/topics/delete",
        "/controls/restore",
        "/controls/reset",
        "/controls/cluster-stop",
        "/controls/capture-delete",
    ):
        fields = {
            "topic": HOSTILE,
            "snapshot_id": HOSTILE,
            "topics": HOSTILE,
            "cluster_id": HOSTILE,
            "name": HOSTILE,
        }
        check((await console.post(path, **fields, back=HOSTILE)).body)


@pytest.mark.parametrize(
    "path", ["/group", "/topic", "/transaction", "/records", f"/{HOSTILE[:60]}"]
)
async def test_pages_about_nothing(console: ServedConsole, path: str) -> None:
    fields = {"group": HOSTILE, "topic": HOSTILE, "id": HOSTILE}
    check(await console.get(url_of(path).removeprefix("/console"), 404, **fields))
