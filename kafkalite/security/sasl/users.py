"""Users of a broker: names, passwords and mechanisms, from options and JAAS texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
PASSWORD_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", PLAIN)
"""The mechanisms of a user with a password, if the user does not name one."""

MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER)
"""All mechanisms that a listener can have."""

_LOGIN_PACKAGE: Final = "org.apache.kafka.common.security."

LOGIN_MODULES: Final[Mapping[str, str]] = {
    "SCRAM-SHA-512": f"{_LOGIN_PACKAGE}scram.ScramLoginModule",
    "SCRAM-SHA-256": f"{_LOGIN_PACKAGE}scram.ScramLoginModule",
    PLAIN: f"{_LOGIN_PACKAGE}plain.PlainLoginModule",
    OAUTHBEARER: f"{_LOGIN_PACKAGE}oauthbearer.OAuthBearerLoginModule",
}
"""Mechanism → the class that a JAAS text names."""

_OTHER_MECHANISMS: Final = ("GSSAPI", OAUTHBEARER)
_USER_OPTION: Final = "user_"


class UserError(ValueError):
    """An invalid user; the text has no password."""


class User(NamedTuple):
    """A user with a password."""

    name: str
    password: str
    mechanisms: tuple[str, ...] = PASSWORD_MECHANISMS

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"User({self.name!r}, mechanisms={self.mechanisms})"


def parse_users(texts: Iterable[str]) -> list[User]:
    """Return users from texts such as `alice:secret` or `bob:secret:PLAIN`; raises UserError.

    The part after the last colon is a mechanism if it has the form of one; otherwise it belongs to
    the password.
    """
    return _without_repetition(map(_parse_user, texts))


def _parse_user(text: str) -> User:
    name, colon, rest = text.partition(":")
    if not name or not colon:
        raise UserError("a user is NAME:PASSWORD or NAME:PASSWORD:MECHANISM")
    password, colon, mechanism = rest.rpartition(":")
    mechanism = mechanism.upper()
    if colon and (mechanism in PASSWORD_MECHANISMS):
        return _checked(User(name, password, (mechanism,)))
    if colon and (mechanism in _OTHER_MECHANISMS or mechanism.startswith("SCRAM-")):
        known = ", ".join(PASSWORD_MECHANISMS)
        raise UserError(f"the mechanism of user {name!r} is not one of {known}")
    return _checked(User(name, rest))


def users_of(users: Mapping[str, str] | Sequence[User]) -> list[User]:
    """Return users from passwords by name, or from a sequence of users; raises UserError."""
    if isinstance(users, Mapping):
        users = [User(name, password) for name, password in users.items()]
    return _without_repetition(map(_checked, users))


def _without_repetition(users: Iterable[User]) -> list[User]:
    """Return users that have one password for each mechanism; raises UserError."""
    listed = list(users)
    known: set[tuple[str, str]] = set()
    for user in listed:
        for mechanism in user.mechanisms:
            if (user.name, mechanism) in known:
                raise UserError(f"user {user.name!r} is given twice for {mechanism}")
            known.add((user.name, mechanism))
    return listed


def _checked(user: User) -> User:
    if not isinstance(user, User):
        raise UserError(
            f"users are passwords by name, or objects of User, not {type(user).__name__}"
        )
    if not user.name or not user.password:
        raise UserError(f"user {user.name!r} needs a name and a password")
    for text in (user.name, user.password):
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise UserError("the name or the password of a user has invalid characters")
    return user


def plain_passwords(users: Iterable[User], jaas_options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords for PLAIN by name; `user_NAME` of a JAAS text has precedence."""
    passwords = {user.name: user.password for user in users if PLAIN in user.mechanisms}
    for option, value in jaas_options.items():
        if option.startswith(_USER_OPTION):
            passwords[option.removeprefix(_USER_OPTION)] = value
    return passwords
