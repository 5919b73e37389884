"""SaslSettings and SaslListener: the SASL settings of a listener, and the gates of connections."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from kafkalite.config.broker import SECRET_KEY
from kafkalite.config.definitions import ConfigError
from kafkalite.config.sasl_classes import CALLBACK_HANDLERS, SIGNED_TOKEN_HANDLERS
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.delegation_tokens import token_credential
from kafkalite.security.listener_security import ProposedValues
from kafkalite.security.sasl.authenticator import AuthenticationRules, Authenticator
from kafkalite.security.sasl.jaas import JaasError, parse_jaas
from kafkalite.security.sasl.oauthbearer import OAuthBearerServer
from kafkalite.security.sasl.plain import PlainServer
from kafkalite.security.sasl.scram import ScramServer
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NAME, substitute_credential
from kafkalite.security.sasl.unsecured_tokens import UnsecuredTokenRules, validate_unsecured_token
from kafkalite.security.sasl.users import (
    LOGIN_MODULES,
    MECHANISMS,
    OAUTHBEARER,
    PLAIN,
    plain_passwords,
)
from kafkalite.wire.sasl_gate import SaslGate, SaslGateSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.config.definitions import Value
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.gateway.gateway import Gateway
    from kafkalite.ports.waiting import Waiting
    from kafkalite.security.listener_security import ListenerSecurity
    from kafkalite.security.sasl.mechanism import SaslServer
    from kafkalite.security.sasl.oauthbearer import BearerToken
    from kafkalite.security.sasl.scram_credentials import ScramCredential, ScramMechanism
    from kafkalite.security.sasl.users import User
    from kafkalite.server.token_validator import TokenValidator
    from kafkalite.wire.session import SessionSettings

    NewValidator = Callable[[ListenerSecurity, Mapping[str, str]], TokenValidator]

_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
_MAX_REAUTH_KEY: Final = "connections.max.reauth.ms"
_HANDLER_KEY: Final = "sasl.server.callback.handler.class"
_JAAS_KEY: Final = "sasl.jaas.config"
_RULE_KEYS: Final = (_MECHANISMS_KEY, _MAX_REAUTH_KEY)
"""The keys without a listener that apply to listeners without a value of their own."""
_DELAY_KEY: Final = "connection.failed.authentication.delay.ms"
_MAX_TOKEN_CREDENTIALS: Final = 1024
"""The maximum number of delegation tokens whose keys a listener remembers."""
_NONCE_BOUND: Final = 1 << 120


class SaslRules(NamedTuple):
    """The settings of a listener's authentication, in the form that connections need."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str]
    """The passwords for PLAIN by user."""
    tokens: UnsecuredTokenRules
    """The rules for OAUTHBEARER, if tokens are unsecured."""
    max_session_ms: Mapping[str, int]
    """The maximum time until a client must authenticate again, by mechanism."""

    def __repr__(self) -> str:
        """Return a text without passwords."""
        return f"SaslRules(mechanisms={self.mechanisms}, max_session_ms={self.max_session_ms})"


class SaslSettings:
    """The settings of one listener that its nodes share, with dynamic changes.

    A change applies to the next connection. If the new settings are invalid, the former ones
    remain in use.
    """

    __slots__ = (
        "_report",
        "_rules",
        "_security",
        "_texts",
        "_users",
        "scram_secret",
        "signed_tokens",
    )

    def __init__(
        self,
        security: ListenerSecurity,
        users: Sequence[User],
        scram_secret: bytes,
        report: Callable[[str], None],
        new_validator: NewValidator,
    ) -> None:
        """Read the settings; raises ConfigError if they are invalid.

        `scram_secret` makes the salts of unknown users; it must be the same for all listeners.
        `report` is called with the reason when changed settings are invalid. `new_validator`
        returns the validator of signed tokens.
        """
        self._security = security
        self._users = users
        self._report = report
        self.scram_secret = scram_secret
        self._texts = _texts_of_rules(security)
        self._rules = read_rules(security, users)
        self.signed_tokens: TokenValidator | None = None
        """Checks tokens; None if tokens are unsecured. Only a start changes it, as in Kafka."""
        if checks_signatures(security):
            self.signed_tokens = new_validator(security, _jaas_options(security, OAUTHBEARER))

    def close(self) -> None:
        """Stop downloads of keys."""
        if self.signed_tokens is not None:
            self.signed_tokens.close()

    @property
    def security(self) -> ListenerSecurity:
        """The settings of the listener."""
        return self._security

    def rules(self) -> SaslRules:
        """Return the rules for a new connection; they are made again if a setting has changed."""
        texts = _texts_of_rules(self._security)
        if texts != self._texts:
            # Also after an error, which is reported once for each change.
            self._texts = texts
            try:
                self._rules = read_rules(self._security, self._users)
            except ConfigError as error:
                self._report(error.message)
        return self._rules

    def check_change(self, names: Collection[str], get: Callable[[str], Value]) -> None:
        """Check new settings of the listener; raises ConfigError if they are invalid."""
        prefix = self._security.prefix
        if any(name in _RULE_KEYS or name.startswith(prefix) for name in names):
            read_rules(self._security._replace(config=ProposedValues(get)), self._users)


