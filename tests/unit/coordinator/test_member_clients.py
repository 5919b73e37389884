"""MemberClients: who the members of a group are."""

from __future__ import annotations

from kafkalite.coordinator.member_clients import MAX_MEMBERS, MAX_NAMED, MemberClient, MemberClients


def joined(member_id: str, client_id: str = "svc") -> dict[str, object]:
    return {"member_id": member_id, "client_id": client_id, "client_host": "/10.0.0.1"}


def test_members_are_found_in_the_text_and_in_the_facts() -> None:
    members = MemberClients()
    for each in ("m1", "m2", "m3"):
        members.learn(joined(each))
    assert members.named_in("epoch 3: (m1), m9", {"changed": ["m3"], "leader": "m2"}) == (
        MemberClient("m3", "svc", "10.0.0.1"),
        MemberClient("m2", "svc", "10.0.0.1"),
        MemberClient("m1", "svc", "10.0.0.1"),
    )


def test_facts_describe_a_member_that_is_not_known() -> None:
    assert MemberClients().named_in("refused", joined("m1", "other")) == (
        MemberClient("m1", "other", "10.0.0.1"),
    )


def test_a_known_member_keeps_its_client_when_another_client_uses_its_id() -> None:
    members = MemberClients()
    members.learn(joined("m1"))
    (member,) = members.named_in("refused", joined("m1", "other"))
    assert member.client_id == "svc"


def test_facts_without_a_client_name_no_member() -> None:
    members = MemberClients()
    assert members.learn({"member_id": "m1"}) == 0
    assert members.named_in("m1 joined", {"member_id": "m1", "client_id": None}) == ()
    assert members.named_in("joined", {"member_id": "", "client_id": "svc"}) == ()


def test_the_number_of_members_and_their_bytes_are_limited() -> None:
    members = MemberClients()
    sizes = [members.learn(joined(f"m{number:03}")) for number in range(MAX_MEMBERS + 1)]
    assert sizes[0] > 0
    assert sizes[-1] == 0  # the oldest one was forgotten
    assert members.learn(joined("m064", "s")) < 0
    assert members.named_in("m000", {}) == ()
    ids = [f"m{number:03}" for number in range(1, MAX_MEMBERS)]
    assert len(members.named_in(" ".join(ids), {})) == MAX_NAMED
