"""Captures: at most one is recorded, names cannot leave their directory, files are complete."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.server import captures as module
from kafkalite.server.broker import Broker
from kafkalite.server.captures import (
    EXTERNAL,
    CaptureFile,
    RecordingError,
    UnknownCaptureError,
    contents,
)
from kafkalite.server.settings import Settings
from tests.unit.control.ports import ANY_PORT
from tests.unit.server.recorders import CONTENT, NAME, STARTED_MS, FakeRecorder, use_fake_recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.server.captures import Captures

IN_MEMORY = Settings(listen=ANY_PORT, is_in_memory=True)


@pytest.fixture(autouse=True)
def recorder_class(monkeypatch: pytest.MonkeyPatch) -> type[FakeRecorder]:
    return use_fake_recorder(monkeypatch)


@asynccontextmanager
async def started(settings: Settings = IN_MEMORY) -> AsyncIterator[Broker]:
    broker = Broker(settings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop(grace_s=0)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with started() as running:
        yield running


@pytest.fixture
def captures(broker: Broker) -> Captures:
    return broker.captures


async def names(captures: Captures) -> list[str]:
    return [each.name for each in await captures.all()]


def is_directory(path: str) -> bool:
    return Path(path).is_dir()


async def downloaded(captures: Captures, name: str) -> str:
    return b"".join([each async for each in contents(await captures.files(name))]).decode()


async def test_a_capture_is_started_stopped_and_deleted(broker: Broker, captures: Captures) -> None:
    assert await captures.all() == []
    started = await captures.start()
    assert (started.name, started.is_recording, started.files) == ("capture-1", True, 1)
    assert (started.size_bytes, started.started_ms) == (len(CONTENT), STARTED_MS)
    recorder = cast("FakeRecorder", broker.nodes.recorder)
    assert recorder.directory == started.directory
    with pytest.raises(RecordingError, match="the capture capture-1 is recorded: stop it first"):
        await captures.delete("capture-1")

    stopped = await captures.stop("capture-1")
    assert stopped == started._replace(is_recording=False)
    assert recorder.is_closed
    assert broker.nodes.recorder is None
    with pytest.raises(RecordingError, match="capture-1 is not recorded"):
        await captures.stop("capture-1")

    assert await captures.delete("capture-1") == stopped
    assert not is_directory(stopped.directory)
    for unknown in (captures.stop, captures.delete, captures.files):
        with pytest.raises(UnknownCaptureError, match="no capture 'capture-1'; there are none"):
            await unknown("capture-1")


async def test_one_capture_is_recorded_at_a_time(captures: Captures) -> None:
    results = await asyncio.gather(captures.start("a"), captures.start("b"), return_exceptions=True)
    assert f"{results[1]}" == (
        "the capture a is recorded, and only one can be at a time: stop it first"
    )
    assert await names(captures) == ["a"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../a",
        "/a",
        "A",
        "-a",
        "a-",
        "a.b",
        "a\0",
        "a\n",
        "ä",
        "a" * 64,
        EXTERNAL,
    ],
)
async def test_a_name_cannot_leave_the_directory(captures: Captures, name: str) -> None:
    with pytest.raises(RecordingError, match="name must be 1 to 63 of a-z"):
        await captures.start(name)
    with pytest.raises(UnknownCaptureError):
        await captures.delete(name)
    assert await captures.all() == []


async def test_names_are_unique_and_numbers_follow_the_largest(captures: Captures) -> None:
    for name in ("capture-7", "orders", None):
        started = await captures.start(name)
        await captures.stop(started.name)
    assert await names(captures) == ["capture-7", "capture-8", "orders"]
    with pytest.raises(RecordingError, match="there is a capture orders already"):
        await captures.start("orders")


async def test_the_number_of_captures_is_limited(
    captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CAPTURES", 1)
    await captures.stop((await captures.start()).name)
    with pytest.raises(RecordingError, match="there are 1 captures, which is the maximum"):
        await captures.start()


async def test_a_recorder_that_fails_leaves_nothing(
    captures: Captures, recorder_class: type[FakeRecorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr(recorder_class, "failure", "the disk is full")
        with pytest.raises(RecordingError, match="the disk is full"):
            await captures.start("a")
    assert await captures.all() == []
    assert (await captures.start("a")).is_recording


async def test_a_client_that_disconnects_does_not_end_a_start(captures: Captures) -> None:
    starting = asyncio.ensure_future(captures.start("a"))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(RecordingError, match="only one can be at a time"):
        await captures.start("b")
    assert (await captures.find("a")).is_recording


async def test_files_are_one_in_the_order_of_their_names(captures: Captures) -> None:
    directory = Path((await captures.start("a")).directory)
    (directory / NAME.format(2)).write_text("third")
    (directory / NAME.format(1)).write_text("second ")
    (directory / "notes.txt").write_text("not a capture")
    (directory / "link.pcapng").symlink_to("/etc/hostname")
    assert await downloaded(captures, "a") == "first second third"
    assert (await captures.find("a")).files == 3


async def test_what_is_written_during_a_download_is_omitted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    files = [CaptureFile(f"{path}", 4), CaptureFile(f"{path}", 20)]
    assert b"".join([each async for each in contents(files)]) == b"01230123456789"


async def test_directories_without_a_valid_name_and_links_are_no_captures(
    captures: Captures, tmp_path: Path
) -> None:
    root = Path((await captures.start("a")).directory).parent
    (root / "link").symlink_to(tmp_path)
    (root / "No capture").mkdir()
    (root / "file").write_text("")
    (root / "empty").mkdir()
    (root / EXTERNAL).mkdir()
    found = {each.name: each for each in await captures.all()}
    assert found.keys() == {"a", "empty"}
    assert (found["empty"].files, found["empty"].started_ms) == (0, None)
    with pytest.raises(UnknownCaptureError):
        await captures.delete("link")


async def test_a_capture_whose_directory_was_removed_can_be_stopped(captures: Captures) -> None:
    shutil.rmtree((await captures.start("a")).directory)
    (found,) = await captures.all()
    assert (found.name, found.is_recording, found.files) == ("a", True, 0)
    assert await captures.stop("a") == found._replace(is_recording=False)
    assert await captures.all() == []
    assert (await captures.start("a")).is_recording


async def test_the_capture_of_the_program_is_only_listed_and_stopped(
    broker: Broker, captures: Captures, tmp_path: Path
) -> None:
    recorder = FakeRecorder(f"{tmp_path}", broker.clock.now_ns)
    broker.nodes.start_recording(cast("Recorder", recorder))
    (found,) = await captures.all()
    assert (found.name, found.directory, found.is_recording) == (EXTERNAL, f"{tmp_path}", True)
    assert found.started_ms == recorder.started_ns // 1_000_000
    with pytest.raises(RecordingError, match="external is recorded, and only one"):
        await captures.start()
    assert not (await captures.stop(EXTERNAL)).is_recording
    assert recorder.is_closed
    for refused in (captures.delete, captures.files):
        with pytest.raises(RecordingError, match=f"chose the directory {tmp_path}"):
            await refused(EXTERNAL)
    assert is_directory(f"{tmp_path}")
    await captures.start()
    assert await names(captures) == ["capture-1", EXTERNAL]


async def test_a_recording_of_the_program_that_starts_meanwhile_remains(
    broker: Broker,
    captures: Captures,
    recorder_class: type[FakeRecorder],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    recorder = FakeRecorder(f"{tmp_path}", broker.clock.now_ns)
    closed: list[str] = []
    monkeypatch.setattr(recorder_class, "close", lambda own: closed.append(own.directory))
    start = broker.nodes.start_recording

    def start_other_first(given: Recorder) -> None:
        start(cast("Recorder", recorder))
        start(given)

    monkeypatch.setattr(broker.nodes, "start_recording", start_other_first)
    with pytest.raises(RecordingError, match=f"traffic is already recorded in {tmp_path}"):
        await captures.start("a")
    assert broker.nodes.recorder is cast("Recorder", recorder)
    assert closed == [(await captures.find("a")).directory]


async def test_captures_in_memory_end_with_the_broker() -> None:
    async with started() as broker:
        capture = await broker.captures.start()
        recorder = cast("FakeRecorder", broker.nodes.recorder)
        root = f"{Path(capture.directory).parent}"
        assert is_directory(root)
    assert recorder.is_closed
    assert not is_directory(root)


async def test_captures_next_to_the_data_remain(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=f"{tmp_path / 'data'}")
    async with started(settings) as broker:
        capture = await broker.captures.start("first")
        assert capture.directory == f"{tmp_path / 'data-captures' / 'first'}"
    assert "first" not in {each.name for each in (tmp_path / "data").iterdir()}
    async with started(settings) as again:
        assert await again.captures.all() == [capture._replace(is_recording=False)]
        assert await downloaded(again.captures, "first") == CONTENT


async def test_nothing_starts_when_the_broker_has_stopped(captures: Captures) -> None:
    await captures.close()
    with pytest.raises(RecordingError, match="the broker has stopped"):
        await captures.start()
