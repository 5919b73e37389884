"""Distinguished names of certificates as Java prints them, in the form of RFC 2253.

Java's X500Principal prints values of other types than the keywords below in hexadecimal DER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography import x509

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""Object identifier → the keyword of RFC 2253."""

_TEXT_TYPES: Final = b"\x0c\x13\x14\x16\x1b\x1c\x1e"
"""Types of DER that Java prints as text, always decoded as UTF-8: UTF8String, PrintableString, …"""

_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"
_LONG_LENGTH: Final = 0x80


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER; raises ValueError for invalid DER."""
    return name_text(x509.load_der_x509_certificate(certificate).subject)


class CertificateNames(NamedTuple):
    """The subject of a certificate, and its alternative names."""

    subject: str
    alternatives: frozenset[str]


def names_of_pem(text: str) -> CertificateNames:
    """Return the names of the first certificate in a PEM text; raises ValueError."""
    certificate = x509.load_pem_x509_certificate(text.encode())
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        alternatives: frozenset[str] = frozenset()
    else:
        alternatives = frozenset(str(name.value) for name in extension.value)
    return CertificateNames(name_text(certificate.subject), alternatives)


def name_text(name: x509.Name) -> str:
    """Return a distinguished name, the most specific part first."""
    parts = ("+".join(map(_attribute_text, part)) for part in reversed(list(name.rdns)))
    return ",".join(parts)


def _attribute_text(attribute: x509.NameAttribute[str | bytes]) -> str:
    name = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(name)
    element, content = _value_of(attribute)
    if keyword is None or element[0] not in _TEXT_TYPES:
        return f"{keyword or name}=#{element.hex()}"
    return f"{keyword}={_escape(content.decode('utf-8', 'replace'))}"


def _value_of(attribute: x509.NameAttribute[str | bytes]) -> tuple[bytes, bytes]:
    """Return the value in DER, and its content."""
    # Name → relative distinguished name → attribute → (type, value)
    content = x509.Name([attribute]).public_bytes()
    for _ in range(3):
        content = next(_elements(content))[1]
    return list(_elements(content))[1]


def _elements(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield consecutive elements in DER: the whole element and its content."""
    position = 0
    while position < len(content):
        start, length = position + 2, content[position + 1]
        if length >= _LONG_LENGTH:
            start += length - _LONG_LENGTH
            length = int.from_bytes(content[position + 2 : start])
        yield content[position : start + length], content[start : start + length]
        position = start + length


def _escape(value: str) -> str:
    leading = len(value) - len(value.lstrip(_BLANKS))
    trailing = len(value.rstrip(_BLANKS))
    escaped = []
    for position, character in enumerate(value):
        if character == "\0":
            escaped.append("\\00")
        elif character in _ESCAPED or not leading <= position < trailing:
            escaped.append(f"\\{character}")
        else:
            escaped.append(character)
    return "".join(escaped)
