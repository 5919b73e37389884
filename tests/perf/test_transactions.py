"""Small versions of the benchmarks of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf import transacting_client
from tests.perf.report import Results
from tests.perf.transactions import NEW, OLD, prepare, rate
from tests.perf.transactions_bench import MEASURES, missed_targets
from tests.perf.visibility import latency

if TYPE_CHECKING:
    from pathlib import Path

    from tests.perf.transactions import Protocol

pytestmark = pytest.mark.endurance


@pytest.mark.parametrize("protocol", [OLD, NEW], ids=lambda protocol: protocol.name)
def test_transactions_of_both_protocols_commit_and_become_visible(
    protocol: Protocol, tmp_path: Path
) -> None:
    broker = ServedKafkalite(tmp_path)
    broker.start()
    try:
        prepare(broker.port)
        measured = rate(broker.port, broker.pid, protocol, producers=3, transactions=20)
        latencies = latency(broker.port, protocol, transactions=20)
        by_client = transacting_client.measure(broker.port, 5)
    finally:
        broker.kill()
    assert measured.per_second > 0 < measured.per_cpu_second
    assert 0 < latencies.p50_ms <= latencies.p99_ms
    assert by_client > 0


def test_a_missed_target_is_reported() -> None:
    results = Results()
    for broker, value in (("kafkalite", 100.0), ("kafka", 99.0), ("kfake", 140.0)):
        for measure in MEASURES:
            results.add(measure.key, broker, 1 / value if measure.less_is_better else value)
    assert list(missed_targets(results)) == []
    results.add(MEASURES[0].key, "kafka", 160.0)
    (missed,) = missed_targets(results)
    assert missed.startswith("one librdkafka producer, one after the other: 0.62 of kafka")
