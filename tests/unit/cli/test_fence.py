"""`kafkalite fence-producers`: its effect, its output and its exit status."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from kafkalite.transactions.state import ProducerIdAndEpoch, TransactionState
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as running:
        yield running


def begin_transaction(broker: Broker, transactional_id: str) -> ProducerIdAndEpoch:
    """Begin a transaction, and return its producer."""
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        client.call(FindCoordinatorRequest(key=transactional_id, key_type=1), 3)
        begun = client.call(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000),
            5,
        )
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="orders", partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[topic],
        )
        (entries,) = client.call(request, 3).results_by_topic_v3_and_below
    assert entries.results_by_partition[0].partition_error_code == ErrorCode.NONE
    return ProducerIdAndEpoch(begun.producer_id, begun.producer_epoch)


def test_zombies_are_fenced_and_their_transactions_aborted(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    zombie = begin_transaction(broker, "shop")
    main(["fence-producers", "--bootstrap-server", broker.bootstrap_servers, "shop", "new id"])
    epoch = zombie.producer_epoch + 2  # one for the abort, one for the new producer
    assert capsys.readouterr().out.splitlines() == [
        f"shop: producer id {zombie.producer_id}, epoch {epoch}",
        f"new id: producer id {zombie.producer_id + 1}, epoch 0",
    ]
    fresh, shop = broker.transactions()
    assert (shop.transactional_id, shop.state, shop.producer_epoch) == (
        "shop", TransactionState.EMPTY, epoch,
    )  # fmt: skip
    assert (fresh.transactional_id, fresh.timeout_ms) == ("new id", 30_000)
    entries = broker.explain(transactional_id="shop")
    assert [each.kind for each in entries] == ["initialized", "fenced", "initialized"]
    assert entries[-1].facts["client_id"] == "kafkalite"


def test_failed_id_is_reported_and_other_ids_are_fenced(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["fence-producers", "--bootstrap-server", broker.bootstrap_servers, "a", "", "b\n"])
    assert left.value.code == 1
    out, err = capsys.readouterr()
    assert [line.partition(":")[0] for line in out.splitlines()] == ["a", "b\\n"]
    (line,) = err.splitlines()
    assert line.startswith("kafkalite: transactional id '': ")
    assert line.endswith("(INVALID_REQUEST)")


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        ([], 2, "required: ID"),
        (["t", "--timeout", "soon"], 2, "is not a duration"),
        (["t", "--timeout", "0s"], 2, "is not between 1ms and"),
        (["t", "--timeout", "99w"], 2, "is not between 1ms and"),
        (["t", "--bootstrap-server", "here"], 2, "'here' is not an address"),
        (["t", "--bootstrap-server", "here:0"], 2, "write HOST:PORT"),
        (["t", "--bootstrap-server", "127.0.0.1:1"], 1, "no broker answers at 127.0.0.1:1: "),
    ],
)
def test_error_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, reason: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["fence-producers", *arguments])
    assert left.value.code == status
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("kafkalite: ")
    assert reason in line


def test_several_bootstrap_addresses_are_accepted(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    main([
        "fence-producers", "t", "--timeout", "10s",
        "--bootstrap-server", f"127.0.0.1:1,{broker.bootstrap_servers}",
    ])  # fmt: skip
    assert capsys.readouterr().out == "t: producer id 0, epoch 0\n"


def test_each_id_is_fenced_at_its_coordinator(capsys: pytest.CaptureFixture[str]) -> None:
    ids = [f"id-{number}" for number in range(8)]
    with Broker(brokers=3) as broker:
        first = broker.bootstrap_servers.partition(",")[0]
        main(["fence-producers", "--bootstrap-server", first, *ids])
        assert len(capsys.readouterr().out.splitlines()) == len(ids)
        assert {each.transactional_id for each in broker.transactions()} == set(ids)
