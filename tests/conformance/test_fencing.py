"""`kafkalite fence-producers` has the same output and effect with a real Kafka and kafkalite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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

FENCED, NEW, LONG = "fenced-by-command", "new-by-command", "timeout-by-command"


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


def play(capsys: pytest.CaptureFixture[str], target: Target) -> list[object]:
    """Fence a zombie twice; return its error codes and the broker's descriptions."""
    results: list[object] = [fence(capsys, target, FENCED, NEW)]
    client = RawClient(target.port)
    try:
        client.call(FindCoordinatorRequest(key=FENCED, key_type=1), 3)
        begun = client.call(
            InitProducerIdRequest(transactional_id=FENCED, transaction_timeout_ms=60_000), 5
        )
        results.append(begun.producer_epoch)
        results.append(fence(capsys, target, FENCED))
        zombie = EndTxnRequest(
            transactional_id=FENCED,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            committed=True,
        )
        results += [client.call(zombie, version).error_code for version in (1, 4, 5)]
        results.append(fence(capsys, target, LONG, "--timeout", "16m"))
        pattern = ".*-by-command"
        listed = client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        results.append(
            sorted(
                (row.transactional_id, row.transaction_state) for row in listed.transaction_states
            )
        )
    finally:
        client.close()
    return results


def test_fence_producers_has_the_same_effect_on_both_brokers(
    real_kafka: Target, emulator: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    real, emulated = play(capsys, real_kafka), play(capsys, emulator)
    assert emulated == real
    assert real[0] == [
        f"{FENCED}: producer id N, epoch 0", f"{NEW}: producer id N, epoch 0", "0",
    ]  # fmt: skip
    assert real[2] == [f"{FENCED}: producer id N, epoch 2", "0"]
