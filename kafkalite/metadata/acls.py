"""ACLs: rules that allow or deny operations on resources, as records of the metadata log.

The rules of creation and deletion are those of Kafka's AclControlManager. `kafkalite.security`
applies ACLs to requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.metadata.image_table import ImageTable
from kafkalite.protocol._generated.records.access_control_entry import AccessControlEntryRecord
from kafkalite.protocol._generated.records.remove_access_control_entry import (
    RemoveAccessControlEntryRecord,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.acls import (
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    RESOURCE_NAMES,
    Acl,
    PatternType,
    name_of,
)
from kafkalite.security.host_ranges import is_range, parse_range

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.ports.entropy import Entropy

MAX_ACLS_PER_REQUEST: Final = 10_000
"""Maximum number of ACLs that one request creates or deletes, as in Kafka."""


class Acls:
    """All ACLs of a cluster, by id."""

    __slots__ = ("_entropy", "_existing", "_requires_hosts", "table")

    def __init__(self, entropy: Entropy, *, requires_hosts: bool = True) -> None:
        self._entropy = entropy
        self._requires_hosts = requires_hosts
        """Whether the host of a new ACL must be a name, a range or *."""
        self.table: ImageTable[bytes, Acl] = ImageTable()
        self._existing: set[Acl] = set()

    def create(
        self, requested: Sequence[Acl], *, supports_ranges: bool
    ) -> tuple[list[KafkaError | None], list[AccessControlEntryRecord]]:
        """Return an error or None for each ACL, and the records of those that do not exist.

        With `supports_ranges`, hosts can be ranges of addresses. Raises KafkaError
        POLICY_VIOLATION if there are too many.
        """
        errors: list[KafkaError | None] = []
        created: dict[Acl, AccessControlEntryRecord] = {}
        for acl in requested:
            error = _creation_error(acl)
            if error is None and self._requires_hosts:
                error = _host_error(acl.host, supports_ranges=supports_ranges)
            errors.append(error)
            if error is None and acl not in self._existing and acl not in created:
                created[acl] = AccessControlEntryRecord(
                    id=self._entropy.uuid(),
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                if len(created) > MAX_ACLS_PER_REQUEST:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, ErrorText.TOO_LARGE_BATCH.template)
        return errors, list(created.values())

    def delete(
        self, ids: Collection[bytes]
    ) -> tuple[set[bytes], list[RemoveAccessControlEntryRecord]]:
        """Return the ids of those of these ACLs that exist, and the records that remove them.

        Raises KafkaError INVALID_REQUEST if there are too many.
        """
        existing = [acl_id for acl_id in dict.fromkeys(ids) if acl_id in self.table.rows]
        if len(existing) > MAX_ACLS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot remove more than {MAX_ACLS_PER_REQUEST} acls in a single delete "
                "operation.",
            )
        return set(existing), [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in existing]

    def replay_access_control_entry(self, record: AccessControlEntryRecord) -> None:
        """Add an ACL."""
        acl = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self.table.replay_set(record.id, acl)
        self._existing.add(acl)

    def replay_remove_access_control_entry(self, record: RemoveAccessControlEntryRecord) -> None:
        """Remove an ACL."""
        self._existing.discard(self.table.replay_remove(record.id))


def _creation_error(acl: Acl) -> KafkaError | None:
    """Return the first reason why an ACL cannot be created, in Kafka's order."""
    message = None
    if acl.resource_type not in RESOURCE_NAMES:
        message = f"Invalid resourceType {name_of(acl.resource_type, RESOURCE_NAMES)}"
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        message = f"Invalid patternType {name_of(acl.pattern_type, PATTERN_NAMES)}"
    elif acl.operation not in OPERATION_NAMES:
        message = f"Invalid operation {name_of(acl.operation, OPERATION_NAMES)}"
    elif acl.permission not in PERMISSION_NAMES:
        message = f"Invalid permissionType {name_of(acl.permission, PERMISSION_NAMES)}"
    elif not acl.resource_name:
        message = "Resource name should not be empty"
    elif ":" not in acl.principal:
        message = (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None if message is None else KafkaError(ErrorCode.INVALID_REQUEST, message)


def _host_error(host: str, *, supports_ranges: bool) -> KafkaError | None:
    """Return the reason why a new ACL cannot have this host."""
    if not host:
        return KafkaError(ErrorCode.INVALID_REQUEST, "The host of an ACL must not be empty.")
    if not is_range(host):
        return None
    if not supports_ranges:
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The level of metadata.version does not support ranges of hosts such as {host}.",
        )
    try:
        parse_range(host)
    except ValueError as error:
        return KafkaError(
            ErrorCode.INVALID_REQUEST, f"The host {host} is not a range of addresses: {error}."
        )
    return None
