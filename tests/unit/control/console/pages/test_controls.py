"""The page of controls."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.control.commands.clock import ShowClock
from kafkalite.control.commands.clusters import ClusterList, ClusterStatus, ListClusters
from kafkalite.control.commands.links import ListLinks
from kafkalite.control.commands.nodes import ShowNode
from kafkalite.control.commands.recordings import ListCaptures
from kafkalite.control.commands.snapshots import ListSnapshots
from kafkalite.control.commands.topics import CreateTopic, ListTopics, ShowTopic
from kafkalite.control.console.pages.controls import CONTROLS
from tests.unit.control.asgi_client import ask_for_text
from tests.unit.control.console.served_console import (
    FORM,
    HOSTILE,
    NOW_MS,
    ServedConsole,
    served_console,
)
from tests.unit.server.recorders import CONTENT, FakeRecorder, use_fake_recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kafkalite.capture.recording.recorder import Recorder

BACK = "/console/controls"


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console(brokers=2) as found:
        yield found


async def do(console: ServedConsole, control: str, /, **fields: object) -> None:
    answer = await console.post(f"/controls/{control}", back=BACK, **fields)
    assert (answer.status, answer.headers.get("location")) == (303, BACK), answer.body


async def test_the_clock_is_moved(console: ServedConsole) -> None:
    async def state() -> tuple[int, str]:
        found = await console.source.ask(ShowClock())
        return found.now_ms - NOW_MS, found.mode

    await do(console, "advance", advance_ms="1m30s")
    assert await state() == (90_000, "manual")
    await do(console, "jump", now_ms="2023-11-14T22:15:00Z")
    assert await state() == (100_000, "manual")
    await do(console, "rate", rate="60")
    assert (await state())[1] == "accelerated"
    await do(console, "auto")
    assert (await state())[1] == "auto"
    await do(console, "resume")
    assert (await state())[1] == "real"
    await do(console, "pause")
    assert (await state())[1] == "manual"
    answer = await console.post("/controls/jump", now_ms="2000-01-01T00:00:00Z", back=BACK)
    assert "time only moves forward" in answer.body
    assert f'href="{BACK}"' in answer.body


async def test_links_are_disturbed_and_healed(console: ServedConsole) -> None:
    await do(console, "link", client_id=HOSTILE, latency_ms="5ms")
    await do(console, "link", node="1", from_node="2", cut="1")
    first, second = (await console.source.ask(ListLinks())).links
    text = await console.get("/controls")
    assert "latency_ms=5" in text
    assert "from_node=2" in text
    assert "<script>alert" not in text
    assert f"DELETE /v1/links/{first.id}" in text
    await do(console, "link-heal", link_id=first.id)
    assert (await console.source.ask(ListLinks())).links == (second,)
    await do(console, "links-heal")
    assert (await console.source.ask(ListLinks())).links == ()
    answer = await console.post("/controls/link", client_id="a", back=BACK)
    assert "a link needs an effect" in answer.body


async def test_nodes_are_changed(console: ServedConsole) -> None:
    async def node() -> tuple[str, str, str]:
        found = await console.source.ask(ShowNode(1))
        return found.state, found.metadata, found.replication

    for name in ("freeze", "thaw", "lag", "follow", "isolate", "start"):
        await do(console, f"node-{name}", node_id=1)
        assert name in {"thaw", "follow", "start"} or await node() != ("running", "live", "running")
    assert await node() == ("running", "live", "running")
    topic = await console.source.ask(ShowTopic("orders"))
    # Replicas are assigned from a random node on.
    index = next(each.partition for each in topic.partitions if 1 in each.replicas)
    await do(console, "leader", topic="orders", partition=index, leader=1)
    answer = await console.post("/controls/leader", topic="orders", partition=0, leader=9)
    assert answer.status == 400
    answer = await console.post("/controls/node-remove", node_id=1, back=BACK)
    assert "kafkalite node remove 1" in answer.body


async def test_a_snapshot_is_made_restored_and_deleted(console: ServedConsole) -> None:
    await do(console, "snapshot")
    (snapshot,) = (await console.source.ask(ListSnapshots())).snapshots
    await CreateTopic("later").perform(console.broker)
    answer = await console.post("/controls/restore", snapshot_id=snapshot.id, back=BACK)
    assert f"kafkalite snapshot restore {snapshot.id}" in answer.body
    assert "later" in await names(console)
    await do(console, "restore", snapshot_id=snapshot.id, confirmed="yes")
    assert "later" not in await names(console)
    assert snapshot.id in await console.get("/controls")
    await do(console, "snapshot-delete", snapshot_id=snapshot.id, confirmed="yes")
    assert not (await console.source.ask(ListSnapshots())).snapshots
    answer = await console.post("/controls/snapshot-load", path="relative.zip", back=BACK)
    assert "path must be an absolute path" in html.unescape(answer.body)


async def names(console: ServedConsole) -> set[str]:
    return {each.name for each in (await console.source.ask(ListTopics())).topics}


async def test_captures_are_recorded_downloaded_and_deleted(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def states() -> dict[str, str]:
        found = (await console.source.ask(ListCaptures())).captures
        return {each.name: each.state for each in found}

    use_fake_recorder(monkeypatch)
    text = await console.get("/controls")
    assert "There are no captures." in text
    assert "kafkalite recording start" in text
    await do(console, "capture", name="first")
    assert await states() == {"first": "recording"}
    text = await console.get("/controls")
    assert "POST /v1/captures/first/stop" in text
    assert "kafkalite recording download first &gt; first.pcapng" in text
    assert "Delete …: first" not in text
    await do(console, "capture-stop", name="first")
    assert await states() == {"first": "stopped"}

    link = re.search(r'href="/console(/controls/capture-download[^"]*)" download="([^"]*)"', text)
    assert link is not None
    assert link[2] == "first.pcapng"
    answer = await ask_for_text(console.app, f"/console{html.unescape(link[1])}")
    assert (answer.status, answer.body) == (200, CONTENT)
    assert answer.headers["content-disposition"] == 'attachment; filename="first.pcapng"'
    assert answer.headers["x-content-type-options"] == "nosniff"

    answer = await console.post("/controls/capture-delete", name="first", back=BACK)
    assert "kafkalite recording delete first" in answer.body
    assert "DELETE /v1/captures/first" in answer.body
    assert await states() == {"first": "stopped"}
    await do(console, "capture-delete", name="first", confirmed="yes")
    assert await states() == {}


async def test_the_capture_of_the_program_is_not_offered_as_a_file(
    console: ServedConsole, tmp_path: Path
) -> None:
    recorder = FakeRecorder(f"{tmp_path}", console.clock.now_ns)
    console.broker.nodes.start_recording(cast("Recorder", recorder))
    text = await console.get("/controls")
    assert "Stop: external" in text
    assert "Download: external" not in text
    await do(console, "capture-stop", name="external")
    text = await console.get("/controls")
    assert f"{tmp_path}" in text
    assert "Delete …: external" not in text


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterStatus:
    """Let the broker have another cluster."""
    found = ClusterStatus("c1", "127.0.0.1:5", "http://127.0.0.1:6", None, 2048)

    async def perform(_: ListClusters, broker: object) -> ClusterList:
        del broker
        return ClusterList((found,))

    monkeypatch.setattr(ListClusters, "perform", perform)
    return found


async def test_other_clusters_are_shown(console: ServedConsole, cluster: ClusterStatus) -> None:
    text = await console.get("/controls")
    assert cluster.bootstrap_servers in text
    assert 'href="http://127.0.0.1:6/console/"' in text
    assert "2.0 KiB" in text
    answer = await console.post("/controls/cluster-stop", cluster_id=cluster.id, back=BACK)
    assert "kafkalite cluster stop c1" in answer.body
    answer = await console.post("/controls/fork", snapshot_id="now", back=BACK)
    assert "this broker cannot start other clusters" in answer.body


async def test_a_reset_asks_first(console: ServedConsole) -> None:
    await CreateTopic("extra").perform(console.broker)
    answer = await console.post("/controls/reset", topics="ext*", back=BACK)
    assert "kafkalite reset --topics" in answer.body
    assert "POST /v1/reset" in answer.body
    assert "extra" in await names(console)
    await do(console, "reset", topics="ext*", confirmed="yes")
    assert "extra" not in await names(console)


@pytest.mark.usefixtures("cluster")
async def test_each_action_has_a_form_and_each_form_an_action(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake_recorder(monkeypatch)
    await do(console, "capture", name="first")
    await do(console, "snapshot")
    await do(console, "auto")
    await do(console, "link", node=1, latency_ms="1ms")
    seen = forms(await console.get("/controls"))
    await do(console, "pause")
    await do(console, "capture-stop", name="first")
    for change in ("node-freeze", "node-lag", "node-isolate"):
        await do(console, change, node_id=1)
    seen |= forms(await console.get("/controls"))
    assert seen == {each.path for each in CONTROLS}
    await do(console, "links-heal")
    await do(console, "node-start", node_id=1)


def forms(text: str) -> set[str]:
    return {*re.findall(r'<form[^>]* action="/console(/controls/[\w-]+)"', text)}


async def test_commands_are_shown(console: ServedConsole) -> None:
    text = await console.get("/controls")
    for line in (
        "kafkalite clock pause",
        "kafkalite node stop 1",
        "kafkalite snapshot create",
        "kafkalite cluster fork --from now",
        "kafkalite reset",
        "POST /v1/reset",
    ):
        assert line in text


async def test_other_sites_and_links_change_nothing(console: ServedConsole) -> None:
    for each in CONTROLS:
        path = f"/console{each.path}"
        assert (await ask_for_text(console.app, f"{path}?confirmed=yes")).status == 405
        for origin in ("http://evil.test", "null", "http://127.0.0.1:9098"):
            answer = await ask_for_text(
                console.app,
                path,
                method="POST",
                body=b"confirmed=yes&node_id=1",
                headers={**FORM, "origin": origin},
            )
            assert answer.status == 403


async def test_nothing_of_a_form_is_markup(console: ServedConsole) -> None:
    for name, field in (("reset", "topics"), ("restore", "snapshot_id"), ("leader", "topic")):
        answer = await console.post(f"/controls/{name}", **{field: HOSTILE, "back": HOSTILE})
        assert "<script>alert" not in answer.body
