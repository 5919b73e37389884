"""Scenarios of KIP-1082, client-generated member ids, by its sections and its test plan.

The KIP required a UUID and compared epochs. Released Kafka accepts any id that is not blank, and a
join with a known id is a join of that member. The latter is the default here, the former is
`group.consumer.member.id.validation=uuid`. Scenarios for both have a parameter.
"""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import is_reserved, uuid_from_text, uuid_to_text
from tests.cluster.consumers import ConsumerCluster, G

ID, OTHER_ID = uuid_to_text(b"\x0c" * 16), uuid_to_text(b"\x0d" * 16)
SESSION_MS = 45_000
BOTH = pytest.mark.parametrize("validation", ["kafka", "uuid"])


def cluster_of(validation: str = "kafka") -> ConsumerCluster:
    return ConsumerCluster({"t": 4}, {MEMBER_ID_KEY: validation})


def members(cluster: ConsumerCluster) -> list[str]:
    return sorted(cluster.group().members)


def error(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]


class TestMotivation:
    """The first heartbeat is idempotent: no duplicate members, no outdated assignments."""

    @BOTH
    def test_a_repeated_first_heartbeat_creates_one_member_with_one_assignment(
        self, validation: str
    ) -> None:
        cluster = cluster_of(validation)
        first = cluster.beat(ID)
        written = cluster.kinds()
        again = cluster.beat(ID)
        assert again == first
        assert cluster.given(again) == {"t": [0, 1, 2, 3]}
        assert (written.count("MemberMetadata"), cluster.kinds()) == (1, [])
        assert members(cluster) == [ID]
        assert (cluster.group().epoch, cluster.group().target_epoch) == (2, 2)

    @BOTH
    def test_a_late_repetition_does_not_create_another_member(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.beat(ID)
        cluster.pass_interval()
        cluster.beat(OTHER_ID)
        again = cluster.beat(ID)
        assert members(cluster) == sorted([ID, OTHER_ID])
        # It owns nothing yet, so it need not revoke anything: there is no third step.
        assert (again.member_epoch, cluster.given(again)) == (3, {"t": [0, 1]})
        assert cluster.given(cluster.beat(OTHER_ID, 3)) == {"t": [2, 3]}

    @BOTH
    def test_a_leave_before_the_first_response_removes_the_member(self, validation: str) -> None:
        cluster = cluster_of(validation)
        # One connection preserves the order, and the client knows its id without the response.
        cluster.beat(ID)
        cluster.kinds()
        left = cluster.beat(ID, -1)
        assert (error(left), left.member_id, left.member_epoch) == (ErrorCode.NONE, ID, -1)
        assert cluster.kinds() == [
            "CurrentMemberAssignment†", "TargetAssignmentMember†", "MemberMetadata†", "Metadata",
            "TargetAssignmentMetadata",
        ]  # fmt: skip
        assert members(cluster) == []
        assert cluster.group().state_name() == "Empty"

    @BOTH
    def test_a_leaving_member_releases_its_partitions_at_once(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.beat(ID)
        cluster.beat(ID, -1)
        cluster.pass_interval()
        assert cluster.given(cluster.beat(OTHER_ID)) == {"t": [0, 1, 2, 3]}

    @BOTH
    def test_a_repeated_leave_gets_unknown_member_id(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.beat(ID)
        cluster.beat(ID, -1)
        cluster.kinds()
        assert error(cluster.beat(ID, -1)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert cluster.kinds() == []
        # So a later join is a new session of the client, not a duplicate member.
        assert cluster.epoch(ID) > 0

    @BOTH
    def test_a_leave_before_its_join_is_refused_and_can_be_repeated(self, validation: str) -> None:
        """The leave overtook the join. If it is not repeated, the session times out."""
        cluster = cluster_of(validation)
        assert error(cluster.beat(ID, -1)) is ErrorCode.GROUP_ID_NOT_FOUND
        cluster.beat(ID)
        assert error(cluster.beat(ID, -1)) is ErrorCode.NONE
        assert members(cluster) == []
        assert error(cluster.beat(OTHER_ID, -1)) is ErrorCode.UNKNOWN_MEMBER_ID
        cluster.beat(OTHER_ID)
        cluster.clock.advance(SESSION_MS - 1)
        assert members(cluster) == [OTHER_ID]
        cluster.clock.advance(1)
        assert members(cluster) == []

    def test_with_version_0_a_lost_response_creates_a_duplicate_until_its_session_expires(
        self,
    ) -> None:
        cluster = cluster_of()
        first, second = (cluster.beat("", version=0).member_id for _ in range(2))
        assert members(cluster) == sorted([first, second])
        cluster.clock.advance(SESSION_MS)
        assert members(cluster) == []


class TestPublicInterfaces:
    def test_version_1_has_the_fields_of_version_0(self) -> None:
        cluster = cluster_of()
        assert cluster.beat(ID, version=1) == cluster.beat(ID, version=0)

    @BOTH
    def test_every_request_of_version_1_has_the_id(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.beat(ID)
        for epoch, instance in ((0, None), (2, None), (-1, None), (-2, "i"), (-2, None)):
            assert error(cluster.beat("", epoch, instance=instance)) is ErrorCode.INVALID_REQUEST
        assert members(cluster) == [ID]


class TestUuidGenerationSpecifications:
    """Ids that the coordinator generates for version 0 have the format requested of clients."""

    def test_generated_ids_are_unreserved_uuids_in_url_safe_base64(self) -> None:
        cluster = cluster_of("uuid")
        for number in range(20):
            member_id = cluster.beat("", version=0, group=f"g{number}").member_id
            assert len(member_id) == 22
            assert not is_reserved(uuid_from_text(member_id))
            # An id of version 0 is valid in version 1.
            assert error(cluster.beat(member_id, 2, group=f"g{number}")) is ErrorCode.NONE


class TestMemberIdLifecycle:
    @BOTH
    def test_one_id_is_used_for_a_whole_session_and_for_rejoining(self, validation: str) -> None:
        cluster = cluster_of(validation)
        for _ in range(3):
            epoch = cluster.epoch(ID)
            for _ in range(3):
                assert cluster.beat(ID, epoch).member_id == ID
            assert error(cluster.beat(ID, epoch + 1)) is ErrorCode.FENCED_MEMBER_EPOCH
            assert members(cluster) == [ID]

    def test_in_mode_kafka_a_join_with_a_known_id_is_that_member(self) -> None:
        cluster = cluster_of()
        cluster.beat(ID)
        cluster.beat(ID, 2)
        again = cluster.beat(ID)
        assert (error(again), again.member_epoch) == (ErrorCode.NONE, 2)
        assert cluster.given(again) == {"t": [0, 1, 2, 3]}
        # The other process continues too, until their epochs differ.
        assert cluster.epoch(ID, 2) == 2

    def test_in_mode_uuid_the_lower_epoch_of_two_with_one_id_is_fenced(self) -> None:
        cluster = cluster_of("uuid")
        cluster.beat(ID)
        cluster.beat(ID, 2)
        cluster.kinds()
        for _ in range(2):
            assert error(cluster.beat(ID)) is ErrorCode.FENCED_MEMBER_EPOCH
        assert (cluster.kinds(), members(cluster)) == ([], [ID])
        # The process with the higher epoch is not affected.
        assert cluster.epoch(ID, 2) == 2
        assert cluster.events("refused")[-1].text == (
            f"join of member {ID} refused: another client with this member id has the higher "
            "epoch 2 (rule uuid)"
        )

    def test_in_mode_uuid_a_fenced_process_may_rejoin_when_the_other_has_left(self) -> None:
        cluster = cluster_of("uuid")
        cluster.beat(ID)
        cluster.beat(ID, 2)
        assert error(cluster.beat(ID)) is ErrorCode.FENCED_MEMBER_EPOCH
        cluster.clock.advance(SESSION_MS)
        assert members(cluster) == []
        assert error(cluster.beat(ID)) is ErrorCode.NONE

    @BOTH
    def test_of_two_processes_with_one_id_the_lower_epoch_is_fenced(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.beat(ID)
        cluster.pass_interval()
        cluster.beat(OTHER_ID)
        cluster.beat(ID, 2)
        assert cluster.epoch(ID, 2, {"t": [0, 1]}) == 3
        lower = cluster.beat(ID, 2, {"t": [0, 1, 2, 3]})
        assert error(lower) is ErrorCode.FENCED_MEMBER_EPOCH
        assert cluster.epoch(ID, 3) == 3

    @BOTH
    def test_a_fenced_member_rejoins_with_its_id_at_epoch_zero(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.beat(ID)
        cluster.beat(ID, 2)
        assert error(cluster.beat(ID, 1)) is ErrorCode.FENCED_MEMBER_EPOCH
        assert cluster.epoch(ID) == 2
        assert members(cluster) == [ID]


class TestCompatibility:
    def test_version_0_accepts_any_id_of_the_client(self) -> None:
        cluster = cluster_of("uuid")
        assert error(cluster.beat("a", version=0)) is ErrorCode.NONE
        assert members(cluster) == ["a"]

    def test_the_setting_can_be_changed_dynamically(self) -> None:
        cluster = cluster_of()
        assert error(cluster.beat("a")) is ErrorCode.NONE
        cluster.set_config(MEMBER_ID_KEY, "uuid")
        assert error(cluster.beat("a", 2)) is ErrorCode.INVALID_REQUEST
        assert error(cluster.beat("b")) is ErrorCode.INVALID_REQUEST
        assert error(cluster.beat(ID)) is ErrorCode.NONE
        cluster.set_config(MEMBER_ID_KEY, "kafka")
        assert error(cluster.beat("a", 2)) is ErrorCode.NONE


class TestPlanUuidGeneration:
    @pytest.mark.parametrize(
        "member_id",
        [
            "-_-_DAwMDAwMDAwMDAwMDA",
            "-_-_DAwMDAwMDAwMDAwMDA==",
            "+/+/DAwMDAwMDAwMDAwMDA",
            "+/+/DAwMDAwMDAwMDAwMDA==",
            "fbffbf0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c",
            "FBFFBF0C-0C0C-0C0C-0C0C-0C0C0C0C0C0C",
        ],
    )
    def test_every_encoding_of_a_uuid_is_accepted_and_returned_unchanged(
        self, member_id: str
    ) -> None:
        cluster = cluster_of("uuid")
        assert cluster.beat(member_id).member_id == member_id
        assert cluster.beat(member_id, 2).member_id == member_id
        cluster.restart()
        assert members(cluster) == [member_id]
        assert cluster.beat(member_id, 2).member_id == member_id
        assert cluster.beat(member_id, -1).member_id == member_id

    def test_two_encodings_of_one_uuid_are_two_members(self) -> None:
        """This mode compares member ids as text, as other requests and all records do."""
        cluster = cluster_of("uuid")
        cluster.beat(ID)
        cluster.beat(ID, 2)
        padded = ID + "=="
        assert error(cluster.beat(padded)) is ErrorCode.NONE
        assert members(cluster) == sorted([ID, padded])
        assert error(cluster.beat(ID)) is ErrorCode.FENCED_MEMBER_EPOCH
        assert error(cluster.beat(padded, -1)) is ErrorCode.NONE
        assert members(cluster) == [ID]

    @BOTH
    def test_all_responses_of_a_session_have_the_same_id(self, validation: str) -> None:
        cluster = cluster_of(validation)
        answers = [cluster.beat(ID)]
        assert members(cluster) == [ID]
        epoch = answers[0].member_epoch
        answers += [cluster.beat(ID, epoch) for _ in range(3)] + [cluster.beat(ID, -1)]
        assert {answer.member_id for answer in answers} == {ID}


class TestPlanRetryMechanism:
    @BOTH
    def test_a_failed_heartbeat_is_repeated_with_the_same_id(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.logs[0].next_error = OSError(28, "disk full")
        assert error(cluster.beat(ID)) is not ErrorCode.NONE
        assert G not in cluster.groups.shards()[0].machine.directory.groups
        assert cluster.epoch(ID) == 2
        assert members(cluster) == [ID]

    @BOTH
    def test_a_repeated_heartbeat_works_with_a_new_coordinator(self, validation: str) -> None:
        cluster = cluster_of(validation)
        first = cluster.beat(ID)
        cluster.restart()
        assert cluster.beat(ID) == first
        assert members(cluster) == [ID]


def warnings_of(cluster: ConsumerCluster) -> list[tuple[str, str, str, dict[str, object]]]:
    """Collect the warnings about clients from now on."""
    found: list[tuple[str, str, str, dict[str, object]]] = []

    def warn(host: str, kind: str, event: str, **fields: object) -> None:
        found.append((host, kind, event, fields))

    cluster.node.warn_about_client = warn
    return found


class TestPlanErrorHandling:
    @BOTH
    @pytest.mark.parametrize("blank", ["", " "])
    def test_a_missing_member_id_is_logged(self, blank: str, validation: str) -> None:
        cluster = cluster_of(validation)
        warnings = warnings_of(cluster)
        cluster.beat(blank)
        ((host, kind, event, fields),) = warnings
        assert (host, kind) == ("127.0.0.1", "missing member id")
        assert event == "ConsumerGroupHeartbeat refused: missing member id"
        assert fields.pop("reason")
        assert fields == {
            "group": G,
            "member_id": blank,
            "client_id": "client",
            "client": "127.0.0.1",
            "listener": "PLAINTEXT",
        }

    def test_an_invalid_member_id_is_logged_truncated_and_escaped(self) -> None:
        cluster = cluster_of("uuid")
        warnings = warnings_of(cluster)
        cluster.beat("\x1b" + "x" * 30_000)
        cluster.beat(uuid_to_text(bytes(16)))
        assert [kind for _, kind, _, _ in warnings] == ["invalid member id"] * 2
        shown = warnings[0][3]["member_id"]
        assert isinstance(shown, str)
        assert shown.startswith("\\x1bxxx")
        assert len(shown) < 200

    @BOTH
    def test_other_refusals_and_valid_ids_are_not_logged(self, validation: str) -> None:
        cluster = cluster_of(validation)
        warnings = warnings_of(cluster)
        cluster.beat(ID)
        cluster.beat(ID, -3)
        cluster.beat(OTHER_ID, 2)
        cluster.beat("", version=0)
        assert warnings == []

    @BOTH
    @pytest.mark.parametrize("blank", ["", " ", "\t\n"])
    def test_a_missing_member_id_is_an_invalid_request(self, blank: str, validation: str) -> None:
        cluster = cluster_of(validation)
        response = cluster.beat(blank)
        assert error(response) is ErrorCode.INVALID_REQUEST
        assert "MemberId" in response.error_message
        (noted,) = cluster.events("refused")
        assert noted.facts["error"] == "INVALID_REQUEST"
        assert "MemberId" in noted.text

    @pytest.mark.parametrize(
        "member_id",
        [
            "a",
            ID[:-1],
            ID + "A",
            ID + "=",
            "+_" + ID[2:],
            "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c",
            ID[:-1] + "B",
            "é" * 22,
            uuid_to_text(bytes(16)),
            uuid_to_text(bytes(15) + b"\x01"),
            uuid_to_text(bytes(16)) + "==",
            uuid_to_text(bytes(15) + b"\x01") + "==",
            "00000000-0000-0000-0000-000000000000",
            "00000000-0000-0000-0000-000000000001",
        ],
    )
    def test_an_invalid_uuid_is_an_invalid_request_in_mode_uuid(self, member_id: str) -> None:
        cluster = cluster_of("uuid")
        assert error(cluster.beat(member_id)) is ErrorCode.INVALID_REQUEST
        assert G not in cluster.groups.shards()[0].machine.directory.groups
        # The client generates a valid id and retries.
        assert error(cluster.beat(ID)) is ErrorCode.NONE
        # In mode kafka any id is accepted.
        assert error(cluster_of().beat(member_id)) is ErrorCode.NONE

    @BOTH
    def test_a_member_id_of_another_session_is_unknown(self, validation: str) -> None:
        cluster = cluster_of(validation)
        cluster.beat(ID)
        cluster.kinds()
        for epoch in (2, -1):
            assert error(cluster.beat(OTHER_ID, epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert (cluster.kinds(), members(cluster)) == ([], [ID])


class TestPlanBackwardCompatibility:
    @BOTH
    def test_version_0_gets_an_id_and_continues_with_it(self, validation: str) -> None:
        cluster = cluster_of(validation)
        joined = cluster.beat("", version=0)
        assert joined.member_epoch == 2
        assert cluster.beat(joined.member_id, 2, version=0).member_epoch == 2
        assert cluster.beat(joined.member_id, -1, version=0).member_epoch == -1
        assert members(cluster) == []

    def test_version_0_without_an_id_is_refused_after_the_first_heartbeat(self) -> None:
        cluster = cluster_of()
        cluster.beat("", version=0)
        for epoch in (2, -1):
            assert error(cluster.beat("", epoch, version=0)) is ErrorCode.INVALID_REQUEST
        # A temporary leave of a static member passes this check, and finds no member.
        assert error(cluster.beat("", -2, instance="i", version=0)) is ErrorCode.UNKNOWN_MEMBER_ID


class TestPlanMixedVersion:
    @BOTH
    def test_members_of_both_versions_share_a_group(self, validation: str) -> None:
        cluster = cluster_of(validation)
        old = cluster.beat("", version=0).member_id
        cluster.pass_interval()
        assert cluster.epoch(ID) == 3
        assert cluster.given(cluster.beat(old, 2, version=0)) == {"t": [0, 1]}
        assert cluster.epoch(old, 2, {"t": [0, 1]}, version=0) == 3
        assert cluster.given(cluster.beat(ID, 3)) == {"t": [2, 3]}
        cluster.pass_interval()
        assert error(cluster.beat(old, -1, version=0)) is ErrorCode.NONE
        assert cluster.given(cluster.beat(ID, 3)) == {"t": [0, 1, 2, 3]}

    def test_a_member_may_change_its_version(self) -> None:
        cluster = cluster_of("uuid")
        member_id = cluster.beat("", version=0).member_id
        assert cluster.epoch(member_id, 2, version=1) == 2
        assert cluster.epoch(member_id, 2, version=0) == 2


def test_the_api_of_the_kip_is_68_in_two_versions() -> None:
    assert ConsumerGroupHeartbeatRequest.API_KEY == 68
    assert str(ConsumerGroupHeartbeatRequest.versions) == "0-1"
