"""Errors for missing groups and groups of another type."""

from __future__ import annotations

import pytest

from kafkalite.groups.group import GroupType, group_not_found_error
from kafkalite.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("group_type", GroupType)
def test_the_message_depends_on_the_existence_of_the_group(group_type: GroupType) -> None:
    absent = group_not_found_error("g", group_type, exists=False, facts={"rule": "group-exists"})
    assert absent.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert absent.message == "Group g not found."
    assert absent.facts == {"rule": "group-exists"}
    other = group_not_found_error("g", group_type, exists=True)
    assert other.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert other.message == f"Group g is not a {group_type.value} group."
