"""Transactions of kafkalite beside a real Kafka and beside kfake, in one run.

`python -m tests.perf.transactions_bench [--rounds N] [--peers kafka,kfake] [--check]` prints a
Markdown table; `--check` fails when a promise of the README is not kept. Not part of pytest's run,
which has a short version of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracle.requirements import LackingError, UnavailableError
from tests.perf import transacting_client
from tests.perf.competitors import makers, start
from tests.perf.report import OURS, PEERS, Measure, Results, table
from tests.perf.transactions import NEW, OLD, prepare, rate
from tests.perf.visibility import latency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.perf.competitors import Competitor
    from tests.perf.transactions import Protocol

_MEMORY = "/dev/shm"  # noqa: S108 - a directory of our own is made in it
_PRODUCERS = 8
_WARM = 300
_TRANSACTIONS = {"kafka": 500}
"""Of each producer where it is not as many as of the others."""
_MANY = 1_500
_SEEN = 1_000
_BY_CLIENT = {"kafka": 40}
_MANY_BY_CLIENT = 400

_CLIENT = Measure(
    key="client", title="one librdkafka producer, one after the other", unit="transactions/s"
)


def measures_of(protocol: Protocol) -> tuple[Measure, ...]:
    """Return what is measured of a protocol."""
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
    """Measure, print, and judge when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    results = Results()
    chosen = [OURS, *filter(None, options.peers.split(","))]
    memory = _MEMORY if Path(_MEMORY).is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        available = makers(Path(directory))
        for number in range(options.rounds):
            for name in [*chosen[number % len(chosen) :], *chosen[: number % len(chosen)]]:
                try:
                    measure(results, available[name])
                except (LackingError, UnavailableError) as absent:
                    sys.stderr.write(f"{name} is not measured: {absent}\n")
    sys.stdout.write(f"{table(results, MEASURES)} Data directories in {memory or 'TMPDIR'}.\n")
    failures = list(broken_promises(results)) if options.check else []
    sys.stderr.writelines(f"not kept: {failure}\n" for failure in failures)
    return 1 if failures else 0


def measure(results: Results, make: Callable[[], Competitor]) -> None:
    """Measure one broker once in everything, each time after it got warm."""
    broker = make()
    start(broker)
    many = _TRANSACTIONS.get(broker.name, _MANY)
    try:
        prepare(broker.port)
        by_client = _BY_CLIENT.get(broker.name, _MANY_BY_CLIENT)
        results.add(_CLIENT.key, broker.name, transacting_client.measure(broker.port, by_client))
        for protocol in (NEW, OLD):
            name = protocol.name
            for run, transactions in (("-warm", _WARM), ("", many)):
                found = rate(
                    broker.port,
                    broker.pid,
                    protocol,
                    producers=_PRODUCERS,
                    transactions=transactions,
                    run=run,
                )
            results.add(f"{name}-rate", broker.name, found.per_second)
            results.add(f"{name}-cpu", broker.name, found.per_cpu_second)
            seen = latency(broker.port, protocol, transactions=_SEEN)
            results.add(f"{name}-p50", broker.name, seen.p50_ms)
            results.add(f"{name}-p99", broker.name, seen.p99_ms)
    finally:
        broker.kill()


def broken_promises(results: Results) -> Iterator[str]:
    """Name every measure in which a real Kafka is better than kafkalite.

    kfake is compiled and keeps nothing, and is beside them to show what that would bring.
    """
    for measure in MEASURES:
        ratio = results.advantage(measure, "kafka")
        if ratio is not None and ratio < 1:
            yield f"{measure.title}: {ratio:.2f} of kafka"


if __name__ == "__main__":
    sys.exit(main())
