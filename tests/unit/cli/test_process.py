"""The process of a broker: its limit of open files, and its command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkalite.cli.process import _hide_secret_settings

resource = pytest.importorskip("resource")

PROGRAM = """
import resource, sys
from kafkalite.cli.process import allow_many_descriptors
from kafkalite.ports.memory import keep_freed_memory
resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(sys.argv[1])))
keep_freed_memory()
allow_many_descriptors()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_limit_of_open_files_is_raised_to_the_hard_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 512 if hard == resource.RLIM_INFINITY else min(512, hard)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(limit)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(limit), str(limit)]


def test_secret_settings_are_hidden_from_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[str] = []
    monkeypatch.setattr(
        "kafkalite.ports.command_line.hide_passwords", lambda texts, _: hidden.extend(texts)
    )
    secret = ["x.sasl.jaas.config=a", "ssl.key.password=b", "2:delegation.token.secret.key=c"]
    _hide_secret_settings([secret[0], "num.partitions=3", *secret[1:]])
    assert hidden == secret
