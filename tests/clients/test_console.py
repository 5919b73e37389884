"""The console in a real browser: live pages, reasons, the login, and no script of a record."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.chromium import Tab

pytestmark = [pytest.mark.client, pytest.mark.endurance]

TOKEN: Final = "a-token-of-tests"  # noqa: S105 - of no server
CONFIG: Final = {"group.initial.rebalance.delay.ms": 0}
HOSTILE: Final = "<img src=x onerror='window.isAttacked=1'><script>window.isAttacked=1</script>"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(
        topics={"orders": 2},
        storage="memory",
        control=True,
        control_token=TOKEN,
        config=CONFIG,
        request_log=1_000,
    ) as running:
        yield running


@contextmanager
def new_consumer(broker: Broker, client_id: str) -> Iterator[Consumer]:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "shop",
        "client.id": client_id,
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 300,
        "session.timeout.ms": 6_000,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    with closing(consumer):
        yield consumer


def poll_until_assigned(*consumers: Consumer) -> None:
    for _ in range(400):
        for each in consumers:
            each.poll(0.05)
        if all(each.assignment() for each in consumers):
            return
    raise AssertionError([each.assignment() for each in consumers])


def open_console(tab: Tab, broker: Broker, path: str) -> None:
    tab.open(f"{broker.control_url}/console{path}")


def test_a_rebalance_and_a_refused_commit_are_seen_live(tab: Tab, broker: Broker) -> None:
    open_console(tab, broker, f"/?token={TOKEN}")
    with new_consumer(broker, "one") as first:
        poll_until_assigned(first)
        open_console(tab, broker, "/group?group=shop")
        tab.wait("document.getElementById('live-state').textContent === 'live'")
        tab.evaluate("window.isSamePage = true")
        with new_consumer(broker, "two") as second:
            poll_until_assigned(first, second)
            tab.wait_for_text("two@127.0.0.1")
            tab.wait("document.querySelectorAll('.timeline rect.member').length === 2")
            members = broker.group("shop").members
            broker.expel(next(each for each in members if each.client_id == "one").member_id)
            with pytest.raises(KafkaException):
                first.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
            tab.wait_for_text("refused: it is not a member of the group")
    assert tab.evaluate("window.isSamePage")
    tab.evaluate(
        "[...document.querySelectorAll('.history li')]"
        ".find((each) => each.textContent.includes('offset commit of'))"
        ".querySelector('a[href*=entry]').click()"
    )
    tab.wait_for_text("Requests that were served at this time")
    tab.evaluate("document.querySelector('.requests a[href*=number]').click()")
    tab.wait_for_text("committedOffset")
    assert "UNKNOWN_MEMBER_ID" in tab.text()
    assert tab.errors() == []


def test_a_browser_logs_in_with_the_token(tab: Tab, broker: Broker) -> None:
    open_console(tab, broker, "/groups")
    tab.wait_for_text("This control API needs a token")
    tab.evaluate("document.getElementById('token').value = 'wrong'; document.forms[0].submit()")
    tab.wait_for_text("The token is not that of this control API")
    tab.evaluate(f"document.getElementById('token').value = '{TOKEN}'; document.forms[0].submit()")
    tab.wait_for_text("There are no groups")
    assert tab.evaluate("location.pathname") == "/console/groups"
    assert tab.evaluate("document.cookie") == ""


def test_a_group_with_markup_in_its_names_is_text(tab: Tab, broker: Broker) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": HOSTILE,
        "client.id": HOSTILE,
    }
    consumer = Consumer(settings)
    offset = TopicPartition("orders", 0, 1, metadata=HOSTILE)
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()
    open_console(tab, broker, f"/groups?token={TOKEN}")
    tab.wait_for_text("onerror")
    tab.evaluate("document.querySelector('tbody a').click()")
    tab.wait_for_text("committed 1")
    open_console(tab, broker, "/requests?api=OffsetCommit")
    tab.wait_for_text("onerror")
    tab.evaluate("document.querySelector('.requests a[href*=number]').click()")
    tab.wait_for_text("committedMetadata")
    assert tab.evaluate("window.isAttacked") is None
    assert tab.errors() == []


def submit(tab: Tab, action: str, **texts: str) -> None:
    """Fill and send the form of an action."""
    form = f"document.querySelector('form[action=\"/console{action}\"]')"
    tab.evaluate("window.isOld = true")
    for name, text in texts.items():
        field = f"{form}.elements[{name.replace('__', '.')!r}]"
        tab.evaluate(f"{field}.type === 'checkbox' ? {field}.click() : {field}.value = {text!r}")
    tab.evaluate(f"{form}.querySelector('button').click()")
    tab.wait("!window.isOld && document.readyState === 'complete'")


def test_a_record_is_produced_and_found(tab: Tab, broker: Broker) -> None:
    open_console(tab, broker, f"/topics?token={TOKEN}")
    for path in ("/topic?topic=orders", "/produce?topic=orders"):
        open_console(tab, broker, path)
    value = f'{{"note": "{HOSTILE}", "number": 1.50}}'.replace("'", "`")
    submit(tab, "/topics/produce", key="first", value=value, headers="trace: 7")
    assert '"number": 1.50' in tab.text()
    record = next(iter(broker.records("orders")))
    assert (record.key, record.value) == (b"first", value.encode())
    tab.evaluate("document.querySelector('a[href*=produce]').click()")
    tab.wait("location.pathname === '/console/produce' && document.readyState === 'complete'")
    submit(tab, "/topics/produce", key="second")
    assert [each.key for each in broker.records("orders", partition=record.partition)] == [
        b"first", b"second",
    ]  # fmt: skip
    assert {each.headers for each in broker.records("orders")} == {(("trace", b"7"),)}
    open_console(tab, broker, f"/records?topic=orders&partition={record.partition}")
    tab.evaluate("document.getElementById('text').value = 'SECOND'; document.forms[0].submit()")
    tab.wait_for_text("2 records examined")
    assert tab.evaluate("document.querySelectorAll('.records tbody tr').length") == 1
    assert tab.evaluate("window.isAttacked") is None
    assert tab.errors() == []


def test_new_records_are_seen_live(tab: Tab, broker: Broker) -> None:
    for path in ("/topic?topic=orders", "/records?topic=orders&partition=1"):
        open_console(tab, broker, f"{path}&token={TOKEN}")
        tab.wait("document.getElementById('live-state').textContent === 'live'")
        tab.evaluate("window.isSamePage = true")
        cell = "tbody tr:last-child " + ("td:last-child" if "/topic" in path else "th")
        for _ in range(2):
            offset = broker.produce("orders", "live", partition=1)
            shown = offset + 1 if "/topic" in path else offset
            tab.wait(f"document.querySelector('#live {cell}').textContent === '{shown}'")
        assert tab.evaluate("window.isSamePage")
    assert "Offsets 0 to 4 of 0 to 4" in tab.text()
    assert tab.errors() == []


@pytest.mark.parametrize("path", ["/topic?topic=gone", "/records?topic=gone&partition=0"])
def test_a_page_says_that_its_topic_was_deleted(tab: Tab, broker: Broker, path: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("gone", 1)])["gone"].result(10)
    open_console(tab, broker, f"{path}&token={TOKEN}")
    tab.wait("document.getElementById('live-state').textContent === 'live'")
    admin.delete_topics(["gone"])["gone"].result(10)
    tab.wait_for_text("there is no topic 'gone'")


def test_a_record_of_a_client_leads_to_its_requests(tab: Tab, broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(2):
        producer.produce("orders", b"v", partition=1)
        producer.flush()
    with new_consumer(broker, "reader") as consumer:
        consumer.assign([TopicPartition("orders", 1, 1)])
        message = consumer.poll(10)
    assert message is not None
    open_console(tab, broker, f"/record?topic=orders&partition=1&offset=1&token={TOKEN}")
    tab.evaluate("document.querySelector('a[href*=traffic]').click()")
    tab.wait("location.pathname === '/console/traffic' && document.readyState === 'complete'")
    rows = (
        "[...document.querySelectorAll('.requests tbody tr')].map((row) => row.cells[2].innerText)"
    )
    assert [each.split()[0] for each in tab.evaluate(rows)] == ["Produce", "Fetch"]
    tab.evaluate("document.querySelector('.requests a[href*=number]').click()")
    tab.wait_for_text("orders-1, offset 1")
    assert tab.errors() == []


def test_a_fault_fires_and_a_cluster_is_forked(tab: Tab, broker: Broker) -> None:
    open_console(tab, broker, f"/faults?token={TOKEN}")
    tab.wait("document.getElementById('live-state').textContent === 'live'")
    submit(
        tab,
        "/faults/add",
        match__api="Metadata",
        match__client_id="victim",
        action__error="UNKNOWN_SERVER_ERROR",
        trigger__times="1",
    )
    tab.wait("document.getElementById('live-state').textContent === 'live'")
    tab.evaluate("window.isSamePage = true")
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "victim"})
    client.list_topics(timeout=10)
    tab.wait("document.querySelector('#live tbody tr td:nth-child(4)').textContent === '1'")
    assert tab.evaluate("window.isSamePage")
    open_console(tab, broker, "/controls")
    submit(tab, "/controls/fork")
    tab.wait_for_text("c1")
    (url,) = tab.evaluate("[...document.querySelectorAll('td a')].map((each) => each.href)")
    tab.open(f"{url}?token={TOKEN}")
    tab.wait_for_text("1 topic")
    assert tab.errors() == []
