"""The time of a broker under test, driven from the test's own thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.server.addresses import AddressError
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_stopped_clock_moves_when_it_is_advanced() -> None:
    with Broker(clock="manual@2026-03-01") as broker:
        clock = broker.clock
        assert clock.now() == MARCH
        assert clock.mode == "manual"
        assert clock.advance(hours=168) == MARCH + timedelta(days=7)
        assert clock.advance(timedelta(days=1), milliseconds=5) == clock.now()
        assert clock.now() == MARCH + timedelta(days=8, milliseconds=5)
        assert clock.advance("1d12h", hours=1) == MARCH + timedelta(
            days=9, hours=13, milliseconds=5
        )
        assert clock.set("2026-04-01") == clock.set(datetime(2026, 4, 1, tzinfo=UTC))
        assert clock.now_ms() == 1_775_001_600_000


def test_a_running_clock_is_advanced_and_continues() -> None:
    with Broker() as broker:
        clock = broker.clock
        assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=10)
        assert (clock.mode, clock.rate) == ("real", 1)
        then = clock.advance(weeks=1)
        assert clock.now() >= then
        clock.pause()
        assert clock.now() == clock.now()
        clock.accelerate(60)
        assert (clock.mode, clock.rate) == ("accelerated", 60)
        clock.resume()
        assert clock.mode == "real"
        assert clock.now() - datetime.now(UTC) > timedelta(days=6)


def test_an_auto_clock_moves_while_a_client_waits() -> None:
    with Broker(topics={"orders": 1}, clock="auto:100000") as broker:
        assert (broker.clock.mode, broker.clock.rate) == ("auto", 100_000)
        fault = broker.faults.add(api="OffsetCommit", delay_ms=60_000, times=1)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"}
        consumer = Consumer(settings)
        before = broker.clock.now()
        consumer.commit(offsets=[TopicPartition("orders", 0, 42)], asynchronous=False)
        assert broker.clock.now() - before >= timedelta(minutes=1)
        assert fault.firings == 1
        broker.clock.resume()
        assert broker.clock.mode == "real"
        broker.clock.auto()
        assert (broker.clock.mode, broker.clock.rate) == ("auto", 5)
        with pytest.raises(ValueError, match="a limit of 1 is too low"):
            broker.clock.auto(1)
        consumer.close()


def test_invalid_times_are_rejected() -> None:
    with Broker(clock="manual@2026-03-01") as broker:
        for refused in (
            broker.clock.advance,
            lambda: broker.clock.advance(seconds=-1),
            lambda: broker.clock.advance("7days"),
            lambda: broker.clock.set("2026-02-28"),
            lambda: broker.clock.set("soon"),
            lambda: broker.clock.accelerate(-1),
            lambda: broker.clock.advance(5),  # type: ignore[arg-type]
            lambda: broker.clock.advance(days=float("inf")),
            lambda: broker.clock.advance(days="a time"),  # type: ignore[arg-type]
            lambda: broker.clock.set(5),  # type: ignore[arg-type]
        ):
            with pytest.raises(ValueError, match=r"time|rate|duration"):
                refused()
        assert broker.clock.advance(seconds=0) == broker.clock.now() == MARCH
    with pytest.raises(RuntimeError, match="not running"):
        broker.clock.now()
    with pytest.raises(ValueError, match="not a mode"):
        Broker(clock="fast")
    with Broker() as broker, pytest.raises(RuntimeError, match="control"):
        _ = broker.control_url


async def test_an_async_test_controls_the_clock_too() -> None:
    async with Broker(clock="manual@2026-03-01") as broker:
        assert broker.clock.advance(days=1) == MARCH + timedelta(days=1)
        later = await asyncio.to_thread(broker.clock.advance, days=1)
        assert later == MARCH + timedelta(days=2)


def test_a_call_during_a_stop_raises() -> None:
    outcomes: list[object] = []
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        may_go.wait(10)

    def ask() -> None:
        try:
            outcomes.append(broker.clock.now())
        except RuntimeError as error:
            outcomes.append(error)

    broker = Broker()
    broker.start()
    loop = broker._loop
    assert loop is not None
    loop.call_soon_threadsafe(hold)
    assert is_held.wait(10)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads[0].start()
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    for thread in threads[1:]:
        thread.start()
    may_go.set()
    for thread in (*threads, stopping):
        thread.join(10)
        assert not thread.is_alive()
    assert len(outcomes) == len(threads)


def test_a_failed_start_leaves_nothing_running() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Broker(control=f"{taken.getsockname()[1]}")
        with pytest.raises(AddressError, match="in use"):
            broker.start()
    assert broker._thread is None


def test_the_time_continues_after_a_restart(tmp_path: Path) -> None:
    broker = Broker(data_directory=tmp_path, clock="manual@2026-03-01")
    with broker:
        broker.clock.advance(days=3)
    with broker:
        assert broker.clock.now() == MARCH + timedelta(days=3)
        assert broker.clock.mode == "manual"


@pytest.mark.parametrize(("protocol", "clock"), [("classic", "real"), ("consumer", "manual")])
def test_a_live_consumer_continues_after_a_jump(protocol: str, clock: str) -> None:
    """Its session has expired and connections may be closed, so it connects and joins again."""
    with Broker(topics={"orders": 3}, clock=clock) as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe(["orders"])
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number, jump in enumerate((timedelta(), timedelta(minutes=1), timedelta(days=3))):
            broker.clock.advance(jump)
            producer.produce("orders", f"{number}".encode())
            assert producer.flush(10) == 0
            # Uncommitted records may be read again after joining again.
            polled = (consumer.poll(1) for _ in range(20))
            assert any(each is not None and each.value() == b"%d" % number for each in polled)
            if not number:
                consumer.commit(asynchronous=False)  # or else the group is gone with its member
        consumer.close()
        assert "expired" in {entry.kind for entry in broker.explain("g")}


def committed(broker: Broker, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=10)
    finally:
        consumer.close()
    return int(found.offset)


def test_committed_offsets_expire_after_a_week_that_takes_no_time() -> None:
    with Broker(topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        consumer = Consumer(settings)
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        broker.clock.advance(days=6, hours=23)
        assert committed(broker, "g") == 7
        broker.clock.advance(hours=2)
        assert committed(broker, "g") < 0
        assert "expired" in {entry.kind for entry in broker.explain(group="g")}
        assert broker.explain("unknown") == []
