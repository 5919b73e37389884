"""The end of a coordinator's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.control.console import log_tail as module
from kafkalite.control.console.log_tail import LogTail, log_tail
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.control.time_travel.replay import needle_of
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from tests.unit.control.console.served_console import ServedConsole, served_console
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.storage.log import Log


@pytest.fixture
async def console() -> AsyncIterator[ServedConsole]:
    async with served_console() as found:
        for offset in range(6):
            await found.members.commit("shop", offset)
        await found.members.commit("other", 1)
        yield found


def tail_of(console: ServedConsole) -> LogTail:
    return log_tail(console.members.cluster, OFFSETS_TOPIC, 0)


async def offsets(tail: LogTail, group: str) -> list[int]:
    return [each.base_offset async for each in tail.batches(needle_of(group))]


async def test_only_batches_with_the_name_are_yielded(console: ServedConsole) -> None:
    tail = tail_of(console)
    assert await offsets(tail, "shop") == [0, 1, 2, 3, 4, 5]
    assert await offsets(tail, "other") == [6]
    assert await offsets(tail, "sho") == []
    assert tail.is_complete


async def test_only_the_latest_records_are_read(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 3)
    tail = tail_of(console)
    assert await offsets(tail, "shop") == [4, 5]
    assert not tail.is_complete


async def test_other_tasks_run_meanwhile(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1)
    assert await turns_of(offsets(tail_of(console), "shop")) >= 7


async def test_a_log_that_does_not_exist_is_named(console: ServedConsole) -> None:
    with pytest.raises(TimeTravelError, match="there is no partition none-0"):
        log_tail(console.members.cluster, "none", 0)


async def test_records_that_are_appended_meanwhile_are_not_read(console: ServedConsole) -> None:
    found = []
    async for each in tail_of(console).batches(needle_of("shop")):
        found.append(each.base_offset)
        await console.members.commit("shop", 9)
    assert found == [0, 1, 2, 3, 4, 5]


class _RepeatedLog:
    """A log that returns its first batch for each offset, as one with a wrong last offset does."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def read(self, offset: int, **limits: Any) -> bytes:  # noqa: ANN401 - those of Log.read
        del offset
        return self._log.read(0, **{**limits, "max_bytes": 1})


async def test_a_batch_that_ends_too_early_is_named(console: ServedConsole) -> None:
    tail = tail_of(console)
    damaged = tail._replace(log=_RepeatedLog(tail.log))  # type: ignore[arg-type]  # only `read` is used
    with pytest.raises(TimeTravelError, match="batch at offset 0 ends before offset 1"):
        await offsets(damaged, "shop")
