"""JAAS texts: modules, options, quoting, and invalid texts."""

from __future__ import annotations

import pytest

from kafkalite.security.sasl.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_options_are_read() -> None:
    module = parse_jaas(
        f"""{PLAIN} required  // a comment
        username="admin" password='x'
        user_alice="a;b=c \\"quoted\\" \\\\ \\101"  /* another = ; */ serviceName = kafka ;"""
    )
    assert module.class_name == PLAIN
    assert module.options == {
        "username": "admin",
        "password": "'x'",
        "user_alice": 'a;b=c "quoted" \\ A',
        "serviceName": "kafka",
    }


def test_a_module_may_have_no_options() -> None:
    assert parse_jaas("a.ScramLoginModule REQUIRED;").options == {}


def test_the_text_of_a_module_has_no_passwords() -> None:
    module = parse_jaas('M required user_alice="secret";')
    assert repr(module) == "LoginModule(M, user_alice)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not contain any login modules"),
        ("  // nothing", "does not contain any login modules"),
        ("M required; N required;", "contains 2 login modules, should be 1 module"),
        ('M required a="secret"', "not terminated by semi-colon"),
        ("M required", "not terminated by semi-colon"),
        ("M", "not terminated by semi-colon"),
        ('M user_a="secret";', "control flag"),
        ('M required a "secret";', "Value not specified"),
        ("M required =secret;", "has '=' where"),
        ("M required a=;", "has ';' where"),
        ("; ", "has ';' where"),
        ('M required a="secret;', "closing quotation mark"),
    ],
)
def test_an_invalid_text_is_rejected_without_being_shown(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=message) as error:
        parse_jaas(text)
    assert "secret" not in str(error.value)
