"""Delegation tokens: short-lived credentials of users, as records of the metadata log (KIP-48).

The rules are those of Kafka's DelegationTokenControlManager. Times saturate at MAX_TIME_MS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.broker import SECRET_KEY
from kafkalite.metadata.image_table import ImageTable
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.records.delegation_token import DelegationTokenRecord
from kafkalite.protocol._generated.records.remove_delegation_token import (
    RemoveDelegationTokenRecord,
)
from kafkalite.protocol.codec import encode_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.ports.entropy import Entropy
    from kafkalite.security.delegation_tokens import DelegationToken

MAX_TIME_MS: Final = (1 << 63) - 1
"""The latest time that a response can have."""

MAX_RECORD_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of a token's record: the size of a batch in Kafka's metadata log."""

MAX_RENEWERS: Final = 50_000
"""The maximum number of renewers of a token. Its record is encoded and replayed at once, while all
other clients wait; Kafka limits only the size of the record."""


class TokenRequest(NamedTuple):
    """A requested token; a `max_lifetime_ms` below 1 stands for that of the settings."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


class DelegationTokens:
    """All delegation tokens of a cluster, by id."""

    __slots__ = ("_controller_config", "_entropy", "_ids_by_hmac", "_secret_key", "table")

    def __init__(
        self,
        config: BrokerConfig,
        entropy: Entropy,
        controller_config: Callable[[], BrokerConfig] | None = None,
    ) -> None:
        """`controller_config` returns the settings of the controller, by default `config`."""
        self._controller_config = controller_config or (lambda: config)
        self._entropy = entropy
        self._secret_key = config.str_or_none(SECRET_KEY) or ""
        self.table: ImageTable[str, DelegationToken] = ImageTable()
        self._ids_by_hmac: dict[bytes, str] = {}

    def create(
        self, request: TokenRequest, now_ms: int
    ) -> tuple[DelegationToken, list[DelegationTokenRecord]]:
        """Return a new token, and its record.

        Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED, and UNKNOWN_SERVER_ERROR if there are too
        many renewers.
        """
        from kafkalite.security.delegation_tokens import (  # noqa: PLC0415 - rarely used
            DelegationToken,
        )

        self._check_enabled()
        if len(request.renewers) > MAX_RENEWERS:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The token has {len(request.renewers)} renewers; the maximum is {MAX_RENEWERS}.",
            )
        lifetime_ms = self._controller_config().int("delegation.token.max.lifetime.ms")
        if request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
        max_timestamp_ms = _sum(now_ms, lifetime_ms)
        token = DelegationToken(
            token_id=uuid_to_text(self._entropy.uuid()),
            owner=request.owner,
            requester=request.requester,
            renewers=request.renewers,
            issued_at_ms=now_ms,
            max_timestamp_ms=max_timestamp_ms,
            expires_at_ms=min(max_timestamp_ms, _sum(now_ms, self._renewal_ms)),
        )
        record = _record_of(token)
        size = len(encode_metadata_record(record, 0))
        if size > MAX_RECORD_BYTES:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The record of the token has {size} bytes; the maximum is {MAX_RECORD_BYTES}.",
            )
        return token, [record]

    def renew(
        self, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> tuple[int, list[DelegationTokenRecord]]:
        """Return the new time at which a token expires, and its record.

        A `period_ms` below 1 stands for that of the settings. Raises KafkaError if the token does
        not exist or has expired, or if the principal may not renew it.
        """
        token = self._find(hmac)
        if token.has_expired(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_renewer(token, principal)
        renewal_ms = self._renewal_ms
        if period_ms > 0:
            renewal_ms = min(renewal_ms, period_ms)
        return _expire_at(token, _sum(now_ms, renewal_ms))

    def expire(
        self, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> tuple[int, list[DelegationTokenRecord | RemoveDelegationTokenRecord]]:
        """Return the time at which a token expires after `period_ms`, and the record of the change.

        A negative `period_ms` removes the token. Raises KafkaError as `renew` does, but a token
        that has expired can be removed.
        """
        token = self._find(hmac)
        _check_renewer(token, principal)
        if period_ms < 0:
            return now_ms, [RemoveDelegationTokenRecord(token_id=token.token_id)]
        if token.has_expired(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        expires_at_ms, records = _expire_at(token, _sum(now_ms, period_ms))
        return expires_at_ms, [*records]

    def removals(self, now_ms: int, limit: int) -> list[RemoveDelegationTokenRecord]:
        """Return the records that remove at most `limit` tokens that have expired."""
        records: list[RemoveDelegationTokenRecord] = []
        for token in self.table.rows.values():
            if len(records) >= limit:
                break
            if token.has_expired(now_ms):
                records.append(RemoveDelegationTokenRecord(token_id=token.token_id))
        return records

    def replay_delegation_token(self, record: DelegationTokenRecord) -> None:
        """Add or change a token."""
        from kafkalite.security.delegation_tokens import (  # noqa: PLC0415 - rarely used
            DelegationToken,
            token_hmac,
        )

        token_id = record.token_id
        token = DelegationToken(
            token_id=token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issued_at_ms=record.issue_timestamp,
            max_timestamp_ms=record.max_timestamp,
            expires_at_ms=record.expiration_timestamp,
        )
        self.table.replay_set(token_id, token)
        if self._secret_key:
            self._ids_by_hmac[token_hmac(self._secret_key, token_id)] = token_id

    def replay_remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        """Remove a token; Kafka's log can have several of these records for one token."""
        from kafkalite.security.delegation_tokens import token_hmac  # noqa: PLC0415 - rarely used

        token_id = record.token_id
        if token_id not in self.table.rows:
            return
        self.table.replay_remove(token_id)
        if self._secret_key:
            del self._ids_by_hmac[token_hmac(self._secret_key, token_id)]

    @property
    def _renewal_ms(self) -> int:
        return self._controller_config().int("delegation.token.expiry.time.ms")

    def _check_enabled(self) -> None:
        if not self._secret_key:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _find(self, hmac: bytes) -> DelegationToken:
        self._check_enabled()
        token_id = self._ids_by_hmac.get(hmac)
        if token_id is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return self.table.rows[token_id]


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, MAX_TIME_MS)


def _check_renewer(token: DelegationToken, principal: str) -> None:
    if not token.may_be_renewed_by(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expire_at(
    token: DelegationToken, requested_ms: int
) -> tuple[int, list[DelegationTokenRecord]]:
    expires_at_ms = min(token.max_timestamp_ms, requested_ms)
    return expires_at_ms, [_record_of(token._replace(expires_at_ms=expires_at_ms))]


def _record_of(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issued_at_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expires_at_ms,
        token_id=token.token_id,
    )
