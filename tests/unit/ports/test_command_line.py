"""Passwords in the command line are overwritten."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkalite.ports.command_line import without_passwords


def test_the_passwords_of_users_are_overwritten() -> None:
    arguments = b"serve\0--user\0alice:secret\0--user=bob:pw:PLAIN\0--topic\0secret:1\0"
    assert without_passwords(arguments, ["alice:secret", "bob:pw:PLAIN", "carol", "dave:"]) == (
        b"serve\0--user\0alice:******\0--user=bob:********\0--topic\0secret:1\0"
    )


def test_the_values_of_settings_are_overwritten() -> None:
    text = 'x.jaas.config=a required user_a="b=c";'
    arguments = f"serve\0--config\0{text}\0".encode()
    hidden = without_passwords(arguments, [text], "=")
    assert hidden == b"serve\0--config\0x.jaas.config=" + b"*" * 24 + b"\0"


def test_a_password_may_have_any_bytes() -> None:
    user = b"alice:\xff\xc3\xa4".decode(errors="surrogateescape")
    assert without_passwords(b"alice:\xff\xc3\xa4\0", [user]) == b"alice:***\0"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows this memory")
@pytest.mark.parametrize("arguments", [["--token", "a=secret"], ["--token=a=secret"]])
def test_the_value_of_an_option_is_overwritten(arguments: list[str]) -> None:
    program = (
        "from kafkalite.ports.command_line import hide_option\n"
        "hide_option('--token', 'a=secret')\n"
        "print(open('/proc/self/cmdline', 'rb').read().split(b'\\0')[3:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "secret"],
        capture_output=True,
        text=True,
        check=True,
    )
    hidden = [argument.replace("a=secret", "********").encode() for argument in arguments]
    assert done.stdout == f"{[*hidden, b'secret', b'']}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows this memory")
def test_other_processes_do_not_see_the_passwords() -> None:
    program = (
        "import sys\n"
        "from kafkalite.ports.command_line import hide_passwords\n"
        "hide_passwords(sys.argv[2:])\n"
        "print(open('/proc/self/cmdline', 'rb').read().split(b'\\0')[-4:], sys.argv[2:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--user", "alice:secret", "bob:pw"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("] ") == [
        "[b'--user', b'alice:******', b'bob:**', b''",
        "['alice:secret', 'bob:pw']\n",
    ]
