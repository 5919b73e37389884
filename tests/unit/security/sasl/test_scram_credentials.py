"""SCRAM credentials: derived keys, and substitutes for unknown users."""

from __future__ import annotations

from base64 import b64decode

from kafkalite.security.sasl.scram_credentials import (
    MIN_ITERATIONS,
    SALT_BYTES,
    SCRAM_BY_NAME,
    SCRAM_BY_NUMBER,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    credential_of_password,
    credential_of_salted_password,
    is_password_of,
    salt_password,
    substitute_credential,
)

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_mechanisms_have_the_names_and_numbers_of_kafka() -> None:
    assert {name: each.number for name, each in SCRAM_BY_NAME.items()} == {
        "SCRAM-SHA-256": 1,
        "SCRAM-SHA-512": 2,
    }
    assert SCRAM_BY_NUMBER == {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}


def test_keys_are_those_of_the_example_of_rfc_7677() -> None:
    credential = credential_of_password(SCRAM_SHA_256, "pencil", SALT, 4096)
    assert credential.stored_key == b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
    assert credential.server_key == b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")


def test_keys_of_a_salted_password_are_those_of_the_password() -> None:
    salted = salt_password(SCRAM_SHA_512, "pencil", SALT, 5000)
    assert credential_of_salted_password(
        SCRAM_SHA_512, SALT, salted, 5000
    ) == credential_of_password(SCRAM_SHA_512, "pencil", SALT, 5000)


def test_a_password_is_recognized() -> None:
    credential = credential_of_password(SCRAM_SHA_256, "pencil", SALT)
    assert is_password_of(SCRAM_SHA_256, credential, "pencil")
    assert not is_password_of(SCRAM_SHA_256, credential, "pen")


def test_a_substitute_is_the_same_for_each_request_of_a_user() -> None:
    alice = substitute_credential(SCRAM_SHA_256, b"key", "alice")
    assert alice == substitute_credential(SCRAM_SHA_256, b"key", "alice")
    assert alice.salt != substitute_credential(SCRAM_SHA_256, b"key", "bob").salt
    assert alice.salt != substitute_credential(SCRAM_SHA_256, b"other", "alice").salt
    assert alice.salt != substitute_credential(SCRAM_SHA_512, b"key", "alice").salt
    assert (len(alice.salt), alice.iterations) == (SALT_BYTES, MIN_ITERATIONS)


def test_the_text_of_a_credential_has_no_keys() -> None:
    credential = substitute_credential(SCRAM_SHA_256, b"key", "alice")
    assert repr(credential) == "ScramCredential(iterations=4096)"
