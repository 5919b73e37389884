"""`kafkalite fence-producers` at a real Kafka and at kafkalite: the same lines, the same effect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.list_transactions import ListTransactionsRequest
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

FENCED, NEW, LONG = "fenced-by-command", "new-by-command", "timeout-by-command"


def fence(capsys: pytest.CaptureFixture[str], target: Target, *arguments: str) -> list[str]:
    """Return what is printed, without producer ids, and how the command ended."""
    status: object = 0
    where = f"127.0.0.1:{target.port}"
    try:
        main(["fence-producers", "--bootstrap-server", where, *arguments])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    return [*re.sub(r"producer id \d+", "producer id N", out + err).splitlines(), f"{status}"]


def play(capsys: pytest.CaptureFixture[str], target: Target) -> list[object]:
    """Fence a zombie, twice, and say what it hears and what the broker shows."""
    told: list[object] = [fence(capsys, target, FENCED, NEW)]
    client = RawClient(target.port)
    try:
        client.call(FindCoordinatorRequest(key=FENCED, key_type=1), 3)
        begun = client.call(
            InitProducerIdRequest(transactional_id=FENCED, transaction_timeout_ms=60_000), 5
        )
        told.append(begun.producer_epoch)
        told.append(fence(capsys, target, FENCED))
        zombie = EndTxnRequest(
            transactional_id=FENCED,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            committed=True,
        )
        told += [client.call(zombie, version).error_code for version in (1, 4, 5)]
        told.append(fence(capsys, target, LONG, "--timeout", "16m"))
        pattern = ".*-by-command"
        listed = client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        told.append(
            sorted(
                (each.transactional_id, each.transaction_state)
                for each in listed.transaction_states
            )
        )
    finally:
        client.close()
    return told


def test_the_command_does_the_same_at_both(
    real_kafka: Target, accused: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    real, ours = play(capsys, real_kafka), play(capsys, accused)
    assert ours == real
    assert real[0] == [
        f"{FENCED}: producer id N, epoch 0", f"{NEW}: producer id N, epoch 0", "0",
    ]  # fmt: skip
    assert real[2] == [f"{FENCED}: producer id N, epoch 2", "0"]
