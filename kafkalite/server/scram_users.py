"""SCRAM credentials of the users in a broker's settings, stored at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.scram_credentials import ScramUpsertion
from kafkalite.security.sasl.scram_credentials import (
    MIN_ITERATIONS,
    SALT_BYTES,
    SCRAM_MECHANISMS,
    is_password_of,
    salt_password,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.metadata.controller import MetadataController
    from kafkalite.ports.entropy import Entropy
    from kafkalite.security.sasl.users import User


def store_users(metadata: MetadataController, users: Sequence[User], entropy: Entropy) -> None:
    """Store the credentials of users that are not stored, or that have another password."""
    stored = metadata.image.scram_credentials
    for mechanism in SCRAM_MECHANISMS:
        passwords = {
            user.name: user.password for user in users if mechanism.name in user.mechanisms
        }
        upsertions = []
        for name, password in passwords.items():
            credential = stored.get((mechanism.number, name))
            if credential is not None and is_password_of(mechanism, credential, password):
                continue
            salt = (entropy.uuid() + entropy.uuid())[:SALT_BYTES]
            salted_password = salt_password(mechanism, password, salt, MIN_ITERATIONS)
            upsertions.append(
                ScramUpsertion(name, mechanism.number, MIN_ITERATIONS, salt, salted_password)
            )
        if upsertions:
            metadata.alter_scram_credentials([], upsertions)
