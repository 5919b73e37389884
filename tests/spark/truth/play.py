"""All stories together in one capture, from several seeds, and what there is to find in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.spark.truth import (
    changed,
    fenced,
    forgotten,
    haunted,
    lingering,
    outdated,
    produced,
    rebalanced,
    streaming,
    transacted,
)
from tests.spark.truth.crew import Topics, Truth
from tests.spark.truth.stage import Said, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.retention.minutes": str(forgotten.RETENTION_MIN),
    **lingering.SETTINGS,
    **streaming.SETTINGS,
}


@dataclass(frozen=True, slots=True)
class Played:
    """What one seed made of the stories."""

    prefix: str
    fenced: Truth
    rebalanced: rebalanced.Rebalanced
    transacted: transacted.Transacted
    haunted: list[haunted.Haunting]
    produced: produced.Produced
    outdated: outdated.Outdated
    forgotten: forgotten.Forgotten


def play(directory: Path, seeds: Iterable[int]) -> tuple[list[Said], list[Played]]:
    """Play every story once a seed; return all that was said, and the truth."""
    said: list[Said] = []
    played: list[Played] = []
    lines = 0
    for seed in seeds:
        stage = Stage(directory / f"broker-{seed}", seed, SETTINGS, lines=lines)
        topics = Topics(stage)
        # Made first and in one order, so that all seeds know them by the same ids.
        for name, partitions in (
            ("orders", 8),
            ("payments", 4),
            (haunted.TOPIC, haunted.PARTITIONS),
            (produced.TOPIC, 2),
            (produced.CONFIG_TOPIC, 1),
            (outdated.TOPIC, outdated.PARTITIONS),
            (outdated.PLACES, 3),
            (forgotten.TOPIC, forgotten.PARTITIONS),
        ):
            topics.create(name, partitions)
        prefix = f"seed-{seed}"
        truth = fenced.commits(stage, topics, prefix)
        streaming.commits(stage, topics, prefix, truth)
        by_generation = rebalanced.commits(stage, prefix)
        changed.commits(stage, topics, prefix, truth, by_generation)
        played.append(
            Played(
                prefix=prefix,
                fenced=truth,
                rebalanced=by_generation,
                transacted=transacted.transactions(stage, topics, prefix, truth),
                outdated=outdated.metadata(stage, topics, prefix),
                forgotten=forgotten.offsets(stage, topics, prefix, by_generation),
                # Last, for what is open or silent at the end must not be long so.
                haunted=[
                    *lingering.ghosts(stage, prefix),
                    *haunted.ghosts(stage, topics, prefix),
                ],
                produced=produced.transactions(stage, topics, prefix),
            )
        )
        said += stage.said
        lines = stage.lines
        stage.close()
    return said, played
