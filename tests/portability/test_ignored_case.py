"""Topics whose names differ only in case, on a file system that ignores case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.executors import InlineExecutor
from kafkalite.ports.files import OsFiles
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.portability.caseless_files import CaselessFiles

if TYPE_CHECKING:
    from pathlib import Path

ANY_PORT = ("127.0.0.1:0",)


def test_the_file_system_ignores_and_preserves_case(tmp_path: Path) -> None:
    files = CaselessFiles()
    files.makedirs(f"{tmp_path}/Topic-0")
    files.write(f"{tmp_path}/topic-0/A", b"1")
    assert files.list(f"{tmp_path}/TOPIC-0") == ["A"]
    files.rename(f"{tmp_path}/topic-0/a", f"{tmp_path}/topic-0/B")
    assert files.read(f"{tmp_path}/Topic-0/b") == b"1"
    assert [path.name for path in tmp_path.iterdir()] == ["Topic-0"]


@pytest.mark.parametrize("files", [CaselessFiles(), OsFiles()])
async def test_a_second_topic_in_the_same_directory_is_refused(
    tmp_path: Path, files: OsFiles
) -> None:
    ignores_case = isinstance(files, CaselessFiles)
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path / "data"))
    for is_first in (True, False):
        broker = Broker(settings, files=files, executor=InlineExecutor())
        await broker.start()
        assert broker.cluster is not None
        metadata = broker.cluster.metadata
        if is_first:
            (created,) = metadata.create_topics([NewTopic(name="orders")])
            assert created.error is None
        outcome = metadata.create_topics([NewTopic(name="Orders"), NewTopic(name="ORDERS")])
        codes = [None if each.error is None else each.error.code for each in outcome]
        topics = sorted(metadata.image.topics)
        assert await broker.stop(grace_s=0.1)
        if ignores_case:
            assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2
            assert outcome[0].error is not None
            assert outcome[0].error.message == (
                "Topic 'Orders' differs only in case from topic 'orders', and the file system of "
                "the data directory ignores case"
            )
            assert topics == ["orders"]
        else:
            assert codes == ([None] if is_first else [ErrorCode.TOPIC_ALREADY_EXISTS]) * 2
            assert topics == ["ORDERS", "Orders", "orders"]


async def test_two_topics_of_one_request_differ_in_case(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path / "data"))
    broker = Broker(settings, files=CaselessFiles(), executor=InlineExecutor())
    await broker.start()
    assert broker.cluster is not None
    requested = [NewTopic(name="a"), NewTopic(name="A"), NewTopic(name="b")]
    outcome = broker.cluster.metadata.create_topics(requested)
    assert [each.error is None for each in outcome] == [True, False, True]
    assert await broker.stop(grace_s=0.1)
