"""Earlier states in a test, and in the shell for a stopped broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.cli.main import main
from kafkalite.testing import Broker, StoppedBroker

if TYPE_CHECKING:
    from pathlib import Path


def commit(broker: Broker, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
    for offset in offsets:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def test_a_test_reads_earlier_states_and_finds_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(topics={"orders": 1}, clock="manual", data_directory=tmp_path) as broker:
        commit(broker, 7)
        before = broker.clock.now()
        broker.clock.advance("60s")
        commit(broker, 9, 3)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}
        )
        producer.init_transactions(10)
        for when in ("30s", before, 1):
            assert broker.at(when).committed("shop", "orders", 0) == 7
        assert broker.at("0s").group("shop").offsets[0].offset == 3
        assert broker.at("0s").transaction("t").state.label == "Empty"
        assert broker.at("0s").topic("orders").partitions[0].end_offset == 0
        assert repr(broker.at(1)) == "<the cluster at offset 1>"
        found = broker.bisect("committed(shop, orders, 0) < 5")
        assert (found.offset, *found.before.values(), *found.after.values()) == (2, 9, 3)
    stopped = StoppedBroker(tmp_path)
    assert stopped.at(2).committed("shop", "orders", 0) == 9
    assert stopped.bisect("transaction(t) == Empty").log.startswith("__transaction_state-")
    main(["bisect", "--data-dir", str(tmp_path), "--until", "committed(shop, orders, 0) < 5"])
    assert capsys.readouterr().out.splitlines() == list(found.lines())
    for condition, status, text in (
        ("committed(shop, orders, 0) > 50", 1, "no record made the condition true"),
        ("committed(shop, orders, 0) >", 2, "column 29 of the condition"),
    ):
        with pytest.raises(SystemExit) as exit_error:
            main(["bisect", "--data-dir", str(tmp_path), "--until", condition])
        assert exit_error.value.code == status
        assert text in capsys.readouterr().err


def test_a_directory_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no data directory: it has no __cluster_metadata-0"):
        StoppedBroker(tmp_path)


def test_a_running_broker_is_searched_by_http_and_from_the_shell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    condition = "committed(shop, orders, 0) < 5"
    with Broker(topics={"orders": 1}, control="127.0.0.1:0", storage="memory") as broker:
        commit(broker, 7, 3)
        found = broker.bisect(condition)
        query = urlencode({"until": condition, "last": "true"})
        url = f"{broker.control_url}/v1/bisect?{query}"
        with urlopen(url) as response:  # noqa: S310 - the broker of this test
            answer = json.load(response)
        assert (answer["offset"], answer["record"]) == (found.offset, found.record)
        control = ["--control", broker.control_url]
        main(["bisect", "--until", condition, *control])
        assert capsys.readouterr().out.splitlines() == list(found.lines())
        main(["bisect", "--until", condition, "--last", *control])
        assert capsys.readouterr().out.splitlines() == list(found.lines())
        with pytest.raises(SystemExit, match="1"):
            main(["bisect", "--until", "committed(shop, orders, 0) > 50", *control])
        assert "at the end, committed(shop, orders, 0) is 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (16, "is damaged: the batch after offset 0 is none of format 2"),
        (61, "is damaged: the batch at offset 0"),
    ],
)
def test_damaged_files_are_an_error(tmp_path: Path, position: int, text: str) -> None:
    config = {"offsets.topic.num.partitions": "1"}
    with Broker(topics={"orders": 1}, config=config, data_directory=tmp_path) as broker:
        commit(broker, 7, 3)
    path = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[position] ^= 0x41
    path.write_bytes(data)
    with pytest.raises(ValueError, match=text):
        StoppedBroker(tmp_path).bisect("committed(shop, orders, 0) < 5")
