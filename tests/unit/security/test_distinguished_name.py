"""Distinguished names as Java prints them; Java 17 has printed the expected texts."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as Oid

from kafkalite.security.distinguished_name import name_text, names_of_pem, subject_of
from tests.unit.security.issued_files import authority, client, server

Attribute = x509.NameAttribute


def parts(*attributes: x509.NameAttribute[str]) -> x509.Name:
    return x509.Name([x509.RelativeDistinguishedName([each]) for each in attributes])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            parts(
                Attribute(Oid.COUNTRY_NAME, "DE"),
                Attribute(Oid.ORGANIZATION_NAME, "A, B + C"),
                Attribute(Oid.COMMON_NAME, "x"),
            ),
            r"CN=x,O=A\, B \+ C,C=DE",
        ),
        (
            parts(Attribute(Oid.COMMON_NAME, ' lead #;<>\\"= trail ')),
            r"CN=\ lead \#\;\<\>\\\"\= trail\ ",
        ),
        (
            parts(Attribute(Oid.COMMON_NAME, "Jürgen Ω"), Attribute(Oid.EMAIL_ADDRESS, "a@b.c")),
            "1.2.840.113549.1.9.1=#16056140622e63,CN=Jürgen Ω",
        ),
        (
            parts(
                Attribute(Oid.STREET_ADDRESS, "s"),
                Attribute(Oid.DOMAIN_COMPONENT, "com"),
                Attribute(Oid.SERIAL_NUMBER, "12"),
                Attribute(Oid.STATE_OR_PROVINCE_NAME, "ST"),
                Attribute(Oid.LOCALITY_NAME, "L"),
                Attribute(Oid.ORGANIZATIONAL_UNIT_NAME, "#ou"),
            ),
            r"OU=\#ou,L=L,ST=ST,2.5.4.5=#13023132,DC=com,STREET=s",
        ),
        (
            parts(Attribute(Oid.COMMON_NAME, "nul\0x"), Attribute(Oid.COMMON_NAME, "  ")),
            r"CN=\ \ ,CN=nul\00x",
        ),
        (parts(Attribute(Oid.TITLE, "t" * 200)), f"2.5.4.12=#0c81c8{'74' * 200}"),
        (
            x509.Name(
                [
                    x509.RelativeDistinguishedName(
                        [Attribute(Oid.COMMON_NAME, "a"), Attribute(Oid.USER_ID, "u")]
                    )
                ]
            ),
            "CN=a+UID=u",
        ),
        (parts(), ""),
    ],
)
def test_names_are_printed_as_by_java(name: x509.Name, text: str) -> None:
    assert name_text(name) == text


def test_the_subject_of_a_certificate_is_returned() -> None:
    der = client().certificate.public_bytes(Encoding.DER)
    assert subject_of(der) == "CN=alice"
    with pytest.raises(ValueError, match=r"certificate|parsing"):
        subject_of(b"no certificate")


def test_the_names_of_a_key_store_are_those_of_its_first_certificate() -> None:
    names = names_of_pem(authority().chain_pem(server()).decode())
    assert names == ("CN=server", frozenset({"localhost", "127.0.0.1"}))
    assert names_of_pem(client().certificate_pem.decode()) == ("CN=alice", frozenset())
