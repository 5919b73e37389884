"""`kafkalite fence-producers` has the same output and effect with a real Kafka and kafkalite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle


class Ids(NamedTuple):
    """Transactional ids that no earlier attempt used."""

    fenced: str
    new: str
    with_timeout: str
    pattern: str


def ids_of(attempt: int) -> Ids:
    names = ("fenced", "new", "timeout", ".*")
    return Ids(*(f"{name}-by-command-{attempt}" for name in names))


def fence(capsys: pytest.CaptureFixture[str], target: Target, *arguments: str) -> list[str]:
    """Return the printed text without producer ids, and the exit status of the command."""
    status: object = 0
    address = f"127.0.0.1:{target.port}"
    try:
        main(["fence-producers", "--bootstrap-server", address, *arguments])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    return [*re.sub(r"producer id \d+", "producer id N", out + err).splitlines(), f"{status}"]


def play(capsys: pytest.CaptureFixture[str], target: Target, ids: Ids) -> list[object]:
    """Fence a zombie twice; return its error codes and the broker's descriptions."""
    results: list[object] = [fence(capsys, target, ids.fenced, ids.new)]
    client = RawClient(target.port)
    try:
        client.call(FindCoordinatorRequest(key=ids.fenced, key_type=1), 3)
        begun = client.call(
            InitProducerIdRequest(transactional_id=ids.fenced, transaction_timeout_ms=60_000), 5
        )
        results.append(begun.producer_epoch)
        results.append(fence(capsys, target, ids.fenced))
        zombie = EndTxnRequest(
            transactional_id=ids.fenced,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            committed=True,
        )
        results += [client.call(zombie, version).error_code for version in (1, 4, 5)]
        results.append(fence(capsys, target, ids.with_timeout, "--timeout", "16m"))
        listed = client.call(ListTransactionsRequest(transactional_id_pattern=ids.pattern), 2)
        results.append(
            sorted(
                (row.transactional_id, row.transaction_state) for row in listed.transaction_states
            )
        )
    finally:
        client.close()
    return results


def test_fence_producers_has_the_same_effect_on_both_brokers(
    real_kafka: Target, emulator: Target, capsys: pytest.CaptureFixture[str], attempt: int
) -> None:
    ids = ids_of(attempt)
    real, emulated = play(capsys, real_kafka, ids), play(capsys, emulator, ids)
    assert emulated == real
    assert real[0] == [
        f"{ids.fenced}: producer id N, epoch 0", f"{ids.new}: producer id N, epoch 0", "0",
    ]  # fmt: skip
    assert real[2] == [f"{ids.fenced}: producer id N, epoch 2", "0"]
