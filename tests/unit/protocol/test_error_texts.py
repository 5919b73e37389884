"""Texts that programs compare, as those programs contain them."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText

EXPECTED: dict[ErrorText, tuple[dict[str, object], str]] = {
    ErrorText.GROUP_NOT_FOUND: ({"group_id": "g"}, "Group g not found."),
    ErrorText.GROUP_HAS_ANOTHER_TYPE: (
        {"group_id": "g", "group_type": "consumer"},
        "Group g is not a consumer group.",
    ),
    ErrorText.FIELD_IS_EMPTY: ({"field": "GroupId"}, "GroupId can't be empty."),
    ErrorText.UNKNOWN_MEMBER: (
        {"member_id": "m", "group_id": "g"},
        "Member m is not a member of group g.",
    ),
    ErrorText.GREATER_EPOCH: (
        {"group_type": "streams", "received_epoch": 999, "member_epoch": 2},
        (
            "The streams group member has a greater member epoch (999) than the one known by the "
            "group coordinator (2). The member must abandon all its partitions and rejoin."
        ),
    ),
    ErrorText.SMALLER_EPOCH: (
        {"group_type": "consumer", "received_epoch": 1, "member_epoch": 4},
        (
            "The consumer group member has a smaller member epoch (1) than the one known by the "
            "group coordinator (4). The member must abandon all its partitions and rejoin."
        ),
    ),
    ErrorText.SMALLER_SHARE_EPOCH: (
        {"received_epoch": 1, "member_epoch": 4, "previous_member_epoch": 3},
        (
            "The share group member has a smaller member epoch (1) than the one known by the group "
            "coordinator (4), and it does not match the previous member epoch (3). The member must "
            "abandon all its partitions and rejoin."
        ),
    ),
    ErrorText.UNSUPPORTED_ASSIGNOR: (
        {"assignor": "a", "supported": "uniform, range"},
        "ServerAssignor a is not supported. Supported assignors: uniform, range.",
    ),
    ErrorText.UPGRADE_OF_CUSTOM_ASSIGNOR: (
        {"group_id": "grp"},
        (
            "Cannot upgrade classic group grp to consumer group because an unsupported custom "
            "assignor is in use. Please refer to the documentation or switch to a default assignor "
            "before re-attempting the upgrade."
        ),
    ),
    ErrorText.SOURCE_TOPICS_ARE_MISSING: ({"topics": "a, b"}, "Source topics a, b are missing."),
    ErrorText.PARTITION_COUNTS_DIFFER: (
        {"counts": "bar=3, foo=6"},
        "Following topics do not have the same number of partitions: [{bar=3, foo=6}]",
    ),
    ErrorText.CONFIG_IS_NOT_DYNAMIC: (
        {"names": "a"},
        "Cannot update these configs dynamically: [a]",
    ),
    ErrorText.ASSIGNMENT_OF_ANOTHER_SIZE: (
        {"replicas": 2, "replication_factor": 1},
        (
            "The manual partition assignment includes a partition with 2 replica(s), but this is "
            "not consistent with previous partitions, which have 1 replica(s)."
        ),
    ),
    ErrorText.TOPIC_OR_PARTITION_IS_UNKNOWN: (
        {},
        "This server does not host this topic-partition.",
    ),
    ErrorText.PREFERRED_LEADER_IS_NOT_AVAILABLE: ({}, "The preferred leader was not available."),
}


@pytest.mark.parametrize("text", EXPECTED)
def test_text_equals_the_one_that_programs_compare(text: ErrorText) -> None:
    values, expected = EXPECTED[text]
    assert text.format(**values) == expected


@pytest.mark.parametrize("text", ErrorText)
def test_every_text_names_a_program_that_compares_it(text: ErrorText) -> None:
    assert text.compared_by
    assert all(name and name == name.strip() for name in text.compared_by)


def test_no_text_is_in_the_table_twice() -> None:
    templates = [text.template for text in ErrorText.__members__.values()]
    assert len(set(templates)) == len(ErrorText.__members__)


def test_default_messages_of_error_codes_are_those_of_the_table() -> None:
    assert ErrorCode.NON_EMPTY_GROUP.message == ErrorText.GROUP_IS_NOT_EMPTY.template
    assert ErrorCode.GROUP_ID_NOT_FOUND.message == ErrorText.GROUP_ID_IS_NOT_FOUND.template
