"""Shards find the same as one check of the whole history."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.collecting import Collector, Observation
from kafkalite.lab.checker.message_rows import row_of
from kafkalite.lab.checker.pieces import (
    Piece,
    PlacedPiece,
    Target,
    check_shard,
    headers_in,
    pieces_of,
    without_records,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord
from tests.unit.lab.checker.planted import PLANTED
from tests.unit.lab.checker.regular_traffic import run_regular_traffic
from tests.unit.lab.checker.simulation import SimulatedCluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.lab.checker.findings import Finding

HISTORIES = 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 30
SHARDS = 2


class RecordingCollector(Collector):
    """Also has the observations."""

    def __init__(self) -> None:
        super().__init__()
        self.observations: list[Observation] = []

    def add(self, observation: Observation) -> None:
        self.observations.append(observation)
        super().add(observation)


def placed(observation: Observation) -> list[tuple[Piece, PlacedPiece]]:
    rows = [
        None if each is None else row_of(each)
        for each in (observation.request, observation.response)
    ]
    without_records(rows)
    return [
        (piece, PlacedPiece(observation.api_key, *piece[3:], observation.event))
        for piece in pieces_of(observation.api_key, *rows)
    ]


def shards_of(observations: Iterable[Observation]) -> dict[tuple[Target, int], list[PlacedPiece]]:
    shards: dict[tuple[Target, int], list[PlacedPiece]] = defaultdict(list)
    for observation in observations:
        for piece, in_shard in placed(observation):
            targets = (
                [piece.target]
                if piece.target is not Target.ALL
                else [Target.PARTITION]
                if observation.api_key == int(ApiKey.END_TXN)
                else [Target.PARTITION, Target.PRODUCER]
            )
            numbers = range(SHARDS) if piece.target is Target.ALL else [piece.number % SHARDS]
            for target in targets:
                for number in numbers:
                    shards[target, number].append(in_shard)
    return shards


def texts(findings: Iterable[Finding]) -> list[str]:
    return sorted(map(repr, findings))


@pytest.mark.timeout(7_200)  # in the long profile
def test_shards_find_the_same_as_a_check_of_the_whole_history() -> None:
    for seed in range(HISTORIES):
        random, cluster = Random(seed), SimulatedCluster()  # noqa: S311 - repeatable
        collector = cluster.collector = RecordingCollector()
        plant = PLANTED[seed % len(PLANTED)]
        run_regular_traffic(cluster, random, steps=4)
        plant(cluster, random)
        result = check(cluster.history())
        shards = {
            key: check_shard(pieces, key[0], is_first=key == (Target.PARTITION, 0))
            for key, pieces in shards_of(collector.observations).items()
        }
        found = [finding for shard in shards.values() for finding in shard.findings]
        assert texts(found) == texts(result.findings), f"seed {seed}"
        undecided: Counter[str] = Counter()
        for (target, _), shard in shards.items():
            if target is Target.PARTITION:
                undecided.update({each.reason: each.count for each in shard.history.undecided})
        assert undecided == {each.reason: each.count for each in result.undecided}, f"seed {seed}"


def test_a_request_has_a_piece_for_each_partition() -> None:
    request = FetchRequest(
        session_id=7,
        session_epoch=3,
        topics=[
            FetchRequest.FetchTopic(
                topic="orders",
                partitions=[FetchRequest.FetchPartition(partition=each) for each in (0, 1)],
            )
        ],
    )
    pieces = [*pieces_of(int(ApiKey.FETCH), row_of(request), None)]
    assert [piece[:3] for piece in pieces] == [
        (Target.PARTITION, "orders", 0),
        (Target.PARTITION, "orders", 1),
    ]
    request.session_epoch = 0  # all shards forget the session
    first, *_ = pieces_of(int(ApiKey.FETCH), row_of(request), row_of(FetchResponse(session_id=8)))
    assert first.target is Target.ALL
    assert first.request is not None
    assert first.request["topics"] == []


def test_records_are_left_out_but_not_the_headers_of_their_batches() -> None:
    batch = build_batch([NewRecord(None, b"a value", 0)])
    topics: list[dict[str, bytes | None]] = [{"records": batch * 2}, {"records": None}]
    without_records({"topics": topics})
    headers = headers_in(topics[0]["records"])
    assert headers is not None
    assert [each.size for each in headers] == [len(batch)] * 2
    damaged = {"records": batch[:16] + b"\0" + batch[17:]}
    without_records(damaged)
    assert headers_in(damaged["records"]) is None
