"""Journal: what is kept of what befell groups, and how little clients can make it grow."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.coordinator.contract import Event, SubjectKind
from kafkalite.coordinator.journal import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_NAME,
    MAX_SUBJECTS,
    MAX_TEXT,
    Journal,
)
from kafkalite.protocol.error_codes import ErrorCode


def event(group: str = "g", kind: str = "joined", text: str = "m joined", **facts: object) -> Event:
    return Event(group, kind, text, facts)


def texts(journal: Journal, group: str = "g") -> list[str]:
    return [entry.text for entry in journal.about(group)]


def test_what_was_noted_is_found_in_order_with_its_time() -> None:
    journal = Journal()
    journal.note(event(text="first", member="m1"), 1_000)
    journal.note(event(group="other", text="elsewhere"), 1_500)
    journal.note(event(text="second"), 2_000)
    first, second = journal.about("g")
    assert (first.number, first.text, first.at_ms, first.times) == (1, "first", 1_000, 1)
    assert first.facts == {"member": "m1"}
    assert (second.number, second.text, second.at_ms) == (3, "second", 2_000)
    assert [entry.number for entry in journal.latest()] == [1, 2, 3]
    assert journal.names(SubjectKind.GROUP) == ["g", "other"]
    assert journal.about("unknown") == ()


def test_a_group_and_a_transactional_id_of_one_name_are_told_apart() -> None:
    journal = Journal()
    journal.note(event(text="m1 joined"), 0)
    fenced = Event("g", "fenced", "epoch 3 is fenced", {}, SubjectKind.TRANSACTIONAL_ID)
    journal.note(fenced, 1)
    assert texts(journal) == ["m1 joined"]
    (entry,) = journal.about("g", of=SubjectKind.TRANSACTIONAL_ID)
    assert (entry.group, entry.transactional_id, entry.text) == (None, "g", "epoch 3 is fenced")
    assert [entry.group for entry in journal.latest()] == ["g", None]
    assert journal.names(SubjectKind.GROUP) == journal.names(SubjectKind.TRANSACTIONAL_ID) == ["g"]


def test_the_latest_are_returned_when_fewer_are_wanted() -> None:
    journal = Journal()
    for number in range(5):
        journal.note(event(text=str(number)), number)
    assert [entry.text for entry in journal.about("g", limit=2)] == ["3", "4"]
    assert [entry.text for entry in journal.latest(limit=1)] == ["4"]
    assert journal.about("g", limit=0) == journal.latest(limit=0) == ()


def test_the_same_refusal_once_more_is_counted() -> None:
    journal = Journal()
    journal.note(event(kind="refused", text="stale", epoch=4), 1_000)
    journal.note(event(text="m2 joined"), 2_000)
    journal.note(event(kind="refused", text="stale", epoch=4), 3_000)
    journal.note(event(kind="refused", text="stale", epoch=5), 4_000)
    joined, repeated, other = journal.about("g")
    assert joined.text == "m2 joined"
    assert (repeated.times, repeated.first_ms, repeated.at_ms) == (2, 1_000, 3_000)
    assert repeated.number == 3
    assert (other.times, other.facts) == (1, {"epoch": 5})


def test_refusals_never_push_out_what_explains_them() -> None:
    journal = Journal()
    journal.note(event(kind="rebalance", text="epoch 5"), 0)
    for number in range(10 * MAX_ENTRIES):
        journal.note(event(kind="refused", text=f"commit {number} refused"), number)
    assert texts(journal)[0] == "epoch 5"
    assert len(texts(journal)) == 1 + MAX_ENTRIES
    assert texts(journal)[-1] == f"commit {10 * MAX_ENTRIES - 1} refused"


def test_the_oldest_events_of_a_group_make_room() -> None:
    journal = Journal(max_entries=2)
    for number in range(4):
        journal.note(event(text=str(number)), number)
    assert texts(journal) == ["2", "3"]


def test_groups_that_were_only_refused_are_forgotten_first() -> None:
    journal = Journal(max_subjects=3)
    journal.note(event(group="real"), 0)
    for number in range(10):
        journal.note(event(group=f"guess-{number}", kind="refused"), number)
    assert journal.names(SubjectKind.GROUP) == ["guess-8", "guess-9", "real"]


def test_a_refused_group_that_something_else_befalls_is_one_of_the_real_ones() -> None:
    journal = Journal(max_subjects=2)
    journal.note(event(group="late", kind="refused", text="too early"), 0)
    journal.note(event(group="late"), 1)
    journal.note(event(group="guess", kind="refused"), 2)
    journal.note(event(group="guess-2", kind="refused"), 3)
    assert journal.names(SubjectKind.GROUP) == ["guess-2", "late"]
    assert texts(journal, "late") == ["too early", "m joined"]


def test_of_the_real_ones_the_group_noted_longest_ago_goes() -> None:
    journal = Journal(max_subjects=2)
    for group in ("a", "b", "a", "c"):
        journal.note(event(group=group), 0)
    assert journal.names(SubjectKind.GROUP) == ["a", "c"]


def test_hostile_names_texts_and_facts_are_cut() -> None:
    journal = Journal()
    endless = ("x" * 1_000_000 for _ in iter(int, 1))
    deep: dict[str, object] = {}
    for _ in range(50):
        deep = {"in" * 1_000: deep}
    hostile = "g" * 1_000_000
    journal.note(
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
    (entry,) = journal.about(hostile)
    assert len(entry.group or "") == MAX_NAME
    assert len(entry.text) == MAX_TEXT
    assert len(json.dumps(entry.facts)) < 20_000


def test_however_many_hostile_groups_there_are_the_bytes_stay_bounded() -> None:
    journal = Journal()
    for number in range(2 * MAX_SUBJECTS):
        for kind in ("refused", "joined"):
            journal.note(
                event(f"{number}", kind, "t" * MAX_TEXT, a=["x" * MAX_NAME] * 32, b=number), number
            )
    assert journal.bytes <= MAX_BYTES
    assert len(journal.names(SubjectKind.GROUP)) <= MAX_SUBJECTS
    assert journal.about(str(2 * MAX_SUBJECTS - 1))


def test_one_group_alone_may_exceed_the_bytes_for_it_is_bounded_by_itself() -> None:
    journal = Journal(max_bytes=1)
    journal.note(event(), 0)
    journal.note(event(text="again"), 0)
    assert texts(journal) == ["m joined", "again"]
    journal.note(event(group="other"), 0)
    assert journal.names(SubjectKind.GROUP) == ["other"]


def test_facts_are_what_json_can_hold() -> None:
    journal = Journal()
    journal.note(
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
    (entry,) = journal.about("g")
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
def test_its_count_of_bytes_comes_back_to_nothing(notes: list[tuple[str, str, str, Any]]) -> None:
    journal = Journal(max_subjects=3, max_entries=2, max_bytes=6_000)
    for number, (group, kind, text, facts) in enumerate(notes):
        journal.note(Event(group, kind, text, facts), number)
        assert len(journal.names(SubjectKind.GROUP)) <= 3
        assert all(len(journal.about(name)) <= 4 for name in journal.names(SubjectKind.GROUP))
        assert [entry.number for entry in journal.about(group)][-1] == number + 1
    numbers = [entry.number for entry in journal.latest()]
    assert numbers == sorted(set(numbers))
    fresh = Journal()
    for entry in journal.latest():
        fresh.note(Event(entry.group or "", entry.kind, entry.text, entry.facts), entry.at_ms)
    assert journal.bytes == fresh.bytes
