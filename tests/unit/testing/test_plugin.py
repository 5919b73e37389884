"""The pytest plugin: its fixtures and options, and that it imports nothing before use."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from kafkalite.testing import Broker
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


MARKED = """
import pytest

pytestmark = pytest.mark.kafkalite(config={"num.partitions": 2}, brokers=2)
FAULT = {"api": "Produce", "error": "NOT_ENOUGH_REPLICAS"}


@pytest.mark.kafkalite(brokers=3, topics={"orders": 4}, faults=[FAULT])
def test_arguments(kafkalite):
    assert len(kafkalite.nodes) == 3
    assert kafkalite._settings.config == {"num.partitions": "2"}
    assert len(kafkalite.topic("orders").partitions) == 4
    assert [fault.rule.match.api.name for fault in kafkalite.faults.list()] == ["PRODUCE"]
    kafkalite.faults.clear()


@pytest.mark.kafkalite(faults=[FAULT])
def test_fault_that_does_not_fire(kafkalite):
    kafkalite.faults.add(api="Fetch", disconnect=True).remove()


@pytest.mark.kafkalite(topic={"orders": 4})
def test_unknown_argument(kafkalite):
    pass


@pytest.mark.kafkalite(faults=[{"api": "Produkt"}])
def test_unknown_api(kafkalite):
    pass


@pytest.mark.kafkalite(faults=["Produce"])
def test_faults_without_fields(kafkalite):
    pass


@pytest.mark.kafkalite(topics={"orders": 1})
def test_topics_remain_after_a_reset(kafkalite):
    kafkalite.reset()
    assert list(kafkalite.topics()) == ["orders"]


@pytest.mark.kafkalite(3)
def test_position(kafkalite):
    pass


def test_argument_of_the_session(kafkalite_session):
    pass
"""


def test_markers_have_arguments_of_the_brokers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(MARKED)
    result = run(pytester, monkeypatch, "-W", "error")
    result.assert_outcomes(passed=2, failed=1, errors=5)
    cannot_start = "the broker of this fixture cannot start"
    result.stdout.fnmatch_lines_random(
        [
            f"{cannot_start}: Broker has no argument 'topic'; similar names are topics*",
            "pytest.mark.kafkalite: *'Produkt' is not an API of Kafka; similar names are Produce",
            "pytest.mark.kafkalite takes named arguments only",
            "pytest.mark.kafkalite: faults is a list such as *, not *Produce*",
            "these faults never fired: <fault f1: api=Produce; error=NOT_ENOUGH_REPLICAS>*",
            "pytest.mark.kafkalite: config cannot be set for kafkalite_session, which all tests*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


UNNOTICED = """
import pytest
from pathlib import Path
from confluent_kafka import Producer

def test_idle(kafkalite):
    kafkalite.faults.add(api="Produce", twice=True)

def test_removed(kafkalite):
    kafkalite.faults.add(api="Produce", twice=True).remove()

@pytest.fixture
def own(kafkalite):
    with kafkalite.__class__() as broker:
        yield broker

def test_own_broker(own):
    own.faults.add(api="Produce", twice=True)

@pytest.mark.kafkalite(scenario=Path(__file__).with_name("s.yaml"))
def test_scenario(kafkalite):
    pass

def test_hook(kafkalite):
    kafkalite.on_request(lambda request: 1 / 0, "Metadata")
    Producer({"bootstrap.servers": kafkalite.bootstrap_servers}).list_topics(timeout=10)
"""


def test_a_passed_test_fails_for_what_the_broker_knows(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(UNNOTICED)
    pytester.makefile(".yaml", s="expect: {requests: [{api: Fetch}]}")
    result = run(pytester, monkeypatch, "-W", "error")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines_random(
        [
            "these faults never fired: <fault f1: api=Produce; twice=True>",
            "*expected*Fetch*",
            "a callback of on_request failed: ZeroDivisionError*",
        ]
    )


SESSION = """
import pytest

@pytest.mark.kafkalite(topics={"first": 1})
def test_first(kafkalite_session):
    assert list(kafkalite_session.topics()) == ["first"]
    kafkalite_session.produce("first", b"1")

@pytest.mark.kafkalite(reset=False)
def test_second(kafkalite_session):
    assert [record.value for record in kafkalite_session.records("first")] == [b"1"]

@pytest.mark.kafkalite(topics={"third": 2})
def test_third(kafkalite_session):
    assert list(kafkalite_session.topics()) == ["third"]
    kafkalite_session.stop()

def test_fourth(kafkalite_session):
    assert not kafkalite_session.topics()
"""


def test_the_broker_of_the_session_is_reset_before_each_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(SESSION)
    run(pytester, monkeypatch).assert_outcomes(passed=4)


FAILING = """
import pytest
from kafkalite.testing import Broker

@pytest.fixture
def cluster():
    with Broker(topics={"orders": 1}, request_log=10) as broker:
        yield broker

def beat(broker, group):
    import socket, struct
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    body = struct.pack(">hhihh", 12, 0, 1, -1, len(group)) + group + struct.pack(">ih", 1, 0)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(struct.pack(">i", len(body)) + body)
        client.recv(100)

def test_a_fixture_of_the_test(cluster):
    beat(cluster, b"first")
    assert cluster is None

def test_session_1(kafkalite_session):
    beat(kafkalite_session, b"second")

@pytest.mark.kafkalite(reset=False)
def test_session_2(kafkalite_session):
    beat(kafkalite_session, b"third")
    assert kafkalite_session is None

def test_block():
    with Broker(request_log=10) as broker:
        beat(broker, b"fourth")
        raise KeyError("lost")

def test_passes(kafkalite):
    beat(kafkalite, b"fifth")
"""


def test_a_failed_test_reports_what_its_brokers_saw(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(FAILING)
    result = run(pytester, monkeypatch)
    result.assert_outcomes(passed=2, failed=3)
    heartbeat = "* Heartbeat v0 {} NOT_COORDINATOR * ms"
    result.stdout.fnmatch_lines(
        [
            "*- What the broker of cluster saw -*", "Requests:", heartbeat.format("first"),
            "*- What the broker of kafkalite_session saw -*", heartbeat.format("third"),
            "E*KeyError: 'lost'", "E*What the broker saw", f"E{heartbeat.format('fourth')}",
        ]
    )  # fmt: skip
    for group in ("second", "fifth"):
        result.stdout.no_fnmatch_line(f"* Heartbeat * {group} *")


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
    with pytest.raises(pytest.fail.Exception, match=message), _running_broker(config, {}):
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
    assert done.stdout.split() == [
        "kafkalite", "kafkalite.testing", "kafkalite.ports", "kafkalite.ports.named_tuples", PLUGIN
    ]  # fmt: skip


def test_a_run_has_a_cluster_in_the_process_of_another_broker(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import json
        from urllib.request import urlopen

        def test_cluster(kafkalite_cluster):
            topics = json.load(urlopen(f"{kafkalite_cluster.control}/v1/topics"))["topics"]
            assert [each["name"] for each in topics] == ["orders"]
            assert kafkalite_cluster.id.startswith("run-")
        """
    )
    with Broker(storage="memory", topics={"orders": 1}, control=True) as broker:
        broker.create_topic("later")
        monkeypatch.setenv("KAFKALITE_CONTROL", broker.control_url)
        run(pytester, monkeypatch).assert_outcomes(passed=1)
        assert list(broker._running_broker().clusters.items()) == []
    monkeypatch.delenv("KAFKALITE_CONTROL")
    run(pytester, monkeypatch, "--kafkalite-topic=orders:1").assert_outcomes(passed=1)
