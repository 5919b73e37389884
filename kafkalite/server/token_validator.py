"""TokenValidator: checks the signed tokens of a listener; SignedTokenSettings: its settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import broker_keys
from kafkalite.ports.http_get import http_get
from kafkalite.ports.key_files import read_store_file
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.key_stores import KeyStoreError, read_trust_store
from kafkalite.security.listener_security import ProposedValues
from kafkalite.security.sasl.json_web_keys import MAX_KEY_SET_BYTES, KeySetError, check_library
from kafkalite.security.sasl.oauthbearer import InvalidTokenError
from kafkalite.security.sasl.signed_tokens import (
    SignedTokenRules,
    UnknownKeyError,
    validate_signed_token,
)
from kafkalite.security.sasl.users import OAUTHBEARER
from kafkalite.server.token_keys import FileKeys, KeysUnavailableError, RefreshTimes, RemoteKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.config.definitions import Value
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.executors import Executor
    from kafkalite.ports.waiting import Waiting
    from kafkalite.security.listener_security import ListenerSecurity
    from kafkalite.security.sasl.oauthbearer import BearerToken
    from kafkalite.server.token_keys import TokenKeys

_PREFIX: Final = "sasl.oauthbearer."
_URL_KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH_KEY: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_RETRY_KEY: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
_MAX_RETRY_KEY: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"

_TIMEOUT_S: Final = 20.0
"""The time for one download, as long as the timeouts of jose4j."""


class SignedTokenSettings(NamedTuple):
    """The rules for tokens, and the source of the keys."""

    rules: SignedTokenRules
    url: str
    times: RefreshTimes
    certificates: str | None
    """The trusted authorities for HTTPS as PEM; those of the system if None."""


class TokenValidator:
    """The rules and the keys of a listener's tokens."""

    __slots__ = ("_keys", "_rules")

    def __init__(self, rules: SignedTokenRules, keys: TokenKeys) -> None:
        self._rules = rules
        self._keys = keys

    @classmethod
    def open(
        cls,
        settings: SignedTokenSettings,
        *,
        clock: Clock,
        new_executor: Callable[[], Executor],
        report: Callable[[str], None],
    ) -> TokenValidator:
        """Read the keys of a file, or begin to download keys; raises ConfigError.

        Downloads run in an executor of their own. `report` is called with the reason when keys
        cannot be loaded later.
        """
        try:
            check_library()
        except ImportError as error:
            raise ConfigError(_URL_KEY, str(error)) from error
        parts = urlsplit(settings.url)
        if parts.scheme == "file":
            try:
                return cls(settings.rules, FileKeys(parts.path, report))
            except KeySetError as error:
                raise ConfigError(_URL_KEY, f"{_URL_KEY}: {error}") from error
        download = partial(
            http_get,
            settings.url,
            max_bytes=MAX_KEY_SET_BYTES,
            timeout_s=_TIMEOUT_S,
            certificates=settings.certificates,
        )
        keys = RemoteKeys(
            download, settings.times, clock=clock, executor=new_executor(), report=report
        )
        return cls(settings.rules, keys)

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Return the claims of a token; raises InvalidTokenError."""
        try:
            return validate_signed_token(self._rules, self._keys.keys(), token, now_ms)
        except KeysUnavailableError as error:
            raise InvalidTokenError(f"the keys cannot be loaded: {error}") from None
        except UnknownKeyError as error:
            if error.key_id is not None:
                self._keys.report_unknown(error.key_id)
            raise

    def first_keys(self) -> Waiting[None] | None:
        """Return a Waiting for the first download of keys; None if it has ended."""
        return self._keys.first_keys()

    def close(self) -> None:
        """Stop downloads."""
        self._keys.close()


def read_signed_token_settings(
    security: ListenerSecurity, options: Mapping[str, str], *, requires_names: bool
) -> SignedTokenSettings:
    """Return the settings of a listener; raises ConfigError.

    `options` are those of the login module. With `requires_names`, as since Kafka 4.4, the settings
    must have the expected audience and issuer of tokens, or allow tokens without these checks.
    """
    security.get("sasl.oauthbearer.jwt.validator.class")  # both of its classes do the same
    url = _url(security)
    return SignedTokenSettings(
        rules=_rules(security, requires_names=requires_names),
        url=url,
        times=_times(security),
        certificates=_certificates(security, options) if url.startswith("https:") else None,
    )


def _text(security: ListenerSecurity, key: str) -> str | None:
    """Return a text without blanks at its ends; None if it is empty."""
    value = security.mechanism_get(OAUTHBEARER, key)
    return str(value or "").strip() or None


def _check_expected_name(security: ListenerSecurity, name: str, *, is_present: bool) -> None:
    """Raise ConfigError if an expected name is missing, and unverified ones are not allowed."""
    key, permission = f"{_PREFIX}expected.{name}", f"{_PREFIX}allow.unverified.{name}"
    if not is_present and not security.mechanism_get(OAUTHBEARER, permission):
        raise ConfigError(
            key,
            f"listener {security.name}: {key} is required to check signed tokens; "
            f"{permission}=true accepts tokens without this check",
        )


def _rules(security: ListenerSecurity, *, requires_names: bool) -> SignedTokenRules:
    claims = []
    for key in ("sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name"):
        name = _text(security, key)
        if name is None:
            raise ConfigError(key, f"{key} must not be empty")
        claims.append(name)
    value = security.mechanism_get(OAUTHBEARER, f"{_PREFIX}expected.audience")
    audiences = value if isinstance(value, tuple) else ()
    issuer = _text(security, f"{_PREFIX}expected.issuer")
    if requires_names:
        _check_expected_name(security, "audience", is_present=bool(audiences))
        _check_expected_name(security, "issuer", is_present=issuer is not None)
    return SignedTokenRules(
        audiences=audiences,
        accepts_any_audience=requires_names,
        issuer=issuer,
        principal_claim=claims[0],
        scope_claim=claims[1],
        clock_skew_s=security.mechanism_int(OAUTHBEARER, "sasl.oauthbearer.clock.skew.seconds"),
    )


def _url(security: ListenerSecurity) -> str:
    url = _text(security, _URL_KEY)
    if url is None:
        raise ConfigError(
            _URL_KEY, f"listener {security.name}: {_URL_KEY} is required to check signed tokens"
        )
    try:
        parts = urlsplit(url)
        is_complete = parts.path if parts.scheme == "file" else parts.hostname
        _ = parts.port
    except ValueError:
        is_complete = None
    if not is_complete or parts.scheme not in {"http", "https", "file"}:
        # The address may have a password.
        raise ConfigError(_URL_KEY, f"{_URL_KEY} must be a URL with http, https or file")
    return parts.geturl()


def _times(security: ListenerSecurity) -> RefreshTimes:
    times = RefreshTimes(
        *(
            security.mechanism_int(OAUTHBEARER, key)
            for key in (_REFRESH_KEY, _RETRY_KEY, _MAX_RETRY_KEY)
        )
    )
    if times.refresh_ms <= 0:
        raise ConfigError(_REFRESH_KEY, f"{_REFRESH_KEY} must be positive")
    if not 0 <= times.retry_ms <= times.max_retry_ms:
        raise ConfigError(
            _RETRY_KEY, f"{_RETRY_KEY} must be between 0 and the value of {_MAX_RETRY_KEY}"
        )
    return times


def _certificates(security: ListenerSecurity, options: Mapping[str, str]) -> str | None:
    """Return the authorities of a trust store in the options of the login module."""

    def get(key: str) -> Value:
        definition = broker_keys()[key]
        text = options.get(key)
        return definition.default if text is None else definition.parse(text)

    try:
        return read_trust_store(security._replace(config=ProposedValues(get)), read_store_file)
    except KeyStoreError as error:
        key = f"{security.prefix}{OAUTHBEARER.lower()}.sasl.jaas.config"
        raise ConfigError(key, f"{key}: {error}") from error
