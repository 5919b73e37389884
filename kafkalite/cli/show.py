"""`kafkalite show`: what captures say, a line an exchange; and what is wrong with them.

Exit status 0 when the captures were read, however much is wrong with them; 2 for bad use.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from kafkalite.cli.ending import USAGE_STATUS, complain, end, put
from kafkalite.cli.streams import open_closed_streams

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_LAST_PORT = 65_535


def add_show(parser: ArgumentParser) -> None:
    """Let `parser` take what to show, and of what."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="capture files, pcap or pcapng, gzipped or not, or directories of them",
    )
    only = parser.add_argument_group("which exchanges; all of the patterns have to fit")
    only.add_argument(
        "--api",
        action="append",
        metavar="NAME",
        help="of this API, by its name or its number; several by repetition",
    )
    only.add_argument("--client", metavar="GLOB", help="of these client ids, or of HOST:PORT")
    only.add_argument("--group", metavar="GLOB", help="about these groups")
    only.add_argument("--topic", metavar="GLOB", help="about these topics")
    only.add_argument("--errors", action="store_true", help="with an error in the response")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print an object a line, with the messages in Kafka's own JSON",
    )
    parser.add_argument(
        "--records", action="store_true", help="put records into the JSON, in base64"
    )
    parser.add_argument(
        "--problems",
        action="store_true",
        help="print what is wrong with the captures, and not what is in them",
    )
    parser.add_argument(
        "--port",
        action="append",
        type=_port,
        default=[],
        metavar="PORT",
        help="a port on which brokers listen, for captures that start within connections",
    )


def show(asked: Namespace) -> None:
    """Print what captures say, as `asked`; SystemExit for bad use."""
    # Imported here, for a broker starts sooner without them.
    from kafkalite.capture.problems import Problems  # noqa: PLC0415
    from kafkalite.capture.reading import exchanges, read  # noqa: PLC0415
    from kafkalite.cli.telling import Wish, decode, json_line, line, problem_line  # noqa: PLC0415

    open_closed_streams()
    try:
        _check(asked)
        wish = Wish.of(asked)
    except ValueError as error:
        end(USAGE_STATUS, str(error))
    problems = Problems()
    topic_names: dict[bytes, str] = {}
    count = chosen = 0
    for exchange in exchanges(read(asked.paths, problems, ports=asked.port), problems):
        count += 1
        decoded = decode(exchange, topic_names)
        if asked.problems or not wish.fits(decoded):
            continue
        chosen += 1
        if not put(json_line(decoded, records=asked.records) if asked.json else line(decoded)):
            return
    if asked.problems:
        for problem in problems:
            put(problem_line(problem, as_json=asked.json))
    elif counts := problems.by_kind():
        told = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
        complain(f"something is wrong (see --problems): {told}")
    elif not count:
        complain(f"there are no requests in {', '.join(asked.paths)}")
    elif not chosen:
        complain(f"none of {count} requests is as asked")


def _check(asked: Namespace) -> None:
    for path in asked.paths:
        if not os.path.exists(path):  # noqa: PTH110 - paths are plain text here
            raise ValueError(f"there is no {path!r}")
    if asked.records and not asked.json:
        raise ValueError("--records needs --json, for records are bytes")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _LAST_PORT):
        raise ArgumentTypeError(f"{text!r} is not a port")
    return int(text)
