"""`kafkalite serve`: start a broker from options, and stop it on a signal."""

from __future__ import annotations

import os
from os.path import realpath
from typing import TYPE_CHECKING, NoReturn

from kafkalite.cli.output import (
    FAILED_STATUS,
    USAGE_STATUS,
    exit_immediately,
    exit_with_error,
    print_to_stderr,
)
from kafkalite.cli.streams import open_closed_streams, try_print
from kafkalite.config.options import MATCH, ON_MISS, OPTIONS, RECORDING_OPTIONS
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.control.scenario import Scenario
    from kafkalite.control.server import ControlServer
    from kafkalite.lab.replay.standin.preparation import PreparedCapture
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log
    from kafkalite.server.settings import Settings


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `serve` to `parser`."""
    from kafkalite.cli.broker_options import add_broker_options  # noqa: PLC0415 - a fast start

    add_broker_options(parser, OPTIONS)


def run(arguments: Namespace) -> None:
    """Run a broker until a signal stops it, then end the process.

    Raises SystemExit if the broker cannot start.
    """
    from kafkalite.cli import process  # noqa: PLC0415 - `--help` needs no broker

    def adapt(settings: Settings) -> Settings:
        java_options = os.environ.get("KAFKA_OPTS", "")
        if not java_options or arguments.jaas is not None:
            return settings
        return process.with_login_file(settings, None, java_options)

    try:
        run_broker(arguments, adapt=adapt)
    except process.START_ERRORS as error:
        exit_with_error(USAGE_STATUS, str(error))


def run_broker(
    arguments: Namespace,
    *,
    adapt: Callable[[Settings], Settings] | None = None,
    prepare: Callable[[Broker], None] | None = None,
    more_ready_lines: Callable[[Broker], str] | None = None,
) -> NoReturn:
    """Run a broker until a signal stops it, then end the process.

    `adapt` changes the settings of the arguments. `prepare` is called before clients can connect;
    `more_ready_lines` returns what is printed after `print_ready`. Raises `process.START_ERRORS`.
    """
    from kafkalite.cli import process  # noqa: PLC0415 - `--help` needs no broker

    open_closed_streams()
    log = process.log_from(arguments.log_level, arguments.log_format)
    prepared = prepared_from(arguments, log)
    if prepared is not None:
        arguments.brokers = max(arguments.brokers, len(prepared.nodes))
        arguments.topic = [*arguments.topic, *prepared.topic_options]
    stand_in = None if prepared is None else describe_stand_in(arguments)
    scenario = scenario_from(arguments)

    def report_ready(broker: Broker, control: ControlServer | None) -> None:
        print_ready(broker, control, stand_in=stand_in)
        try_print("" if more_ready_lines is None else more_ready_lines(broker))

    steps = [each.prepare for each in (prepared,) if each is not None]
    steps += [each.install for each in (scenario,) if each is not None]

    def prepare_broker(broker: Broker) -> None:
        for step in (*filter(None, (prepare,)), *steps):
            step(broker)

    settings = process.settings_from(arguments, log)
    settings = with_state_file(settings if adapt is None else adapt(settings), arguments.state)
    settings, clock = _with_scenario(scenario, settings, arguments.clock)
    snapshot, settings = process.snapshot_from(arguments, settings)
    is_clean = process.run(
        settings,
        log,
        report_ready,
        control=process.control_options_from(arguments),
        clock=clock,
        oidc=process.oidc_from(arguments),
        start_recording=_recording_starter(arguments, log),
        prepare=prepare_broker,
        snapshot=snapshot,
    )
    exit_immediately(0 if is_clean else FAILED_STATUS)


def scenario_from(arguments: Namespace) -> Scenario | None:
    """Return the scenario of `--scenario`, if any; raises SettingsError."""
    if arguments.scenario is None:
        return None
    from kafkalite.control.scenario import read_scenario  # noqa: PLC0415 - rarely used

    return read_scenario(arguments.scenario)


def _with_scenario(
    scenario: Scenario | None, settings: Settings, clock: str
) -> tuple[Settings, str]:
    """Return settings and clock with those of a scenario where they have the default."""
    if scenario is None:
        return settings, clock
    return scenario.settings(settings), scenario.clock_mode(clock)


def with_state_file(settings: Settings, path: str | None) -> Settings:
    """Return settings with the state of `--state`, if any; raises SettingsError."""
    if path is None:
        return settings
    from kafkalite.control.declared_state.source import read_state, with_state  # noqa: PLC0415 - rarely used

    return with_state(settings, read_state(path))


def _recording_starter(
    arguments: Namespace, log: Log
) -> Callable[[Callable[[], int]], Recorder] | None:
    """Return a function that starts the requested recording; its argument returns the time."""
    from kafkalite.server.settings import SettingsError  # noqa: PLC0415 - `--help` needs no broker

    if arguments.capture is None:
        for option in RECORDING_OPTIONS:
            value = getattr(arguments, option.dest)
            if value is not None and value is not False:  # 0 is a value, and equals False
                raise SettingsError(f"{option.flag} needs --capture, which says where to record")
        return None

    def report(line: str) -> None:
        log.error(line, directory=arguments.capture)

    def start(now_ns: Callable[[], int]) -> Recorder:
        from kafkalite.capture.recording.file_rotation import CaptureError  # noqa: PLC0415 - rarely used
        from kafkalite.cli.recording import recorder_from  # noqa: PLC0415 - as above

        try:
            return recorder_from(arguments, arguments.capture, now_ns, report)
        except CaptureError as error:
            raise SettingsError(f"--capture: {error}") from error

    return start


def print_ready(
    broker: Broker, control: ControlServer | None, *, stand_in: str | None = None
) -> None:
    """Print the addresses of a broker that is ready, and its options that are not the default.

    `stand_in` describes the captures that the broker answers from.
    """
    data_directory = "a temporary directory" if broker.is_temporary else broker.data_directory
    data_directory = "memory" if broker.is_in_memory else data_directory
    lines = _listener_lines(broker)
    if broker.has_authorizer:
        lines.append("  requests are authorized by ACLs")
    if broker.certificate_files is not None:
        files = broker.certificate_files
        lines.append(
            f"  clients trust {files.authority}; a client certificate is in {files.client}"
        )
    lines += _identity_lines(broker)
    if broker.emulated is not None:
        lines.append(f"  it emulates {broker.emulated}")
    if stand_in is not None:
        lines.append(f"  {stand_in}")
    recorder = broker.nodes.recorder
    if recorder is not None:
        lines.append(f"  recording to {recorder.directory}")
    if control is not None:
        lines.append(f"  control at {control.url}{_token_text(control)}")
    if broker.seed is not None:
        lines.append(f"  random values follow from the seed {broker.seed}")
    lines += _clock_lines(broker, has_control=control is not None)
    lines.append(f"  data in {data_directory}, cluster id {broker.cluster_id}; stop with Ctrl-C")
    try_print("\n".join(lines) + "\n")


def _token_text(control: ControlServer) -> str:
    """Return where the token of the control API is, but not the token."""
    if control.token is None:
        return ""
    if control.token.file is None:
        return ", with a token"
    return f", with the token in {control.token.file}"


def _listener_lines(broker: Broker) -> list[str]:
    """Return the addresses of each listener, with its security protocol unless it is PLAINTEXT."""
    lines: list[str] = []
    protocols = broker.protocol_by_listener()
    for name, servers in broker.bootstrap_by_listener().items():
        start = f"  listener {name}" if lines else "kafkalite is ready"
        protocol = protocols[name].value
        is_known = protocol == "PLAINTEXT" or (bool(lines) and protocol == name)
        lines.append(f"{start} at {servers}" + ("" if is_known else f" ({protocol})"))
    return lines


def _identity_lines(broker: Broker) -> list[str]:
    """Return lines about the identity provider, if any; only the documented secret is printed."""
    provider = broker.identity
    if provider is None:
        return []
    from kafkalite.identity.clients import DEFAULT_CLIENT  # noqa: PLC0415 - only with --oidc

    client = provider.clients[0]
    secret = f" with secret {client.secret}" if client == DEFAULT_CLIENT else ""
    return [
        f"  clients get tokens from {provider.token_endpoint}, as client {client.id}{secret}",
    ]


def _clock_lines(broker: Broker, *, has_control: bool) -> list[str]:
    """Return a line about a clock that does not run at the speed of real time."""
    clock = broker.clock
    if not isinstance(clock, AdjustableClock) or clock.rate == 1:
        return []
    if clock.rate:
        return [f"  its clock runs {clock.rate:g} times as fast"]
    if has_control:
        return ["  its clock is stopped until it is advanced"]
    return ["  its clock is stopped; without --control it cannot be advanced"]


def describe_stand_in(arguments: Namespace) -> str:
    """Return a text with the captures that the broker answers from, and the matching rule."""
    captures = ", ".join(arguments.replay)
    match = arguments.match or MATCH.choices[0]
    if match == "seeded":
        return f"started with the contents of {captures}"
    return f"answering from {captures}, {match}"


def prepared_from(arguments: Namespace, log: Log) -> PreparedCapture | None:
    """Return the prepared captures of `--replay`; None without it. Raises SettingsError."""
    from kafkalite.server.settings import SettingsError  # noqa: PLC0415 - `--help` needs no broker

    if not arguments.replay:
        for option in (MATCH, ON_MISS):
            if getattr(arguments, option.dest) is not None:
                raise SettingsError(f"{option.flag} needs --replay, which says what to replay")
        return None
    if arguments.match == "seeded" and arguments.on_miss is not None:
        raise SettingsError("--on-miss: a seeded broker answers everything itself")
    capture = getattr(arguments, "capture", None)
    if capture is not None and realpath(capture) in map(realpath, arguments.replay):
        raise SettingsError("--capture is also a --replay directory: record elsewhere")
    from kafkalite.lab.replay.standin.preparation import (  # noqa: PLC0415 - as above
        Match,
        OnMiss,
        PreparationError,
        prepare_capture,
    )

    match = Match(arguments.match or Match.STRICT)
    on_miss = OnMiss(arguments.on_miss or OnMiss.FAIL)
    try:
        return prepare_capture(arguments.replay, match, on_miss, log, print_to_stderr)
    except PreparationError as error:
        raise SettingsError(f"--replay: {error}") from error
