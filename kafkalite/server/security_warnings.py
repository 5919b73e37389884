"""Warnings about security settings that let no client connect, or that have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.security_protocols import PROTOCOL_MAP_KEY, parse_protocol_map
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.authorizer import ALLOW_WITHOUT_ACLS, SUPER_USERS
from kafkalite.security.listener_security import ANONYMOUS
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NAME
from kafkalite.security.sasl.users import OAUTHBEARER, PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.metadata.image import MetadataImage
    from kafkalite.security.listener_security import ListenerSecurity
    from kafkalite.security.sasl.users import User
    from kafkalite.server.addresses import ListenerSpec


class SecurityWarning(NamedTuple):
    """A line for the log, and its fields."""

    text: str
    fields: Mapping[str, str]


def listener_warnings(
    specs: Sequence[ListenerSpec], text: Mapping[str, str]
) -> Iterator[SecurityWarning]:
    """Yield a warning for listeners whose name is no protocol, and may be meant as one."""
    protocols = parse_protocol_map(text.get(PROTOCOL_MAP_KEY, ""))
    for spec in specs:
        if spec.has_misleading_name and spec.name not in protocols:
            yield SecurityWarning(
                "a listener has no security, because its name is not a security protocol: use "
                f"SSL, SASL_PLAINTEXT or SASL_SSL, or set {PROTOCOL_MAP_KEY}",
                {"listener": spec.name},
            )


def sasl_warnings(
    listeners: Sequence[ListenerSecurity], users: Sequence[User], image: MetadataImage
) -> Iterator[SecurityWarning]:
    """Yield warnings for listeners with SASL on which no client can authenticate, or too many can.

    The users in the settings have their SCRAM credentials in `image`.
    """
    for security in listeners:
        if security.protocol.uses_sasl and not any(
            _has_users(mechanism, security, users, image)
            for mechanism in security.list("sasl.enabled.mechanisms")
        ):
            yield SecurityWarning(
                "no client can authenticate on a listener with SASL: it has no users, neither of "
                "--user nor of a JAAS configuration nor with SCRAM credentials",
                {"listener": security.name},
            )
        if security.protocol.uses_sasl:
            yield from _token_warnings(security)


def _token_warnings(security: ListenerSecurity) -> Iterator[SecurityWarning]:
    """Yield a warning for signed tokens whose audience or issuer is not checked, as Kafka does."""
    from kafkalite.server.sasl_listener import checks_signatures  # noqa: PLC0415 - only with SASL

    if not checks_signatures(security):
        return
    for name in ("audience", "issuer"):
        key = f"sasl.oauthbearer.expected.{name}"
        if not security.mechanism_get(OAUTHBEARER, key):
            yield SecurityWarning(
                f"the listener expects no {name} of signed tokens: set {key}",
                {"listener": security.name},
            )


def _has_users(
    mechanism: str, security: ListenerSecurity, users: Sequence[User], image: MetadataImage
) -> bool:
    scram = SCRAM_BY_NAME.get(mechanism)
    if scram is not None:
        return any(number == scram.number for number, _ in image.scram_credentials)
    if mechanism == PLAIN:
        has_user = any(PLAIN in user.mechanisms for user in users)
        return has_user or security.jaas_config(PLAIN) is not None
    return mechanism == OAUTHBEARER  # tokens contain the names of their users


def authorizer_warnings(
    authorizer: str, text: Mapping[str, str], image: MetadataImage
) -> Iterator[SecurityWarning]:
    """Yield warnings for super users without an authorizer, and for one that allows all or nothing.

    `authorizer` is the class of the authorizer, empty without one; `text` has the static settings.
    """
    has_super_users = bool(text.get(SUPER_USERS, "").strip("; "))
    if has_super_users and not authorizer:
        yield SecurityWarning(
            "super users have no effect without an authorizer: set authorizer.class.name",
            {"key": SUPER_USERS},
        )
    allows_without_acls = text.get(ALLOW_WITHOUT_ACLS, "").strip().lower() == "true"
    if authorizer and ANONYMOUS in map(str.strip, text.get(SUPER_USERS, "").split(";")):
        yield SecurityWarning(
            "clients that do not authenticate are super users", {"key": SUPER_USERS}
        )
    if authorizer and not has_super_users and not image.acls and not allows_without_acls:
        yield SecurityWarning(
            "the authorizer refuses all clients: there are neither ACLs nor super users that could "
            "create them",
            {"key": SUPER_USERS},
        )
