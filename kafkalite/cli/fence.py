"""`kafkalite fence-producers`: zombies fenced from the shell, at any Kafka.

Exit status 0 when all ids were fenced, 1 when one was not or no broker is there, 2 for bad use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkalite.cli.ending import FAILED_STATUS, USAGE_STATUS, complain, end, put
from kafkalite.cli.streams import open_closed_streams, printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.control.fencing import Fenced
    from kafkalite.server.addresses import Address

_DEFAULT_BOOTSTRAP = "localhost:9092"
_DEFAULT_TIMEOUT = "30s"
_LONGEST_MS = 2**31 - 1


def add_fence(parser: ArgumentParser) -> None:
    """Let `parser` take whom to fence, and where."""
    parser.add_argument(
        "ids",
        nargs="+",
        metavar="ID",
        help="a transactional id; one that nobody has used is made by this, as Kafka does",
    )
    parser.add_argument(
        "--bootstrap-server",
        action="append",
        metavar="HOST:PORT",
        help="where a broker is, ours or a real one; several with commas, or by repetition "
        f"[{_DEFAULT_BOOTSTRAP}]",
    )
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        default=_DEFAULT_TIMEOUT,
        help="how long to try, such as 10s; it is each id's transaction timeout as well, until "
        f"its next producer says another [{_DEFAULT_TIMEOUT}]",
    )


def fence(asked: Namespace) -> None:
    """Fence the producers of the ids `asked` for, and print what became of each; SystemExit."""
    # Imported here, for a broker starts sooner without them.
    import asyncio  # noqa: PLC0415

    from kafkalite.control.fencing import fence_producers  # noqa: PLC0415
    from kafkalite.control.kafka_client import UnreachableError  # noqa: PLC0415

    open_closed_streams()
    try:
        timeout_ms = _timeout_ms(asked.timeout)
        bootstrap = _addresses(asked.bootstrap_server or [_DEFAULT_BOOTSTRAP])
    except ValueError as error:
        end(USAGE_STATUS, str(error))
    try:
        results = asyncio.run(fence_producers(bootstrap, asked.ids, timeout_ms))
    except UnreachableError as error:
        end(FAILED_STATUS, str(error))
    for result in results:
        _tell(result)
    if any(result.error is not None for result in results):
        sys.exit(FAILED_STATUS)


def _tell(result: Fenced) -> None:
    name = printable(result.transactional_id)
    if result.error is None:
        put(f"{name}: producer id {result.producer_id}, epoch {result.producer_epoch}\n")
    else:
        complain(f"transactional id {name!r}: {result.error}")


def _timeout_ms(text: str) -> int:
    from kafkalite.control.times import duration_ms  # noqa: PLC0415 - see above

    timeout_ms = duration_ms(text)
    if not 0 < timeout_ms <= _LONGEST_MS:
        raise ValueError(f"--timeout {text!r} is not between 1ms and {_LONGEST_MS}ms")
    return timeout_ms


def _addresses(texts: list[str]) -> list[Address]:
    from kafkalite.server.addresses import Address, AddressError  # noqa: PLC0415 - see above

    found = []
    for text in ",".join(texts).split(","):
        address = Address.parse(text.strip())
        if address.listener is not None or not address.host or not address.port:
            raise AddressError(f"{text!r} is not where a broker is: write HOST:PORT")
        found.append(address)
    return found
