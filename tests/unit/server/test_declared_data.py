"""Data directories of declared states: all of a state or nothing, and only once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.files import OsFiles
from kafkalite.server.broker import Broker
from kafkalite.server.broker_directory import STATE_LOADING_FILE, BrokerDirectoryError
from kafkalite.server.declared_data import STATE_FILE, DeclaredData
from kafkalite.server.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LISTEN = ("127.0.0.1:0",)


class OneTopic:
    """A state with one topic, whose load may fail afterwards."""

    brokers = 1
    features: Mapping[str, int] = {}
    topics = ("orders",)

    def __init__(self, digest: str = "a" * 64, *, fails: bool = False) -> None:
        self.digest = digest
        self.loads = 0
        self.answered: list[bool] = []
        self._fails = fails

    @staticmethod
    def error(path: tuple[str | int, ...], text: str) -> SettingsError:
        return SettingsError(f"{path}: {text}")

    async def load(
        self, broker: Broker, topics: str | None = None, groups: str | None = None
    ) -> None:
        del topics, groups
        self.loads += 1
        assert broker.cluster is not None
        broker.cluster.create_missing_topics({"orders": 1})
        _, _, port = broker.bootstrap_servers.rpartition(":")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))  # ApiVersions
        for _ in range(20):
            await asyncio.sleep(0)
        self.answered.append(bool(reader._buffer))  # type: ignore[attr-defined]  # of asyncio
        writer.close()
        if self._fails:
            raise self.error((), "no")


def broker_of(path: Path, state: OneTopic | None) -> Broker:
    return Broker(Settings(listen=LISTEN, data_directory=str(path), state=state))


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


async def start_and_stop(path: Path, state: OneTopic | None) -> list[str]:
    """Return the topics of a broker that was started."""
    broker = broker_of(path, state)
    await broker.start()
    try:
        assert broker.cluster is not None
        return list(broker.cluster.metadata.image.topics)
    finally:
        await broker.stop()


async def test_a_state_is_loaded_once_and_before_the_first_request(tmp_path: Path) -> None:
    state = OneTopic()
    path = tmp_path / "data"
    assert await start_and_stop(path, state) == ["orders"]
    assert (state.loads, state.answered) == (1, [False])
    assert STATE_FILE in names(path)
    assert STATE_LOADING_FILE not in names(path)
    assert await start_and_stop(path, state) == ["orders"]
    assert await start_and_stop(path, None) == ["orders"]
    assert state.loads == 1


async def test_after_a_restart_a_reset_leads_to_the_blank_cluster(tmp_path: Path) -> None:
    await start_and_stop(tmp_path, OneTopic())
    broker = broker_of(tmp_path, OneTopic())
    await broker.start()
    try:
        assert broker.initial_image is not None
        assert not broker.initial_image.scram_credentials
        assert not broker.initial_image.acls
    finally:
        await broker.stop()


async def test_a_load_that_fails_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for _ in range(2):
        broker = broker_of(path, OneTopic(fails=True))
        with pytest.raises(SettingsError, match="no"):
            await broker.start()
        assert broker.cluster is None
        assert not path.exists()
    path.mkdir()
    (path / "notes").mkdir()
    (path / "notes" / "a").write_text("a")
    with pytest.raises(SettingsError, match="no"):
        await broker_of(path, OneTopic(fails=True)).start()
    assert names(path) == [".lock", "notes"]
    assert await start_and_stop(path, OneTopic()) == ["orders"]
    assert (path / "notes" / "a").read_text() == "a"


async def test_an_interrupted_load_is_removed_before_the_next(tmp_path: Path) -> None:
    await start_and_stop(tmp_path, OneTopic())
    (tmp_path / STATE_FILE).unlink()
    (tmp_path / STATE_LOADING_FILE).write_text("[]")
    (tmp_path / "half-0").mkdir()
    with pytest.raises(BrokerDirectoryError, match="has a part of a state, because its load was"):
        await broker_of(tmp_path, None).start()
    state = OneTopic()
    assert await start_and_stop(tmp_path, state) == ["orders"]
    assert state.loads == 1
    assert "half-0" not in names(tmp_path)


async def test_other_data_is_refused_and_remains(tmp_path: Path) -> None:
    await start_and_stop(tmp_path, OneTopic())
    before = names(tmp_path)
    with pytest.raises(BrokerDirectoryError, match=r"has another state \(aaaaaaaaaaaa, not bbbb"):
        await broker_of(tmp_path, OneTopic("b" * 64)).start()
    assert names(tmp_path) == before
    (tmp_path / STATE_FILE).unlink()
    with pytest.raises(BrokerDirectoryError, match="has data already: a state is loaded into an"):
        await broker_of(tmp_path, OneTopic()).start()
    assert names(tmp_path) == [each for each in before if each != STATE_FILE]


async def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    broker = broker_of(tmp_path, OneTopic())
    await broker.start()
    try:
        with pytest.raises(BrokerDirectoryError, match="in use by another broker"):
            await broker_of(tmp_path, OneTopic()).start()
        (tmp_path / STATE_LOADING_FILE).write_text("[]")
        with pytest.raises(BrokerDirectoryError, match="in use by another broker"):
            DeclaredData(OsFiles(), str(tmp_path), "a")
        (tmp_path / STATE_LOADING_FILE).unlink()
    finally:
        await broker.stop()


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerDirectoryError, match=r"^cannot use data directory .*file: "):
        DeclaredData(OsFiles(), str(tmp_path / "file"), "a")
