"""The sweep of tests by pytest: a report for each case, and tests that are not swept."""

from __future__ import annotations

from pathlib import Path

import pytest  # noqa: TC002 - pytest evaluates the annotations of fixtures

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[4]
PLUGIN = "kafkalite.testing.plugin"
TEST = """
import socket
import struct

import pytest


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.kafkalite_sweep(only=["*-lost"])
def test_tries_again(kafkalite, attempts):
    host, _, port = kafkalite.bootstrap_servers.rpartition(":")
    for _ in range(attempts):
        with socket.create_connection((host, int(port))) as connection:
            body = struct.pack(">hhih4s", 18, 0, 1, 4, b"tiny")  # ApiVersions v0
            connection.sendall(struct.pack(">i", len(body)) + body)
            if connection.recv(4):
                return
    raise AssertionError("no answer")


def test_without_a_broker(): ...


def test_that_fails_anyway(kafkalite):
    raise AssertionError("broken")
"""


WRONG = """
import pytest


@pytest.mark.kafkalite_sweep(often=True)
def test_with_an_unknown_argument(kafkalite): ...
"""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str) -> str:
    """Sweep a test module in a process with this plugin and without others; return the output."""
    pytester.makepyfile(test_client=source)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess("-p", PLUGIN, "--kafkalite-sweep", "-v")
    return "\n".join([*result.outlines, *result.errlines])


def test_each_case_has_a_report(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(pytester, monkeypatch, TEST)
    assert "test_tries_again[1] PASSED" in text
    assert "test_tries_again[1][ApiVersions#1 request-lost] FAILED" in text
    assert "test_tries_again[2][ApiVersions#1 request-lost] PASSED" in text
    assert "test_without_a_broker PASSED" in text
    assert "test_that_fails_anyway FAILED" in text
    assert "2 failed, 4 passed" in text


def test_an_unknown_argument_is_refused_before_the_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run(pytester, monkeypatch, WRONG)
    assert (
        "ERROR: test_client.py::test_with_an_unknown_argument: pytest.mark.kafkalite_sweep has "
        "the arguments only, skip, seed, limit, each by its name"
    ) in text
