"""Command lines of the tools: options, addresses of brokers, and settings of clients."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkalite.client.access import PLAINTEXT, Access
from kafkalite.client.access_properties import AccessPropertiesError, access_of
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.config.releases import DEFAULT
from kafkalite.docker.files import ImageFiles
from kafkalite.server.addresses import AddressError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.server.addresses import Address

FAILED_STATUS: Final = 1
_FORMER_OPTIONS: Final = {
    "--zookeeper": "there is no ZooKeeper",
    "--authorizer-properties": "the ACLs are in the broker, not in ZooKeeper",
}
"""Options of earlier releases → the reason why they cannot be used."""


class ToolError(Exception):
    """The reason why a tool failed; the text is one line."""


class KafkaToolError(ToolError):
    """The reason why a tool failed, as Kafka's tool prints it to the error output."""


class UsageError(KafkaToolError):
    """A command line that Kafka's tool refuses; the text ends with the list of options."""


class ToolParser(argparse.ArgumentParser):
    """Parses the options of a tool; an unknown option is an error that lists the supported ones."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(prog=name, description=description, allow_abbrev=False)
        version = f"{DEFAULT}.0"
        self.add_argument("--version", action="version", version=version)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the values of the options; raises ToolError."""
        parsed, unknown = self.parse_known_args(list(arguments))
        for text in unknown:
            option = text.partition("=")[0]
            if option in _FORMER_OPTIONS:
                raise ToolError(
                    f"{option}: {_FORMER_OPTIONS[option]}; write --bootstrap-server HOST:PORT with "
                    "the address of the broker"
                )
        if unknown:
            self.error(f"{unknown[0]} is not a recognized option")
        return parsed

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with a message and the options."""
        raise UsageError(f"{message}\n{self._option_table()}")

    def add_switches(self, *names: str) -> None:
        """Add options without values, by their names without `--`."""
        for name in names:
            self.add_argument(f"--{name}", action="store_true")

    def add_values(self, *names: str, many: bool = False, **settings: Any) -> None:  # noqa: ANN401 - of argparse
        """Add options with a value, or with `many` values, by their names without `--`."""
        if many:
            settings = {"action": "append", "default": [], **settings}
        for name in names:
            self.add_argument(f"--{name}", **{"metavar": "VALUE", **settings})

    def single(self, parsed: argparse.Namespace, names: Sequence[str], message: str) -> str:
        """Return the only option of `names` that is given; raises UsageError with the message."""
        given = [name for name in names if is_given(parsed, name)]
        if len(given) != 1:
            self.error(message)
        return given[0]

    def _option_table(self) -> str:
        """Return the options in the form of Kafka's tools."""
        rows = [("Option", "Description"), ("------", "-----------")]
        for action in self._actions:
            names = ", ".join(action.option_strings)
            if names:
                value = f" <{action.metavar or 'value'}>" if action.nargs != 0 else ""
                rows.append((f"{names}{value}", action.help or ""))
        return "\n".join(f"{names:40} {text}".rstrip() for names, text in rows)


def is_given(parsed: argparse.Namespace, name: str) -> bool:
    """Return whether an option was given, by its name without `--`."""
    return getattr(parsed, name.replace("-", "_")) not in (None, False, [])


def add_bootstrap_options(
    parser: ToolParser,
    *more_names: str,
    config: str | None = None,
    short_config: str | None = None,
    has_controller: bool = False,
) -> None:
    """Add the option for addresses of brokers, with more names, and that of a properties file.

    With `has_controller`, there is an option for addresses of controllers, too.
    """
    parser.add_argument("--bootstrap-server", *more_names, dest="bootstrap_server", metavar="LIST")
    if has_controller:
        parser.add_argument("--bootstrap-controller", metavar="LIST")
    names = [config] if config and config != "--command-config" else []
    names += ["--command-config", *filter(None, [short_config])]
    parser.add_argument(*names, dest="client_config", metavar="FILE")


def addresses_of(text: str | None) -> list[Address]:
    """Return the addresses in a list such as `kafka:9092,PLAINTEXT://other:9092`; ToolError."""
    if not text:
        raise ToolError("--bootstrap-server is missing: name a broker, as HOST:PORT")
    try:
        return bootstrap_addresses(text)
    except AddressError as error:
        raise ToolError(f"--bootstrap-server: {error}") from None


def client_properties(
    path: str | None, environment: Mapping[str, str], texts: Sequence[str] = ()
) -> dict[str, str]:
    """Return the properties of a client: those of a file, then those of options; ToolError."""
    properties = {} if path is None else parsed_properties(file_text(path, environment), path)
    return {**properties, **dict(key_values(texts, "--command-property"))}


def parsed_properties(text: str, title: str) -> dict[str, str]:
    """Return the properties in a text; raises ToolError."""
    import javaproperties  # noqa: PLC0415 - rarely used

    try:
        found: dict[str, str] = javaproperties.loads(text)
    except (ValueError, javaproperties.InvalidUEscapeError) as error:
        raise ToolError(f"{title}: {error}") from None
    return found


def access_from(path: str | None, environment: Mapping[str, str]) -> Access:
    """Return the access in a properties file of a client, PLAINTEXT without a file; ToolError."""
    return access_in(client_properties(path, environment), path)


def access_in(properties: Mapping[str, str], path: str | None = None) -> Access:
    """Return the access in the properties of a client, PLAINTEXT without one; raises ToolError.

    `path` is that of a file with these properties.
    """
    if not properties:
        return PLAINTEXT
    try:
        return access_of(properties)
    except AccessPropertiesError as error:
        raise ToolError(str(error) if path is None else f"{path}: {error}") from error


def is_idempotent(properties: Mapping[str, str], acks: str) -> bool:
    """Return whether a producer is idempotent; raises ToolError if its acks do not allow it."""
    given = properties.get("enable.idempotence", "").lower()
    waits_for_all = acks in ("all", "-1")
    if given == "true" and not waits_for_all:
        raise ToolError(
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot "
            "guarantee idempotence."
        )
    return waits_for_all and given != "false"


def key_values(
    texts: Sequence[str] | None, option: str, *, strips: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield keys and values of repeated options such as `retention.ms=1000`; ToolError."""
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ToolError(f"{option} {text!r}: write NAME=VALUE")
        yield key.strip(), value.strip() if strips else value


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


def file_text(path: str, environment: Mapping[str, str]) -> str:
    """Return the content of a file that an option names; raises ToolError."""
    text = ImageFiles.of(environment).read_argument(path)
    if text is None:
        raise ToolError(f"cannot read {path}")
    return text


def integers(text: str, option: str) -> list[int]:
    """Return the numbers in a list such as `1,2`; raises ToolError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ToolError(f"{option} {text!r}: write numbers, such as 1,2")
    return [int(part) for part in parts]
