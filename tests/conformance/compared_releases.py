"""The releases of Kafka that are compared, and all their differences from kafkalite.

Every other answer of these releases is equal to that of kafkalite as this release: in the scenarios
of three nodes, of authentication, of ACLs and of quotas, and in the comparison of authorizations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.apis.releases import served_rows
from kafkalite.config.releases import DEFAULT, emulated_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _pytest.mark import ParameterSet

    from kafkalite.apis.table import Row
    from tests.conformance.scenario_runs import Scenario


class Difference(NamedTuple):
    """One entry of `advertised` or one field that differs; None also stands for an absent entry."""

    real: str | None
    emulated: str | None
    reason: str


_DEAD_LETTERS: Final = "share groups can write rejected records to dead-letter queues"
_REMOTE_COPY: Final = "segments can stay in the local log before their upload to remote storage"
_STREAMS_ASSIGNORS: Final = "assignors of streams groups can be selected"
_STREAMS_RACKS: Final = "standby tasks can be distributed by tags of clients"
_RECORD_SIZE: Final = "the size of decompressed records can be limited"
_UNVERIFIED: Final = "checks of OAuth tokens that are omitted must be named"

KAFKA_4_4: Final[Mapping[str, Difference]] = {
    "API STREAMS_GROUP_HEARTBEAT": Difference(
        "up to 1", "up to 0", "lags have 64 bits; the coordinator requests topology descriptions"
    ),
    "API STREAMS_GROUP_DESCRIBE": Difference(
        "up to 1", "up to 0", "the answer has the assignor and the topology description"
    ),
    "feature share.version": Difference("0-2=2", "0-1=1", _DEAD_LETTERS),
    "broker setting errors.deadletterqueue.auto.create.topics.enable": Difference(
        "false", None, _DEAD_LETTERS
    ),
    "broker setting errors.deadletterqueue.topic.name.prefix": Difference(
        "dlq.", None, _DEAD_LETTERS
    ),
    "broker setting group.streams.assignors": Difference("sticky", None, _STREAMS_ASSIGNORS),
    "broker setting group.streams.rack.aware.assignment.tags": Difference("", None, _STREAMS_RACKS),
    "broker setting group.streams.topology.description.plugin.class": Difference(
        None, None, "a plugin can store the topology descriptions"
    ),
    "broker setting log.remote.copy.lag.bytes": Difference("-1", None, _REMOTE_COPY),
    "broker setting log.remote.copy.lag.ms": Difference("0", None, _REMOTE_COPY),
    "broker setting max.decompressed.message.bytes": Difference("2147483639", None, _RECORD_SIZE),
    "broker setting sasl.oauthbearer.allow.unverified.audience": Difference(
        "false", None, _UNVERIFIED
    ),
    "broker setting sasl.oauthbearer.allow.unverified.issuer": Difference(
        "false", None, _UNVERIFIED
    ),
    "topic setting errors.deadletterqueue.group.enable": Difference("false", None, _DEAD_LETTERS),
    "topic setting max.decompressed.message.bytes": Difference("2147483639", None, _RECORD_SIZE),
    "topic setting remote.copy.lag.bytes": Difference("-1", None, _REMOTE_COPY),
    "topic setting remote.copy.lag.ms": Difference("0", None, _REMOTE_COPY),
    "group setting errors.deadletterqueue.copy.record.enable": Difference(
        "false", None, _DEAD_LETTERS
    ),
    "group setting errors.deadletterqueue.topic.name": Difference("", None, _DEAD_LETTERS),
    "group setting streams.assignor.name": Difference("sticky", None, _STREAMS_ASSIGNORS),
    "group setting streams.rack.aware.assignment.tags": Difference("", None, _STREAMS_RACKS),
}

_NO_MESSAGE: Final = "the refusal to change settings of brokers has no message"

_HOST: Final = "an ACL needs a host"

ANSWERS_OF_KAFKA_4_4: Final[Mapping[str, Difference]] = {
    **{
        f"AlterConfigs v{version} broker with nothing.responses[].error_message": Difference(
            "none", "text", _NO_MESSAGE
        )
        for version in range(3)
    },
    **{
        f"CreateAcls v{version} for host ''.results[0].{field}": Difference(real, emulated, _HOST)
        for version in (1, 2, 3)
        for field, real, emulated in (
            ("error_code", "42 INVALID_REQUEST", "0 NONE"),
            ("error_message", "text", "empty"),
        )
    },
}
"""Path of a field in the comparison of authorizations → its values."""

_STREAMS_RULES: Final = "streams groups have other assignors, epochs and checks"
_EMPTY_GROUP: Final = "the assignment epoch of a group without members follows its group epoch"
SETTINGS_OF_KAFKA_4_4: Final = "there are more settings, and other texts"
_SHARE_STATE: Final = "share sessions and states are checked otherwise"

SCENARIOS_OF_KAFKA_4_4: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "a_first_assignment_waits_for_more_members",
            "a_group_that_lacks_topics_is_not_ready",
            "a_heartbeat_after_a_lost_response_is_accepted",
            "a_member_requests_a_shutdown",
            "a_reconciling_streams_group_is_described",
            "a_too_large_topology_is_refused",
            "a_topology_cannot_change",
            "an_empty_group_becomes_a_streams_group",
            "changed_member_metadata_is_stored",
            "commits_in_streams_groups_require_the_right_epoch",
            "copartitioned_topics_must_have_equal_counts",
            "endpoints_list_partitions_of_members",
            "failed_creation_of_topics_is_reported",
            "first_streams_heartbeats_are_checked",
            "internal_topics_are_created",
            "later_streams_heartbeats_are_checked",
            "new_partitions_add_tasks",
            "source_topics_may_be_created_later",
            "standbys_run_in_other_processes",
            "streams_groups_and_others_do_not_mix",
            "streams_groups_are_administered",
            "streams_groups_record_every_step",
            "streams_members_act_at_random",
            "task_assignments_wait_for_the_assignment_interval",
            "tasks_move_in_steps",
            "threads_of_a_process_share_its_load",
        ),
        _STREAMS_RULES,
    ),
    **dict.fromkeys(
        (
            "a_leave_before_the_join_response_leaves_no_member",
            "members_join_and_leave_a_share_group",
            "share_groups_are_recorded",
            "share_offsets_are_altered",
            "share_offsets_are_altered_before_there_is_a_group",
            "static_members_commit_before_and_after_an_absence",
            "static_members_return",
            "the_two_protocols_do_not_mix",
        ),
        _EMPTY_GROUP,
    ),
    **dict.fromkeys(
        (
            "broker_configs_are_described",
            "existing_and_duplicate_topics_are_refused",
            "group_configs_are_described_and_altered",
            "share_groups_have_settings_of_their_own",
            "topic_configs_are_described_by_key",
            "topic_configs_are_described_in_every_version",
            "topics_are_created_in_every_version",
            "topics_can_be_validated_only",
            "topics_take_the_default_counts",
            "topics_whose_metrics_would_collide_are_refused",
            "topics_with_bad_names_are_refused",
            "topics_with_bad_placements_are_refused",
        ),
        SETTINGS_OF_KAFKA_4_4,
    ),
    **dict.fromkeys(
        (
            "a_topic_id_unknown_to_the_session_is_refused",
            "states_have_two_epochs",
        ),
        _SHARE_STATE,
    ),
    "full_heartbeats_are_answered_in_full": "another preferred assignor raises the group epoch",
    "requests_of_classic_members_are_checked": "a malformed subscription has an error of its own",
}
"""Scenario → the rule of Kafka 4.4 that kafkalite does not follow."""


def scenario_parameters(scenarios: Iterable[Scenario]) -> list[ParameterSet]:
    """Return scenarios as parameters of a test, which must fail for those with other rules."""
    return [
        pytest.param(
            scenario,
            id=scenario.__name__,
            marks=[pytest.mark.xfail(reason=reason, strict=True)] if reason else [],
        )
        for scenario in scenarios
        for reason in (SCENARIOS_OF_KAFKA_4_4.get(scenario.__name__),)
    ]


_TOPIC_SETTING: Final = "topic setting "


class Release(NamedTuple):
    """A release of Kafka that is compared with kafkalite as this release."""

    name: str | None
    """The release that kafkalite emulates; None for the default one."""
    version: str | None
    """The version of Kafka; None for the pinned one, which has the default release."""
    differences: Mapping[str, Difference]
    """What it advertises otherwise than kafkalite does."""
    answers: Mapping[str, Difference]
    """The fields of its answers that differ from those of kafkalite."""

    def served_rows(self) -> Mapping[int, Row]:
        """Return the rows of the APIs that kafkalite as this release serves like Kafka."""
        return served_rows(emulated_release(self.name or DEFAULT))

    @property
    def added_topic_settings(self) -> Mapping[str, str | None]:
        """The default values of the topic settings that kafkalite does not have."""
        return {
            name.removeprefix(_TOPIC_SETTING): difference.real
            for name, difference in self.differences.items()
            if name.startswith(_TOPIC_SETTING) and difference.emulated is None
        }


RELEASES: Final[Mapping[str, Release]] = {
    "4.3": Release("4.3", "4.3.1", {}, {}),
    "4.4": Release(None, None, KAFKA_4_4, ANSWERS_OF_KAFKA_4_4),
}
"""Release → what is compared."""
