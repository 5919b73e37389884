"""Permissions: what one client may do, with a cache of the resources that it may use.

`PermissionsTable` has the `Permissions` of every client of a cluster. They are valid for one set of
ACLs. When the ACLs of the node change, the client needs new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import ACL_RULE, Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.authorizer import Authorizer, Decision, Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.security.acls import Acl
    from kafkalite.security.authorizer import AuthorizerSettings

_MAX_NAME_LENGTH: Final = 255
"""The maximum length of a cached name; only names of groups and transactional ids can be longer."""
_MAX_NAMES_OF_CLIENT: Final = 10_000
"""Maximum number of cached names for one client and one operation on one type of resources."""
_MAX_NAMES: Final = 200_000
"""Maximum number of cached names of all clients."""
_MAX_CLIENTS: Final = 10_000
"""Maximum number of cached clients of one node."""

ERRORS: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code of a refused operation, by type of the resource."""

_UNRESTRICTED: Final = Decision(is_allowed=True, reason="another node of the cluster")


class PermittedNames(dict[int, set[object]]):
    """`permission_key` → names and topic ids that are known to be allowed."""

    __slots__ = ()

    def __missing__(self, key: int) -> set[object]:
        names: set[object] = set()
        self[key] = names
        return names


def permission_key(operation: Operation, resource: Resource) -> int:
    """Encode an operation and a resource type as one number, which is fast to hash."""
    return operation.value << 8 | resource.value


class NameCache:
    """Adds names to the caches of clients, and limits their total number."""

    __slots__ = ("_count", "_filled")

    def __init__(self) -> None:
        self._count = 0
        self._filled: list[set[object]] = []
        """Every set that names were added to since all were cleared; none of them is empty."""

    def add(self, names: set[object], name: str | bytes) -> None:
        """Add a permitted name or topic id to a set of one client, unless it is long.

        If there are too many names, those of the set are forgotten, or those of all clients.
        """
        if len(name) > _MAX_NAME_LENGTH or name in names:
            return
        if self._count >= _MAX_NAMES:
            for each in self._filled:
                each.clear()
            self._filled.clear()
            self._count = 0
        if len(names) >= _MAX_NAMES_OF_CLIENT:
            self._count -= len(names)
            names.clear()
        elif not names:
            self._filled.append(names)
        names.add(name)
        self._count += 1


class Permissions:
    """The permissions of one principal at one address, by one set of ACLs."""

    __slots__ = ("_authorizer", "_cache", "_is_node", "acls", "permitted", "principal", "subject")

    def __init__(
        self,
        authorizer: Authorizer,
        cache: NameCache,
        principal: str,
        host: str,
        *,
        is_node: bool,
    ) -> None:
        self._authorizer = authorizer
        self._cache = cache
        self._is_node = is_node
        self.acls = authorizer.acls
        self.principal = principal
        self.subject = Subject(principal, host)
        self.permitted = PermittedNames()
        """A request for these names needs no decision."""

    def decide(self, operation: Operation, resource: Resource, name: str) -> Decision:
        """Return whether an operation on a resource is allowed, and the reason."""
        if self._is_node:
            return _UNRESTRICTED
        return self._authorizer.decide(self.subject, operation.value, resource.value, name)

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return whether an operation on a resource is allowed."""
        names = self.permitted[permission_key(operation, resource)]
        if name in names:
            return True
        if not self.decide(operation, resource, name).is_allowed:
            return False
        self._cache.add(names, name)
        return True

    def refusal(
        self, operation: Operation, resource: Resource, name: str, decision: Decision | None = None
    ) -> KafkaError:
        """Return the error for a refused operation, with the ACL that denied it as a fact."""
        if decision is None:
            decision = self.decide(operation, resource, name)
        subject = self.subject
        facts: dict[str, object] = {
            "rule": ACL_RULE,
            "principal": subject.principal,
            "host": subject.host,
            "operation": operation.name,
            "resource_type": resource.name,
            "resource": name,
            "acl": None if decision.acl is None else str(decision.acl),
        }
        explanation = (
            f"{subject.principal} from {subject.host} may not {operation.name} {resource.name} "
            f"{name}: {decision.reason}"
        )
        return KafkaError(ERRORS[resource], facts=facts, explanation=explanation)

    def may_describe_topic(self, name: str) -> bool:
        """Return whether the client may describe a topic."""
        return self.allows(Operation.DESCRIBE, Resource.TOPIC, name)

    def remember(self, key: int, name: str | bytes) -> None:
        """Cache an allowed name or topic id under the `permission_key`."""
        self._cache.add(self.permitted[key], name)

    def allows_on_any(self, operation: Operation, resource: Resource) -> bool:
        """Return whether an operation is allowed on at least one resource of a type."""
        return self._is_node or self._authorizer.allows_on_any(
            self.subject, operation.value, resource.value
        )

    def operations(self, resource: Resource, name: str, supported: int) -> int:
        """Return those of the `supported` operations, as bits, that are allowed (KIP-430)."""
        if self._is_node:
            return supported
        decide, subject, kind = self._authorizer.decide, self.subject, resource.value
        bits = (bit for bit in range(supported.bit_length()) if supported >> bit & 1)
        return sum(1 << bit for bit in bits if decide(subject, bit, kind, name).is_allowed)


class _NodePermissions(NamedTuple):
    """The clients of one node, by the ACLs of its image."""

    authorizer: Authorizer
    clients: dict[tuple[str, str, bool], Permissions]


class PermissionsTable:
    """The permissions of every client, by node: nodes can have different images of the metadata."""

    __slots__ = ("_cache", "_nodes", "_settings")

    def __init__(self, settings: AuthorizerSettings) -> None:
        self._settings = settings
        self._cache = NameCache()
        self._nodes: dict[int, _NodePermissions] = {}

    def find(
        self,
        node_id: int,
        acls: Mapping[bytes, Acl],
        principal: str,
        host: str,
        *,
        is_node: bool = False,
    ) -> Permissions:
        """Return the permissions of a client of a node with these ACLs.

        With `is_node`, another node of the cluster is the client, which may do everything.
        """
        node = self._nodes.get(node_id)
        if node is None or node.authorizer.acls is not acls:
            authorizer = Authorizer(
                acls,
                self._settings.super_users,
                allows_without_acls=self._settings.allows_without_acls,
                matches_ranges=self._settings.matches_ranges,
            )
            node = self._nodes[node_id] = _NodePermissions(authorizer, {})
        key = (principal, host, is_node)
        permissions = node.clients.get(key)
        if permissions is None:
            if len(node.clients) >= _MAX_CLIENTS:
                node.clients.clear()
            permissions = node.clients[key] = Permissions(
                node.authorizer, self._cache, principal, host, is_node=is_node
            )
        return permissions

    def forget_node(self, node_id: int) -> None:
        """Remove the clients of a node that was removed."""
        self._nodes.pop(node_id, None)
