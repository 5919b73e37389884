"""The pytest plugin: its fixtures and options, and that it imports nothing before use."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from kafkalite.testing.plugin import _running_broker

pytest_plugins = "pytester"

PLUGIN = "kafkalite.testing.plugin"
ROOT = Path(__file__).parents[3]


def loading() -> tuple[str, ...]:
    """Return the options that load the plugin; pytest has done so if kafkalite is installed."""
    installed = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    return () if installed else ("-p", PLUGIN)


def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *options: str
) -> pytest.RunResult:
    """Run pytest in a process with this plugin and without others, which take longer to load."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester.runpytest_subprocess("-p", PLUGIN, *options)


def test_pytest_loads_the_plugin_with_others(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = pytester.runpytest_subprocess(*loading(), "--help")
    result.stdout.fnmatch_lines(["*--kafkalite-topic=*", "*--hypothesis-profile=*"])


def test_there_is_a_broker_for_each_test_and_one_for_the_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        seen = []

        def test_first(kafkalite, kafkalite_session):
            seen.append((kafkalite.cluster_id, kafkalite_session.cluster_id))
            assert kafkalite.bootstrap_servers != kafkalite_session.bootstrap_servers

        def test_second(kafkalite, kafkalite_session):
            (own, shared), = seen
            assert kafkalite.cluster_id != own
            assert kafkalite_session.cluster_id == shared
        """
    )
    run(pytester, monkeypatch).assert_outcomes(passed=2)


def test_options_are_arguments_of_the_brokers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        def test_broker(kafkalite, kafkalite_session):
            for broker in (kafkalite, kafkalite_session):
                assert len(broker.bootstrap_servers.split(",")) == 2
                assert broker.clock.now().year == 2020
                assert broker._settings.node_config == {2: {"broker.rack": "b"}}
                assert broker.client_config("librdkafka")["sasl.username"] == "alice"
        """
    )
    options = (
        "--kafkalite-brokers=2",
        "--kafkalite-topic=orders:3",
        "--kafkalite-config=num.partitions=2",
        "--kafkalite-node-config=2:broker.rack=b",
        "--kafkalite-clock=manual@2020-01-01",
        "--kafkalite-security=SASL_PLAINTEXT",
        "--kafkalite-user=alice:secret",
        "--kafkalite-user=bob:secret:PLAIN",
    )
    run(pytester, monkeypatch, *options).assert_outcomes(passed=1)


def test_brokers_have_an_identity_provider(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        def test_brokers(kafkalite_oidc, kafkalite):
            for broker in (kafkalite_oidc, kafkalite):
                assert broker.identity.client_ids == ["billing"]
        """
    )
    options = ("--kafkalite-oidc-client=billing:s", "--kafkalite-oidc")
    run(pytester, monkeypatch, *options).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--kafkalite-brokers=0", "--kafkalite-brokers: '0' is not a number from 1 to 1000"),
        ("--kafkalite-topic=orders", "--kafkalite-topic 'orders': write NAME:PARTITIONS"),
        ("--kafkalite-user=alice", "--kafkalite-user: a user is NAME:PASSWORD"),
        ("--kafkalite-node-config=2", "--kafkalite-node-config '2': write ID:KEY=VALUE"),
        ("--kafkalite-as-version=9", "as-version '9' is not one of '3.3', "),
    ],
)
def test_an_invalid_option_is_a_usage_error(
    pytester: pytest.Pytester, option: str, reason: str
) -> None:
    config = pytester.parseconfig(*loading(), option)
    message = re.escape(f"the broker of this fixture cannot start: {reason}")
    with pytest.raises(pytest.fail.Exception, match=message), _running_broker(config):
        pass


def test_a_usage_error_is_one_line_without_a_traceback(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("def test_broker(kafkalite): pass")
    result = run(pytester, monkeypatch, "--kafkalite-brokers=0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the broker of this fixture cannot start: --kafkalite-brokers: *"])
    result.stdout.no_fnmatch_line("*plugin.py*")


def test_loading_the_plugin_imports_no_broker() -> None:
    program = f"import sys, {PLUGIN}; print(*[m for m in sys.modules if m.startswith('kafkalite')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["kafkalite", "kafkalite.testing", PLUGIN]
