"""Certificates of clients that Java 17 refuses: `jdk.certpath.disabledAlgorithms`."""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import SignatureAlgorithmOID

_MIN_BITS: Final = ((RSAPublicKey, "RSA", 1024), (EllipticCurvePublicKey, "EC", 224))
_MD2: Final = x509.ObjectIdentifier("1.2.840.113549.1.1.2")
_REFUSED_DIGESTS: Final = {_MD2: "MD2", SignatureAlgorithmOID.RSA_WITH_MD5: "MD5"}


def weakness_of(certificate: bytes) -> str | None:
    """Return why Java 17 refuses a certificate in DER, None if it does not.

    Signatures with SHA-1 are refused only for servers, and only if their authority is one of Java's
    own. Raises ValueError for invalid DER.
    """
    parsed = x509.load_der_x509_certificate(certificate)
    digest = _REFUSED_DIGESTS.get(parsed.signature_algorithm_oid)
    if digest is not None:
        return f"it is signed with {digest}"
    key = parsed.public_key()
    for kind, name, minimum in _MIN_BITS:
        if isinstance(key, kind) and key.key_size < minimum:
            return f"its {name} key has {key.key_size} bits, less than {minimum}"
    return None
