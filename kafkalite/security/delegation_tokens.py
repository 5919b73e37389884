"""Delegation tokens: who may use them, and the secrets that are derived from them (KIP-48).

A token's HMAC is the password of its clients. It is derived from the id of the token and the secret
key of the cluster, so neither records nor images contain it.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.sasl.scram_credentials import credential_of_password

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from kafkalite.security.sasl.scram_credentials import ScramCredential, ScramMechanism


class DelegationToken(NamedTuple):
    """One token; principals are texts such as "User:alice"."""

    token_id: str
    owner: str
    """The principal of clients that authenticate by the token."""
    requester: str
    """The principal that created the token."""
    renewers: tuple[str, ...]
    issued_at_ms: int
    max_timestamp_ms: int
    """The time after which the token cannot be renewed."""
    expires_at_ms: int

    @property
    def owner_name(self) -> str:
        """The owner's name without its type."""
        return self.owner.partition(":")[2]

    def belongs_to(self, principals: AbstractSet[str]) -> bool:
        """Return whether one of these is the owner, the requester or a renewer."""
        return (
            self.owner in principals
            or self.requester in principals
            or not principals.isdisjoint(self.renewers)
        )

    def may_be_renewed_by(self, principal: str) -> bool:
        """Return whether a principal may renew and expire the token."""
        return principal == self.owner or principal in self.renewers

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the token is not valid any more."""
        return self.max_timestamp_ms < now_ms or self.expires_at_ms < now_ms


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return the HMAC of a token, as Kafka's DelegationTokenManager computes it."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_credential(
    mechanism: ScramMechanism, secret_key: str, token_id: str, salt: bytes
) -> ScramCredential:
    """Return the keys of a client whose name is the id of a token, and whose password its HMAC."""
    password = b64encode(token_hmac(secret_key, token_id)).decode()
    return credential_of_password(mechanism, password, salt)
