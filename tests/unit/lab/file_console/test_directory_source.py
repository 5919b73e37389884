"""The source of the console over a data directory."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.clock import ShowClock
from kafkalite.control.commands.explain import Explain
from kafkalite.control.commands.groups import ListGroups, ShowGroup
from kafkalite.control.commands.records import ReadRecords
from kafkalite.control.commands.reset import ResetBroker
from kafkalite.control.commands.topics import ListTopics, ShowTopic
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.console.source import RecordSearch, Subject
from kafkalite.control.group_reader import UnknownGroupError
from kafkalite.control.request_filter import RequestFilter
from kafkalite.control.topic_records import UnknownTopicError
from kafkalite.lab.file_console.directory_source import DirectorySource
from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.storage.data_directory import BOOT_FILE
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from pathlib import Path


async def test_topics_have_partitions_and_settings(directory_source: DirectorySource) -> None:
    topics = (await directory_source.ask(ListTopics())).topics
    assert [each.name for each in topics if not each.internal] == ["orders", "other"]
    status = await directory_source.ask(ShowTopic("orders"))
    first = status.partitions[0]
    assert (first.leader, first.start_offset, first.end_offset) == (1, 0, 30)
    assert first.high_watermark == first.last_stable_offset == 30
    settings = await directory_source.settings("orders")
    assert [(each.name, each.value) for each in settings] == [("retention.ms", "604800001")]
    with pytest.raises(UnknownTopicError, match="similar names are orders"):
        await directory_source.ask(ShowTopic("order"))


async def test_records_are_found(directory_source: DirectorySource) -> None:
    window = await directory_source.records(RecordSearch("orders", 0, limit=2))
    assert [each.value for each in window.records] == [b"value-28", b"value-29"]
    found = await directory_source.records(RecordSearch("orders", 0, key=b"key-7"))
    assert [each.offset for each in found.records] == [7]
    states = await directory_source.records(RecordSearch("other", 0, 0))
    assert [each.state for each in states.records] == [
        "committed", "commit marker", "aborted", "abort marker",
    ]  # fmt: skip
    with pytest.raises(CommandError, match="orders"):
        await directory_source.records(RecordSearch("orders", 5))


async def test_groups_have_offsets_lag_and_events(directory_source: DirectorySource) -> None:
    new, listed = (await directory_source.ask(ListGroups())).groups
    assert (new.group_id, new.type, new.members) == ("new", "consumer", 0)
    assert (listed.group_id, listed.state, listed.coordinator) == ("shop", "Empty", 1)
    status = await directory_source.ask(ShowGroup("shop"))
    (offset,) = status.offsets
    assert (offset.offset, offset.end_offset, offset.lag) == (3, 30, 27)
    commits = await directory_source.commits("shop")
    assert [each.offset for each in commits.commits] == [7, 9, 3]
    entries = (await directory_source.ask(Explain(group="shop"))).entries
    joined = next(each for each in entries if each.kind == "generation")
    past = await directory_source.past_group("shop", joined.at_ms)
    assert past.epoch == 1
    with pytest.raises(UnknownGroupError, match="similar names are shop"):
        await directory_source.ask(ShowGroup("shopp"))
    for other in (Explain(), Explain(group="none")):
        assert (await directory_source.ask(other)).entries == ()


async def test_transactional_ids_have_states(directory_source: DirectorySource) -> None:
    (listed,) = (await directory_source.ask(ListTransactions())).transactions
    assert (listed.transactional_id, listed.state) == ("pay", "CompleteAbort")
    moments = await directory_source.transaction_moments("pay")
    states = {each.state for each in moments}
    assert {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"} <= states


async def test_a_directory_without_coordinators_is_empty(
    data_directory: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(data_directory, tmp_path / "copy")
    for each in [*copy.glob("__consumer_offsets-*"), *copy.glob("__transaction_state-*")]:
        shutil.rmtree(each)
    source = DirectorySource(str(copy), AdjustableClock())
    assert (await source.ask(ListGroups())).groups == ()
    assert (await source.ask(ListTransactions())).transactions == ()
    assert (await source.commits("shop")).commits == ()
    assert await source.transaction_moments("pay") == ()
    with pytest.raises(UnknownGroupError):
        await source.ask(ShowGroup("shop"))
    shutil.rmtree(copy / "orders-0")
    (copy / BOOT_FILE).unlink()
    with pytest.raises(CommandError, match="no replica of orders-0"):
        await source.records(RecordSearch("orders", 0))


async def test_what_a_directory_does_not_have_is_refused(
    directory_source: DirectorySource,
) -> None:
    with pytest.raises(CommandError, match="needs a running broker"):
        await directory_source.ask(ResetBroker())
    assert (await directory_source.latest_requests(RequestFilter(), 1)).requests == ()
    assert await directory_source.requests_at(RequestFilter(), 0, 1) == ()
    assert await directory_source.request(1) is None
    assert directory_source.changes([Subject.GROUPS]) is None
    assert (await directory_source.ask(ShowClock())).mode == "real"


def test_lines_of_a_shell_read_the_directory(
    directory_source: DirectorySource, data_directory: Path
) -> None:
    def shells(command: object) -> list[str]:
        return [each.shell for each in directory_source.command_lines(command, "http://unused")]  # type: ignore[arg-type]

    assert shells(ListTopics()) == [f"kafkalite check {data_directory}"]
    assert shells(ShowGroup("shop")) == [
        f"kafkalite bisect --data-dir {data_directory} --last --until 'members(shop) == 0'"
    ]
    assert shlex.split(shells(ShowGroup("a b"))[0])[-1] == "members('a b') == 0"
    assert shells(ReadRecords("orders", 0, 5)) == [
        f"kafka-dump-log --print-data-log --files {data_directory}/orders-0/{0:020}.log"
    ]
    assert shells(ReadRecords("orders", 9, 5)) == shells(Explain(group="shop")) == []


async def test_share_groups_have_start_offsets(tmp_path: Path) -> None:
    settings = Settings(
        listen=ANY_PORT, topics={TOPIC: 2}, config=CONFIG, data_directory=str(tmp_path / "data")
    )
    broker = Broker(settings)
    await broker.start()
    try:
        await Members(broker).join_share("sharers", "a")
    finally:
        await broker.stop(grace_s=0)
    source = DirectorySource(str(tmp_path / "data"), AdjustableClock())
    status = await source.ask(ShowGroup("sharers"))
    assert (status.type, len(status.members)) == ("share", 1)
    assert [(each.topic, each.partition) for each in status.offsets] == [(TOPIC, 0), (TOPIC, 1)]
    source.close()
