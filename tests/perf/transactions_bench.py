"""Compares transactions of kafkalite with a real Kafka and with kfake in one run.

`python -m tests.perf.transactions_bench [--rounds N] [--peers kafka,kfake] [--check]` prints a
Markdown table; `--check` fails if a target of the README is missed. pytest runs only a small
version, in `test_transactions.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracle.requirements import MissingProgramError, UnavailableError
from tests.perf import transacting_client
from tests.perf.competitors import broker_factories, start
from tests.perf.report import KAFKALITE, PEERS, Measure, Results, table
from tests.perf.transactions import NEW, OLD, prepare, rate
from tests.perf.visibility import latency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.perf.competitors import Competitor
    from tests.perf.transactions import Protocol

_MEMORY = "/dev/shm"  # noqa: S108 - a new directory is created in it
_PRODUCERS = 8
_WARM_UP_COUNT = 300
_TRANSACTIONS = {"kafka": 500}
"""The number of transactions per producer, if it differs from `_TRANSACTION_COUNT`."""
_TRANSACTION_COUNT = 1_500
_LATENCY_SAMPLES = 1_000
_CLIENT_COUNTS = {"kafka": 40}
_CLIENT_COUNT = 400

_CLIENT = Measure(
    key="client", title="one librdkafka producer, one after the other", unit="transactions/s"
)


def measures_of(protocol: Protocol) -> tuple[Measure, ...]:
    """Return the measures of a protocol."""
    name = protocol.name
    return (
        Measure(key=f"{name}-rate", title=f"{name} protocol, on one core", unit="transactions/s"),
        Measure(
            key=f"{name}-cpu",
            title=f"{name} protocol, broker's time",
            unit="transactions per second of it",
        ),
        Measure(
            key=f"{name}-p50",
            title=f"{name} protocol, EndTxn to records read, half within",
            unit="ms",
            digits=2,
            less_is_better=True,
        ),
        Measure(
            key=f"{name}-p99",
            title=f"{name} protocol, EndTxn to records read, 99 % within",
            unit="ms",
            digits=2,
            less_is_better=True,
        ),
    )


MEASURES = (_CLIENT, *measures_of(NEW), *measures_of(OLD))


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    results = Results()
    names = [KAFKALITE, *filter(None, options.peers.split(","))]
    memory = _MEMORY if Path(_MEMORY).is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        available = broker_factories(Path(directory))
        for number in range(options.rounds):
            for name in [*names[number % len(names) :], *names[: number % len(names)]]:
                try:
                    measure(results, available[name])
                except (MissingProgramError, UnavailableError) as error:
                    sys.stderr.write(f"{name} is not measured: {error}\n")
    sys.stdout.write(f"{table(results, MEASURES)} Data directories in {memory or 'TMPDIR'}.\n")
    failures = list(missed_targets(results)) if options.check else []
    sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


def measure(results: Results, create_broker: Callable[[], Competitor]) -> None:
    """Measure everything once for one broker, each after a warm-up."""
    broker = create_broker()
    start(broker)
    count = _TRANSACTIONS.get(broker.name, _TRANSACTION_COUNT)
    try:
        prepare(broker.port)
        by_client = _CLIENT_COUNTS.get(broker.name, _CLIENT_COUNT)
        results.add(_CLIENT.key, broker.name, transacting_client.measure(broker.port, by_client))
        for protocol in (NEW, OLD):
            name = protocol.name
            for run, transactions in (("-warm", _WARM_UP_COUNT), ("", count)):
                measured_rate = rate(
                    broker.port,
                    broker.pid,
                    protocol,
                    producers=_PRODUCERS,
                    transactions=transactions,
                    run=run,
                )
            results.add(f"{name}-rate", broker.name, measured_rate.per_second)
            results.add(f"{name}-cpu", broker.name, measured_rate.per_cpu_second)
            latencies = latency(broker.port, protocol, transactions=_LATENCY_SAMPLES)
            results.add(f"{name}-p50", broker.name, latencies.p50_ms)
            results.add(f"{name}-p99", broker.name, latencies.p99_ms)
    finally:
        broker.kill()


def missed_targets(results: Results) -> Iterator[str]:
    """Describe each measure in which a real Kafka is better than kafkalite.

    There are no targets compared with kfake, which is compiled and stores nothing.
    """
    for measure in MEASURES:
        ratio = results.advantage(measure, "kafka")
        if ratio is not None and ratio < 1:
            yield f"{measure.title}: {ratio:.2f} of kafka"


if __name__ == "__main__":
    sys.exit(main())
