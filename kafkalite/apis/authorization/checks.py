"""Checks of permissions for whole requests, and the refusals that they raise.

The permissions come from the catalogue of APIs. A check is for the cluster, or for the one group or
transactional id in a request.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.gateway.refusals import ACL_RULE, ID_FIELDS, report_refusal, warn_about_denial
from kafkalite.protocol.acl_operations import Entity, Operation, Resource
from kafkalite.protocol.catalogue import When
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.acls import CLUSTER_NAME
from kafkalite.security.permissions import permission_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.gateway.call import Call
    from kafkalite.protocol.catalogue import Permission, Row
    from kafkalite.security.authorizer import Decision
    from kafkalite.security.permissions import Permissions

ERRORS: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code of a refused operation, by type of the resource."""

MAX_REPORTED: Final = 100
"""The maximum number of refused resources of one request that are reported as events."""

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


def refusal(
    permissions: Permissions,
    operation: Operation,
    resource: Resource,
    name: str,
    decision: Decision | None = None,
) -> KafkaError:
    """Return the error for a refused operation, with the ACL that denied it as a fact."""
    if decision is None:
        decision = permissions.decide(operation, resource, name)
    subject = permissions.subject
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


def refusal_unless_allowed(
    permissions: Permissions, operation: Operation, resource: Resource, name: str
) -> KafkaError | None:
    """Return the error for an operation if it is refused."""
    if permissions.allows(operation, resource, name):
        return None
    return refusal(permissions, operation, resource, name)


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


def report_refused_topics(call: Call, api: str, operation: Operation, names: Iterable[str]) -> None:
    """Report topics that the client of a call may not use; at most MAX_REPORTED of them."""
    permissions = call.permissions
    assert permissions is not None
    for name in islice(names, MAX_REPORTED):
        error = refusal(permissions, operation, Resource.TOPIC, name)
        warn_about_denial(call, api, error)
        report_refusal(call, api, name, error, kind=Entity.TOPIC)


def cluster_message(api: str, operation: Operation) -> str:
    """Return the message of a request that needs a permission on the cluster."""
    return f"Request {api} needs {operation.name} permission."
