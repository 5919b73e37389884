"""`kafkalite serve` as a process: its output, exit status, signals and shutdown."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from kafkalite import __version__
from kafkalite.cli.broker_options import add_broker_options
from kafkalite.cli.main import main
from kafkalite.cli.process import settings_from, snapshot_from
from kafkalite.cli.serve import describe_stand_in, prepared_from, print_ready, scenario_from
from kafkalite.config.options import OPTIONS, STAND_IN_OPTIONS
from kafkalite.lab.replay.standin.preparation import Match, OnMiss
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings, SettingsError
from kafkalite.testing import Broker as PreparedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
STOP_S = 2.0
PROCESS_TIMEOUT_S = 60
"""A process that takes longer hangs, also on a busy machine."""
USAGE_STATUS = 2


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kafkalite", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )


class Serving:
    """`kafkalite serve` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        begun = time.monotonic()
        self.process = subprocess.Popen(
            command("serve", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        assert self.process.stdout is not None
        self.banner = self.process.stdout.readline()
        self.start_s = time.monotonic() - begun
        found = re.search(r"at (\S+)", self.banner)
        assert found, self.banner + self.process.communicate(timeout=5)[1]
        self.bootstrap = found[1]

    def topics(self) -> dict[str, int]:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        found = admin.list_topics(timeout=PROCESS_TIMEOUT_S).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Return the exit status and the output on stderr.

        On a machine too busy to end it at once it takes no longer than it took to start.
        """
        begun = time.monotonic()
        self.process.send_signal(number)
        _, output = self.process.communicate(timeout=PROCESS_TIMEOUT_S)
        assert time.monotonic() - begun < max(STOP_S, self.start_s)
        return self.process.returncode, output

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def serving(request: pytest.FixtureRequest) -> Iterator[Serving]:
    # An ignored signal is inherited, and the tests may run under nohup.
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        broker = Serving("--listen", "127.0.0.1:0", *getattr(request, "param", ()))
    finally:
        signal.signal(signal.SIGHUP, ignored)
    yield broker
    broker.kill()


@pytest.mark.parametrize(("name", "is_enabled"), [("serve", False), ("consume", True)])
def test_only_the_start_of_a_broker_is_without_garbage_collection(
    name: str, *, is_enabled: bool
) -> None:
    code = f"""
import gc, sys
sys.argv = ["kafkalite", {name!r}]
from kafkalite import __main__
sys.exit(gc.isenabled() is not {is_enabled})
"""
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True, timeout=60)


def test_banner_has_the_selected_port(serving: Serving) -> None:
    assert re.fullmatch(r"kafkalite is ready at 127\.0\.0\.1:[1-9]\d*\n", serving.banner)
    assert serving.topics() == {}


async def test_banner_names_security_protocols_and_the_authorizer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings(
        listen=[f"{name}://127.0.0.1:0" for name in ("A", "SASL_PLAINTEXT", "B", "C")],
        config={
            "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        },
    )
    broker = Broker(settings, Log(Level.ERROR))
    await broker.start()
    print_ready(broker, None)
    await broker.stop(grace_s=0)
    lines = [re.sub(r":\d+", ":PORT", line) for line in capsys.readouterr().out.splitlines()]
    assert lines[:-1] == [
        "kafkalite is ready at 127.0.0.1:PORT (SASL_PLAINTEXT)",
        "  listener SASL_PLAINTEXT at 127.0.0.1:PORT",
        "  listener B at 127.0.0.1:PORT (SASL_PLAINTEXT)",
        "  listener C at 127.0.0.1:PORT",
        "  requests are authorized by ACLs",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_stops_the_broker_quickly_and_cleanly(serving: Serving, number: int) -> None:
    with socket.create_connection(tuple(serving.bootstrap.split(":")), 5):
        assert serving.stop(number) == (0, "")


def test_broker_started_with_ignored_sighup_survives_it() -> None:
    """A process started by nohup ignores the signal."""
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        serving = Serving("--listen", "127.0.0.1:0")
    finally:
        signal.signal(signal.SIGHUP, ignored)
    serving.process.send_signal(signal.SIGHUP)
    assert serving.topics() == {}
    assert serving.stop() == (0, "")


@pytest.mark.parametrize(
    "serving", [("--topic", "orders:3", "--topic=audit:1", "--brokers", "2")], indirect=True
)
def test_topics_and_nodes_exist_when_the_broker_is_ready(serving: Serving) -> None:
    assert len(serving.bootstrap.split(",")) == 2
    assert serving.topics() == {"orders": 3, "audit": 1}


@pytest.mark.parametrize(
    ("serving", "output"),
    [
        (("--clock", "accelerated:60"), "  its clock runs 60 times as fast\n"),
        (
            ("--clock", "manual"),
            "  its clock is stopped; without --control it cannot be advanced\n",
        ),
        (("--as-version", "3.9"), "  it emulates Kafka 3.9\n"),
        (("--seed", "42"), "  random values follow from the seed 42\n"),
        (
            ("--as-version", "redpanda"),
            "  it emulates Redpanda 24.3, otherwise as Kafka 3.3\n",
        ),
    ],
    indirect=["serving"],
)
def test_banner_names_a_clock_or_release_that_is_not_the_default(
    serving: Serving, output: str
) -> None:
    assert serving.process.stdout is not None
    assert serving.process.stdout.readline() == output


def test_a_broker_begins_with_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("start: {topics: {orders: 3}}\nclock: manual\nseed: 42\n")
    arguments = parsed("--listen=127.0.0.1:0", "--scenario", str(path), "--topic", "audit:1")
    scenario = scenario_from(arguments)
    assert scenario is not None
    settings = scenario.settings(settings_from(arguments, Log()))
    assert settings.topics == {"orders": 3, "audit": 1}
    assert (settings.seed, scenario.clock_mode(arguments.clock)) == (42, "manual")
    assert scenario_from(parsed()) is None


def test_an_option_may_have_a_setting_of_the_emulated_release() -> None:
    option = "--config=log.message.downconversion.enable=false"
    settings = settings_from(parsed("--as-version=3.9", option), Log())
    assert settings.config == {"log.message.downconversion.enable": "false"}
    with pytest.raises(SettingsError, match=r"^Unknown configuration log\.message\.downconversion"):
        settings_from(parsed("--as-version=4.0", option), Log())


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_broker_options(parser, OPTIONS)
    return parser.parse_args(options)


@pytest.mark.parametrize(
    "serving", [("--listen", "SSL://127.0.0.1:0", "--tls", "auto")], indirect=True
)
def test_banner_names_the_certificates(serving: Serving) -> None:
    assert serving.process.stdout is not None
    listener, files = (serving.process.stdout.readline() for _ in range(2))
    found = re.fullmatch(
        r"  clients trust (/\S+/ca\.pem); a client certificate is in /\S+/client\.pem\n", files
    )
    assert found
    address = listener.rpartition(" ")[2].strip()
    config = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": found[1]}
    assert AdminClient(config).list_topics(timeout=PROCESS_TIMEOUT_S).topics == {}


@pytest.mark.parametrize(
    "serving",
    [("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--oidc", "0", "--oidc-client", "a:s3cr3t")],
    indirect=True,
)
def test_banner_names_the_token_endpoint_and_the_secret_is_hidden(serving: Serving) -> None:
    assert serving.process.stdout is not None
    lines = [serving.process.stdout.readline() for _ in range(3)]
    assert any(
        re.fullmatch(
            r"  clients get tokens from http://127\.0\.0\.1:\d+/token, as client a\n", line
        )
        for line in lines
    )
    arguments = Path(f"/proc/{serving.process.pid}/cmdline").read_bytes()
    assert b"a:******\0" in arguments
    assert b"s3cr3t" not in arguments


@pytest.mark.parametrize(
    "serving", [("--control", "0", "--clock", "manual@2026-03-01")], indirect=True
)
def test_banner_names_the_control_api_which_advances_the_clock(serving: Serving) -> None:
    assert serving.process.stdout is not None
    found = re.fullmatch(
        r"  control at (http://127\.0\.0\.1:[1-9]\d*)\n", serving.process.stdout.readline()
    )
    assert found
    assert serving.process.stdout.readline() == "  its clock is stopped until it is advanced\n"
    done = run("clock", "advance", "7d", "--control", found[1])
    assert (done.stdout, done.stderr) == ("2026-03-08T00:00:00.000Z (manual)\n", "")
    assert serving.topics() == {}
    assert serving.stop() == (0, "")


@pytest.mark.parametrize(
    "serving",
    [
        ("--control", "0", "--control-token", "a-token-of-tests"),
        ("--control", "0", "--control-token=a-token-of-tests"),
    ],
    indirect=True,
)
def test_a_given_token_is_needed_and_hidden(serving: Serving) -> None:
    assert serving.process.stdout is not None
    line = serving.process.stdout.readline()
    found = re.fullmatch(r"  control at (http://127\.0\.0\.1:[1-9]\d*), with a token\n", line)
    assert found
    command_line = Path(f"/proc/{serving.process.pid}/cmdline")
    if command_line.exists():
        assert b"a-token-of-tests" not in command_line.read_bytes()
        assert b"*" * len("a-token-of-tests") in command_line.read_bytes()
    asked = ("clock", "--control", found[1])
    done = run(*asked)
    assert done.returncode == 1
    assert "needs a token" in done.stderr
    assert run(*asked, "--control-token", "a-token-of-tests").returncode == 0
    assert run(*asked, "--control-token=another-token").returncode == 1
    status, output = serving.stop()
    assert status == 0
    assert "a-token-of-tests" not in output


@pytest.mark.parametrize(
    "serving", [("--control", "0.0.0.0:0", "--log-format", "json")], indirect=True
)
def test_other_machines_need_a_generated_token(serving: Serving) -> None:
    assert serving.process.stdout is not None
    line = serving.process.stdout.readline()
    found = re.fullmatch(
        r"  control at (http://127\.0\.0\.1:[1-9]\d*), with the token in (\S+/control-token)\n",
        line,
    )
    assert found
    token_file = Path(found[2])
    assert token_file.stat().st_mode & 0o777 == 0o600
    # A command of the same user finds the file.
    done = run("clock", "--control", found[1])
    assert (done.returncode, done.stderr) == (0, "")
    token = token_file.read_text().strip()
    assert serving.stop() == (0, "")
    assert token not in line
    assert not token_file.exists()


@pytest.mark.parametrize("serving", [("--log-format", "json")], indirect=True)
def test_client_of_another_protocol_is_logged_once(serving: Serving) -> None:
    host, _, port = serving.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 5) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(1) == b""
    status, output = serving.stop()
    assert status == 0
    (line,) = output.splitlines()
    assert '"reason": "frame length 1195725856' in line
    assert '"peer": "127.0.0.1:' in line


def test_data_survives_a_kill(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), "--topic", "orders:2")
    first = Serving(*arguments)
    first.kill()
    second = Serving(*arguments)
    assert second.topics() == {"orders": 2}
    assert second.stop()[0] == 0


def test_unclean_shutdown_exits_with_1(tmp_path: Path) -> None:
    broker = Serving("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    (tmp_path / ".kafka_cleanshutdown.tmp").mkdir()
    status, output = broker.stop()
    assert status == 1
    (line,) = output.splitlines()
    assert "could not be closed cleanly" in line
    assert str(tmp_path) in line


def test_temporary_data_of_a_killed_broker_is_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "TMPDIR", str(tmp_path))
    killed = Serving("--listen", "127.0.0.1:0")
    (left,) = tmp_path.iterdir()
    killed.kill()
    broker = Serving("--listen", "127.0.0.1:0", "--log-level", "debug")
    assert broker.process.stderr is not None
    while "data of a killed broker" not in (line := broker.process.stderr.readline()):
        assert line, "it ended"
    assert str(left) in line
    assert not left.exists()
    assert broker.stop()[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_config_option_takes_precedence_over_the_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "num.partitions=7\nlisteners=PLAINTEXT://127.0.0.1:0\ncompression.type \\\n = gzip"
    )
    broker = Serving("--properties", str(file), "--config", "num.partitions=4")
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.list_topics("made-by-asking", timeout=10)
        assert broker.topics() == {"made-by-asking": 4}
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("--config", "no.such.key=1"), "no.such.key; unknown keys of other programs may be in"),
        (("--config", "num.partitions=many"), "num.partitions"),
        (("--config", "just-a-word"), "KEY=VALUE"),
        (("--topic", "no-partitions"), "NAME:PARTITIONS"),
        (("--topic", "t:0"), "NAME:PARTITIONS"),
        (("--topic", "bad name:1"), "bad name"),
        (("--properties", "/nowhere/server.properties"), "/nowhere/server.properties"),
        (("--listen", "no-port"), "HOST:PORT"),
        (("--advertise", "a:1", "--advertise", "b:2"), "b:2"),
        (("--no-such-option",), "--no-such-option"),
        (("a-word",), "a-word"),
        (("--brokers", "0"), "--brokers"),
        (("--brokers", "many"), "--brokers"),
        (("--log-level", "loud"), "warning"),
        (("--topic",), "--topic"),
        (("--topic", "t:1", "--topic", "t:2"), "t has 1 already"),
        (("--data-dir", ""), "--data-dir is empty"),
        (("--clock", "fast"), "real, manual, accelerated and auto"),
        (("--clock", "accelerated"), "needs a rate"),
        (("--clock", "manual@soon"), "is not a time"),
        (("--as-version", "9.9"), "'3.9', '4.0'"),
        (("--seed", "-1"), "is not a number from 0 to"),
        (("--scenario", "/nowhere.yaml"), "/nowhere.yaml: No such file"),
        (("--control", "here"), "[HOST:]PORT"),
        (("--oidc", "here"), "[HOST:]PORT"),
        (("--oidc", "0"), "--oidc needs a listener with SASL"),
        (("--oidc", "0", "--oidc-client", "a"), "--oidc-client: a client is ID:SECRET"),
        (("--oidc-client", "a:s3cr3t"), "--oidc-client needs --oidc"),
        (("--control-token", "a-token-of-tests"), "--control-token needs --control"),
        (("--control-tls", "on"), "--control-tls needs --control"),
        (("--schema-registry-url", "http://r:1"), "--schema-registry-url needs --control"),
        (("--control", "0", "--schema-registry-url", "r:1"), "write http://HOST:PORT"),
        (("--control", "0", "--control-token", "short"), "a token has 8 to 1024 letters"),
        (("--control", "0", "--control-token", "@/nowhere"), "--control-token: cannot read a"),
        (("--control", "0", "--control-tls", "on"), "--control-tls on needs a certificate"),
    ],
)
def test_invalid_option_is_rejected_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], output: str
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["serve", "--listen=127.0.0.1:0", *arguments])
    assert exited.value.code == USAGE_STATUS
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("kafkalite: ")
    assert output in line


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("--data-dir", "/dev/null/data"), "/dev/null"),
        (("--listen", "no-such-host.invalid:0"), "no-such-host.invalid"),
        (("--control", "no-such-host.invalid:0"), "no-such-host.invalid"),
    ],
)
def test_failed_start_is_rejected_in_one_line(arguments: tuple[str, ...], output: str) -> None:
    done = run("serve", "--listen=127.0.0.1:0", *arguments)
    assert done.returncode == USAGE_STATUS
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafkalite: ")
    assert output in line


def test_port_in_use_is_rejected_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--listen", f"127.0.0.1:{port}")
    assert done.returncode == USAGE_STATUS
    (line,) = done.stderr.splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line


def test_data_directory_in_use_is_rejected_in_one_line(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    first = Serving(*arguments)
    try:
        done = run("serve", *arguments)
    finally:
        first.kill()
    assert done.returncode == USAGE_STATUS
    (line,) = done.stderr.splitlines()
    assert str(tmp_path) in line
    assert "in use" in line


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (("sreve",), "see kafkalite --help"),
        (("--no-such-option",), "see kafkalite --help"),
        (("serve", "--port=1"), "--port=1 (see kafkalite serve --help)"),
    ],
)
def test_usage_error_of_the_command_is_one_line(arguments: tuple[str, ...], where: str) -> None:
    done = run(*arguments)
    assert done.returncode == USAGE_STATUS
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafkalite: ")
    assert where in line


def test_missing_command_prints_the_help() -> None:
    done = run()
    assert done.returncode == USAGE_STATUS
    assert "serve" in done.stderr


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_properties_file_of_a_real_kafka_is_accepted(tmp_path: Path, log_format: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=4\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:0,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        f"log.dirs={tmp_path}/data\nzookeeper.connect=localhost:2181\n"
        "remote.log.storage.system.enable=true\n"
    )
    broker = Serving("--properties", str(file), "--log-format", log_format)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert list(admin.list_topics(timeout=PROCESS_TIMEOUT_S).brokers) == [4]
        assert (tmp_path / "data" / "meta.properties").exists()
        _, output = broker.stop()
    finally:
        broker.kill()
    unknown, unmet, without_effect, address = output.splitlines()
    assert "zookeeper.connect" in unknown
    assert "remote.log.storage.system.enable" in unmet
    assert "controller.quorum.bootstrap.servers, process.roles" in without_effect
    assert "advertises localhost" in address


def test_plugin_class_of_the_jvm_is_rejected_in_one_line() -> None:
    done = run("serve", "--listen", "127.0.0.1:0", "--config", "alter.config.policy.class.name=a.B")
    assert done.returncode == USAGE_STATUS
    assert done.stderr == (
        "kafkalite: alter.config.policy.class.name is a.B, "
        "but JVM plug-ins are not supported: remove this setting\n"
    )


def test_metrics_reporters_are_ignored_with_a_log_line() -> None:
    settings = ("metric.reporters=a.B", "kafka.metrics.reporters=c.D", "num.partitions=2")
    broker = Serving("--listen", "127.0.0.1:0", *(f"--config={each}" for each in settings))
    try:
        _, output = broker.stop()
    finally:
        broker.kill()
    (notice,) = output.splitlines()
    assert "kafka.metrics.reporters, metric.reporters" in notice


def test_unknown_defaults_are_rejected() -> None:
    done = run("serve", "--defaults", "other")
    assert done.returncode == USAGE_STATUS
    assert "'kafkalite', 'kafka'" in done.stderr


def test_version_option_prints_the_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert __version__ in done.stdout


def test_help_lists_the_options() -> None:
    done = run("serve", "--help")
    assert done.returncode == 0
    for option in ("--listen", "--advertise", "--brokers", "--data-dir", "--topic", "--config",
                   "--properties", "--as-version", "--control", "--clock", "--log-format",
                   "--log-level"):  # fmt: skip
        assert option in done.stdout


def parsed_arguments(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_broker_options(parser, STAND_IN_OPTIONS)
    return parser.parse_args(arguments)


def test_no_stand_in_is_prepared_by_default() -> None:
    assert prepared_from(parsed_arguments(), Log()) is None


@pytest.mark.parametrize("option", [("--match", "lenient"), ("--on-miss", "live")])
def test_stand_in_options_need_replay(option: tuple[str, str]) -> None:
    with pytest.raises(SettingsError, match=f"{option[0]} needs --replay"):
        prepared_from(parsed_arguments(*option), Log())


def test_on_miss_is_rejected_with_seeded() -> None:
    with pytest.raises(SettingsError, match="answers everything itself"):
        prepared_from(
            parsed_arguments("--replay", "x", "--match", "seeded", "--on-miss", "live"), Log()
        )


def test_capture_directory_equal_to_replay_is_rejected(tmp_path: Path) -> None:
    both = parsed_arguments("--replay", str(tmp_path))
    both.capture = f"{tmp_path}/."
    with pytest.raises(SettingsError, match="--capture is also a --replay directory"):
        prepared_from(both, Log())


def test_missing_capture_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--replay: no requests to replay in"):
        prepared_from(parsed_arguments("--replay", str(tmp_path / "gone")), Log())


def test_stand_in_is_described() -> None:
    assert describe_stand_in(parsed_arguments("--replay", "x")) == "answering from x, strict"
    several = parsed_arguments("--replay", "x", "--replay", "y", "--match", "lenient")
    assert describe_stand_in(several) == "answering from x, y, lenient"
    assert (
        describe_stand_in(parsed_arguments("--replay", "x", "--match", "seeded"))
        == "started with the contents of x"
    )


def test_choices_equal_the_enums() -> None:
    for match in Match:
        assert parsed_arguments("--replay", "x", "--match", match).match == match
    for on_miss in OnMiss:
        assert parsed_arguments("--replay", "x", "--on-miss", on_miss).on_miss == on_miss


def test_a_process_begins_with_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "s.zip"
    with PreparedBroker(2, {"orders": 1}, storage="memory", seed=7) as broker:
        broker.snapshot().save(path)
    serving = Serving("--snapshot", str(path), "--listen", "127.0.0.1:0", "--topic", "more:2")
    try:
        assert serving.topics() == {"orders": 1, "more": 2}
        assert serving.bootstrap.count(",") == 1
    finally:
        serving.kill()
    for options, text in (
        (("--snapshot", str(path), "--brokers", "3"), "--brokers 3 is not that of the snapshot"),
        (("--snapshot", str(tmp_path / "x")), "--snapshot .*x: No such file or directory"),
        (("--snapshot", str(path), "--replay", "x"), "--snapshot and --replay cannot be combined"),
    ):
        arguments = parsed(*options)
        with pytest.raises(SettingsError, match=f"^{text}"):
            snapshot_from(arguments, settings_from(arguments, Log()))
