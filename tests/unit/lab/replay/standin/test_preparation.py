"""Brokers that are prepared from captures."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.replay import loading
from kafkalite.lab.replay.standin.preparation import (
    Match,
    OnMiss,
    PreparationError,
    prepare_capture,
)
from kafkalite.lab.replay.standin.seeding import Seed
from kafkalite.lab.replay.standin.standin import LenientMatcher, StandIn
from kafkalite.lab.replay.standin.strict import StrictMatcher
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.server.logging import Level, Log
from kafkalite.testing import Broker
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])


async def metadata(broker: Broker) -> list[MetadataResponse]:
    """Return the metadata of each node."""
    answers = []
    for address in broker.bootstrap_servers.split(","):
        client = await Client.to(address)
        answers.append(await client.ask(REQUEST, METADATA_VERSION))
        await client.close()
    return answers


@pytest.fixture
async def capture(tmp_path: Path) -> Path:
    """Return the capture of a client that requested metadata from each of three nodes."""
    async with Broker(3, topics={"t": 2}, capture=tmp_path / "capture") as broker:
        await metadata(broker)
    return tmp_path / "capture"


@pytest.mark.parametrize("match", ["strict", "lenient"])
async def test_stand_in_returns_our_addresses(capture: Path, match: str) -> None:
    async with Broker(replay=capture, match=match) as broker:
        answers = await metadata(broker)
        ports = {int(server.rpartition(":")[2]) for server in broker.bootstrap_servers.split(",")}
        own_id = broker.cluster_id

    assert len(ports) == 3
    for answer in answers:
        assert {broker.port for broker in answer.brokers} == ports
        assert [len(topic.partitions) for topic in answer.topics] == [2]
        assert answer.cluster_id != own_id


@pytest.mark.parametrize("match", Match)
async def test_capture_of_several_clusters_logs_a_warning(
    capture: Path, match: Match, capsys: pytest.CaptureFixture[str]
) -> None:
    on_miss = OnMiss.FAIL
    prepare_capture([capture], match, on_miss, Log(Level.WARNING))
    assert capsys.readouterr().err == ""
    async with Broker(topics={"t": 1}, capture=capture) as another:
        await metadata(another)

    prepare_capture([capture], match, on_miss, Log(Level.WARNING))
    assert "the capture is of several clusters" in capsys.readouterr().err


async def test_seeded_broker_has_the_recorded_topics(capture: Path) -> None:
    async with Broker(replay=capture, match="seeded") as broker:
        answers = await metadata(broker)
        own_id = broker.cluster_id

    assert [len(answer.topics[0].partitions) for answer in answers] == [2, 2, 2]
    assert {answer.cluster_id for answer in answers} == {own_id}


async def test_stand_in_can_be_restarted(capture: Path) -> None:
    broker = Broker(replay=capture)
    for _ in range(2):
        async with broker:
            assert len(await metadata(broker)) == 3


@pytest.mark.parametrize(
    ("match", "source_type", "matcher"),
    [
        (Match.STRICT, StandIn, StrictMatcher),
        (Match.LENIENT, StandIn, LenientMatcher),
        (Match.SEEDED, Seed, None),
    ],
)
def test_match_selects_the_matcher_or_the_seed(
    capture: Path, match: Match, source_type: type, matcher: type | None
) -> None:
    found = prepare_capture([capture], match, OnMiss.FAIL, Log())

    assert isinstance(found.source, source_type)
    assert matcher is None or isinstance(found.source.matcher, matcher)  # type: ignore[union-attr]  # it is a StandIn
    assert len(found.nodes) == 3
    assert found.topic_options == (["t:2"] if match is Match.SEEDED else [])


def test_capture_without_requests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "junk.pcap").write_bytes(b"no capture")

    with pytest.raises(PreparationError, match="no requests to replay in"):
        prepare_capture([tmp_path], Match.STRICT, OnMiss.FAIL, Log())


def test_progress_of_reading_is_reported(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_PROGRESS_BYTES", 1)
    lines: list[str] = []
    found = prepare_capture([capture], Match.SEEDED, OnMiss.FAIL, Log(), lines.append)
    assert len(lines) == found.exchanges
    assert lines[0].startswith("reading the capture: 1 requests, 0 MiB")
    assert gc.isenabled()
