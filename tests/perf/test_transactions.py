"""The measurements of transactions, made small: they run, and promises are judged by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf import transacting_client
from tests.perf.report import Results
from tests.perf.transactions import NEW, OLD, prepare, rate
from tests.perf.transactions_bench import MEASURES, broken_promises
from tests.perf.visibility import latency

if TYPE_CHECKING:
    from pathlib import Path

    from tests.perf.transactions import Protocol


@pytest.mark.parametrize("protocol", [OLD, NEW], ids=lambda protocol: protocol.name)
def test_transactions_of_either_protocol_are_carried_out_and_seen(
    protocol: Protocol, tmp_path: Path
) -> None:
    broker = ServedKafkalite(tmp_path)
    broker.start()
    try:
        prepare(broker.port)
        measured = rate(broker.port, broker.pid, protocol, producers=3, transactions=20)
        seen = latency(broker.port, protocol, transactions=20)
        by_client = transacting_client.measure(broker.port, 5)
    finally:
        broker.kill()
    assert measured.per_second > 0 < measured.per_cpu_second
    assert 0 < seen.p50_ms <= seen.p99_ms
    assert by_client > 0


def test_a_promise_that_is_not_kept_is_named() -> None:
    results = Results()
    for broker, value in (("kafkalite", 100.0), ("kafka", 99.0), ("kfake", 140.0)):
        for measure in MEASURES:
            results.add(measure.key, broker, 1 / value if measure.less_is_better else value)
    assert list(broken_promises(results)) == []
    results.add(MEASURES[0].key, "kafka", 160.0)
    (broken,) = broken_promises(results)
    assert broken.startswith("one librdkafka producer, one after the other: 0.62 of kafka")
