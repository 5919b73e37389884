"""The sweep of tests by pytest: a report for each case, and tests that are not swept."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalite.lab.sweep.pytest_plugin import pytest_collection_modifyitems

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

FIXTURES = """
import pytest

from test_client import test_tries_again as tries_again


@pytest.fixture(scope="session")
def of_session():
    print("session", "begins")
    yield
    print("session", "ends")
    raise RuntimeError("torn down")


@pytest.fixture
def of_function(of_session):
    print("function begins")
    yield
    print("function ends")


@pytest.mark.kafkalite_sweep(only=["request-lost"])
def test_with_fixtures(kafkalite, of_function):
    tries_again(kafkalite, 2)
"""

WITHOUT_CASES = """
import pytest


@pytest.mark.kafkalite_sweep(only=["Produce"])
def test_with_no_case(kafkalite):
    test_tries_again(kafkalite, 2)
"""
OF_CLASS = """
class TestShop:
    def setup_method(self):
        self.runs = getattr(self, "runs", 0) + 1

    @pytest.mark.kafkalite_sweep(only=["request-lost"])
    def test_of_class(self, kafkalite):
        test_tries_again(kafkalite, 2)
        assert self.runs == 1
"""
ENDS = """
@pytest.fixture
def last_call(kafkalite):
    yield
    assert len(kafkalite.requests.list()) == 1, "the end of a client fails after a retry"


@pytest.mark.kafkalite_sweep(only=["request-lost"])
def test_with_a_fixture_that_fails_at_its_end(kafkalite, last_call):
    test_tries_again(kafkalite, 2)


def test_that_stops_its_broker(kafkalite):
    test_tries_again(kafkalite, 2)
    kafkalite.stop()
"""
INVALID = """
import pytest


@pytest.mark.kafkalite_sweep({})
def test_with_an_invalid_argument(kafkalite): ...
"""


def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str, *options: str
) -> str:
    """Sweep a test module in a process with this plugin and without others; return the output."""
    pytester.makepyfile(test_client=source)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess("-p", PLUGIN, "--kafkalite-sweep", "-v", *options)
    return "\n".join([*result.outlines, *result.errlines])


def test_each_case_has_a_report(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(pytester, monkeypatch, TEST)
    assert "test_tries_again[1] PASSED" in text
    assert "test_tries_again[1][ApiVersions#1 request-lost] FAILED" in text
    assert "test_tries_again[2][ApiVersions#1 request-lost] PASSED" in text
    assert "test_without_a_broker PASSED" in text
    assert "test_that_fails_anyway FAILED" in text
    assert "2 failed, 4 passed" in text


def test_fixtures_of_the_session_remain_for_all_cases(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_fixtures=FIXTURES)
    text = run(pytester, monkeypatch, TEST, "-s", "test_fixtures.py")
    assert "test_with_fixtures[ApiVersions#1 request-lost] PASSED" in text
    assert text.count("session begins") == text.count("session ends") == 1
    assert text.count("function begins") == text.count("function ends") == 3
    assert "ERROR test_fixtures.py::test_with_fixtures - RuntimeError: torn down" in text


def test_workers_of_xdist_report_cases_and_each_run_has_a_new_instance_of_a_class(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run(pytester, monkeypatch, TEST + OF_CLASS, "-p", "xdist.plugin", "-n", "1")
    assert "PASSED test_client.py::TestShop::test_of_class[ApiVersions#1 request-lost]" in text
    assert "FAILED test_client.py::test_tries_again[1][ApiVersions#1 request-lost]" in text
    assert "2 failed, 6 passed" in text


def test_the_end_of_a_fixture_is_a_part_of_a_case(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run(pytester, monkeypatch, TEST + ENDS, "-k", "end or stops", "-rs")
    case = "test_with_a_fixture_that_fails_at_its_end[ApiVersions#1 request-lost]"
    assert f"{case} FAILED" in text
    assert "the end of a client fails after a retry" in text
    assert "test_that_stops_its_broker PASSED" in text
    assert "the test stops its broker, so its requests are not known" in text
    assert "1 failed, 2 passed, 1 skipped" in text


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("often=True", "has the arguments only, skip, seed, limit, each by its name"),
        ("only='Produce'", "only='Produce' of pytest.mark.kafkalite_sweep is not a list of patt"),
        ("limit=0", "limit=0 of pytest.mark.kafkalite_sweep is not a number above 0, or None"),
    ],
)
def test_an_invalid_argument_is_refused_before_the_tests(
    pytester: pytest.Pytester, argument: str, text: str
) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    items = pytester.getitems(INVALID.format(argument))
    with pytest.raises(pytest.UsageError, match="test_with_an_invalid_argument: ") as refused:
        pytest_collection_modifyitems(items)
    assert text in str(refused.value)


def test_a_sweep_stops_after_the_maximum_of_failures_and_says_that_it_has_no_case(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = TEST.replace('(only=["*-lost"])', "(skip=[])")
    text = run(pytester, monkeypatch, WITHOUT_CASES + every, "-x", "-rs")
    assert "test_with_no_case[sweep] SKIPPED" in text
    assert "only and skip select none of " in text
    assert text.count(" FAILED ") == 1, text
