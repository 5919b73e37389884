"""Java's key store format JKS: private keys and trusted certificates.

The format is that of the class sun.security.provider.JavaKeyStore. It has not changed since Java 2,
and no maintained library reads it, so it is read here.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct
from typing import Final

from kafkalite.ports.named_tuples import NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"

_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_SALT: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_VERSIONS: Final = (1, 2)
_HEADER = Struct(">4sii")
_INT = Struct(">i")
_SHORT = Struct(">H")
_TIME_BYTES: Final = 8
_KEY_OBJECT_IDENTIFIER: Final = bytes.fromhex("060a2b060104012a02110101")
"""1.3.6.1.4.1.42.2.17.1.1, the algorithm that protects private keys, in DER."""


class JavaKeyStoreError(ValueError):
    """An invalid key store or a wrong password; the text is one line."""


class ProtectedKey(NamedTuple):
    """A private key, encrypted by a password, and its certificate chain in DER."""

    alias: str
    content: bytes
    chain: tuple[bytes, ...]

    def decrypt(self, password: str) -> bytes:
        """Return the key as PKCS #8 in DER; raises JavaKeyStoreError for a wrong password."""
        encrypted = self.content
        salt, digest = encrypted[:_DIGEST_BYTES], encrypted[-_DIGEST_BYTES:]
        encrypted = encrypted[_DIGEST_BYTES:-_DIGEST_BYTES]
        secret = password.encode("utf-16-be")
        key = bytearray()
        block = salt
        for position in range(0, len(encrypted), _DIGEST_BYTES):
            block = _sha1(secret + block)
            part = encrypted[position : position + _DIGEST_BYTES]
            key += bytes(left ^ right for left, right in zip(part, block, strict=False))
        if not hmac.compare_digest(_sha1(secret + bytes(key)), digest):
            raise JavaKeyStoreError("the password of the private key is wrong")
        return bytes(key)


class JavaKeyStore(NamedTuple):
    """The entries of a key store."""

    keys: tuple[ProtectedKey, ...]
    trusted_certificates: tuple[bytes, ...]
    """Certificates in DER."""


def read_java_key_store(content: bytes, password: str | None) -> JavaKeyStore:
    """Return the entries of a key store; raises JavaKeyStoreError.

    As in Java, the content is not verified without a password.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password is not None:
        expected = _sha1(password.encode("utf-16-be") + _SALT + body)
        if not hmac.compare_digest(expected, digest):
            raise JavaKeyStoreError("the key store is damaged, or its password is wrong")
    try:
        return _Reader(body).read_store()
    except (IndexError, UnicodeDecodeError) as error:
        raise JavaKeyStoreError("the key store is damaged") from error


def _sha1(content: bytes) -> bytes:
    return hashlib.sha1(content).digest()  # noqa: S324 - the format requires it


class _Reader:
    """Reads the fields of a key store in order."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def read_store(self) -> JavaKeyStore:
        magic, self._version, count = _HEADER.unpack(self._take(_HEADER.size))
        if magic != MAGIC or self._version not in _VERSIONS:
            raise JavaKeyStoreError("the file is not a key store of type JKS")
        keys: list[ProtectedKey] = []
        certificates: list[bytes] = []
        for _ in range(count):
            tag = self._read_int()
            alias = self._read_text()
            self._take(_TIME_BYTES)
            if tag == _PRIVATE_KEY:
                content = _protected_content(self._take(self._read_int()))
                chain = tuple(self._read_certificate() for _ in range(self._read_int()))
                keys.append(ProtectedKey(alias, content, chain))
            elif tag == _TRUSTED_CERTIFICATE:
                certificates.append(self._read_certificate())
            else:
                raise JavaKeyStoreError(f"the key store has an entry of the unknown type {tag}")
        return JavaKeyStore(tuple(keys), tuple(certificates))

    def _read_certificate(self) -> bytes:
        if self._version != _VERSIONS[0]:
            self._read_text()  # the type, which is always X.509
        return self._take(self._read_int())

    def _read_text(self) -> str:
        return self._take(_SHORT.unpack(self._take(_SHORT.size))[0]).decode("utf-8")

    def _read_int(self) -> int:
        value: int = _INT.unpack(self._take(_INT.size))[0]
        return value

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._content):
            raise IndexError("the content ends early")
        taken = self._content[self._position : end]
        self._position = end
        return taken


def _protected_content(information: bytes) -> bytes:
    """Return the encrypted key of an EncryptedPrivateKeyInfo in DER."""
    start = information.find(_KEY_OBJECT_IDENTIFIER)
    if start < 0:
        raise JavaKeyStoreError("a private key is protected by an unknown algorithm")
    # The identifier is followed by the parameters, NULL, and by an octet string.
    position = start + len(_KEY_OBJECT_IDENTIFIER) + 2
    length = information[position + 1]
    position += 2 + (length & 0x7F if length & 0x80 else 0)
    return information[position:]
