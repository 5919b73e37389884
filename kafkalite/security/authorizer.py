"""Authorizer: decides by ACLs who may do what, as Kafka's StandardAuthorizer does.

An `Authorizer` belongs to one set of ACLs; a change of an ACL needs a new one. A denying ACL has
precedence over allowing ones. An ACL that allows an operation also allows those that the operation
implies. If no ACL applies to a resource, `allows_without_acls` decides.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Operation
from kafkalite.security.acls import ALL_OPERATIONS, WILDCARD, PatternType, PermissionType
from kafkalite.security.host_ranges import contains, is_range, parse_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalite.security.acls import Acl
    from kafkalite.security.host_ranges import HostRange

WILDCARD_PRINCIPAL: Final = "User:*"
_ANY_NAME: Final = "hardcode"
"""The resource name with which Kafka asks whether an operation is allowed on all resources."""

_IMPLYING: Final[Mapping[int, frozenset[int]]] = {
    Operation.DESCRIBE.value: frozenset((
        Operation.DESCRIBE.value, Operation.READ.value, Operation.WRITE.value,
        Operation.DELETE.value, Operation.ALTER.value,
    )),
    Operation.DESCRIBE_CONFIGS.value: frozenset((
        Operation.DESCRIBE_CONFIGS.value, Operation.ALTER_CONFIGS.value,
    )),
}  # fmt: skip
"""Operation → the operations that an ACL must allow at least one of."""


class Subject(NamedTuple):
    """The client that requests an operation."""

    principal: str
    host: str
    """The address without brackets or a slash, such as "127.0.0.1"."""


class Decision(NamedTuple):
    """Whether an operation is allowed, and the reason."""

    is_allowed: bool
    acl: Acl | None = None
    """The ACL that decided; None if no ACL did."""
    reason: str = ""
    """The reason as text, for `kafkalite explain`."""


_SUPER_USER: Final = Decision(is_allowed=True, reason="a super user")
_ALLOWED_WITHOUT_ACLS: Final = Decision(is_allowed=True, reason="no ACL applies to the resource")
_NO_ACL_ALLOWS: Final = Decision(is_allowed=False, reason="no ACL allows it")


class Authorizer:
    """The decisions of one set of ACLs."""

    __slots__ = (
        "_allows_without_acls", "_literal", "_prefix_lengths", "_prefixed", "_ranges",
        "_super_users", "acls",
    )  # fmt: skip

    def __init__(
        self,
        acls: Mapping[bytes, Acl],
        super_users: frozenset[str] = frozenset(),
        *,
        allows_without_acls: bool = False,
        matches_ranges: bool = True,
    ) -> None:
        self.acls = acls
        """The ACLs by id."""
        self._super_users = super_users
        self._allows_without_acls = allows_without_acls
        self._literal: dict[tuple[int, str], list[Acl]] = {}
        self._prefixed: dict[tuple[int, str], list[Acl]] = {}
        lengths: dict[int, set[int]] = {}
        for acl in acls.values():
            key = (acl.resource_type, acl.resource_name)
            if acl.pattern_type == PatternType.LITERAL:
                self._literal.setdefault(key, []).append(acl)
            else:
                self._prefixed.setdefault(key, []).append(acl)
                lengths.setdefault(acl.resource_type, set()).add(len(acl.resource_name))
        self._ranges = _ranges_of(acls.values()) if matches_ranges else {}
        """Host of an ACL → the addresses that it stands for; only ranges are in it."""
        self._prefix_lengths = {kind: sorted(each) for kind, each in lengths.items()}

    def decide(self, subject: Subject, operation: int, resource_type: int, name: str) -> Decision:
        """Return whether an operation on a resource is allowed."""
        if subject.principal in self._super_users:
            return _SUPER_USER
        allowing: Acl | None = None
        has_acls = False
        for acl in self._acls_about(resource_type, name):
            has_acls = True
            if not self._applies_to(acl, subject):
                continue
            if acl.permission == PermissionType.DENY:
                if acl.operation in (operation, ALL_OPERATIONS):
                    return Decision(is_allowed=False, acl=acl, reason=f"denied by the ACL: {acl}")
            elif allowing is None and _allows(acl.operation, operation):
                allowing = acl
        if allowing is not None:
            return Decision(is_allowed=True, acl=allowing, reason=f"allowed by the ACL: {allowing}")
        if not has_acls and self._allows_without_acls:
            return _ALLOWED_WITHOUT_ACLS
        return _NO_ACL_ALLOWS

    def allows_on_any(self, subject: Subject, operation: int, resource_type: int) -> bool:
        """Return whether an operation is allowed on at least one resource of a type (KIP-679).

        Implied operations do not count here.
        """
        if self.decide(subject, operation, resource_type, _ANY_NAME).is_allowed:
            return True
        allowed: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        denied: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        for acl in self.acls.values():
            if (
                acl.resource_type == resource_type
                and acl.operation in (operation, ALL_OPERATIONS)
                and self._applies_to(acl, subject)
            ):
                names = denied if acl.permission == PermissionType.DENY else allowed
                names[acl.pattern_type].add(acl.resource_name)
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        literal, prefixes = allowed[PatternType.LITERAL], allowed[PatternType.PREFIXED]
        if WILDCARD in literal:
            return True
        return any(
            not any(name[:end] in denied[PatternType.PREFIXED] for end in range(1, len(name) + 1))
            for name in (literal - denied[PatternType.LITERAL]) | prefixes
        )

    def _applies_to(self, acl: Acl, subject: Subject) -> bool:
        if acl.principal not in (subject.principal, WILDCARD_PRINCIPAL):
            return False
        if acl.host in (subject.host, WILDCARD):
            return True
        host_range = self._ranges.get(acl.host)
        return host_range is not None and contains(host_range, subject.host)

    def _acls_about(self, resource_type: int, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > len(name):
                return
            yield from self._prefixed.get((resource_type, name[:length]), ())


def _ranges_of(acls: Iterable[Acl]) -> Mapping[str, HostRange]:
    """Return the ranges of hosts in ACLs; texts that are no range match only the same host."""
    ranges = {}
    for acl in acls:
        if is_range(acl.host):
            with suppress(ValueError):
                ranges[acl.host] = parse_range(acl.host)
    return ranges


def _allows(acl_operation: int, operation: int) -> bool:
    if acl_operation in (operation, ALL_OPERATIONS):
        return True
    return acl_operation in _IMPLYING.get(operation, ())


class AuthorizerSettings(NamedTuple):
    """The settings of the authorizer."""

    super_users: frozenset[str] = frozenset()
    """Principals that may do everything."""
    allows_without_acls: bool = False
    matches_ranges: bool = True
    """Whether the hosts of ACLs can be ranges of addresses."""

    @classmethod
    def from_text(
        cls, text: Mapping[str, str], *, matches_ranges: bool = True
    ) -> AuthorizerSettings:
        """Return the settings in broker settings; raises ValueError for an invalid principal."""
        super_users = [each.strip() for each in text.get(SUPER_USERS, "").split(";")]
        _check_principals(filter(None, super_users))
        return cls(
            frozenset(filter(None, super_users)),
            allows_without_acls=text.get(ALLOW_WITHOUT_ACLS, "").strip().lower() == "true",
            matches_ranges=matches_ranges,
        )


SUPER_USERS: Final = "super.users"
ALLOW_WITHOUT_ACLS: Final = "allow.everyone.if.no.acl.found"


def _check_principals(principals: Iterable[str]) -> None:
    for principal in principals:
        if ":" not in principal:
            raise ValueError(
                "expected a string in format principalType:principalName but got "
                f"{principal} in {SUPER_USERS}"
            )
