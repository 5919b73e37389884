"""`kafkalite console`: show captures, or the data directory of a broker, in a browser.

It runs until a signal stops it, and changes no file. The exit status is 0 after that, and 2 for
invalid arguments, such as a file that is not a capture, and for an address that cannot be used.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kafkalite.cli.broker_options import add_argument_keywords
from kafkalite.cli.capture_arguments import add_port_option, check_captures, check_paths
from kafkalite.cli.output import (
    FAILED_STATUS,
    USAGE_STATUS,
    exit_with_error,
    os_error_text,
    print_to_stderr,
)
from kafkalite.cli.streams import open_closed_streams, try_print
from kafkalite.config.options import DEFAULT_CONTROL_HOST, SCHEMA_REGISTRY_URL
from kafkalite.ports.extras import install_command

if TYPE_CHECKING:
    import asyncio
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from kafkalite.control.console.page import Section
    from kafkalite.lab.file_console.capture_source import CaptureSource
    from kafkalite.lab.file_console.directory_source import DirectorySource
    from kafkalite.lab.file_console.server import FileConsoleServer
    from kafkalite.server.logging import Log

_DEFAULT_ADDRESS: Final = f"{DEFAULT_CONTROL_HOST}:9097"
_PERCENT: Final = 100


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `console`."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a capture file (pcap or pcapng, also compressed), a directory of captures, or one "
        "data directory of a broker, of kafkalite or of Kafka",
    )
    parser.add_argument(
        "--listen",
        metavar="[HOST:]PORT",
        default=_DEFAULT_ADDRESS,
        help="serve the console at this address; port 0 selects a free port [%(default)s]",
    )
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help="token, or @FILE with a token, that browsers must send [a generated one if other "
        "machines reach the address, else none]",
    )
    registry = SCHEMA_REGISTRY_URL
    assert registry.flag is not None
    parser.add_argument(registry.flag, **add_argument_keywords(registry))
    add_port_option(parser)


def run(arguments: Namespace) -> None:
    """Serve the console until a signal stops it; raises SystemExit if it cannot start."""
    # Imported here: a broker starts faster without them.
    from kafkalite.cli.interrupts import stops_as_interrupts  # noqa: PLC0415
    from kafkalite.cli.process import run_until_signalled  # noqa: PLC0415
    from kafkalite.server.logging import Level, Log  # noqa: PLC0415

    open_closed_streams()
    log = Log(Level.WARNING)
    try:
        check_paths(arguments.paths)
        server = _server(arguments, log)
        with ExitStack() as stack:
            stack.callback(server.unbind)
            with stops_as_interrupts():
                source, sections = _opened(arguments)
            stack.pop_all()
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))
    except OSError as error:
        exit_with_error(FAILED_STATUS, os_error_text(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"jinja2", "markupsafe"}:
            raise
        exit_with_error(USAGE_STATUS, f"the console needs jinja2: {install_command('console')}")
    try:
        server.show(source, sections)
        run_until_signalled(lambda stopped: _serve(server, source.name, stopped), log)
    finally:
        source.close()


async def _serve(server: FileConsoleServer, name: str, stopped: asyncio.Event) -> None:
    try:
        await server.start()
        try_print(f"kafkalite shows {name} at {server.page_url}\n  read only; stop with Ctrl-C\n")
        await stopped.wait()
    finally:
        await server.stop()


def _server(arguments: Namespace, log: Log) -> FileConsoleServer:
    """Return the server; raises ValueError for an address or a token that cannot be used."""
    from kafkalite.control.address import control_address  # noqa: PLC0415 - as in run
    from kafkalite.control.token import given_token  # noqa: PLC0415 - as in run
    from kafkalite.lab.file_console.server import FileConsoleServer  # noqa: PLC0415 - as in run
    from kafkalite.ports.clock import AdjustableClock  # noqa: PLC0415 - as in run
    from kafkalite.ports.command_line import hide_option  # noqa: PLC0415 - as in run
    from kafkalite.ports.entropy import SystemEntropy  # noqa: PLC0415 - as in run

    secrets = {"token": arguments.token, SCHEMA_REGISTRY_URL.name: arguments.schema_registry_url}
    for name, secret in secrets.items():
        if secret is not None:
            hide_option(f"--{name}", secret)
    return FileConsoleServer(
        control_address(arguments.listen),
        clock=AdjustableClock(),
        log=log,
        entropy=SystemEntropy(),
        token=None if arguments.token is None else given_token(arguments.token),
        schema_registry_url=arguments.schema_registry_url,
    )


def _opened(arguments: Namespace) -> tuple[CaptureSource | DirectorySource, Sequence[Section]]:
    """Return the source with its pages; raises ValueError and OSError."""
    from kafkalite.lab.checker.books.reading import is_data_directory  # noqa: PLC0415 - as in run

    directories = [each for each in arguments.paths if is_data_directory(each)]
    if not directories:
        return _opened_captures(arguments)
    if len(arguments.paths) > 1:
        raise ValueError(
            f"{directories[0]} is a data directory, which is shown alone: name no other path"
        )
    from kafkalite.lab.file_console.directory_pages import SECTIONS  # noqa: PLC0415 - as in run
    from kafkalite.lab.file_console.directory_source import (  # noqa: PLC0415 - as in run
        DirectorySource,
    )
    from kafkalite.ports.clock import AdjustableClock  # noqa: PLC0415 - as in run

    return DirectorySource(directories[0], AdjustableClock()), SECTIONS


def _opened_captures(
    arguments: Namespace,
) -> tuple[CaptureSource | DirectorySource, Sequence[Section]]:
    from kafkalite.capture.reading.problems import Problems  # noqa: PLC0415 - as in run
    from kafkalite.lab.file_console.capture_index import read_index  # noqa: PLC0415 - as in run
    from kafkalite.lab.file_console.capture_pages import SECTIONS  # noqa: PLC0415 - as in run
    from kafkalite.lab.file_console.capture_source import CaptureSource  # noqa: PLC0415 - as in run

    problems = Problems()
    index = read_index(arguments.paths, problems, ports=arguments.port, progress=_print_progress)
    with ExitStack() as stack:
        stack.callback(index.close)
        check_captures(arguments.paths, problems)
        if not len(index) and not any(problems):
            raise ValueError(f"no requests in {', '.join(arguments.paths)}")
        stack.pop_all()
    return CaptureSource(arguments.paths, index, problems, arguments.port), SECTIONS


def _print_progress(count: int, file: str, offset: int) -> None:
    """Print how far captures are read; of a compressed file, the offset has no percentage."""
    size = os.path.getsize(file)  # noqa: PTH202 - paths are plain text here
    percent = f", {_PERCENT * offset // size} % of {file}" if 0 <= offset <= size else f" of {file}"
    print_to_stderr(f"read {count:,} requests{percent}")
