"""`kafkalite capture`: a recording proxy in front of a cluster, from options to a clean end."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from kafkalite.cli.ending import USAGE_STATUS, end
from kafkalite.cli.reaching import OptionError, tls_from
from kafkalite.cli.recording import add_recording_options, recorder_from
from kafkalite.cli.serve import add_logging
from kafkalite.cli.streams import open_closed_streams, say
from kafkalite.ports.clock import DrivenClock

if TYPE_CHECKING:
    import asyncio
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.capture.recorder import Recorder
    from kafkalite.proxy.proxy import Proxy, ProxySettings
    from kafkalite.server.addresses import Address

_DEFAULT_LISTEN = "localhost:19092"
_MAX_PORT = 65_535
_MAX_FRAME_BYTES = 2**31 - 1


def add_capture(parser: ArgumentParser) -> None:
    """Let `parser` take what to record, where to stand, and how."""
    parser.add_argument("directory", metavar="DIR", help="where the capture files go")
    parser.add_argument(
        "--upstream",
        metavar="HOST:PORT",
        action="append",
        required=True,
        help="where the cluster is found; several with commas, or by repetition",
    )
    _add_places(parser)
    _add_tls(parser)
    add_recording_options(parser)
    _add_limits_and_logging(parser)


def _add_places(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=_DEFAULT_LISTEN,
        help="where clients find the cluster by this proxy; each of its nodes takes one of the "
        "ports behind; port 0 picks free ones [%(default)s]",
    )
    parser.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="tell clients this address instead, and for nodes ports as many further on; "
        "port 0: the port that is listened at",
    )
    parser.add_argument(
        "--node-port",
        metavar="ID=PORT",
        action="append",
        default=[],
        type=_node_port,
        help="have the node of this id at this port; may be repeated [the next port]",
    )


def _add_tls(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="speak TLS to clients, with this certificate, in PEM"
    )
    parser.add_argument(
        "--tls-key", metavar="FILE", help="the certificate's key, if it is not in the same file"
    )
    parser.add_argument("--upstream-tls", action="store_true", help="speak TLS to the cluster")
    parser.add_argument(
        "--upstream-ca", metavar="FILE", help="trust these authorities, in PEM [the system's]"
    )
    parser.add_argument(
        "--upstream-cert", metavar="FILE", help="show this certificate to the cluster, in PEM"
    )
    parser.add_argument("--upstream-key", metavar="FILE", help="that certificate's key")
    parser.add_argument(
        "--insecure", action="store_true", help="trust whatever certificate the cluster shows"
    )


def _add_limits_and_logging(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--max-request-bytes",
        metavar="BYTES",
        type=_frame_bytes,
        default=100 * 1024 * 1024,
        help="close a client's connection over a longer request, as brokers do by their "
        "socket.request.max.bytes [%(default)s]",
    )
    add_logging(parser)


def capture(asked: Namespace) -> None:
    """Record what goes through a proxy, until it is told to stop; SystemExit."""
    # Imported here, for a broker starts sooner without them.
    from kafkalite.capture.rotation import CaptureError  # noqa: PLC0415
    from kafkalite.cli.process import log_from, run_until_told  # noqa: PLC0415
    from kafkalite.proxy.proxy import Proxy  # noqa: PLC0415
    from kafkalite.proxy.tls import TlsError  # noqa: PLC0415
    from kafkalite.server.addresses import AddressError  # noqa: PLC0415

    open_closed_streams()
    log = log_from(asked.log_level, asked.log_format)
    try:
        # Whoever cannot listen leaves no file behind.
        proxy = Proxy(_settings(asked), log)
        try:
            recorder = recorder_from(asked, asked.directory, DrivenClock().now_ns, log.error)
        except CaptureError:
            proxy.unbind()
            raise
    except (AddressError, CaptureError, OptionError, TlsError) as error:
        end(USAGE_STATUS, str(error))
    try:
        run_until_told(lambda told: _run(proxy, recorder, asked.upstream, told), log)
    finally:
        recorder.close()
    _sum_up(proxy, recorder)


async def _run(
    proxy: Proxy, recorder: Recorder, upstream: Sequence[str], told_to_stop: asyncio.Event
) -> None:
    try:
        await proxy.start(recorder)
        say(
            f"kafkalite captures {','.join(upstream)} at {proxy.bootstrap}\n"
            f"  files in {recorder.directory}; stop with Ctrl-C\n"
        )
        await told_to_stop.wait()
    finally:
        await proxy.stop()


def _sum_up(proxy: Proxy, recorder: Recorder) -> None:
    totals = proxy.totals
    say(
        f"{totals.connections} connections, {totals.requests} requests, "
        f"{totals.from_clients_bytes} bytes from clients and {totals.to_clients_bytes} to them\n"
        f"  files in {recorder.directory}\n"
    )


def _settings(asked: Namespace) -> ProxySettings:
    """Return what the options ask for; AddressError, OptionError or TlsError."""
    from kafkalite.proxy.proxy import ProxySettings  # noqa: PLC0415 - see above
    from kafkalite.proxy.tls import towards_clients  # noqa: PLC0415 - see above
    from kafkalite.server.addresses import Address, AddressError  # noqa: PLC0415 - see above

    upstream = [_broker_address(text) for text in ",".join(asked.upstream).split(",")]
    listen = Address.parse(asked.listen)
    advertised = None if asked.advertise is None else Address.parse(asked.advertise)
    for each in (listen, *([] if advertised is None else [advertised])):
        if each.listener is not None:
            raise AddressError(f"{each.listener}://{each} has a name: write HOST:PORT")
    if asked.tls_key is not None and asked.tls_cert is None:
        raise OptionError("--tls-key is of no use without --tls-cert")
    return ProxySettings(
        upstream=upstream,
        listen=listen,
        advertised=advertised,
        node_ports=_node_ports(asked.node_port),
        client_tls=None
        if asked.tls_cert is None
        else towards_clients(asked.tls_cert, asked.tls_key),
        upstream_tls=tls_from(asked, "upstream-"),
        max_request_bytes=asked.max_request_bytes,
    )


def _broker_address(text: str) -> Address:
    from kafkalite.server.addresses import Address, AddressError  # noqa: PLC0415 - see above

    address = Address.parse(text.strip())
    if address.listener is not None or not address.host or not address.port:
        raise AddressError(f"{text!r} is not where a broker is: write HOST:PORT")
    return address


def _node_port(text: str) -> tuple[int, int]:
    node, _, port = text.partition("=")
    if not (_is_number(node) and _is_number(port) and 0 < int(port) <= _MAX_PORT):
        raise ArgumentTypeError(f"{text!r} is not a node's id and its port, such as 1=19093")
    return int(node), int(port)


def _node_ports(pinned: Sequence[tuple[int, int]]) -> Mapping[int, int]:
    ports = dict(pinned)
    if len(set(ports.values())) < len(pinned):
        raise OptionError("--node-port names a node or a port twice")
    return ports


def _frame_bytes(text: str) -> int:
    if not _is_number(text) or not 0 < int(text) <= _MAX_FRAME_BYTES:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_FRAME_BYTES}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
