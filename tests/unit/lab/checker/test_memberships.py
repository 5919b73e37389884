"""Memberships: which member a client was, by its id and host."""

from __future__ import annotations

from random import Random

from kafkalite.lab.checker.history import Client
from kafkalite.lab.checker.memberships import Membership, Memberships

CLIENT = Client("reader", "10.0.0.1")


def test_a_client_with_one_member_is_that_member_at_any_time() -> None:
    memberships = Memberships()
    memberships.note(CLIENT, "shop", "m-1", 50)
    assert memberships.find(CLIENT, 10) == Membership("shop", "m-1")
    assert memberships.find(CLIENT, 90) == Membership("shop", "m-1")


def test_an_unknown_client_is_no_member() -> None:
    assert Memberships().find(CLIENT, 10) == Membership(None, None)


def test_members_that_follow_each_other_have_different_times() -> None:
    memberships = Memberships()
    for member, at_ns in (("m-1", 10), ("m-1", 20), ("m-2", 30), ("m-2", 40)):
        memberships.note(CLIENT, "shop", member, at_ns)
    assert [memberships.find(CLIENT, at_ns).member for at_ns in (15, 25, 35, 45)] == [
        "m-1", "m-1", "m-2", "m-2",
    ]  # fmt: skip


def test_members_at_the_same_time_are_not_clear() -> None:
    memberships = Memberships()
    for member, at_ns in (("m-1", 10), ("m-1", 40), ("m-2", 20), ("m-2", 30)):
        memberships.note(CLIENT, "shop", member, at_ns)
    assert memberships.find(CLIENT, 25) == Membership("shop", None)


def test_a_client_in_two_groups_is_in_none_for_sure() -> None:
    memberships = Memberships()
    memberships.note(CLIENT, "shop", "m-1", 10)
    memberships.note(CLIENT, "mail", "m-2", 20)
    assert memberships.find(CLIENT, 10) == Membership(None, None)


def test_a_client_is_in_no_group_before_it_joins_and_after_it_leaves() -> None:
    memberships = Memberships()
    memberships.note(CLIENT, "shop", "m-1", 20, is_new=True)
    memberships.note_leaving(CLIENT, "shop", "m-1", 50)
    assert [memberships.find(CLIENT, at_ns).group for at_ns in (10, 30, 60)] == [None, "shop", None]


def test_a_member_that_sends_requests_after_it_left_is_a_member_again() -> None:
    memberships = Memberships()
    memberships.note_leaving(CLIENT, "shop", "m-1", 50)
    memberships.note(CLIENT, "shop", "m-1", 70, is_new=True)
    assert memberships.find(CLIENT, 80) == Membership("shop", "m-1")


def expected(notes: list[tuple[str, int, str]], at_ns: int) -> Membership:
    """Return the membership by the definition, from (member, time, kind) of all notes."""
    possible, active, earlier = [], [], []
    for member in dict.fromkeys(each[0] for each in notes):
        own = [each for each in notes if each[0] == member]
        times = [time for _, time, _ in own]
        joined = [time for _, time, kind in own if kind == "new"]
        left = [time for _, time, kind in own if kind == "leaves"]
        has_left = bool(left) and max(left) == max(times) < at_ns
        if has_left or (joined and at_ns < joined[0]):
            continue
        possible.append(member)
        if min(times) <= at_ns <= max(times):
            active.append(member)
        elif max(times) < at_ns:
            earlier.append((max(times), member))
    if not possible:
        return Membership(None, None)
    if active:
        return Membership("shop", active[0] if len(active) == 1 else None)
    if earlier:
        return Membership("shop", max(earlier)[1])
    return Membership("shop", possible[0] if len({each[0] for each in notes}) == 1 else None)


def test_members_are_found_as_defined() -> None:
    for seed in range(300):
        random, memberships = Random(seed), Memberships()  # noqa: S311 - repeatable
        times = random.sample(range(100), random.randint(1, 8))
        notes = [
            (f"m-{random.randrange(3)}", time, random.choice(("", "", "new", "leaves")))
            for time in sorted(times)
        ]
        for member, time, kind in notes:
            if kind == "leaves":
                memberships.note_leaving(CLIENT, "shop", member, time)
            else:
                memberships.note(CLIENT, "shop", member, time, is_new=kind == "new")
        for at_ns in range(-1, 101, 3):
            found = memberships.find(CLIENT, at_ns)
            assert found == expected(notes, at_ns), f"seed {seed} at {at_ns}"
