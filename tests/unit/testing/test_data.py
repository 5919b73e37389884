"""Topics, records and groups of a broker, from the test's own thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def test_topics_and_records() -> None:
    with Broker() as broker:
        created = broker.create_topic("orders", 2, {"retention.ms": "-1"})
        assert created == broker.topic("orders")
        assert broker.topics() == ["orders"]
        assert broker.produce("orders", "v", key="d", headers={"h": "x"}, timestamp=7) == 0
        assert broker.produce("orders", None, partition=1) == 1
        first, second = broker.records("orders")
        assert (first.partition, first.key, first.value, first.timestamp_ms) == (1, b"d", b"v", 7)
        assert first.headers == (("h", b"x"),)
        assert second.value is None
        assert broker.records("orders", 1, start=1) == [second]
        assert broker.records("orders", limit=1) == [first]
        broker.delete_topic("orders")
        assert broker.topics() == []
        with pytest.raises(ValueError, match="there is no topic 'orders'"):
            broker.records("orders")


def test_a_test_waits_for_records() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "skipped")
        writer = threading.Thread(target=lambda: broker.produce("orders", "expected"))
        writer.start()
        (found,) = broker.wait_for_records("orders", where=lambda each: each.value == b"expected")
        writer.join()
        assert found.offset == 1
        assert len(broker.wait_for_records("orders", 2)) == 2
        with pytest.raises(AssertionError, match=r"expected 3 records .* it has 2$"):
            broker.wait_for_records("orders", 3, timeout=0)
        with pytest.raises(AssertionError, match="it has 2, 0 of which `where` accepts"):
            broker.wait_for_records("orders", where=lambda each: each.offset > 5, timeout=0.01)


def test_groups_are_shown_and_expected() -> None:
    config = {"offsets.topic.num.partitions": 1}
    with Broker(topics={"orders": 1}, config=config) as broker:
        assert broker.groups() == []
        broker.produce("orders", "v")
        with pytest.raises(AssertionError, match="'shop' to exist within 0 s: there is no group"):
            broker.wait_for_group("shop", timeout=0)
        client = RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))
        client.call(FindCoordinatorRequest(coordinator_keys=["shop"]), 4)
        commit_as_simple_consumer(client, "shop", "orders", 0)
        group = broker.wait_for_group("shop", state="Empty", members=0)
        assert group == broker.group("shop")
        assert [repr(each) for each in broker.groups()] == [
            "<classic group 'shop' Empty, members: 0>"
        ]
        assert broker.committed("shop") == {("orders", 0): 0}
        assert broker.lag("shop") == {("orders", 0): 1}
        broker.delete_group("shop")
        assert broker.wait_for_group("shop", state="Dead").coordinator is None
        with pytest.raises(ValueError, match="there is no group 'shop'"):
            broker.lag("shop")
        with pytest.raises(ValueError, match="members must be a whole number from 0"):
            broker.wait_for_group("shop", members=-1)
        client.close()


def commit_as_simple_consumer(client: RawClient, group: str, topic: str, offset: int) -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=offset)
    rows = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    client.call(OffsetCommitRequest(group_id=group, topics=[rows]), 8)


def test_a_broker_is_reset() -> None:
    with Broker(topics={"orders": 2}) as broker:
        broker.create_topic("own")
        broker.produce("orders", "v")
        assert broker.reset(topics="o[wr]n").deleted_topics == ("own",)
        assert broker.reset().deleted_topics == ("orders",)
        assert broker.records("orders") == []
        assert len(broker.topic("orders").partitions) == 2


WRONG: Any = ["orders"]

WRONG_ARGUMENTS: Mapping[str, tuple[Callable[[Broker], object], str]] = {
    "name": (lambda broker: broker.create_topic(WRONG), "name must be text, not ['orders']"),
    "no name": (lambda broker: broker.create_topic(None), "a topic needs the field name"),  # type: ignore[arg-type]
    "partitions": (
        lambda broker: broker.create_topic("t", WRONG), "partitions must be a whole number from 1",
    ),
    "config": (
        lambda broker: broker.create_topic("t", config=WRONG), "config must be an object, not ['",
    ),
    "value of config": (
        lambda broker: broker.create_topic("t", config={"retention.ms": WRONG}),
        "retention.ms must be text, not ['orders']",
    ),
    "deleted topic": (lambda broker: broker.delete_topic(WRONG), "topic must be text, not ['"),
    "topic": (lambda broker: broker.topic(WRONG), "topic must be text, not ['orders']"),
    "produced topic": (lambda broker: broker.produce(WRONG, b"v"), "topic must be text, not ['"),
    "partition": (
        lambda broker: broker.produce("orders", b"v", partition=WRONG),
        "partition must be a whole number from 0 to 2147483647, not ['orders']",
    ),
    "timestamp": (
        lambda broker: broker.produce("orders", b"v", timestamp=WRONG),
        "timestamp_ms must be a whole number from 0 to ",
    ),
    "headers": (
        lambda broker: broker.produce("orders", b"v", headers=WRONG),
        "headers must be a mapping, or pairs of name and value, not ['orders']",
    ),
    "name of a header": (
        lambda broker: broker.produce("orders", b"v", headers={WRONG[0]: b"v", 5: b"v"}),  # type: ignore[dict-item]
        "the name of a header must be text, not 5",
    ),
    "start": (
        lambda broker: broker.records("orders", start=WRONG), "start must be a whole number from 0",
    ),
    "isolation": (
        lambda broker: broker.records("orders", isolation="committed"),  # type: ignore[arg-type]
        "isolation must be read_committed or read_uncommitted, not 'committed'",
    ),
    "count": (
        lambda broker: broker.wait_for_records("orders", WRONG), "count must be a whole number",
    ),
    "where": (
        lambda broker: broker.wait_for_records("orders", where=WRONG),
        "where must be a function of a record, not ['orders']",
    ),
    "timeout": (
        lambda broker: broker.wait_for_records("orders", timeout=WRONG),
        "timeout must be a number of seconds from 0 to 600, not ['orders']",
    ),
    "long timeout": (
        lambda broker: broker.wait_for_group("g", timeout=601),
        "timeout must be a number of seconds from 0 to 600, not 601",
    ),
    "group": (lambda broker: broker.group(WRONG), "group must be text, not ['orders']"),
    "lag": (lambda broker: broker.lag(WRONG), "group must be text, not ['orders']"),
    "deleted group": (lambda broker: broker.delete_group(WRONG), "group must be text, not ['"),
    "members": (
        lambda broker: broker.wait_for_group("g", members=WRONG), "members must be a whole number",
    ),
    "within": (
        lambda broker: broker.expect_commit("g", "orders", within=WRONG),
        "within must be a number of seconds from 0 to 600, not ['orders']",
    ),
    "pattern": (lambda broker: broker.reset(topics=WRONG), "topics must be text, not ['orders']"),
    "quota": (
        lambda broker: broker.set_quotas(user="a", producer_byte_rate=WRONG),
        "producer_byte_rate must be a number",
    ),
    "explained group": (lambda broker: broker.explain(WRONG), "group must be text, not ['orders']"),
    "since": (lambda broker: broker.explain(since=WRONG), "since must be text, not ['orders']"),
    "leader": (
        lambda broker: broker.move_leader("orders", 0, WRONG), "leader must be a whole number, not",
    ),
    "limit of a report": (
        lambda broker: broker.report(limit=WRONG), "limit must be a whole number from 1 to",
    ),
    "fields": (
        lambda broker: broker.requests.expect("Produce", fields=WRONG),
        "fields must be an object, not ['orders']",
    ),
    "timeout of a request": (
        lambda broker: broker.requests.wait("Produce", timeout=WRONG),
        "timeout must be a number of seconds from 0 to 600, not ['orders']",
    ),
}  # fmt: skip


def test_an_argument_of_a_wrong_type_is_an_error_in_one_sentence() -> None:
    errors = {}
    with Broker(topics={"orders": 1}) as broker:
        for name, (call, _) in WRONG_ARGUMENTS.items():
            with pytest.raises(ValueError) as raised:  # noqa: PT011 - compared below
                call(broker)
            errors[name] = str(raised.value)
    for name, (_, text) in WRONG_ARGUMENTS.items():
        assert text in errors[name]


def test_a_record_has_bytes_or_text() -> None:
    with Broker(topics={"orders": 1}) as broker:
        with pytest.raises(
            TypeError, match="the value of a record must be bytes, text or None, not"
        ):
            broker.produce("orders", {"id": 1})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"the key of a record .* not int"):
            broker.produce("orders", b"v", key=5)  # type: ignore[arg-type]
