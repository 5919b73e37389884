"""Scenarios of KIP-1082, client-generated member ids, by its sections and its test plan.

The KIP asked for a UUID and compared epochs; what Kafka ships takes any id that is not blank, and
whoever joins with a known id is that member. The second is the default here, the first is
`group.consumer.member.id.validation=uuid`. A scenario for both says so by its parameter.
"""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalite.protocol.uuids import is_reserved, uuid_from_text, uuid_to_text
from tests.scenarios.consumer_world import ConsumerWorld, G

ID, OTHER_ID = uuid_to_text(b"\x0c" * 16), uuid_to_text(b"\x0d" * 16)
SESSION_MS = 45_000
BOTH = pytest.mark.parametrize("validation", ["kafka", "uuid"])


def world_of(validation: str = "kafka") -> ConsumerWorld:
    return ConsumerWorld({"t": 4}, {MEMBER_ID_KEY: validation})


def members(world: ConsumerWorld) -> list[str]:
    return sorted(world.group().members)


def error(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


class TestMotivation:
    """The first heartbeat is idempotent: no ghosts, no stale assignments."""

    @BOTH
    def test_a_first_heartbeat_sent_twice_makes_one_member_with_one_assignment(
        self, validation: str
    ) -> None:
        world = world_of(validation)
        first = world.beat(ID)
        written = world.kinds()
        again = world.beat(ID)
        assert again == first
        assert world.given(again) == {"t": [0, 1, 2, 3]}
        assert (written.count("MemberMetadata"), world.kinds()) == (1, [])
        assert members(world) == [ID]
        assert (world.group().epoch, world.group().target_epoch) == (2, 2)

    @BOTH
    def test_a_repetition_that_comes_after_others_joined_is_still_the_one_member(
        self, validation: str
    ) -> None:
        world = world_of(validation)
        world.beat(ID)
        world.pass_interval()
        world.beat(OTHER_ID)
        again = world.beat(ID)
        assert members(world) == sorted([ID, OTHER_ID])
        # It owns nothing yet, so that it has let go of what the other is to have: no third step.
        assert (again.member_epoch, world.given(again)) == (3, {"t": [0, 1]})
        assert world.given(world.beat(OTHER_ID, 3)) == {"t": [2, 3]}

    @BOTH
    def test_a_leave_sent_before_the_first_answer_came_removes_the_member(
        self, validation: str
    ) -> None:
        world = world_of(validation)
        # One connection keeps their order, and the client knows its id without the answer.
        world.beat(ID)
        world.kinds()
        left = world.beat(ID, -1)
        assert (error(left), left.member_id, left.member_epoch) == (ErrorCode.NONE, ID, -1)
        assert world.kinds() == [
            "CurrentMemberAssignment†", "TargetAssignmentMember†", "MemberMetadata†", "Metadata",
        ]  # fmt: skip
        assert members(world) == []
        assert world.group().state_name() == "Empty"

    @BOTH
    def test_who_left_so_leaves_its_partitions_to_others_at_once(self, validation: str) -> None:
        world = world_of(validation)
        world.beat(ID)
        world.beat(ID, -1)
        world.pass_interval()
        assert world.given(world.beat(OTHER_ID)) == {"t": [0, 1, 2, 3]}

    @BOTH
    def test_a_leave_that_arrives_twice_is_told_that_there_is_nobody(self, validation: str) -> None:
        world = world_of(validation)
        world.beat(ID)
        world.beat(ID, -1)
        world.kinds()
        assert error(world.beat(ID, -1)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert world.kinds() == []
        # And so it is a client's second session that comes after it, not a ghost.
        assert world.epoch(ID) > 0

    @BOTH
    def test_a_leave_that_overtakes_the_join_is_told_so_and_may_be_sent_again(
        self, validation: str
    ) -> None:
        """Only over another connection can it; the session bounds what is left of such a join."""
        world = world_of(validation)
        assert error(world.beat(ID, -1)) is ErrorCode.GROUP_ID_NOT_FOUND
        world.beat(ID)
        assert error(world.beat(ID, -1)) is ErrorCode.NONE
        assert members(world) == []
        assert error(world.beat(OTHER_ID, -1)) is ErrorCode.UNKNOWN_MEMBER_ID
        world.beat(OTHER_ID)
        world.clock.advance(SESSION_MS - 1)
        assert members(world) == [OTHER_ID]
        world.clock.advance(1)
        assert members(world) == []

    def test_with_version_0_a_lost_answer_made_ghosts_which_sessions_bound(self) -> None:
        world = world_of()
        first, second = (world.beat("", version=0).member_id for _ in range(2))
        assert members(world) == sorted([first, second])
        world.clock.advance(SESSION_MS)
        assert members(world) == []


class TestPublicInterfaces:
    def test_version_1_has_the_fields_of_version_0(self) -> None:
        world = world_of()
        assert world.beat(ID, version=1) == world.beat(ID, version=0)

    @BOTH
    def test_every_request_of_version_1_carries_the_id(self, validation: str) -> None:
        world = world_of(validation)
        world.beat(ID)
        for epoch, instance in ((0, None), (2, None), (-1, None), (-2, "i"), (-2, None)):
            assert error(world.beat("", epoch, instance=instance)) is ErrorCode.INVALID_REQUEST
        assert members(world) == [ID]


class TestUuidGenerationSpecifications:
    """What the coordinator draws itself, for version 0, is what clients are asked to draw."""

    def test_ids_drawn_here_are_uuids_that_are_not_reserved_in_url_safe_base64(self) -> None:
        world = world_of("uuid")
        for number in range(20):
            member_id = world.beat("", version=0, group=f"g{number}").member_id
            assert len(member_id) == 22
            assert not is_reserved(uuid_from_text(member_id))
            # What version 0 was given passes the check of version 1.
            assert error(world.beat(member_id, 2, group=f"g{number}")) is ErrorCode.NONE


class TestMemberIdLifecycle:
    @BOTH
    def test_one_id_serves_all_heartbeats_of_a_session_and_rejoining(self, validation: str) -> None:
        world = world_of(validation)
        for _ in range(3):
            epoch = world.epoch(ID)
            for _ in range(3):
                assert world.beat(ID, epoch).member_id == ID
            assert error(world.beat(ID, epoch + 1)) is ErrorCode.FENCED_MEMBER_EPOCH
            assert members(world) == [ID]

    def test_as_shipped_a_join_with_a_known_id_is_that_member(self) -> None:
        world = world_of()
        world.beat(ID)
        world.beat(ID, 2)
        again = world.beat(ID)
        assert (error(again), again.member_epoch) == (ErrorCode.NONE, 2)
        assert world.given(again) == {"t": [0, 1, 2, 3]}
        # And the other incarnation goes on too, until their epochs part.
        assert world.epoch(ID, 2) == 2

    def test_as_proposed_the_lower_epoch_of_two_with_one_id_is_fenced(self) -> None:
        world = world_of("uuid")
        world.beat(ID)
        world.beat(ID, 2)
        world.kinds()
        second = world.beat(ID)
        assert error(second) is ErrorCode.FENCED_MEMBER_EPOCH
        assert (world.kinds(), members(world)) == ([], [ID])
        # The higher one does not notice.
        assert world.epoch(ID, 2) == 2
        assert world.events("refused")[-1].text == (
            f"join of member {ID} refused: another incarnation with this id is at epoch 2, which "
            "is the higher one (rule uuid)"
        )

    def test_as_proposed_the_fenced_one_may_reset_to_zero_once_the_other_is_gone(self) -> None:
        world = world_of("uuid")
        world.beat(ID)
        world.beat(ID, 2)
        assert error(world.beat(ID)) is ErrorCode.FENCED_MEMBER_EPOCH
        world.clock.advance(SESSION_MS)
        assert members(world) == []
        assert error(world.beat(ID)) is ErrorCode.NONE

    @BOTH
    def test_two_at_positive_epochs_are_settled_by_them(self, validation: str) -> None:
        world = world_of(validation)
        world.beat(ID)
        world.pass_interval()
        world.beat(OTHER_ID)
        world.beat(ID, 2)
        assert world.epoch(ID, 2, {"t": [0, 1]}) == 3
        lower = world.beat(ID, 2, {"t": [0, 1, 2, 3]})
        assert error(lower) is ErrorCode.FENCED_MEMBER_EPOCH
        assert world.epoch(ID, 3) == 3

    @BOTH
    def test_a_fenced_member_rejoins_with_its_id_and_epoch_zero(self, validation: str) -> None:
        world = world_of(validation)
        world.beat(ID)
        world.beat(ID, 2)
        assert error(world.beat(ID, 1)) is ErrorCode.FENCED_MEMBER_EPOCH
        assert world.epoch(ID) == 2
        assert members(world) == [ID]


class TestCompatibility:
    def test_version_0_may_bring_an_id_of_its_own_whatever_it_looks_like(self) -> None:
        world = world_of("uuid")
        assert error(world.beat("a", version=0)) is ErrorCode.NONE
        assert members(world) == ["a"]

    def test_the_setting_may_change_while_the_broker_runs(self) -> None:
        world = world_of()
        assert error(world.beat("a")) is ErrorCode.NONE
        world.set_config(MEMBER_ID_KEY, "uuid")
        assert error(world.beat("a", 2)) is ErrorCode.INVALID_REQUEST
        assert error(world.beat("b")) is ErrorCode.INVALID_REQUEST
        assert error(world.beat(ID)) is ErrorCode.NONE
        world.set_config(MEMBER_ID_KEY, "kafka")
        assert error(world.beat("a", 2)) is ErrorCode.NONE


class TestPlanUuidGeneration:
    @BOTH
    def test_the_id_of_the_first_heartbeat_is_the_members(self, validation: str) -> None:
        world = world_of(validation)
        assert world.beat(ID).member_id == ID
        assert members(world) == [ID]

    @BOTH
    def test_it_is_the_same_in_all_answers_of_the_session(self, validation: str) -> None:
        world = world_of(validation)
        epoch = world.epoch(ID)
        answers = [world.beat(ID, epoch) for _ in range(3)] + [world.beat(ID, -1)]
        assert {answer.member_id for answer in answers} == {ID}


class TestPlanRetryMechanism:
    @BOTH
    def test_a_heartbeat_that_failed_is_sent_again_with_the_same_id(self, validation: str) -> None:
        world = world_of(validation)
        world.logs[0].fails_with = OSError(28, "disk full")
        assert error(world.beat(ID)) is not ErrorCode.NONE
        assert G not in world.groups.shards()[0].machine.directory.groups
        assert world.epoch(ID) == 2
        assert members(world) == [ID]

    @BOTH
    def test_a_retry_is_understood_by_the_coordinator_that_took_over(self, validation: str) -> None:
        world = world_of(validation)
        first = world.beat(ID)
        world.restart()
        assert world.beat(ID) == first
        assert members(world) == [ID]


class TestPlanConsistency:
    @BOTH
    def test_a_new_id_in_the_middle_of_a_session_is_another_member(self, validation: str) -> None:
        world = world_of(validation)
        world.beat(ID)
        world.beat(OTHER_ID)
        assert members(world) == sorted([ID, OTHER_ID])


class TestPlanErrorHandling:
    @BOTH
    @pytest.mark.parametrize("blank", ["", " ", "\t\n"])
    def test_no_member_id_is_an_invalid_request_and_noted(
        self, blank: str, validation: str
    ) -> None:
        world = world_of(validation)
        response = world.beat(blank)
        assert error(response) is ErrorCode.INVALID_REQUEST
        assert "MemberId" in response.error_message
        (noted,) = world.events("refused")
        assert noted.facts["error"] == "INVALID_REQUEST"
        assert "MemberId" in noted.text

    @pytest.mark.parametrize(
        "member_id",
        [
            "a",
            ID[:-1],
            ID + "A",
            ID + "==",
            "0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c",
            "+/" + ID[2:],
            ID[:-1] + "B",
            "é" * 22,
            uuid_to_text(bytes(16)),
            uuid_to_text(bytes(15) + b"\x01"),
            uuid_to_text(bytes(15) + b"\x63"),
        ],
    )
    def test_an_invalid_uuid_is_an_invalid_request_where_uuids_are_asked_for(
        self, member_id: str
    ) -> None:
        world = world_of("uuid")
        assert error(world.beat(member_id)) is ErrorCode.INVALID_REQUEST
        assert G not in world.groups.shards()[0].machine.directory.groups
        # The client draws a right one and tries again.
        assert error(world.beat(ID)) is ErrorCode.NONE
        # As shipped, anything goes.
        assert error(world_of().beat(member_id)) is ErrorCode.NONE

    @BOTH
    def test_a_member_id_that_is_not_the_sessions_is_unknown(self, validation: str) -> None:
        world = world_of(validation)
        world.beat(ID)
        world.kinds()
        for epoch in (2, -1):
            assert error(world.beat(OTHER_ID, epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert (world.kinds(), members(world)) == ([], [ID])


class TestPlanBackwardCompatibility:
    @BOTH
    def test_version_0_is_given_an_id_and_goes_on_by_it(self, validation: str) -> None:
        world = world_of(validation)
        joined = world.beat("", version=0)
        assert joined.member_epoch == 2
        assert world.beat(joined.member_id, 2, version=0).member_epoch == 2
        assert world.beat(joined.member_id, -1, version=0).member_epoch == -1
        assert members(world) == []

    def test_version_0_without_an_id_is_refused_but_for_the_first_heartbeat(self) -> None:
        world = world_of()
        world.beat("", version=0)
        for epoch in (2, -1):
            assert error(world.beat("", epoch, version=0)) is ErrorCode.INVALID_REQUEST
        # A static member's leave for a while slips through the check, and finds nobody.
        assert error(world.beat("", -2, instance="i", version=0)) is ErrorCode.UNKNOWN_MEMBER_ID


class TestPlanMixedVersion:
    @BOTH
    def test_members_of_both_versions_share_a_group(self, validation: str) -> None:
        world = world_of(validation)
        old = world.beat("", version=0).member_id
        world.pass_interval()
        assert world.epoch(ID) == 3
        assert world.given(world.beat(old, 2, version=0)) == {"t": [0, 1]}
        assert world.epoch(old, 2, {"t": [0, 1]}, version=0) == 3
        assert world.given(world.beat(ID, 3)) == {"t": [2, 3]}
        world.pass_interval()
        assert error(world.beat(old, -1, version=0)) is ErrorCode.NONE
        assert world.given(world.beat(ID, 3)) == {"t": [0, 1, 2, 3]}

    def test_a_member_may_change_the_version_it_speaks(self) -> None:
        world = world_of("uuid")
        member_id = world.beat("", version=0).member_id
        assert world.epoch(member_id, 2, version=1) == 2
        assert world.epoch(member_id, 2, version=0) == 2


def test_the_api_of_the_kip_is_68_in_two_versions() -> None:
    assert ConsumerGroupHeartbeatRequest.API_KEY == 68
    assert str(ConsumerGroupHeartbeatRequest.versions) == "0-1"
