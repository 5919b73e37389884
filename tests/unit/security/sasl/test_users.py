"""Users: texts of options, mechanisms, and passwords for PLAIN."""

from __future__ import annotations

import pytest

from kafkalite.security.sasl.users import (
    LOGIN_MODULES,
    MECHANISMS,
    PASSWORD_MECHANISMS,
    User,
    UserError,
    parse_users,
    plain_passwords,
    users_of,
)


def test_a_user_has_all_password_mechanisms_unless_it_names_one() -> None:
    assert parse_users(["alice:secret", "bob:secret:PLAIN", "carol:secret:scram-sha-256"]) == [
        User("alice", "secret", PASSWORD_MECHANISMS),
        User("bob", "secret", ("PLAIN",)),
        User("carol", "secret", ("SCRAM-SHA-256",)),
    ]


def test_a_password_may_have_colons() -> None:
    users = parse_users(["alice:a:b", "bob:a:b:PLAIN", "carol:::"])
    assert [user.password for user in users] == ["a:b", "a:b", "::"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "NAME:PASSWORD"),
        ("alice", "NAME:PASSWORD"),
        (":secret", "NAME:PASSWORD"),
        ("alice:", "needs a name and a password"),
        ("alice::PLAIN", "needs a name and a password"),
        ("alice:secret:SCRAM-SHA-1", "the mechanism of user 'alice' is not one of SCRAM-SHA-512"),
        ("alice:secret:GSSAPI", "the mechanism of user 'alice'"),
        ("alice:secret:oauthbearer", "the mechanism of user 'alice'"),
        ("alice:sec\0ret", "invalid characters"),
        ("alice:sec\udcffret", "invalid characters"),
    ],
)
def test_an_invalid_user_is_rejected_without_its_password(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        parse_users([text])
    assert "secret" not in str(error.value)


def test_a_user_has_one_password_for_each_mechanism() -> None:
    with pytest.raises(UserError, match=r"^user 'alice' is given twice for SCRAM-SHA-512$"):
        parse_users(["alice:a", "bob:a", "alice:b"])
    with pytest.raises(UserError, match=r"^user 'alice' is given twice for PLAIN$"):
        users_of([User("alice", "a"), User("alice", "b", ("PLAIN",))])
    users = parse_users(["alice:a:PLAIN", "alice:b:SCRAM-SHA-256"])
    assert users_of(users) == users


def test_users_are_made_of_passwords_by_name() -> None:
    assert users_of({"alice": "secret"}) == [User("alice", "secret")]
    given = [User("bob", "secret", ("PLAIN",))]
    assert users_of(given) == given
    with pytest.raises(UserError):
        users_of({"alice": ""})


def test_the_text_of_a_user_has_no_password() -> None:
    assert repr(User("alice", "secret", ("PLAIN",))) == "User('alice', mechanisms=('PLAIN',))"


def test_passwords_for_plain_are_those_of_users_and_login_modules() -> None:
    users = [User("a", "1"), User("b", "2", ("SCRAM-SHA-256",)), User("c", "3", ("PLAIN",))]
    options = {"username": "x", "user_c": "4", "user_d": "5"}
    assert plain_passwords(users, options) == {"a": "1", "c": "4", "d": "5"}


def test_each_mechanism_has_a_login_module() -> None:
    assert LOGIN_MODULES.keys() == set(MECHANISMS)
