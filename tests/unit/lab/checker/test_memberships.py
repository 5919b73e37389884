"""Memberships: which member a client was, by its id and host."""

from __future__ import annotations

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
