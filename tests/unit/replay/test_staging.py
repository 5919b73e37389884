"""A capture, and how it is to be played, made into a stage."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.replay import loading
from kafkalite.replay.seeding import Seed
from kafkalite.replay.staging import Match, OnMiss, StagingError, staged
from kafkalite.replay.standin import Lenient, StandIn
from kafkalite.replay.strict import Strict
from kafkalite.server.logging import Level, Log
from kafkalite.testing import Broker
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from pathlib import Path

ASKED = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])


async def metadata(broker: Broker) -> list[MetadataResponse]:
    """Ask each node."""
    answers = []
    for address in broker.bootstrap_servers.split(","):
        client = await Client.to(address)
        answers.append(await client.ask(ASKED, METADATA_VERSION))
        await client.close()
    return answers


@pytest.fixture
async def capture(tmp_path: Path) -> Path:
    """Give the capture of a client that asked each of three nodes for a topic."""
    async with Broker(3, topics={"t": 2}, capture=tmp_path / "capture") as broker:
        await metadata(broker)
    return tmp_path / "capture"


@pytest.mark.parametrize("match", ["strict", "lenient"])
async def test_a_cluster_that_was_recorded_answers_with_our_addresses(
    capture: Path, match: str
) -> None:
    async with Broker(replay=capture, match=match) as broker:
        answers = await metadata(broker)
        ours = {int(each.rpartition(":")[2]) for each in broker.bootstrap_servers.split(",")}
        own_id = broker.cluster_id

    assert len(ours) == 3
    for answer in answers:
        assert {each.port for each in answer.brokers} == ours
        assert [len(topic.partitions) for topic in answer.topics] == [2]
        assert answer.cluster_id != own_id


@pytest.mark.parametrize("match", Match)
async def test_captures_of_several_clusters_are_told_of(
    capture: Path, match: Match, capsys: pytest.CaptureFixture[str]
) -> None:
    on_miss = OnMiss.FAIL
    staged([capture], match, on_miss, Log(Level.WARNING))
    assert capsys.readouterr().err == ""
    async with Broker(topics={"t": 1}, capture=capture) as another:
        await metadata(another)

    staged([capture], match, on_miss, Log(Level.WARNING))
    assert "the capture is of several clusters" in capsys.readouterr().err


async def test_a_seeded_broker_has_what_was_seen(capture: Path) -> None:
    async with Broker(replay=capture, match="seeded") as broker:
        answers = await metadata(broker)
        own_id = broker.cluster_id

    assert [len(answer.topics[0].partitions) for answer in answers] == [2, 2, 2]
    assert {answer.cluster_id for answer in answers} == {own_id}


async def test_a_broker_that_replays_can_be_started_again(capture: Path) -> None:
    broker = Broker(replay=capture)
    for _ in range(2):
        async with broker:
            assert len(await metadata(broker)) == 3


@pytest.mark.parametrize(
    ("match", "stage", "source"),
    [
        (Match.STRICT, StandIn, Strict),
        (Match.LENIENT, StandIn, Lenient),
        (Match.SEEDED, Seed, None),
    ],
)
def test_each_way_has_its_stage(
    capture: Path, match: Match, stage: type, source: type | None
) -> None:
    found = staged([capture], match, OnMiss.FAIL, Log())

    assert isinstance(found.stage, stage)
    assert source is None or isinstance(found.stage.source, source)  # type: ignore[attr-defined]  # it is a StandIn
    assert len(found.nodes) == 3
    assert found.topic_options == (["t:2"] if match is Match.SEEDED else [])


def test_where_nothing_was_recorded_nothing_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "junk.pcap").write_bytes(b"no capture")

    with pytest.raises(StagingError, match="no requests to replay in"):
        staged([tmp_path], Match.STRICT, OnMiss.FAIL, Log())


def test_a_long_reading_says_how_far_it_is(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_TELL_EVERY_BYTES", 1)
    told: list[str] = []
    found = staged([capture], Match.SEEDED, OnMiss.FAIL, Log(), told.append)
    assert len(told) == found.exchanges
    assert told[0].startswith("reading the capture: 1 requests, 0 MiB")
    assert gc.isenabled()
