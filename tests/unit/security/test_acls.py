"""ACLs: the resources that filters select, and the text of an ACL."""

from __future__ import annotations

import pytest

from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.security.acls import ANY, Acl, AclFilter, PatternType, PermissionType

READ_A = Acl(
    Resource.TOPIC, "a", PatternType.LITERAL, "User:x", "*", Operation.READ, PermissionType.ALLOW
)
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH


@pytest.mark.parametrize(
    ("pattern_type", "filter_name", "acl_pattern", "acl_name", "is_selected"),
    [
        (LITERAL, "ab", LITERAL, "ab", True),
        (LITERAL, "ab", LITERAL, "*", False),
        (LITERAL, "ab", PREFIXED, "ab", False),
        (LITERAL, None, LITERAL, "x", True),
        (LITERAL, None, PREFIXED, "x", False),
        (PREFIXED, "ab", PREFIXED, "ab", True),
        (PREFIXED, "ab", PREFIXED, "a", False),
        (ANY, "ab", PREFIXED, "ab", True),
        (ANY, "ab", LITERAL, "*", False),
        (ANY, None, LITERAL, "*", True),
        (MATCH, "ab", LITERAL, "ab", True),
        (MATCH, "ab", LITERAL, "*", True),
        (MATCH, "ab", PREFIXED, "a", True),
        (MATCH, "ab", PREFIXED, "abc", False),
        (MATCH, "ab", LITERAL, "a", False),
        (MATCH, None, PREFIXED, "x", True),
    ],
)
def test_pattern_filters_select_as_in_kafka(
    pattern_type: int,
    filter_name: str | None,
    acl_pattern: int,
    acl_name: str,
    *,
    is_selected: bool,
) -> None:
    acl = READ_A._replace(pattern_type=acl_pattern, resource_name=acl_name)
    selection = AclFilter(resource_name=filter_name, pattern_type=pattern_type)
    assert selection.matches(acl) is is_selected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resource_type", Resource.GROUP),
        ("principal", "User:y"),
        ("host", "127.0.0.1"),
        ("operation", Operation.WRITE),
        ("permission", PermissionType.DENY),
    ],
)
def test_each_field_of_a_filter_restricts_the_selection(field: str, value: object) -> None:
    exact = AclFilter(**READ_A._asdict())
    assert exact.matches(READ_A)
    assert not exact.matches(READ_A._replace(**{field: value}))  # type: ignore[arg-type]
    assert not exact._replace(**{field: value}).matches(READ_A)  # type: ignore[arg-type]


def test_the_text_of_an_acl_names_all_of_its_fields() -> None:
    assert str(READ_A) == "allows User:x from host * operation READ on TOPIC LITERAL a"
    everything = Acl(Resource.GROUP, "g", PatternType.PREFIXED, "User:*", "h", 2, 2)
    assert str(everything) == "denies User:* from host h operation ALL on GROUP PREFIXED g"