def read_rules(security: ListenerSecurity, users: Sequence[User]) -> SaslRules:
    """Return the rules of a listener; raises ConfigError if its settings are invalid."""
    mechanisms = enabled_mechanisms(security)
    options = {each: _jaas_options(security, each) for each in mechanisms}
    return SaslRules(
        mechanisms=mechanisms,
        passwords=plain_passwords(users, options.get(PLAIN, {})),
        tokens=_token_rules(security, options.get(OAUTHBEARER, {})),
        max_session_ms={each: security.mechanism_int(each, _MAX_REAUTH_KEY) for each in mechanisms},
    )


def _texts_of_rules(security: ListenerSecurity) -> tuple[object, ...]:
    """Return the values that `read_rules` depends on, which may be invalid."""
    mechanisms = security.list(_MECHANISMS_KEY)
    return (
        mechanisms,
        security.get(_MAX_REAUTH_KEY),
        *(
            security.mechanism_text(mechanism, key)
            for mechanism in mechanisms
            for key in (_JAAS_KEY, _MAX_REAUTH_KEY)
        ),
    )


def checks_signatures(security: ListenerSecurity) -> bool:
    """Return whether the tokens of a listener are signed.

    As in Kafka, only the setting of a listener and a mechanism applies. Raises ConfigError for a
    callback handler that its mechanism does not have.
    """
    is_signed = False
    for mechanism, handlers in CALLBACK_HANDLERS.items():
        handler = (security.mechanism_text(mechanism, _HANDLER_KEY) or "").strip()
        if handler and handler not in handlers:
            key = f"{security.prefix}{mechanism.lower()}.{_HANDLER_KEY}"
            raise ConfigError(key, f"{key} is {handler}, but must be {' or '.join(handlers)}")
        is_signed |= handler in SIGNED_TOKEN_HANDLERS
    return is_signed


