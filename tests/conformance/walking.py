"""Random walks of streams groups beside a real Kafka, as many as one likes.

Run by hand: `python -m tests.conformance.walking FIRST_SEED LAST_SEED`. The suite walks a few.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.compare import differences
from tests.conformance.scenarios.streams_walks import walk
from tests.conformance.world import Entry, World
from tests.oracle.real_kafka import RealKafka
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from tests.oracle.target import Target


def _walked(target: Target, seed: int) -> list[Entry]:
    world = World(target.port, "walk")
    try:
        walk(world, seed)
    finally:
        world.close()
    return world.transcript


def main(first: int, last: int) -> int:
    """Walk with each seed on both brokers, print what differs, and return how many walks do."""
    differing = 0
    with tempfile.TemporaryDirectory() as directory:
        kafka = RealKafka(Path(directory) / "kafka")
        ours = ServedKafkalite(Path(directory) / "kafkalite")
        kafka.start()
        ours.start()
        try:
            for seed in range(first, last + 1):
                found = differences(_walked(kafka, seed), _walked(ours, seed))
                differing += bool(found)
                for line in found:
                    sys.stdout.write(f"seed {seed}: {line}\n")
        finally:
            ours.kill()
            kafka.kill()
    sys.stdout.write(f"{last + 1 - first} walks, {differing} of them different\n")
    return differing


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
