"""EventHistory: stored events of groups, and limits against hostile clients."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.coordinator.contract import Event
from kafkalite.coordinator.event_history import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_NAME_LENGTH,
    MAX_SUBJECTS,
    MAX_TEXT_LENGTH,
    EventHistory,
)
from kafkalite.coordinator.member_clients import MemberClient
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode


def event(group: str = "g", kind: str = "joined", text: str = "m joined", **facts: object) -> Event:
    return Event(group, kind, text, facts)


def texts(history: EventHistory, group: str = "g") -> list[str]:
    return [entry.text for entry in history.about(group)]


def test_events_are_returned_in_order_with_their_time() -> None:
    history = EventHistory()
    history.add(event(text="first", member="m1"), 1_000)
    history.add(event(group="other", text="elsewhere"), 1_500)
    history.add(event(text="second"), 2_000)
    first, second = history.about("g")
    assert (first.number, first.text, first.at_ms, first.times) == (1, "first", 1_000, 1)
    assert first.facts == {"member": "m1"}
    assert (second.number, second.text, second.at_ms) == (3, "second", 2_000)
    assert [entry.number for entry in history.latest()] == [1, 2, 3]
    assert history.names(Entity.GROUP) == ["g", "other"]
    assert history.about("unknown") == ()


def test_group_and_transactional_id_with_one_name_are_separate() -> None:
    history = EventHistory()
    history.add(event(text="m1 joined"), 0)
    fenced = Event("g", "fenced", "epoch 3 is fenced", {}, Entity.TRANSACTIONAL_ID)
    history.add(fenced, 1)
    assert texts(history) == ["m1 joined"]
    (entry,) = history.about("g", of=Entity.TRANSACTIONAL_ID)
    assert (entry.group, entry.transactional_id, entry.text) == (None, "g", "epoch 3 is fenced")
    assert [entry.group for entry in history.latest()] == ["g", None]
    assert history.names(Entity.GROUP) == history.names(Entity.TRANSACTIONAL_ID) == ["g"]


def test_topic_is_separate_from_a_group_with_its_name() -> None:
    history = EventHistory()
    history.add(event(text="m1 joined"), 0)
    history.add(Event("g", "refused", "epoch 3", {}, Entity.TOPIC), 1)
    (entry,) = history.about("g", of=Entity.TOPIC)
    assert (entry.group, entry.transactional_id, entry.topic) == (None, None, "g")
    assert history.names(Entity.TOPIC) == ["g"]
    assert texts(history) == ["m1 joined"]


def test_limit_returns_the_latest_events() -> None:
    history = EventHistory()
    for number in range(5):
        history.add(event(text=str(number)), number)
    assert [entry.text for entry in history.about("g", limit=2)] == ["3", "4"]
    assert [entry.text for entry in history.latest(limit=1)] == ["4"]
    assert history.about("g", limit=0) == history.latest(limit=0) == ()


def test_repeated_refusal_is_counted() -> None:
    history = EventHistory()
    history.add(event(kind="refused", text="stale", epoch=4), 1_000)
    history.add(event(text="m2 joined"), 2_000)
    history.add(event(kind="refused", text="stale", epoch=4), 3_000)
    history.add(event(kind="refused", text="stale", epoch=5), 4_000)
    joined, repeated, other = history.about("g")
    assert joined.text == "m2 joined"
    assert (repeated.times, repeated.first_ms, repeated.at_ms) == (2, 1_000, 3_000)
    assert repeated.number == 3
    assert (other.times, other.facts) == (1, {"epoch": 5})


def test_refusals_never_push_out_other_events() -> None:
    history = EventHistory()
    history.add(event(kind="rebalance", text="epoch 5"), 0)
    for number in range(10 * MAX_ENTRIES):
        history.add(event(kind="refused", text=f"commit {number} refused"), number)
    assert texts(history)[0] == "epoch 5"
    assert len(texts(history)) == 1 + MAX_ENTRIES
    assert texts(history)[-1] == f"commit {10 * MAX_ENTRIES - 1} refused"


def test_the_oldest_events_of_a_group_make_room() -> None:
    history = EventHistory(max_entries=2)
    for number in range(4):
        history.add(event(text=str(number)), number)
    assert texts(history) == ["2", "3"]


def test_groups_that_were_only_refused_are_forgotten_first() -> None:
    history = EventHistory(max_subjects=3)
    history.add(event(group="real"), 0)
    for number in range(10):
        history.add(event(group=f"guess-{number}", kind="refused"), number)
    assert history.names(Entity.GROUP) == ["guess-8", "guess-9", "real"]


def test_clients_cannot_displace_groups_even_if_they_are_throttled() -> None:
    history = EventHistory(max_subjects=2)
    history.add(event(group="real"), 0)
    for number in range(5):
        for kind in ("throttled", "refused"):
            of_client = Event(f"10.0.0.{number}", kind, "too fast", {}, Entity.CLIENT)
            history.add(of_client, number)
    assert history.names(Entity.GROUP) == ["real"]
    assert history.names(Entity.CLIENT) == ["10.0.0.4"]
    entries = history.about("10.0.0.4", of=Entity.CLIENT)
    assert [(entry.client, entry.kind) for entry in entries] == [
        ("10.0.0.4", "throttled"),
        ("10.0.0.4", "refused"),
    ]


def test_refused_group_with_another_event_is_not_forgotten_first() -> None:
    history = EventHistory(max_subjects=2)
    history.add(event(group="late", kind="refused", text="too early"), 0)
    history.add(event(group="late"), 1)
    history.add(event(group="guess", kind="refused"), 2)
    history.add(event(group="guess-2", kind="refused"), 3)
    assert history.names(Entity.GROUP) == ["guess-2", "late"]
    assert texts(history, "late") == ["too early", "m joined"]


def test_least_recent_group_is_forgotten() -> None:
    history = EventHistory(max_subjects=2)
    for group in ("a", "b", "a", "c"):
        history.add(event(group=group), 0)
    assert history.names(Entity.GROUP) == ["a", "c"]


def test_hostile_names_texts_and_facts_are_truncated() -> None:
    history = EventHistory()
    endless = ("x" * 1_000_000 for _ in iter(int, 1))
    deep: dict[str, object] = {}
    for _ in range(50):
        deep = {"in" * 1_000: deep}
    hostile = "g" * 1_000_000
    history.add(
        event(
            hostile,
            text="t" * 1_000_000,
            endless=endless,
            deep=deep,
            wide={str(number): "w" * 1_000 for number in range(100_000)},
            many=list(range(100_000)),
        ),
        0,
    )
    (entry,) = history.about(hostile)
    assert len(entry.group or "") == MAX_NAME_LENGTH
    assert len(entry.text) == MAX_TEXT_LENGTH
    assert len(json.dumps(entry.facts)) < 20_000


def test_bytes_are_limited_with_many_hostile_groups() -> None:
    history = EventHistory()
    for number in range(2 * MAX_SUBJECTS):
        for kind in ("refused", "joined"):
            history.add(
                event(
                    f"{number}",
                    kind,
                    "t" * MAX_TEXT_LENGTH,
                    a=["x" * MAX_NAME_LENGTH] * 32,
                    b=number,
                ),
                number,
            )
    assert history.bytes <= MAX_BYTES
    assert len(history.names(Entity.GROUP)) <= MAX_SUBJECTS
    assert history.about(str(2 * MAX_SUBJECTS - 1))


def test_single_group_may_exceed_the_bytes() -> None:
    history = EventHistory(max_bytes=1)
    history.add(event(), 0)
    history.add(event(text="again"), 0)
    assert texts(history) == ["m joined", "again"]
    history.add(event(group="other"), 0)
    assert history.names(Entity.GROUP) == ["other"]


def test_facts_are_converted_to_json_values() -> None:
    history = EventHistory()
    history.add(
        event(
            code=ErrorCode.STALE_MEMBER_EPOCH,
            raw=b"\x01\x02",
            nothing=None,
            share=float("nan"),
            half=0.5,
            flag=True,
            partitions=("orders-0", "orders-1"),
            nested={"epochs": {3: [1, 2]}},
            other=object,
        ),
        0,
    )
    (entry,) = history.about("g")
    assert json.loads(json.dumps(entry.facts, allow_nan=False)) == entry.facts
    assert entry.facts["code"] == "STALE_MEMBER_EPOCH"
    assert entry.facts["raw"] == "0102"
    assert entry.facts["share"] == "nan"
    assert entry.facts["partitions"] == ["orders-0", "orders-1"]
    assert entry.facts["nested"] == {"epochs": {"3": [1, 2]}}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcde"), st.sampled_from(["refused", "fenced", "joined"]),
            st.text(max_size=3), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        )
    )
)  # fmt: skip
def test_byte_count_returns_to_zero(notes: list[tuple[str, str, str, Any]]) -> None:
    history = EventHistory(max_subjects=3, max_entries=2, max_bytes=6_000)
    for number, (group, kind, text, facts) in enumerate(notes):
        history.add(Event(group, kind, text, facts), number)
        assert len(history.names(Entity.GROUP)) <= 3
        assert all(len(history.about(name)) <= 4 for name in history.names(Entity.GROUP))
        assert [entry.number for entry in history.about(group)][-1] == number + 1
    numbers = [entry.number for entry in history.latest()]
    assert numbers == sorted(set(numbers))
    fresh = EventHistory()
    for entry in history.latest():
        fresh.add(Event(entry.group or "", entry.kind, entry.text, entry.facts), entry.at_ms)
    assert history.bytes == fresh.bytes


def test_entries_name_the_clients_of_members() -> None:
    history = EventHistory()
    client = {"client_id": "svc", "client_host": "/10.0.0.1"}
    history.add(event(text="m1 joined", member_id="m1", **client), 0)
    history.add(event(kind="rebalance", text="group epoch 1 → 2: member m1 joined"), 1)
    history.add(event("other", text="m1 joined"), 2)
    assert [entry.members for entry in history.latest()] == [
        (MemberClient("m1", "svc", "10.0.0.1"),),
        (MemberClient("m1", "svc", "10.0.0.1"),),
        (),
    ]


def test_a_refusal_does_not_say_who_a_member_is() -> None:
    history = EventHistory()
    other_client = {"member_id": "m1", "client_id": "other", "client_host": "/10.0.0.9"}
    history.add(event(kind="refused", text="unknown member m1", **other_client), 0)
    history.add(event(text="m1 joined"), 1)
    refused, joined = history.about("g")
    assert [member.client_id for member in refused.members] == ["other"]
    assert joined.members == ()


def test_members_are_counted_and_removed_with_their_group() -> None:
    history = EventHistory(max_subjects=1)
    history.add(event(text="m1 joined", member_id="m1", client_id="svc", client_host="h"), 0)
    history.add(event("other", text="m1 joined"), 1)
    (entry,) = history.latest()
    alone = EventHistory()
    alone.add(event("other", text="m1 joined"), 1)
    assert (entry.members, history.bytes) == ((), alone.bytes)


def test_entries_after_a_number_are_those_of_all_subjects() -> None:
    history = EventHistory()
    for number, group in enumerate(("a", "b", "a", "c")):
        history.add(event(group, text=f"{number}"), number)
    history.add(event("b", "refused", "4"), 4)
    history.add(Event("127.0.0.1", "closed", "5", {}, Entity.CLIENT), 5)
    assert [entry.text for entry in history.after(2)] == ["2", "3", "4", "5"]
    assert [entry.text for entry in history.after(history.last_number - 1)] == ["5"]
    assert history.after(history.last_number) == []
