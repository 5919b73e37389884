"""Command lines of the tools: options, addresses of brokers, and settings of clients."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkalite import __version__
from kafkalite.client.access import PLAINTEXT, Access
from kafkalite.client.access_properties import AccessPropertiesError, access_of_text
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.config.releases import DEFAULT
from kafkalite.docker.files import ImageFiles
from kafkalite.server.addresses import AddressError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.server.addresses import Address

FAILED_STATUS: Final = 1


class ToolError(Exception):
    """The reason why a tool failed; the text is one line."""


class ToolParser(argparse.ArgumentParser):
    """Parses the options of a tool; an unknown option is an error that lists the supported ones."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(prog=name, description=description, allow_abbrev=False)
        version = f"{DEFAULT} (kafkalite {__version__})"
        self.add_argument("--version", action="version", version=version)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the values of the options; raises ToolError."""
        parsed, unknown = self.parse_known_args(list(arguments))
        if any(text.partition("=")[0] == "--zookeeper" for text in unknown):
            raise ToolError(
                "--zookeeper: there is no ZooKeeper; write --bootstrap-server HOST:PORT with the "
                "address of the broker"
            )
        if unknown:
            self.error(f"{' '.join(unknown)} is not supported here")
        return parsed

    def error(self, message: str) -> NoReturn:
        """Raise ToolError with the supported options."""
        options = sorted(
            action.option_strings[-1] for action in self._actions if action.option_strings
        )
        raise ToolError(f"{message}; supported options: {', '.join(options)}")


def add_bootstrap_options(parser: ToolParser, *more_names: str, config: str | None = None) -> None:
    """Add the option for addresses of brokers, with more names, and that of a properties file."""
    parser.add_argument("--bootstrap-server", *more_names, dest="bootstrap_server", metavar="LIST")
    names = ("--command-config",) if config is None else (config,)
    parser.add_argument(*names, dest="client_config", metavar="FILE")


def addresses_of(text: str | None) -> list[Address]:
    """Return the addresses in a list such as `kafka:9092,PLAINTEXT://other:9092`; ToolError."""
    if not text:
        raise ToolError("--bootstrap-server is missing: name a broker, as HOST:PORT")
    try:
        return bootstrap_addresses(text)
    except AddressError as error:
        raise ToolError(f"--bootstrap-server: {error}") from None


def access_from(path: str | None, environment: Mapping[str, str]) -> Access:
    """Return the access in a properties file of a client, PLAINTEXT without a file; ToolError."""
    if path is None:
        return PLAINTEXT
    text = ImageFiles.of(environment).read_argument(path)
    if text is None:
        raise ToolError(f"cannot read {path}")
    try:
        return access_of_text(text)
    except AccessPropertiesError as error:
        raise ToolError(f"{path}: {error}") from error


def key_values(texts: Sequence[str] | None, option: str) -> Iterator[tuple[str, str]]:
    """Yield keys and values of repeated options such as `retention.ms=1000`; ToolError."""
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ToolError(f"{option} {text!r}: write NAME=VALUE")
        yield key.strip(), value.strip()


def bracketed_items(text: str) -> list[str]:
    """Return the items of `a=1,b=[2,3]`: commas in brackets do not divide it."""
    items, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            items.append(text[start:position])
            start = position + 1
    return [item.strip() for item in [*items, text[start:]] if item.strip()]


def unbracketed(text: str) -> str:
    """Return a value without the brackets around it."""
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def error_message(row: Any) -> str:  # noqa: ANN401 - rows of many responses
    """Return the message of an error in a response, else the one that Kafka has for its code."""
    from kafkalite.protocol.error_codes import ErrorCode  # noqa: PLC0415 - only for errors

    return getattr(row, "error_message", None) or ErrorCode(row.error_code).message


def error_reason(row: Any) -> str:  # noqa: ANN401 - rows of many responses
    """Return the message of an error in a response, and the name of its code."""
    from kafkalite.protocol.error_codes import ErrorCode  # noqa: PLC0415 - as above

    return f"{error_message(row)} ({ErrorCode(row.error_code).name})"
