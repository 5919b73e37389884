"""The authorizer decides as a naive model of Kafka's rules does."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.security.acls import ALL_OPERATIONS, Acl, PatternType, PermissionType
from kafkalite.security.authorizer import Authorizer, AuthorizerSettings, Subject
from tests.effort import examples

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
ALICE = Subject("User:alice", "127.0.0.1")


def acl(
    operation: int = Operation.READ,
    name: str = "topic",
    *,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    permission: int = ALLOW,
) -> Acl:
    return Acl(Resource.TOPIC, name, pattern, principal, host, operation, permission)


def authorizer(*acls: Acl, allows_without_acls: bool = False, super_users: str = "") -> Authorizer:
    by_id = {bytes((index,)) * 16: each for index, each in enumerate(acls)}
    return Authorizer(
        by_id, frozenset(super_users.split()), allows_without_acls=allows_without_acls
    )


DENY_PREFIX_TO = acl(name="to", pattern=PREFIXED, permission=DENY)


def allows(rules: Authorizer, operation: int = Operation.READ, name: str = "topic") -> bool:
    return rules.decide(ALICE, operation, Resource.TOPIC, name).is_allowed


@pytest.mark.parametrize(
    ("rule", "is_allowed"),
    [
        (acl(), True),
        (acl(name="*"), True),
        (acl(name="to", pattern=PREFIXED), True),
        (acl(name="topic", pattern=PREFIXED), True),
        (acl(name="topics", pattern=PREFIXED), False),
        (acl(name="*", pattern=PREFIXED), False),
        (acl(name="to"), False),
        (acl(principal="User:*"), True),
        (acl(principal="User:bob"), False),
        (acl(principal="Group:*"), False),
        (acl(host="127.0.0.1"), True),
        (acl(host="127.0.0.0/8"), True),
        (acl(host="127.0.0.1/32"), True),
        (acl(host="10.0.0.0/8"), False),
        (acl(host="127.0.0.0/99"), False),
        (acl(host="::/0"), False),
        (acl(host="10.0.0.1"), False),
        (acl(ALL_OPERATIONS), True),
        (acl(Operation.WRITE), False),
        (acl(permission=DENY), False),
    ],
)
def test_one_acl_allows_the_requests_that_it_applies_to(rule: Acl, *, is_allowed: bool) -> None:
    assert allows(authorizer(rule)) is is_allowed


@pytest.mark.parametrize(
    ("operation", "implying"),
    [
        (Operation.DESCRIBE, {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
        (Operation.DESCRIBE_CONFIGS, {Operation.ALTER_CONFIGS}),
        (Operation.READ, set()),
    ],
)
def test_allowed_operations_imply_others_but_denied_ones_do_not(
    operation: Operation, implying: set[Operation]
) -> None:
    expected = {operation, *implying}
    assert {each for each in Operation if allows(authorizer(acl(each)), operation)} == expected
    everything = acl(ALL_OPERATIONS)
    denying = [each for each in Operation if not allows(
        authorizer(everything, acl(each, permission=DENY)), operation)]  # fmt: skip
    assert denying == [operation]


def test_a_denying_acl_has_precedence_and_is_the_reason() -> None:
    denying = acl(name="to", pattern=PREFIXED, permission=DENY)
    decision = authorizer(acl(), denying).decide(ALICE, Operation.READ, Resource.TOPIC, "topic")
    assert not decision.is_allowed
    assert decision.acl == denying
    assert decision.reason == f"denied by the ACL: {denying}"


def test_without_an_allowing_acl_the_reason_says_so() -> None:
    decision = authorizer().decide(ALICE, Operation.READ, Resource.TOPIC, "topic")
    assert decision == (False, None, "no ACL allows it")


def test_a_super_user_is_allowed_everything() -> None:
    rules = authorizer(acl(permission=DENY), super_users="User:alice")
    assert allows(rules)
    assert rules.allows_on_any(ALICE, Operation.WRITE, Resource.TOPIC)


def test_resources_without_acls_are_allowed_if_configured() -> None:
    others = acl(name="other"), acl(principal="User:bob", name="bobs")
    rules = authorizer(*others, allows_without_acls=True)
    assert allows(rules)
    assert not allows(rules, name="bobs")
    assert not allows(authorizer(*others))


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ((), False),
        ((acl(),), True),
        ((acl(name="*"),), True),
        ((acl(name="t", pattern=PREFIXED),), True),
        ((acl(), acl(permission=DENY)), False),
        ((acl(), acl(name="t", pattern=PREFIXED, permission=DENY)), False),
        ((acl(), acl(name="*", permission=DENY)), False),
        ((acl(name="*"), acl(permission=DENY)), True),
        ((acl(name="t", pattern=PREFIXED), DENY_PREFIX_TO), True),
        ((acl(Operation.WRITE),), False),
        ((acl(principal="User:bob"),), False),
        ((acl(ALL_OPERATIONS),), True),
    ],
)  # fmt: skip
def test_an_operation_is_allowed_on_any_resource_if_one_could_exist(
    rules: tuple[Acl, ...], *, is_allowed: bool
) -> None:
    assert authorizer(*rules).allows_on_any(ALICE, Operation.READ, Resource.TOPIC) is is_allowed


NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "ba", "hardcode"])
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"])
HOSTS = st.sampled_from(["*", "127.0.0.1", "10.0.0.1"])
OPERATIONS = st.sampled_from([ALL_OPERATIONS, *map(int, Operation)])
RESOURCES = st.sampled_from([Resource.TOPIC, Resource.GROUP])
ACLS = st.builds(
    Acl, RESOURCES, NAMES, st.sampled_from([LITERAL, PREFIXED]), PRINCIPALS, HOSTS, OPERATIONS,
    st.sampled_from([ALLOW, DENY]),
)  # fmt: skip
_IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


class Request(NamedTuple):
    subject: Subject
    operation: Operation
    resource: int
    name: str


REQUESTS = st.builds(
    Request,
    st.builds(
        Subject,
        st.sampled_from(["User:alice", "User:bob", "Group:alice"]),
        st.sampled_from(["127.0.0.1", "10.0.0.1", "::1"]),
    ),
    st.sampled_from(Operation),
    RESOURCES,
    NAMES,
)


def naive_decision(acls: list[Acl], request: Request, *, default: bool) -> bool:
    """Return the decision of a model that looks at every ACL."""
    subject, operation, resource, name = request
    about = [
        each
        for each in acls
        if each.resource_type == resource
        and (
            each.resource_name == name
            or (each.pattern_type == LITERAL and each.resource_name == "*")
            or (each.pattern_type == PREFIXED and name.startswith(each.resource_name))
        )
    ]
    if not about:
        return default
    mine = [
        each
        for each in about
        if each.principal in ("User:*", subject.principal) and each.host in ("*", subject.host)
    ]
    if any(e.permission == DENY and e.operation in (operation, ALL_OPERATIONS) for e in mine):
        return False
    sufficient = {operation, ALL_OPERATIONS, *_IMPLIED.get(operation, ())}
    return any(each.permission == ALLOW and each.operation in sufficient for each in mine)


@settings(max_examples=examples(300))
@given(acls=st.lists(ACLS, max_size=12), request=REQUESTS, default=st.booleans())
def test_decisions_equal_those_of_a_naive_model(
    acls: list[Acl], request: Request, *, default: bool
) -> None:
    decision = authorizer(*acls, allows_without_acls=default).decide(*request)
    assert decision.is_allowed is naive_decision(acls, request, default=default)


def test_settings_are_read_from_broker_settings() -> None:
    text = {
        "super.users": "User:admin; User:CN=a,O=b ;;",
        "allow.everyone.if.no.acl.found": " TRUE ",
    }
    parsed = AuthorizerSettings.from_text(text)
    assert parsed.super_users == {"User:admin", "User:CN=a,O=b"}
    assert parsed.allows_without_acls
    assert AuthorizerSettings.from_text({}) == (frozenset(), False, True)
    text["allow.everyone.if.no.acl.found"] = "yes"
    assert not AuthorizerSettings.from_text(text).allows_without_acls


def test_a_super_user_without_a_type_is_invalid() -> None:
    with pytest.raises(ValueError, match="principalType:principalName but got admin"):
        AuthorizerSettings.from_text({"super.users": "User:a;admin"})


def test_ranges_of_hosts_match_nothing_before_kafka_4_4() -> None:
    rules = Authorizer({bytes(16): acl(host="127.0.0.0/8")}, matches_ranges=False)
    assert not allows(rules)
