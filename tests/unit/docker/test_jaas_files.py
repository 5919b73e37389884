"""JAAS files: sections, login modules and their texts."""

from __future__ import annotations

import pytest

from kafkalite.docker.jaas_files import login_file, mechanisms_of, module_text, parse_sections
from kafkalite.security.sasl.jaas import JaasError, parse_jaas

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
    ("options", "path"),
    [
        ("-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf -Da=b", "/etc/jaas.conf"),
        ('-Djava.security.auth.login.config="/etc/jaas.conf"', "/etc/jaas.conf"),
        ("-Xmx1g", None),
        ("", None),
    ],
)
def test_java_options_name_a_file(options: str, path: str | None) -> None:
    assert login_file(options) == path
