"""`kafkalite serve`: from options to a running broker, and from a signal to a clean end."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.server.broker import Broker

USAGE_STATUS = 2
"""Exit status when the broker cannot start as asked; the reason is one line on stderr."""


@click.command()
@click.option(
    "--listen",
    metavar="[NAME://]HOST:PORT",
    multiple=True,
    help="Listen here; may be repeated. Port 0 picks a free one.  [localhost:9092]",
)
@click.option(
    "--advertise",
    metavar="[NAME://]HOST:PORT",
    multiple=True,
    help="Tell clients this address, for the listener of that name or the next one.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of nodes; each takes the port after the one before.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Keep everything here across restarts.  [a temporary directory]",
)
@click.option(
    "--topic",
    "topics",
    metavar="NAME:PARTITIONS",
    multiple=True,
    help="Have this topic; may be repeated.",
)
@click.option(
    "--config",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a Kafka broker setting; may be repeated.",
)
@click.option("--properties", metavar="FILE", help="Read Kafka broker settings from a file.")
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="How log lines on stderr look.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]),
              default="info", show_default=True, help="How much is logged.")  # fmt: skip
def serve(  # noqa: PLR0917 - click hands them over by name
    listen: Sequence[str],
    advertise: Sequence[str],
    brokers: int,
    data_dir: str | None,
    topics: Sequence[str],
    settings: Sequence[str],
    properties: str | None,
    log_format: str,
    log_level: str,
) -> None:
    """Run a broker until it is told to stop."""
    gc.disable()  # nothing that starting makes is garbage; looking for some takes a tenth of it
    from kafkalite.cli import process  # noqa: PLC0415 - `--help` needs no broker

    try:
        log = process.log_from(log_level, log_format)
        asked = process.settings_from(
            listen=listen,
            advertise=advertise,
            brokers=brokers,
            data_directory=data_dir,
            topics=topics,
            config=settings,
            properties=properties,
            log=log,
        )
        process.run(asked, log, announce)
    except process.CANNOT_START as error:
        click.echo(f"kafkalite: {error}", err=True)
        sys.exit(USAGE_STATUS)


def announce(broker: Broker) -> None:
    """Say that the broker is ready, and where."""
    where = "a temporary directory" if broker.is_temporary else broker.data_directory
    lines = [f"kafkalite is ready at {broker.bootstrap_servers}"]
    lines += [
        f"  listener {name} at {servers}"
        for name, servers in broker.bootstrap_by_listener().items()
    ][1:]
    lines.append(f"  data in {where}, cluster id {broker.cluster_id}; stop with Ctrl-C")
    click.echo("\n".join(lines))
    sys.stdout.flush()
