"""`kafkalite`: the command and its subcommands."""

from __future__ import annotations

from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from kafkalite import __version__
from kafkalite.cli.serve import serve

if TYPE_CHECKING:
    from collections.abc import Iterator


class _BadUse(click.ClickException):
    """A command line that cannot be understood, told in one line like all that keeps us from it."""

    exit_code = click.UsageError.exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"kafkalite: {self.message}", file=file, err=file is None)


@contextmanager
def _one_line() -> Iterator[None]:
    """Have bad use told in one line, with the command whose help says more."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        path = "kafkalite" if error.ctx is None else error.ctx.command_path
        message = error.format_message().rstrip(".")
        raise _BadUse(f"{message} (see {path} --help)") from error


class _Command(click.Group):
    def make_context(self, *arguments: Any, **options: Any) -> click.Context:  # noqa: ANN401 - click's
        with _one_line():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what a subcommand returns
        with _one_line():
            return super().invoke(ctx)


@click.group(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kafkalite")
def main() -> None:
    """Run a Kafka broker for tests: real clients, real wire protocol, up in a blink."""


main.add_command(serve)
