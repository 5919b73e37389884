"""SaslListener: the SASL settings of one listener, checked at start, and its connections' gates."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.definitions import ConfigError
from kafkalite.security.sasl.authenticator import AuthenticationRules, Authenticator
from kafkalite.security.sasl.jaas import JaasError, parse_jaas
from kafkalite.security.sasl.oauthbearer import OAuthBearerServer
from kafkalite.security.sasl.plain import PlainServer
from kafkalite.security.sasl.scram import ScramServer
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NAME
from kafkalite.security.sasl.unsecured_tokens import UnsecuredTokenRules, validate_unsecured_token
from kafkalite.security.sasl.users import MECHANISMS, OAUTHBEARER, PLAIN, plain_passwords
from kafkalite.server.logging import Level, log_authentication
from kafkalite.wire.sasl_gate import SaslGate, SaslGateSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.gateway import Gateway
    from kafkalite.security.listener_security import ListenerSecurity
    from kafkalite.security.sasl.mechanism import SaslServer
    from kafkalite.security.sasl.scram_credentials import ScramCredential, ScramMechanism
    from kafkalite.security.sasl.users import User
    from kafkalite.server.logging import Log
    from kafkalite.wire.session import SessionSettings

_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
_MAX_REAUTH_KEY: Final = "connections.max.reauth.ms"
_DELAY_KEY: Final = "connection.failed.authentication.delay.ms"
_LOGIN_PACKAGE: Final = "org.apache.kafka.common.security."
_SCRAM_MODULE: Final = f"{_LOGIN_PACKAGE}scram.ScramLoginModule"
_LOGIN_MODULES: Final = {
    PLAIN: f"{_LOGIN_PACKAGE}plain.PlainLoginModule",
    OAUTHBEARER: f"{_LOGIN_PACKAGE}oauthbearer.OAuthBearerLoginModule",
    **dict.fromkeys(SCRAM_BY_NAME, _SCRAM_MODULE),
}
_NONCE_BOUND: Final = 1 << 120


class SaslListener:
    """The authentication of the clients of one listener of one node.

    Settings are read for each connection, so dynamic changes apply to the next one.
    """

    __slots__ = (
        "_gate_settings",
        "_node",
        "_rules",
        "_rules_settings",
        "_secret",
        "_security",
        "_users",
    )

    def __init__(
        self, node: Node, security: ListenerSecurity, users: Sequence[User], gateway: Gateway
    ) -> None:
        """Read the settings; raises ConfigError if they are invalid."""
        self._node = node
        self._security = security
        self._users = users
        self._secret = node.entropy.uuid() + node.entropy.uuid()
        self._rules_settings: tuple[object, ...] = ()
        self._rules = self._read_rules()
        self._gate_settings = SaslGateSettings(
            max_receive_bytes=security.int("sasl.server.max.receive.size"),
            failure_delay_ms=partial(security.int, _DELAY_KEY),
            clock=node.clock,
            serve_authentication=gateway.serve_authentication,
            refuse=gateway.refuse,
            accept=_accept,
        )

    def _current_rules(self) -> AuthenticationRules:
        """Return the rules for a new connection; they are made again if a setting has changed."""
        security = self._security
        mechanisms = security.list(_MECHANISMS_KEY)
        settings = (
            mechanisms,
            *(
                (security.jaas_config(each), security.mechanism_get(each, _MAX_REAUTH_KEY))
                for each in mechanisms
            ),
        )
        if settings != self._rules_settings:
            self._rules_settings = settings
            with suppress(ConfigError):  # the previous rules apply
                self._rules = self._read_rules()
        return self._rules

    def _read_rules(self) -> AuthenticationRules:
        security = self._security
        mechanisms = enabled_mechanisms(security)
        options = {each: _jaas_options(security, each) for each in mechanisms}
        makers: dict[str, Callable[[], SaslServer]] = {}
        for mechanism in mechanisms:
            if mechanism in SCRAM_BY_NAME:
                makers[mechanism] = partial(self._new_scram_server, SCRAM_BY_NAME[mechanism])
            elif mechanism == PLAIN:
                passwords = plain_passwords(self._users, options[PLAIN])
                makers[mechanism] = partial(PlainServer, passwords)
            else:
                rules = _token_rules(security, options[OAUTHBEARER])
                makers[mechanism] = partial(self._new_token_server, rules)
        return AuthenticationRules(
            mechanisms=mechanisms,
            new_server=lambda mechanism: makers[mechanism](),
            max_session_ms={
                each: _int(security.mechanism_get(each, _MAX_REAUTH_KEY)) for each in mechanisms
            },
        )

    def new_gate(self, call: Call, following: SessionSettings, log: Log) -> SaslGate:
        """Return the gate of a new connection, and set the authenticator of its call."""
        call.authenticator = authenticator = Authenticator(self._current_rules())
        settings = self._gate_settings
        if log.level <= Level.DEBUG:
            serve = log_authentication(log, settings.serve_authentication)
            settings = settings._replace(serve_authentication=serve)
        return SaslGate(settings, authenticator, following)

    def _new_scram_server(self, mechanism: ScramMechanism) -> SaslServer:
        nonce = f"{self._node.entropy.integer(_NONCE_BOUND):030x}"
        find_credential = partial(self._find_credential, mechanism)
        return ScramServer(mechanism, find_credential, nonce, self._secret)

    def _find_credential(
        self,
        mechanism: ScramMechanism,
        name: str,
        is_token: bool,  # noqa: FBT001 - a callback
    ) -> tuple[ScramCredential, str, int | None] | None:
        if is_token:
            return None
        credential = self._node.image.scram_credentials.get((mechanism.number, name))
        return None if credential is None else (credential, name, None)

    def _new_token_server(self, rules: UnsecuredTokenRules) -> SaslServer:
        clock = self._node.clock
        return OAuthBearerServer(
            lambda token: validate_unsecured_token(rules, token, clock.now_ms())
        )


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
    key = f"{security.prefix}{mechanism.lower()}.sasl.jaas.config"
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(key, f"{key}: {error}") from None
    expected = _LOGIN_MODULES[mechanism]
    if module.class_name != expected:
        raise ConfigError(key, f"{key}: the login module of {mechanism} must be {expected}")
    return module.options


def _token_rules(security: ListenerSecurity, options: Mapping[str, str]) -> UnsecuredTokenRules:
    try:
        return UnsecuredTokenRules.from_options(options)
    except ValueError as error:
        key = f"{security.prefix}{OAUTHBEARER.lower()}.sasl.jaas.config"
        raise ConfigError(key, f"{key}: {error}") from None


def _int(value: Any) -> int:  # noqa: ANN401 - a value of any configuration
    if not isinstance(value, int):
        raise TypeError(f"{_MAX_REAUTH_KEY} is not an integer")
    return value


def _accept(call: Call, principal: str) -> None:
    call.principal = principal
