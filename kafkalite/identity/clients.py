"""OAuthClient: a client of the identity provider, from an option or from JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkalite.identity.errors import IdentityError
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from joserfc.jwk import Key

DEFAULT_CLIENT_ID: Final = "kafkalite"
DEFAULT_CLIENT_SECRET: Final = "kafkalite-secret"  # noqa: S105 - documented, of a provider for tests
MAX_LIFETIME_MS: Final = 10 * 365 * 24 * 3_600_000

_MAX_TEXT_LENGTH: Final = 1024
_MAX_KEY_LENGTH: Final = 16 * 1024
_MAX_LISTED: Final = 100
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]+")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope of RFC 6749, appendix A.4."""
_MIN_RSA_BITS: Final = 2048
_CURVES: Final = ("P-256", "P-384", "P-521")


class OAuthClient(NamedTuple):
    """A client that can request tokens.

    It authenticates by `secret`, or by assertions that it signs with the private key of
    `public_key`. None in `scopes` lets it request every scope. `subjects` are the principals that
    its assertions may name in addition to its own id. `audience` and `token_lifetime_ms` replace
    the values of the provider unless they are None.
    """

    id: str
    secret: str | None = None
    public_key: Key | None = None
    scopes: tuple[str, ...] | None = None
    subjects: tuple[str, ...] = ()
    audience: str | None = None
    token_lifetime_ms: int | None = None

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return f"OAuthClient({self.id!r})"


DEFAULT_CLIENT: Final = OAuthClient(DEFAULT_CLIENT_ID, DEFAULT_CLIENT_SECRET)


def parse_clients(texts: Iterable[str]) -> list[OAuthClient]:
    """Return clients from texts such as `billing:secret`; raises IdentityError."""
    clients: dict[str, OAuthClient] = {}
    for text in texts:
        client_id, colon, secret = text.partition(":")
        if not colon or not client_id or not secret:
            raise IdentityError("a client is ID:SECRET")
        client = client_of({"id": client_id, "secret": secret})
        if client_id in clients:
            raise IdentityError(f"client {client_id!r} is given twice")
        clients[client_id] = client
    return list(clients.values())


def clients_of(clients: Mapping[str, str] | Sequence[OAuthClient]) -> list[OAuthClient]:
    """Return clients from secrets by id, or from a sequence of clients; raises IdentityError."""
    if isinstance(clients, Mapping):
        return [client_of({"id": name, "secret": secret}) for name, secret in clients.items()]
    return list(clients)


def client_of(fields: object) -> OAuthClient:
    """Return the client that a JSON object describes; raises IdentityError if it is invalid."""
    if not isinstance(fields, dict):
        raise IdentityError('a client is a JSON object, such as {"id": "billing", "secret": "s"}')
    known = OAuthClient._fields
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise IdentityError(f"{str(unknown[0])[:40]!r} is not one of {', '.join(known)}")
    client = OAuthClient(
        id=printable_text(fields, "id") or "",
        secret=printable_text(fields, "secret"),
        public_key=_public_key(fields.get("public_key")),
        scopes=None if fields.get("scopes") is None else _texts(fields, "scopes", _SCOPE),
        subjects=_texts(fields, "subjects", _PRINTABLE),
        audience=printable_text(fields, "audience"),
        token_lifetime_ms=lifetime_of(fields.get("token_lifetime_ms")),
    )
    if not client.id or ":" in client.id:
        raise IdentityError("a client needs an id without colon")
    if client.secret is None and client.public_key is None:
        raise IdentityError(f"client {client.id!r} needs a secret or a public_key")
    return client


def lifetime_of(value: object) -> int | None:
    """Return a lifetime in milliseconds; raises IdentityError for an invalid value."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_LIFETIME_MS:
        raise IdentityError(f"token_lifetime_ms must be a whole number from 1 to {MAX_LIFETIME_MS}")
    return value


def printable_text(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field with printable text; None if it is missing.

    Raises IdentityError without the value, which may be a secret.
    """
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not _PRINTABLE.fullmatch(value):
        raise IdentityError(f"{name} must be text of printable ASCII characters")
    if len(value) > _MAX_TEXT_LENGTH:
        raise IdentityError(f"{name} has more than {_MAX_TEXT_LENGTH} characters")
    return value


def _texts(fields: Mapping[str, Any], name: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    values = fields.get(name) or ()
    if (
        not isinstance(values, list | tuple)
        or len(values) > _MAX_LISTED
        or not all(
            isinstance(each, str) and len(each) <= _MAX_TEXT_LENGTH and pattern.fullmatch(each)
            for each in values
        )
    ):
        raise IdentityError(f"{name} must be a list of at most {_MAX_LISTED} texts without blanks")
    return tuple(values)


def _public_key(value: object) -> Key | None:
    """Return a public key from PEM text or a JSON web key; raises IdentityError."""
    if value is None:
        return None
    from joserfc.jwk import ECKey, RSAKey, import_key  # noqa: PLC0415 - imported if needed

    message = "public_key must be an RSA or EC key, as PEM text or as a JSON web key"
    if not isinstance(value, str | dict) or len(str(value)) > _MAX_KEY_LENGTH:
        raise IdentityError(message)
    try:
        key = _imported(value, RSAKey, ECKey) if isinstance(value, str) else import_key(value)
    except Exception as error:
        # The library raises errors of several kinds for malformed keys.
        raise IdentityError(message) from error
    if isinstance(key, RSAKey) and key.public_key.key_size >= _MIN_RSA_BITS:
        return RSAKey.import_key(key.as_dict(private=False))
    if isinstance(key, ECKey) and key.curve_name in _CURVES:
        return ECKey.import_key(key.as_dict(private=False))
    raise IdentityError(
        f"{message}: of at least {_MIN_RSA_BITS} bits, or of curve {', '.join(_CURVES)}"
    )


def _imported(pem: str, *types: Any) -> Key:  # noqa: ANN401 - classes of keys
    """Return the key in PEM text; raises ValueError if no type accepts it."""
    for each in types:
        try:
            key: Key = each.import_key(pem)
        except Exception:  # noqa: BLE001, S112 - see _public_key
            continue
        return key
    raise ValueError("the text has no key")
