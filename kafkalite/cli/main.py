"""`kafkalite`: the command and its subcommands."""

from __future__ import annotations

import click

from kafkalite import __version__
from kafkalite.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kafkalite")
def main() -> None:
    """Run a Kafka broker for tests: real clients, real wire protocol, up in a blink."""


main.add_command(serve)
