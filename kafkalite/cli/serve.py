"""`kafkalite serve`: from options to a running broker, and from a signal to a clean end."""

from __future__ import annotations

from argparse import ArgumentTypeError
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.cli.ending import USAGE_STATUS, end
from kafkalite.cli.recording import ONLY_RECORDING, add_recording_options, recorder_from
from kafkalite.cli.staging import add_staging_options, staged_from, told_of
from kafkalite.cli.streams import open_closed_streams, say
from kafkalite.ports.clock import DrivenClock

DEFAULT_CONTROL = "127.0.0.1:9097"
"""As in `kafkalite.control.address`, which a broker that is not driven does not import."""

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from kafkalite.capture.recorder import Recorder
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log

_MAX_BROKERS = 1000


def add_options(parser: ArgumentParser) -> None:
    """Let `parser` take what `serve` can be asked for."""
    _add_nodes(parser)
    _add_contents(parser)
    _add_driving(parser)
    _add_recording(parser)
    add_staging_options(parser)
    add_logging(parser)


def _add_nodes(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        metavar="[NAME://]HOST:PORT",
        action="append",
        default=[],
        help="listen here; may be repeated; port 0 picks a free one [localhost:9092]",
    )
    parser.add_argument(
        "--advertise",
        metavar="[NAME://]HOST:PORT",
        action="append",
        default=[],
        help="tell clients this address, for the listener of that name or the next one",
    )
    parser.add_argument(
        "--brokers",
        metavar="NUMBER",
        type=_brokers,
        default=1,
        help="number of nodes; each takes the port after the one before [%(default)s]",
    )


def _add_contents(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="keep everything here across restarts [a temporary directory]",
    )
    parser.add_argument(
        "--topic",
        dest="topics",
        metavar="NAME:PARTITIONS",
        action="append",
        default=[],
        help="have this topic; may be repeated",
    )
    parser.add_argument(
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set a Kafka broker setting; may be repeated",
    )
    parser.add_argument(
        "--properties", metavar="FILE", help="read Kafka broker settings from a file"
    )
    parser.add_argument(
        "--as-version",
        metavar="X.Y",
        help="speak as Kafka X.Y did, 3.3 to 4.3: its APIs, their versions, its features "
        "[4.3, and what older clients need]",
    )


def _add_driving(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--control",
        metavar="[HOST:]PORT",
        nargs="?",
        const=DEFAULT_CONTROL,
        help="let the clock be driven and refusals be explained here, by HTTP and by `kafkalite "
        f"clock` and `kafkalite explain`; port 0 picks a free one [off; {DEFAULT_CONTROL}]",
    )
    parser.add_argument(
        "--clock",
        metavar="MODE[@TIME]",
        default="real",
        help="how time goes: real, manual (it stands until advanced) or accelerated:60; "
        "TIME is when it begins [%(default)s]",
    )


def _add_recording(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--capture",
        metavar="DIR",
        help="record all traffic here, as pcapng files, which Wireshark reads [off]",
    )
    add_recording_options(parser)


def add_logging(parser: ArgumentParser) -> None:
    """Let `parser` take how a process that serves logs."""
    parser.add_argument(
        "--log-format",
        choices=("console", "json"),
        default="console",
        help="how log lines on stderr look [%(default)s]",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="how much is logged [%(default)s]",
    )


def _brokers(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_BROKERS:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_BROKERS}")
    return int(text)


def serve(asked: Namespace) -> None:
    """Run a broker as `asked` until it is told to stop; SystemExit when it cannot be run so."""
    from kafkalite.cli import process  # noqa: PLC0415 - `--help` needs no broker

    open_closed_streams()
    try:
        log = process.log_from(asked.log_level, asked.log_format)
        staged = staged_from(asked, log)
        settings = process.settings_from(
            listen=asked.listen,
            advertise=asked.advertise,
            brokers=asked.brokers if staged is None else max(asked.brokers, len(staged.nodes)),
            data_directory=asked.data_dir,
            topics=asked.topics if staged is None else [*asked.topics, *staged.topic_options],
            config=asked.config,
            properties=asked.properties,
            as_version=asked.as_version,
            log=log,
        )
        process.run(
            settings,
            log,
            partial(announce, replayed=None if staged is None else told_of(asked)),
            control=asked.control,
            clock=asked.clock,
            record=_recording(asked, log),
            stage=None if staged is None else staged.stage,
        )
    except process.CANNOT_START as error:
        end(USAGE_STATUS, str(error))


def _recording(asked: Namespace, log: Log) -> Callable[[Callable[[], int]], Recorder] | None:
    """Return what begins the recording that is asked for, given what tells it the time."""
    from kafkalite.server.settings import SettingsError  # noqa: PLC0415 - `--help` needs no broker

    if asked.capture is None:
        for name in ONLY_RECORDING:
            wanted = getattr(asked, name)
            if wanted is not None and wanted is not False:  # 0 is a wish, and equals False
                option = name.replace("_", "-")
                raise SettingsError(f"--{option} needs --capture, which says where to record")
        return None

    def tell(line: str) -> None:
        log.error(line, directory=asked.capture)

    def begin(now_ns: Callable[[], int]) -> Recorder:
        from kafkalite.capture.rotation import CaptureError  # noqa: PLC0415 - rarely used

        try:
            return recorder_from(asked, asked.capture, now_ns, tell)
        except CaptureError as error:
            raise SettingsError(f"--capture: {error}") from error

    return begin


def announce(broker: Broker, control_url: str | None, *, replayed: str | None = None) -> None:
    """Say that the broker is ready, where, and as what; and where it can be driven, if anywhere.

    `replayed` says whose part it plays.
    """
    where = "a temporary directory" if broker.is_temporary else broker.data_directory
    lines = [f"kafkalite is ready at {broker.bootstrap_servers}"]
    lines += [
        f"  listener {name} at {servers}"
        for name, servers in broker.bootstrap_by_listener().items()
    ][1:]
    if broker.as_version is not None:
        lines.append(f"  it speaks as Kafka {broker.as_version}")
    if replayed is not None:
        lines.append(f"  {replayed}")
    if broker.recorder is not None:
        lines.append(f"  recording to {broker.recorder.directory}")
    if control_url is not None:
        lines.append(f"  control at {control_url}")
    lines += _pace(broker, is_driven=control_url is not None)
    lines.append(f"  data in {where}, cluster id {broker.cluster_id}; stop with Ctrl-C")
    say("\n".join(lines) + "\n")


def _pace(broker: Broker, *, is_driven: bool) -> list[str]:
    """Say how time goes unless it goes as everywhere: whoever waits by such a clock should know."""
    clock = broker.clock
    if not isinstance(clock, DrivenClock) or clock.rate == 1:
        return []
    if clock.rate:
        return [f"  its clock runs {clock.rate:g} times as fast"]
    hint = " until it is advanced" if is_driven else "; without --control nobody can advance it"
    return [f"  its clock stands{hint}"]
