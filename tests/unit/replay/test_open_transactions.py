"""Which transactional ids have begun something."""

from __future__ import annotations

from kafkalite.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.replay.mapping import Mapping
from kafkalite.replay.open_transactions import OpenTransactions
from kafkalite.replay.outgoing import Outgoing
from kafkalite.replay.refusals import TURNED_AWAY
from tests.unit.replay.made import exchange

CONCURRENT = 51
INIT = exchange(InitProducerIdRequest(transactional_id="t"), None, 4)
PRODUCED = exchange(ProduceRequest(transactional_id="t", acks=-1), None, 9)
ENDED = exchange(EndTxnRequest(transactional_id="t"), None, 3)


def test_what_is_begun_is_open_until_it_is_ended() -> None:
    transactions = OpenTransactions()
    for begins in (
        PRODUCED,
        exchange(AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"), None, 3),
    ):
        transactions.sent(begins)
        assert transactions.is_open(INIT)
        transactions.sent(ENDED)
        assert not transactions.is_open(INIT)
    transactions.sent(exchange(ProduceRequest(acks=-1), None, 9))
    transactions.sent(exchange(HeartbeatRequest(), None, 4))
    assert not transactions.is_open(INIT)


def test_an_init_that_aborts_is_sent_and_one_that_only_waits_is_not() -> None:
    outgoing = Outgoing(Mapping(), 0)
    refused = exchange(
        InitProducerIdRequest(transactional_id="t"),
        InitProducerIdResponse(error_code=CONCURRENT),
        4,
    )
    assert outgoing.why_not(refused) == TURNED_AWAY
    assert outgoing.why_not(PRODUCED) is None
    assert outgoing.why_not(refused) is None
    assert outgoing.why_not(refused) == TURNED_AWAY
