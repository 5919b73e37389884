"""ACLs: rules that allow or deny operations on resources, and filters that select them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Operation, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN: Final = 0
ANY: Final = 1
"""In a filter: every resource type, pattern type, operation or permission."""
ALL_OPERATIONS: Final = 2

WILDCARD: Final = "*"
"""Every resource of a type, and every host."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class PatternType(IntEnum):
    """How the name of an ACL or of a filter selects resources, with Kafka's codes."""

    MATCH = 2
    """In a filter: every pattern that the name of a resource matches."""
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Whether an ACL denies or allows, with Kafka's codes."""

    DENY = 2
    ALLOW = 3


_SPECIAL_NAMES: Final = {UNKNOWN: "UNKNOWN", ANY: "ANY"}
OPERATION_NAMES: Final = {ALL_OPERATIONS: "ALL"} | {each.value: each.name for each in Operation}
RESOURCE_NAMES: Final = {each.value: each.name for each in Resource}
PATTERN_NAMES: Final = {each.value: each.name for each in PatternType}
PERMISSION_NAMES: Final = {each.value: each.name for each in PermissionType}


def name_of(code: int, names: Mapping[int, str]) -> str:
    """Return the name of a code, such as OPERATION_NAMES has it; "UNKNOWN" for other codes."""
    return names.get(code) or _SPECIAL_NAMES.get(code, "UNKNOWN")


class Acl(NamedTuple):
    """One rule; the numbers are Kafka's codes."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    """The type and the name, such as "User:alice"; "User:*" is every principal."""
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        allows = "allows" if self.permission == PermissionType.ALLOW else "denies"
        operation = name_of(self.operation, OPERATION_NAMES)
        resource = name_of(self.resource_type, RESOURCE_NAMES)
        pattern = name_of(self.pattern_type, PATTERN_NAMES)
        return (
            f"{allows} {self.principal} from host {self.host} operation {operation} on "
            f"{resource} {pattern} {self.resource_name}"
        )


class AclFilter(NamedTuple):
    """Selects ACLs; ANY and null select all values of a field."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the filter selects an ACL."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (ANY, PatternType.MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
