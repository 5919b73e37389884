"""`kafkalite capture`: run a proxy that records the traffic of a cluster."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from kafkalite.cli.access_options import OptionError, tls_from
from kafkalite.cli.broker_options import add_broker_options
from kafkalite.cli.output import USAGE_STATUS, exit_with_error
from kafkalite.cli.recording import recorder_from
from kafkalite.cli.streams import open_closed_streams, try_print
from kafkalite.config.options import LOGGING_OPTIONS, RECORDING_OPTIONS
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    import asyncio
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.lab.proxy.proxy import Proxy, ProxySettings
    from kafkalite.server.addresses import Address

_DEFAULT_LISTEN = "localhost:19092"
_MAX_PORT = 65_535
_MAX_FRAME_BYTES = 2**31 - 1


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `capture`."""
    parser.add_argument("directory", metavar="DIR", help="directory for the capture files")
    parser.add_argument(
        "--upstream",
        metavar="HOST:PORT",
        action="append",
        required=True,
        help="bootstrap address of the cluster; repeatable, or separated by commas",
    )
    _add_address_options(parser)
    _add_tls_options(parser)
    add_broker_options(parser, RECORDING_OPTIONS)
    _add_limit_and_logging_options(parser)


def _add_address_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=_DEFAULT_LISTEN,
        help="bootstrap address of the proxy; each node of the cluster uses one of the following "
        "ports; port 0 selects free ports [%(default)s]",
    )
    parser.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="return this address to clients as that of the proxy, and the ports after it as those "
        "of the nodes; port 0 means the port of the listener [the address of the listener]",
    )
    parser.add_argument(
        "--node-port",
        metavar="ID=PORT",
        action="append",
        default=[],
        type=_parse_node_port,
        help="port for the node with this id; repeatable [the next port]",
    )


def _add_tls_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="use TLS with clients, and this certificate, PEM"
    )
    parser.add_argument(
        "--tls-key", metavar="FILE", help="key of the certificate, if it is not in the same file"
    )
    parser.add_argument("--upstream-tls", action="store_true", help="use TLS with the cluster")
    parser.add_argument(
        "--upstream-ca", metavar="FILE", help="trusted certificate authorities, PEM [the system's]"
    )
    parser.add_argument(
        "--upstream-cert", metavar="FILE", help="client certificate for the cluster, PEM"
    )
    parser.add_argument("--upstream-key", metavar="FILE", help="key of the client certificate, PEM")
    parser.add_argument(
        "--insecure", action="store_true", help="accept any certificate of the cluster"
    )


def _add_limit_and_logging_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--max-request-bytes",
        metavar="BYTES",
        type=_parse_frame_bytes,
        default=100 * 1024 * 1024,
        help="close the connection of a client that sends a longer request, as brokers do with "
        "socket.request.max.bytes [%(default)s]",
    )
    add_broker_options(parser, LOGGING_OPTIONS)


def run(arguments: Namespace) -> None:
    """Run the proxy until a signal stops it; raises SystemExit if it cannot start."""
    # Imported here: a broker starts faster without them.
    from kafkalite.capture.recording.file_rotation import CaptureError  # noqa: PLC0415
    from kafkalite.cli.process import log_from, run_until_signalled  # noqa: PLC0415
    from kafkalite.lab.proxy.proxy import Proxy  # noqa: PLC0415
    from kafkalite.lab.proxy.tls import TlsError  # noqa: PLC0415
    from kafkalite.server.addresses import AddressError  # noqa: PLC0415

    open_closed_streams()
    log = log_from(arguments.log_level, arguments.log_format)
    try:
        # The recording starts last, so that a proxy that cannot listen creates no file.
        proxy = Proxy(_settings(arguments), log)
        try:
            recorder = recorder_from(
                arguments, arguments.directory, AdjustableClock().now_ns, log.error
            )
        except CaptureError:
            proxy.unbind()
            raise
    except (AddressError, CaptureError, OptionError, TlsError) as error:
        exit_with_error(USAGE_STATUS, str(error))
    try:
        run_until_signalled(
            lambda stop_requested: _run(proxy, recorder, arguments.upstream, stop_requested), log
        )
    finally:
        recorder.close()
    _print_totals(proxy, recorder)


async def _run(
    proxy: Proxy, recorder: Recorder, upstream: Sequence[str], stop_requested: asyncio.Event
) -> None:
    try:
        await proxy.start(recorder)
        try_print(
            f"kafkalite captures {','.join(upstream)} at {proxy.bootstrap}\n"
            f"  files in {recorder.directory}; stop with Ctrl-C\n"
        )
        await stop_requested.wait()
    finally:
        await proxy.stop()


def _print_totals(proxy: Proxy, recorder: Recorder) -> None:
    totals = proxy.totals
    try_print(
        f"{totals.connections} connections, {totals.requests} requests, "
        f"{totals.from_clients_bytes} bytes from clients and {totals.to_clients_bytes} to them\n"
        f"  files in {recorder.directory}\n"
    )


def _settings(arguments: Namespace) -> ProxySettings:
    """Return the settings of the proxy; raises AddressError, OptionError or TlsError."""
    from kafkalite.lab.proxy.proxy import ProxySettings  # noqa: PLC0415 - see above
    from kafkalite.lab.proxy.tls import server_context  # noqa: PLC0415 - see above
    from kafkalite.server.addresses import Address, AddressError  # noqa: PLC0415 - see above

    upstream = [_broker_address(text) for text in ",".join(arguments.upstream).split(",")]
    listen = Address.parse(arguments.listen)
    advertised = None if arguments.advertise is None else Address.parse(arguments.advertise)
    for address in (listen, *([] if advertised is None else [advertised])):
        if address.listener is not None:
            raise AddressError(
                f"{address.listener}://{address} has a listener name: write HOST:PORT"
            )
    if arguments.tls_key is not None and arguments.tls_cert is None:
        raise OptionError("--tls-key is only valid with --tls-cert")
    return ProxySettings(
        upstream=upstream,
        listen=listen,
        advertised=advertised,
        node_ports=_node_ports(arguments.node_port),
        client_tls=None
        if arguments.tls_cert is None
        else server_context(arguments.tls_cert, arguments.tls_key),
        upstream_tls=tls_from(arguments, "upstream-"),
        max_request_bytes=arguments.max_request_bytes,
    )


def _broker_address(text: str) -> Address:
    from kafkalite.server.addresses import Address, AddressError  # noqa: PLC0415 - see above

    address = Address.parse(text.strip())
    if address.listener is not None or not address.host or not address.port:
        raise AddressError(f"{text!r} is not the address of a broker: write HOST:PORT")
    return address


def _parse_node_port(text: str) -> tuple[int, int]:
    node, _, port = text.partition("=")
    if not (_is_number(node) and _is_number(port) and 0 < int(port) <= _MAX_PORT):
        raise ArgumentTypeError(f"{text!r} is not ID=PORT, such as 1=19093")
    return int(node), int(port)


def _node_ports(node_ports: Sequence[tuple[int, int]]) -> Mapping[int, int]:
    ports = dict(node_ports)
    if len(set(ports.values())) < len(node_ports):
        raise OptionError("--node-port names a node or a port twice")
    return ports


def _parse_frame_bytes(text: str) -> int:
    if not _is_number(text) or not 0 < int(text) <= _MAX_FRAME_BYTES:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_FRAME_BYTES}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
