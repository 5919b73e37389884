"""Random walks of streams groups, compared with a real Kafka.

Run by hand: `python -m tests.conformance.compare_streams_walks WALK FIRST_SEED LAST_SEED`, where
WALK is `dynamic` or `static`, for static members. The suite runs a few seeds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import Entry, ScenarioCluster
from tests.conformance.scenarios import static_streams_walks, streams_walks
from tests.oracle.real_kafka import RealKafka
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracle.target import Target

_WALKS = {"dynamic": streams_walks.walk, "static": static_streams_walks.walk}


def _walk_transcript(
    walk: Callable[[ScenarioCluster, int], None], target: Target, seed: int
) -> list[Entry]:
    cluster = ScenarioCluster(target.port, "walk")
    try:
        walk(cluster, seed)
    finally:
        cluster.close()
    return cluster.transcript


def main(kind: str, first_seed: int, last_seed: int) -> int:
    """Walk with each seed on both brokers, print differences, and return how many walks differ."""
    walk, differing = _WALKS[kind], 0
    with tempfile.TemporaryDirectory() as directory:
        kafka = RealKafka(Path(directory) / "kafka")
        emulator = ServedKafkalite(Path(directory) / "kafkalite")
        kafka.start()
        emulator.start()
        try:
            for seed in range(first_seed, last_seed + 1):
                lines = differences(
                    *(_walk_transcript(walk, target, seed) for target in (kafka, emulator))
                )
                differing += bool(lines)
                for line in lines:
                    sys.stdout.write(f"seed {seed}: {line}\n")
        finally:
            emulator.kill()
            kafka.kill()
    sys.stdout.write(f"{last_seed + 1 - first_seed} walks, {differing} of them different\n")
    return differing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
