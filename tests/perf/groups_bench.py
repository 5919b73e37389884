"""Groups under load: `python -m tests.perf.groups_bench [--check] [--peers kafka,kfake]`.

Everything is processor time of the broker on one core, so that other work on the machine hardly
counts; rates are per second of it. `--check` fails when a promise is not kept. Not part of
pytest's run, which has a short version of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.oracle.requirements import LackingError, UnavailableError
from tests.perf import (
    groups_big,
    groups_commits,
    groups_expiry,
    groups_idle,
    groups_replay,
    heartbeats,
)
from tests.perf.competitors import makers, start
from tests.perf.groups_records import KINDS
from tests.perf.report import OURS, machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.perf.pipeline import Rate

_SECONDS = 3.0
_MEMBERS, _PARTITIONS = 1_000, 10_000
_IDLE_KB = (3.0, 3.0, 4.0)
"""By kind; a member of a consumer group has three records, and a session of its own."""
_MEMORY = "/dev/shm"  # noqa: S108 - a directory of our own is made in it


class Row(NamedTuple):
    """One line of the table; `promise` is the least it must be, or else the most."""

    what: str
    value: float
    unit: str
    promise: float | None = None
    less_is_better: bool = False
    beside: str = ""
    """What the value stands beside: a floor, or the work it took."""

    def is_kept(self) -> bool:
        """Whether the value is as good as was promised."""
        if self.promise is None:
            return True
        return self.value <= self.promise if self.less_is_better else self.value >= self.promise


Rates = tuple[tuple[str, "Callable[[int, int, float], Rate]", float], ...]
RATES: Rates = (
    ("commits, classic member", groups_commits.classic_rate, 50_000),
    ("commits, consumer member", groups_commits.consumer_rate, 50_000),
    ("heartbeats, classic", heartbeats.rate, 400_000),
    (
        "heartbeats, consumer",
        partial(heartbeats.consumer_rate, topic=groups_commits.TOPIC),
        150_000,
    ),
)
"""What is pipelined in one connection, and how many a core must answer in a second."""


def main() -> int:
    """Measure, print, and judge when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--peers", default="", help="measure commits of these beside ours")
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    rows: list[Row] = []
    for row in measured(options.peers, options.groups, options.records):
        rows.append(row)
        sys.stdout.write(line(row))
        sys.stdout.flush()
    sys.stdout.write(f"{machine()}\n")
    broken = [row for row in rows if not row.is_kept()] if options.check else []
    sys.stderr.writelines(f"not kept: {line(row)}" for row in broken)
    return 1 if broken else 0


def measured(peers: str, groups: int, records: int) -> Iterator[Row]:
    """Yield every row as soon as it is there."""
    for name in [OURS, *filter(None, peers.split(","))]:
        try:
            yield from _rates(name)
        except (LackingError, UnavailableError) as absent:
            sys.stderr.write(f"{name} is not measured: {absent}\n")
    yield from _big_group()
    yield from _idle_groups(groups)
    yield from _expiry(groups)
    yield from _replay(records)


def _rates(name: str) -> Iterator[Row]:
    directory = _MEMORY if Path(_MEMORY).is_dir() else None
    with tempfile.TemporaryDirectory(dir=directory) as root:
        broker = makers(Path(root))[name]()
        start(broker)
        try:
            groups_commits.create_topic(broker.port)
            for what, measure, promise in RATES:
                rate = measure(broker.port, broker.pid, _SECONDS)
                yield Row(
                    what if name == OURS else f"{what}: {name}",
                    rate.per_cpu_second,
                    "/s",
                    promise if name == OURS else None,
                )
        finally:
            broker.kill()


def _big_group() -> Iterator[Row]:
    for assignor in ("uniform", "range"):
        what = f"{_MEMBERS} members, {_PARTITIONS} partitions, {assignor}"
        measured = groups_big.measure(assignor, members=_MEMBERS, partitions=_PARTITIONS)
        for when, settled in zip(("all join", "one leaves"), measured, strict=True):
            longest_ms = settled.longest_seconds * 1000
            beside = f"{settled.heartbeats} heartbeats, the longest {longest_ms:.0f} ms"
            yield Row(f"{what}: {when}", settled.cpu_seconds, "s", 3.0, True, beside)


def _idle_groups(groups: int) -> Iterator[Row]:
    for kind, promise in zip(KINDS, _IDLE_KB, strict=True):
        idle = groups_idle.measure(kind, groups)
        beside = f"restart with {groups} in {idle.restart_cpu_seconds:.2f} s"
        kilobytes = idle.bytes_per_group / 1024
        yield Row(f"an idle group: {kind}", kilobytes, "KB", promise, True, beside)


def _expiry(groups: int) -> Iterator[Row]:
    for what, swept in zip(
        ("finds nothing", "takes all"), groups_expiry.measure(groups), strict=True
    ):
        yield Row(
            f"longest step of an expiry that {what}",
            swept.longest_seconds * 1000,
            "ms",
            50.0,
            True,
            f"{swept.steps} steps of {swept.cpu_seconds:.2f} s for {groups} groups",
        )


def _replay(records: int) -> Iterator[Row]:
    for mix, promise in (("typical", 1_000_000.0), ("unique", None)):
        for per_batch in (1, 10):
            replayed = groups_replay.measure(mix, per_batch, records)
            beside = f"{replayed.floor_per_second:,.0f}/s with the batches' heads alone"
            yield Row(
                f"records replayed, {mix} keys, {per_batch} in a batch",
                replayed.per_second,
                "/s",
                promise,
                beside=beside,
            )


def line(row: Row) -> str:
    """Write a row as a line of the table."""
    digits = 0 if row.unit == "/s" else 2
    promise = "" if row.promise is None else f"{row.promise:,.{digits}f}"
    return f"{row.what:<60}{row.value:>12,.{digits}f} {row.unit:<4}{promise:>10}  {row.beside}\n"


if __name__ == "__main__":
    sys.exit(main())