class SaslListener:
    """The authentication of the clients of one listener of one node."""

    __slots__ = ("_gate_settings", "_node", "_settings", "_token_credential")

    def __init__(
        self,
        node: Node,
        settings: SaslSettings,
        gateway: Gateway,
        controller_gateway: Gateway | None = None,
    ) -> None:
        """`controller_gateway` serves the requests of clients of the controller.

        Before a client has authenticated, `gateway` refuses requests at all listeners: Kafka then
        answers requests that the controller does not serve, too.
        """
        self._node = node
        self._settings = settings
        self._token_credential = lru_cache(_MAX_TOKEN_CREDENTIALS)(token_credential)
        security = settings.security
        self._gate_settings = SaslGateSettings(
            max_receive_bytes=security.int("sasl.server.max.receive.size"),
            failure_delay_ms=partial(security.int, _DELAY_KEY),
            clock=node.clock,
            serve_authentication=(controller_gateway or gateway).serve_authentication,
            refuse=gateway.refuse,
            accept=_accept,
        )

    def new_gate(self, context: ConnectionContext, following: SessionSettings) -> SaslGate:
        """Return the gate of a new connection, and set the authenticator of its context."""
        rules = self._settings.rules()
        context.authenticator = authenticator = Authenticator(
            AuthenticationRules(
                mechanisms=rules.mechanisms,
                new_server=partial(self._new_server, rules),
                prepare=self._prepare,
                max_session_ms=rules.max_session_ms,
            )
        )
        return SaslGate(self._gate_settings, authenticator, following)

    def _new_server(self, rules: SaslRules, mechanism: str) -> SaslServer:
        """Return the server's side of a new exchange."""
        if mechanism == PLAIN:
            return PlainServer(rules.passwords)
        if mechanism == OAUTHBEARER:
            return OAuthBearerServer(partial(self._validate_token, rules.tokens))
        scram = SCRAM_BY_NAME[mechanism]
        nonce = f"{self._node.entropy.integer(_NONCE_BOUND):030x}"
        find_credential = partial(self._find_credential, scram)
        return ScramServer(
            scram,
            find_credential,
            nonce,
            self._settings.scram_secret,
            accepts_suffix=self._node.config.release.accepts_nonce_suffix,
        )

    def _prepare(self, mechanism: str) -> Waiting[None] | None:
        """Let clients with signed tokens wait for the first keys."""
        signed_tokens = self._settings.signed_tokens
        if mechanism != OAUTHBEARER or signed_tokens is None:
            return None
        return signed_tokens.first_keys()

    def _validate_token(self, rules: UnsecuredTokenRules, token: str) -> BearerToken:
        """Return the claims of a token; raises InvalidTokenError."""
        now_ms = self._node.clock.now_ms()
        signed_tokens = self._settings.signed_tokens
        if signed_tokens is not None:
            return signed_tokens.validate(token, now_ms)
        return validate_unsecured_token(rules, token, now_ms)

    def _find_credential(
        self,
        mechanism: ScramMechanism,
        name: str,
        is_token: bool,  # noqa: FBT001 - a callback
    ) -> tuple[ScramCredential, str, int | None] | None:
        if is_token:
            return self._find_token(mechanism, name)
        credential = self._node.image.scram_credentials.get((mechanism.number, name))
        return None if credential is None else (credential, name, None)

    def _find_token(
        self, mechanism: ScramMechanism, token_id: str
    ) -> tuple[ScramCredential, str, int | None] | None:
        """Return the keys, the owner and the end of a delegation token.

        To derive keys takes about 2 ms, while all other clients wait. So it is done once for each
        token, and not for unknown ids: otherwise clients that have not authenticated could hold up
        the others. Ids are random, so it does not matter that the time shows whether one exists.
        """
        secret_key = self._node.config.str_or_none(SECRET_KEY)
        token = self._node.image.delegation_tokens.get(token_id)
        if not secret_key or token is None:
            return None
        # The same salt as that of the substitute for an unknown id.
        salt = substitute_credential(mechanism, self._settings.scram_secret, token_id).salt
        credential = self._token_credential(mechanism, secret_key, token_id, salt)
        return credential, token.owner_name, token.expires_at_ms


def enabled_mechanisms(security: ListenerSecurity) -> tuple[str, ...]:
    """Return the mechanisms of a listener that are supported; raises ConfigError without one."""
    configured = tuple(dict.fromkeys(security.list(_MECHANISMS_KEY)))
    supported = tuple(each for each in configured if each in MECHANISMS)
    if not supported:
        raise ConfigError(
            _MECHANISMS_KEY,
            f"listener {security.name}: {_MECHANISMS_KEY} is {','.join(configured) or 'empty'}, "
            f"but only {', '.join(MECHANISMS)} are supported",
        )
    return supported


def _jaas_options(security: ListenerSecurity, mechanism: str) -> Mapping[str, str]:
    """Return the options of a mechanism's login module; empty without one."""
    text = security.jaas_config(mechanism)
    if text is None:
        return {}
    key = f"{security.prefix}{mechanism.lower()}.{_JAAS_KEY}"
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(key, f"{key}: {error}") from None
    expected = LOGIN_MODULES[mechanism]
    if module.class_name != expected:
        raise ConfigError(key, f"{key}: the login module of {mechanism} must be {expected}")
    return module.options


def _token_rules(security: ListenerSecurity, options: Mapping[str, str]) -> UnsecuredTokenRules:
    try:
        return UnsecuredTokenRules.from_options(options)
    except ValueError as error:
        key = f"{security.prefix}{OAUTHBEARER.lower()}.{_JAAS_KEY}"
        raise ConfigError(key, f"{key}: {error}") from None


def _accept(context: ConnectionContext, principal: str) -> None:
    context.principal = principal
