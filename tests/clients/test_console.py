"""The console in a real browser: live pages, reasons, the login, and no script of a record."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafkalite.testing import Broker
from tests.clients.chromium import Browser, Tab, chromium
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.client, pytest.mark.endurance]

TOKEN: Final = "a-token-of-tests"  # noqa: S105 - of no server
CONFIG: Final = {"group.initial.rebalance.delay.ms": 0}
HOSTILE: Final = "<img src=x onerror='window.isAttacked=1'><script>window.isAttacked=1</script>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with required():
        program("chromium")
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def tab(browser: Browser) -> Tab:
    return browser.new_tab()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(
        topics={"orders": 2}, control=True, control_token=TOKEN, config=CONFIG, request_log=1_000
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


def test_the_pages_work_on_a_phone(tab: Tab, broker: Broker) -> None:
    tab.show_as(390, 844, is_dark=True)
    open_console(tab, broker, f"/?token={TOKEN}")
    for path in ("/", "/groups", "/transactions", "/requests"):
        open_console(tab, broker, path)
        assert tab.evaluate("document.documentElement.scrollWidth") == 390, path
