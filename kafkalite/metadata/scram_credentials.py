"""SCRAM credentials: the keys of users, as records of the metadata log.

The rules of changes are those of Kafka's ScramControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.metadata.image_table import ImageTable
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.records.remove_user_scram_credential import (
    RemoveUserScramCredentialRecord,
)
from kafkalite.protocol._generated.records.user_scram_credential import UserScramCredentialRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.metadata.image import ScramKey
    from kafkalite.security.sasl.scram_credentials import ScramCredential

MECHANISM_NUMBERS: Final = (1, 2)
"""The numbers of SCRAM-SHA-256 and SCRAM-SHA-512; `security.sasl.scram_credentials` has more."""

MAX_CHANGES_PER_REQUEST: Final = 10_000
"""Maximum number of changes in one request: Kafka's maximum of records in one batch."""


class ScramDeletion(NamedTuple):
    """The removal of a user's credential; `mechanism` is a number of Kafka."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A new or changed credential of a user."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        """Return a text without salt and password."""
        return f"ScramUpsertion({self.user!r}, {self.mechanism}, {self.iterations})"


class ScramCredentials:
    """The credentials of all users, by mechanism and user."""

    __slots__ = ("table",)

    def __init__(self) -> None:
        self.table: ImageTable[ScramKey, ScramCredential] = ImageTable()

    def alter(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> tuple[
        dict[str, KafkaError | None],
        list[RemoveUserScramCredentialRecord | UserScramCredentialRecord],
    ]:
        """Return an error or None by user, and the records of the changes without an error.

        A user that is named twice is not changed. Raises KafkaError UNKNOWN_SERVER_ERROR, as Kafka
        does, if there are too many changes.
        """
        if len(deletions) + len(upsertions) > MAX_CHANGES_PER_REQUEST:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"A request cannot alter more than {MAX_CHANGES_PER_REQUEST} user credentials.",
            )
        errors: dict[str, KafkaError] = {}
        changes: dict[str, ScramDeletion | ScramUpsertion] = {}
        requested: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
        for change in requested:
            user = change.user
            if user in errors:
                continue
            if changes.pop(user, None) is not None:
                errors[user] = KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
                continue
            error = self._error_of(change)
            if error is None:
                changes[user] = change
            else:
                errors[user] = error
        return {**dict.fromkeys(changes), **errors}, [*map(_record_of, changes.values())]

    def _error_of(self, change: ScramDeletion | ScramUpsertion) -> KafkaError | None:
        from kafkalite.security.sasl.scram_credentials import (  # noqa: PLC0415 - rarely used
            MAX_ITERATIONS,
            MIN_ITERATIONS,
        )

        if not change.user:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if change.mechanism not in MECHANISM_NUMBERS:
            return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(change, ScramDeletion):
            if (change.mechanism, change.user) not in self.table.rows:
                return KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    "Attempt to delete a user credential that does not exist",
                )
        elif change.iterations < MIN_ITERATIONS:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        elif change.iterations > MAX_ITERATIONS:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        return None

    def replay_user_scram_credential(self, record: UserScramCredentialRecord) -> None:
        """Set a credential."""
        from kafkalite.security.sasl.scram_credentials import (  # noqa: PLC0415 - rarely used
            ScramCredential,
        )

        credential = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )
        self.table.replay_set((record.mechanism, record.name), credential)

    def replay_remove_user_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        """Remove a credential."""
        self.table.replay_remove((record.mechanism, record.name))


def _record_of(
    change: ScramDeletion | ScramUpsertion,
) -> RemoveUserScramCredentialRecord | UserScramCredentialRecord:
    from kafkalite.security.sasl.scram_credentials import (  # noqa: PLC0415 - rarely used
        SCRAM_BY_NUMBER,
        credential_of_salted_password,
    )

    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    credential = credential_of_salted_password(
        SCRAM_BY_NUMBER[change.mechanism], change.salt, change.salted_password, change.iterations
    )
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
