"""The table: all measures of all brokers, and the ratios of kafkalite to the others."""

from __future__ import annotations

import os
import platform
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KAFKALITE = "kafkalite"
PEERS = ("kafka", "kfake")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure: its title, its unit, and whether less is better."""

    key: str
    title: str
    unit: str
    digits: int = 0
    less_is_better: bool = False


MEASURES = (
    Measure(
        key="start",
        title="process start to first Metadata answer",
        unit="ms",
        less_is_better=True,
    ),
    Measure(key="idle", title="resident memory when idle", unit="MB", less_is_better=True),
    Measure(key="produce-100", title="produce, 100 B, acks=all", unit="records/s"),
    Measure(key="produce-1000", title="produce, 1 KB, acks=all", unit="MB/s"),
    Measure(key="consume-100", title="consume, 100 B", unit="records/s"),
    Measure(key="consume-1000", title="consume, 1 KB", unit="MB/s"),
    Measure(key="heartbeats", title="pipelined Heartbeats on one core", unit="/s"),
    Measure(key="commits", title="pipelined OffsetCommits on one core", unit="/s"),
    Measure(
        key="classic",
        title="JoinGroup to first record",
        unit="ms",
        less_is_better=True,
    ),
    Measure(
        key="consumer",
        title="ConsumerGroupHeartbeat to first record",
        unit="ms",
        less_is_better=True,
    ),
)


@dataclass(slots=True)
class Results:
    """All values, by measure and broker."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, key: str, broker: str, value: float) -> None:
        """Add one value."""
        self.values.setdefault(key, {}).setdefault(broker, []).append(value)

    def best(self, measure: Measure, broker: str) -> float | None:
        """Return the best value, or None if nothing was measured.

        Other load on a machine only makes brokers slower, and not equally, so the best of several
        rounds is the most comparable value.
        """
        values = self.values.get(measure.key, {}).get(broker)
        if not values:
            return None
        return min(values) if measure.less_is_better else max(values)

    def advantage(self, measure: Measure, peer: str) -> float | None:
        """Return how many times better kafkalite is than a peer."""
        kafkalite_value, peer_value = self.best(measure, KAFKALITE), self.best(measure, peer)
        if not kafkalite_value or not peer_value:
            return None
        return (
            peer_value / kafkalite_value if measure.less_is_better else kafkalite_value / peer_value
        )


def table(results: Results, measures: Sequence[Measure] = MEASURES) -> str:
    """Return the results as a Markdown table, followed by a line about the machine."""
    peers = [
        peer for peer in PEERS if any(peer in by_broker for by_broker in results.values.values())
    ]
    names = [KAFKALITE, *peers]
    lines = [
        "| | " + " | ".join([*names, *(f"better than {peer}" for peer in peers)]) + " |",
        "| --- |" + " ---: |" * (len(names) + len(peers)),
    ]
    for measure in measures:
        cells = [_number(results.best(measure, name), measure.digits) for name in names]
        ratios = [_ratio(results.advantage(measure, peer)) for peer in peers]
        lines.append(f"| {measure.title}, {measure.unit} | " + " | ".join([*cells, *ratios]) + " |")
    return "\n".join([*lines, "", machine()])


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}".replace(",", " ")


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}x" if value < 10 else f"{value:.0f}x"


def machine() -> str:
    """Describe the machine and the interpreters."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    cores = os.cpu_count()
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    build = ", ".join(
        [
            "PGO" if "--enable-optimizations" in options else "no PGO",
            "LTO" if "--with-lto" in options else "no LTO",
        ]
    )
    return (
        f"{model}, {cores} cores, {platform.system()} {platform.release()}; "
        f"CPython {platform.python_version()} ({build}); "
        f"{_first_line('java', '-version')}; {_first_line('go', 'version')}. "
        "Best of all rounds; the brokers took turns in one run."
    )


def _first_line(*command: str) -> str:
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return f"no {command[0]}"
    return (completed.stdout + completed.stderr).splitlines()[0].replace('"', "")
