"""The source of the console over captures: commands, requests, places and lines of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.reading.captures import ignore
from kafkalite.capture.reading.merging import packets
from kafkalite.capture.reading.problems import Problems
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.explain import Explain
from kafkalite.control.commands.groups import ListGroups, ShowGroup
from kafkalite.control.commands.requests import ListRequests
from kafkalite.control.commands.reset import ResetBroker
from kafkalite.control.commands.topics import ListTopics
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.console.source import RecordSearch, RequestsUntil, Subject
from kafkalite.control.group_reader import UnknownGroupError
from kafkalite.control.request_filter import RequestFilter
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.lab.file_console.capture_source import CapturedRequest, CaptureSource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from tests.captures.member_lives import CAPTURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.lab.file_console.capture_index import CaptureIndex

GROUP = "classic-works"


async def test_groups_and_their_time_lines_are_found(groups_source: CaptureSource) -> None:
    listed = (await groups_source.ask(ListGroups())).groups
    assert [each.group_id for each in listed] == sorted(each.group_id for each in listed)
    entries = (await groups_source.ask(Explain(group=GROUP))).entries
    assert {"joined", "generation", "assigned", "committed", "left"} <= {
        each.kind for each in entries
    }
    few = (await groups_source.ask(Explain(group=GROUP, limit=2))).entries
    assert few == entries[-2:]
    assert (await groups_source.ask(Explain(group="none"))).entries == ()
    assert (await groups_source.ask(ShowGroup(GROUP))).state == "Empty"
    with pytest.raises(UnknownGroupError, match="similar names are classic-works"):
        await groups_source.ask(ShowGroup("classic-work"))


async def test_a_group_is_shown_as_it_was(groups_source: CaptureSource) -> None:
    entries = (await groups_source.ask(Explain(group=GROUP))).entries
    second = next(each for each in entries if each.facts.get("generation") == 2)
    past = await groups_source.past_group(GROUP, second.at_ms)
    assert past.epoch == 2
    assert past.members
    with pytest.raises(TimeTravelError, match="no requests of members of the group 'none'"):
        await groups_source.past_group("none", second.at_ms)
    commits = await groups_source.commits(GROUP)
    assert commits.commits
    assert commits.is_complete
    assert (await groups_source.commits("none")).commits == ()


async def test_a_member_that_is_silent_is_no_member(groups_source: CaptureSource) -> None:
    entries = (await groups_source.ask(Explain(group="consumer-killed"))).entries
    (expired,) = [each for each in entries if each.kind == "expired"]
    before = await groups_source.past_group("consumer-killed", expired.at_ms - 1)
    assert [each.client_id for each in before.members] == [
        "consumer-killed-a", "consumer-killed-b",
    ]  # fmt: skip
    after = await groups_source.past_group("consumer-killed", expired.at_ms)
    assert [each.client_id for each in after.members] == ["consumer-killed-a"]
    last = await groups_source.ask(ShowGroup("consumer-killed"))
    assert (last.state, last.members) == ("Empty", ())


async def test_transactional_ids_have_states_and_events(
    transactions_source: CaptureSource,
) -> None:
    listed = (await transactions_source.ask(ListTransactions())).transactions
    name = listed[0].transactional_id
    assert await transactions_source.transaction_moments(name)
    assert await transactions_source.transaction_moments("none") == ()
    entries = (await transactions_source.ask(Explain(transactional_id=name))).entries
    assert {each.transactional_id for each in entries} == {name}
    every = (await transactions_source.ask(Explain(limit=10_000))).entries
    assert len(every) > len(entries)
    assert (await transactions_source.ask(Explain(transactional_id="none"))).entries == ()


async def test_the_latest_requests_are_selected(groups_source: CaptureSource) -> None:
    page = await groups_source.latest_requests(RequestFilter(api=ApiKey.OFFSET_COMMIT), 3)
    assert [each.api for each in page.requests] == ["OffsetCommit"] * 3
    numbers = [each.number or 0 for each in page.requests]
    assert numbers == sorted(numbers, reverse=True)
    first = page.requests[-1]
    assert isinstance(first, CapturedRequest)
    assert first.request["groupId"] == first.groups[0]
    assert page.examined <= page.logged == page.last_number
    later = await groups_source.latest_requests(RequestFilter(since=page.last_number - 2), 60)
    assert [each.number for each in later.requests] == [page.last_number, page.last_number - 1]
    served = await groups_source.requests_at(
        RequestFilter(group=first.groups[0]), first.received_ms, 100
    )
    assert first.number in {each.number for each in served}


async def test_older_requests_follow(groups_source: CaptureSource) -> None:
    selected, numbers = RequestFilter(api=ApiKey.JOIN_GROUP), list[int]()
    until = RequestsUntil()
    while True:
        page = await groups_source.latest_requests(selected, 20, until)
        numbers += [each.number or 0 for each in page.requests]
        if page.next_before is None:
            break
        until = RequestsUntil(page.next_before)
    assert len(numbers) == 47
    assert numbers == sorted(numbers, reverse=True)
    middle = await groups_source.request(numbers[20])
    assert middle is not None
    page = await groups_source.latest_requests(
        selected, 20, RequestsUntil(time_ms=middle.received_ms)
    )
    assert max(each.received_ms for each in page.requests) <= middle.received_ms
    assert middle.number in {each.number for each in page.requests}


async def test_a_request_has_its_place(groups_source: CaptureSource) -> None:
    found = await groups_source.request(10)
    assert isinstance(found, CapturedRequest)
    place = found.place
    offsets = [each.offset for each in packets(str(CAPTURE), ignore)]
    assert place.packet is not None
    assert offsets[place.packet - 1] == place.offset
    assert place.file == str(CAPTURE)
    assert found.latency_us is not None
    assert await groups_source.request(0) is None
    assert await groups_source.request(10**9) is None


def shells(source: CaptureSource, command: object) -> Sequence[str]:
    return [each.shell for each in source.command_lines(command, "http://unused")]  # type: ignore[arg-type]


async def test_lines_of_a_shell_read_the_captures(
    groups_source: CaptureSource, transactions_source: CaptureSource
) -> None:
    selected = ListRequests(
        api=ApiKey.FETCH, topic="orders", error=ErrorCode.OFFSET_OUT_OF_RANGE, group=GROUP
    )
    assert shells(groups_source, selected) == [
        f"kafkalite show {CAPTURE} --api Fetch --group {GROUP} --topic orders --errors"
    ]
    show, tshark = shells(groups_source, ListRequests(since=9))
    found = await groups_source.request(10)
    assert isinstance(found, CapturedRequest)
    assert show == f"kafkalite show {CAPTURE} --offset {found.place.offset} --json"
    assert tshark.startswith(f"tshark -r {CAPTURE} -d tcp.port==")
    assert tshark.endswith(f"-V -Y frame.number=={found.place.packet}")
    assert shells(groups_source, Explain(group=GROUP)) == [
        f"kafkalite explain --capture {CAPTURE} --group {GROUP}"
    ]
    assert shells(transactions_source, ListRequests())[0].endswith(" --port 9092")
    assert shells(groups_source, ShowGroup(GROUP)) == []
    assert shells(groups_source, Explain()) == []


async def test_what_captures_do_not_have_is_refused(groups_source: CaptureSource) -> None:
    for command in (ListTopics(), ResetBroker()):
        with pytest.raises(CommandError, match="needs a running broker"):
            await groups_source.ask(command)
    with pytest.raises(CommandError, match="no settings of topics"):
        await groups_source.settings("orders")
    with pytest.raises(CommandError, match="no logs of partitions"):
        await groups_source.records(RecordSearch("orders", 0))
    assert groups_source.changes([Subject.GROUPS]) is None


async def test_the_summary_counts_apis_and_errors(
    groups_source: CaptureSource, member_lives: CaptureIndex
) -> None:
    summary = groups_source.summary()
    assert summary.requests == len(member_lives) == sum(count for _, count in summary.apis)
    assert "FENCED_INSTANCE_ID" in dict(summary.errors)
    assert summary.first_ms < summary.last_ms
    assert groups_source.name == CAPTURE.name
    names = CaptureSource(["/a/", "/b"], member_lives, Problems(), [])
    assert names.name == "a and 1 more"
