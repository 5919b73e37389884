"""JAAS files: sections, login modules and their texts."""

from __future__ import annotations

import re

import pytest

from kafkalite.security.sasl.jaas import JaasError, LoginModule, parse_jaas
from kafkalite.security.sasl.jaas_files import (
    MissingSectionError,
    jaas_key,
    login_file,
    login_settings,
    mechanisms_of,
    module_text,
    parse_sections,
    scram_users,
)
from kafkalite.security.sasl.users import User

_FILE = """
/* the broker */
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required
  username="admin" password="a}b" user_alice="s\\"x";
  org.apache.kafka.common.security.scram.ScramLoginModule required username=a password=b;
};
internal.KafkaServer{ com.example.Other optional; };
"""


def test_file_has_the_modules_of_each_section() -> None:
    sections = parse_sections(_FILE)
    assert list(sections) == ["KafkaServer", "internal.KafkaServer"]
    plain, scram = sections["KafkaServer"]
    assert plain.options == {"username": "admin", "password": "a}b", "user_alice": 's"x'}
    assert mechanisms_of(plain) == ["PLAIN"]
    assert mechanisms_of(scram) == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert mechanisms_of(sections["internal.KafkaServer"][0]) == []


def test_text_of_a_module_has_the_same_module() -> None:
    for module in parse_sections(_FILE)["KafkaServer"]:
        assert parse_jaas(module_text(module)) == module


def test_invalid_module_is_an_error() -> None:
    with pytest.raises(JaasError):
        parse_sections("KafkaServer { com.example.Module sometimes; };")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param("/* Old { a.B required; }; */ New { a.B required; };", id="section"),
        pytest.param("// Old { a.B required; };\nNew { a.B required; };", id="line"),
        pytest.param('New {\n// a "quote and {braces\na.B required; };', id="in section"),
        pytest.param("New { a.B required; }; /* without end Old { a.B required; };", id="end"),
    ],
)
def test_comments_have_no_modules(file: str) -> None:
    assert parse_sections(file) == {"New": [LoginModule("a.B", {})]}


_MODULE = 'a.B required x="1";'


@pytest.mark.parametrize(
    ("file", "error"),
    [
        (f"A {{ {_MODULE}", "line 1: the last section does not end with };"),
        (f"A {{\n{_MODULE} }}", "line 2: a section must end with };"),
        (f"A {{ {_MODULE} }}\nB {{ {_MODULE} }};", "line 2: a section must end with };"),
        (f"# A\nB {{ {_MODULE} }};", "line 1: a section must begin with NAME {"),
        ('include "other.conf";', "line 1: a section must begin with NAME {"),
        (f"A {{ B {{ {_MODULE} }}; }};", "line 1: the JAAS config has '{' where a name must be"),
        ('A { a.B required x="1" };', "line 1: the JAAS config has '}' where ; must be"),
        (f"A {{ {_MODULE} }};\nA {{ {_MODULE} }};", "line 2: there are two sections A"),
        (
            'A { a.B required x="${password}"; };',
            "line 1: the option x has a system property of Java, ${…}: write its value",
        ),
    ],
)
def test_java_refuses_the_file(file: str, error: str) -> None:
    with pytest.raises(JaasError, match=f"^{re.escape(error)}$"):
        parse_sections(file)


def test_section_without_modules_is_missing() -> None:
    with pytest.raises(MissingSectionError):
        login_settings("KafkaServer { };", {}, {"OUTSIDE": ["PLAIN"]})


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ("-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf -Da=b", "/etc/jaas.conf"),
        ('-Djava.security.auth.login.config="/etc/jaas.conf"', "/etc/jaas.conf"),
        ("-Djava.security.auth.login.config=/a -Djava.security.auth.login.config==/b", "/b"),
        ("-Xmx1g", None),
        ("", None),
    ],
)
def test_java_options_name_a_file(options: str, path: str | None) -> None:
    assert login_file(options) == path


_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_TWO_SECTIONS = f"""
KafkaServer {{ {_PLAIN} required user_a=1; }};
inside.KafkaServer {{ {_SCRAM} required username=b password=2; }};
"""


def test_listener_has_the_modules_of_its_own_section() -> None:
    mechanisms = {"INSIDE": ["PLAIN", "SCRAM-SHA-256"], "OUTSIDE": ["PLAIN"]}
    assert login_settings(_TWO_SECTIONS, {}, mechanisms) == {
        "listener.name.inside.scram-sha-256.sasl.jaas.config": (
            f'{_SCRAM} required username="b" password="2";'
        ),
        "listener.name.outside.plain.sasl.jaas.config": f'{_PLAIN} required user_a="1";',
    }


def test_settings_have_precedence_over_the_file() -> None:
    key = jaas_key("OUTSIDE", "PLAIN")
    assert login_settings(_TWO_SECTIONS, {key: "x"}, {"OUTSIDE": ["PLAIN"]}) == {}
    assert login_settings("", {key: "x"}, {"OUTSIDE": ["PLAIN"]}) == {}


def test_listener_without_users_is_an_error() -> None:
    with pytest.raises(MissingSectionError, match="for the users of the listener OUTSIDE"):
        login_settings("KafkaClient { a.B required; };", {}, {"OUTSIDE": ["PLAIN"]})


def test_user_of_a_scram_module_is_the_brokers_own() -> None:
    config = {
        jaas_key("A", "SCRAM-SHA-256"): f"{_SCRAM} required username=b password=2;",
        jaas_key("A", "SCRAM-SHA-512"): f"{_SCRAM} required;",
    }
    mechanisms = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    assert list(scram_users(config, "A", mechanisms)) == [User("b", "2", ("SCRAM-SHA-256",))]
    with pytest.raises(JaasError, match=r"^listener\.name\.a\.scram-sha-512\.sasl\.jaas\.config: "):
        list(scram_users({jaas_key("A", "SCRAM-SHA-512"): "x"}, "A", mechanisms))
