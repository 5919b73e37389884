"""Checks of permissions for whole requests, and the refusals that they raise.

The permissions come from the catalogue of APIs. A check is for the cluster, or for the one group or
transactional id in a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.gateway.refusals import ID_FIELDS
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.catalogue import When
from kafkalite.security.acls import CLUSTER_NAME
from kafkalite.security.permissions import permission_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.protocol.catalogue import Permission, Row
    from kafkalite.protocol.errors import KafkaError
    from kafkalite.security.permissions import Permissions

_FIELDS: Final = {Resource[kind.name]: field for kind, field in ID_FIELDS.items()}


class Check(NamedTuple):
    """A permission that a request needs."""

    operation: Operation
    resource: Resource
    field: str
    """The field of requests with the name of the resource; empty for the cluster."""
    key: int
    """The `permission_key`."""

    def name_in(self, request: Any) -> str:  # noqa: ANN401 - any request
        """Return the name of the resource that a request is about; empty if it is null."""
        return getattr(request, self.field) or "" if self.field else CLUSTER_NAME


def checks_of(row: Row) -> tuple[tuple[Check, ...], ...]:
    """Return the checks of whole requests of an API; of each element, one must succeed."""
    return tuple(
        tuple(_checks(alternatives))
        for alternatives in row.access
        if is_for_whole_request(row, alternatives)
    )


def is_for_whole_request(row: Row, alternatives: Iterable[Permission]) -> bool:
    """Return whether permissions are checked once for a request of an API."""
    return all(_is_for_whole_request(row, each) for each in alternatives)


def _is_for_whole_request(row: Row, permission: Permission) -> bool:
    if permission.when is not When.ALWAYS:
        return False
    if permission.resource is Resource.CLUSTER:
        return True
    return row.request.names_of(permission.resource) == [_FIELDS.get(permission.resource)]


def _checks(alternatives: tuple[Permission, ...]) -> Iterator[Check]:
    for operation, resource, _ in alternatives:
        yield Check(
            operation, resource, _FIELDS.get(resource, ""), permission_key(operation, resource)
        )


def refusal_unless_allowed(
    permissions: Permissions, operation: Operation, resource: Resource, name: str
) -> KafkaError | None:
    """Return the error for an operation if it is refused."""
    if permissions.allows(operation, resource, name):
        return None
    return permissions.refusal(operation, resource, name)


def check(
    permissions: Permissions,
    operation: Operation,
    resource: Resource,
    name: str,
    message: str | None = None,
) -> None:
    """Raise the KafkaError of a refused operation."""
    error = refusal_unless_allowed(permissions, operation, resource, name)
    if error is not None:
        error.message = message
        raise error


def cluster_message(api: str, operation: Operation) -> str:
    """Return the message of a request that needs a permission on the cluster."""
    return f"Request {api} needs {operation.name} permission."
