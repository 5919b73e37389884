"""Runs all scenarios into one capture, from several seeds, and collects the expected results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.spark.truth import (
    classic_ghosts,
    classic_groups,
    commit_fencing,
    ghost_members,
    group_migration,
    offset_expiry,
    stale_metadata,
    streams_groups,
    transactional_commits,
    transactional_producers,
)
from tests.spark.truth.simulation import Exchange, Stage
from tests.spark.truth.tracked_group import Topics, Truth

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.retention.minutes": str(offset_expiry.RETENTION_MIN),
    **classic_ghosts.SETTINGS,
    **streams_groups.SETTINGS,
}


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected results of one seed."""

    prefix: str
    commit_fencing: Truth
    classic_groups: classic_groups.Rebalanced
    transactional_commits: transactional_commits.Transacted
    ghost_members: list[ghost_members.ExpectedGhost]
    transactional_producers: transactional_producers.Produced
    stale_metadata: stale_metadata.Outdated
    offset_expiry: offset_expiry.Forgotten


def run_scenarios(directory: Path, seeds: Iterable[int]) -> tuple[list[Exchange], list[Expected]]:
    """Run every scenario once per seed; returns all exchanges, and the expected results."""
    exchanges: list[Exchange] = []
    played: list[Expected] = []
    lines = 0
    for seed in seeds:
        stage = Stage(directory / f"broker-{seed}", seed, SETTINGS, lines=lines)
        topics = Topics(stage)
        # Created first and in one order, so that ids are the same for all seeds.
        for name, partitions in (
            ("orders", 8),
            ("payments", 4),
            (ghost_members.TOPIC, ghost_members.PARTITIONS),
            (transactional_producers.TOPIC, 2),
            (transactional_producers.CONFIG_TOPIC, 1),
            (stale_metadata.TOPIC, stale_metadata.PARTITIONS),
            (stale_metadata.PLACES, 3),
            (offset_expiry.TOPIC, offset_expiry.PARTITIONS),
        ):
            topics.create(name, partitions)
        prefix = f"seed-{seed}"
        truth = commit_fencing.commits(stage, topics, prefix)
        streams_groups.commits(stage, topics, prefix, truth)
        by_generation = classic_groups.commits(stage, prefix)
        group_migration.commits(stage, topics, prefix, truth, by_generation)
        played.append(
            Expected(
                prefix=prefix,
                commit_fencing=truth,
                classic_groups=by_generation,
                transactional_commits=transactional_commits.transactions(
                    stage, topics, prefix, truth
                ),
                stale_metadata=stale_metadata.metadata(stage, topics, prefix),
                offset_expiry=offset_expiry.offsets(stage, topics, prefix, by_generation),
                # Last, because their open transactions and silences must be short at the end.
                ghost_members=[
                    *classic_ghosts.ghosts(stage, prefix),
                    *ghost_members.ghosts(stage, topics, prefix),
                ],
                transactional_producers=transactional_producers.transactions(stage, topics, prefix),
            )
        )
        exchanges += stage.exchanges
        lines = stage.lines
        stage.close()
    return exchanges, played
