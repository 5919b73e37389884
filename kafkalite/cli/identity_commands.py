"""`kafkalite identity`: commands to the identity provider of a running broker.

The exit status is that of the other commands to a running broker.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.control_commands import add_action, run
from kafkalite.cli.output import USAGE_STATUS, as_json, exit_with_error, print_output
from kafkalite.cli.streams import printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping

    from kafkalite.control.client import ControlClient
    from kafkalite.control.identity_routes import ClientJson, FailureJson, IdentityJson, KeyJson


_FAILURES = (
    "expired", "wrong_audience", "wrong_issuer", "wrong_key", "http_500", "malformed", "slow",
)  # fmt: skip
_ENDPOINTS = ("token", "jwks")
_MAX_FILE_LENGTH = 16 * 1024
_STDIN = "-"


def add_identity(parser: ArgumentParser) -> None:
    """Add the actions of `identity` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_action(actions, parser, "show", "Print the provider, its clients, keys and failures.")
    action = add_action(actions, parser, "set", "Set the audience and the lifetime of tokens.")
    action.add_argument("--audience", metavar="NAME", help="audience of the tokens")
    action.add_argument("--token-lifetime", metavar="DURATION", help="lifetime, such as 5m")
    action = add_action(actions, parser, "add-client", "Add or replace a client.")
    _add_client_options(action)
    action = add_action(actions, parser, "remove-client", "Remove a client.")
    action.add_argument("id", metavar="ID", help="id of the client")
    action = add_action(
        actions, parser, "add-key", "Make a signing key, which signs the tokens from now on."
    )
    action.add_argument(
        "--algorithm", choices=("RS256", "ES256"), default="RS256", help="algorithm [RS256]"
    )
    action = add_action(
        actions, parser, "retire-key", "Publish a signing key no longer. Its tokens become invalid."
    )
    action.add_argument("id", metavar="ID", help="id of the key")
    action = add_action(actions, parser, "fail", "Let token requests fail.")
    _add_failure_options(action)
    action = add_action(actions, parser, "repair", "Remove one failure or all failures.")
    action.add_argument("id", metavar="ID", nargs="?", help="id that `fail` and `show` print")
    action.add_argument("--all", action="store_true", help="remove all failures")


def _add_client_options(action: ArgumentParser) -> None:
    action.add_argument("id", metavar="ID", help="id of the client")
    action.add_argument(
        "--secret-file",
        metavar="FILE",
        help="file whose first line is the secret; - reads it from stdin",
    )
    action.add_argument(
        "--public-key", metavar="FILE", help="PEM file with the key that verifies its assertions"
    )
    action.add_argument(
        "--scope",
        metavar="NAME",
        action="append",
        help="scope that it may request; repeatable [all]",
    )
    action.add_argument(
        "--subject",
        metavar="NAME",
        action="append",
        help="principal that its assertions may name, in addition to its id; repeatable",
    )
    action.add_argument("--audience", metavar="NAME", help="audience of its tokens")
    action.add_argument("--token-lifetime", metavar="DURATION", help="lifetime of its tokens")


def _add_failure_options(action: ArgumentParser) -> None:
    action.add_argument("failure", choices=_FAILURES, help="what is wrong with the responses")
    action.add_argument(
        "--endpoint", choices=_ENDPOINTS, default="token", help="endpoint that fails [token]"
    )
    action.add_argument("--client", metavar="ID", help="only for this client [all]")
    action.add_argument(
        "--times", metavar="N", type=whole_number, help="at most for N requests [all]"
    )
    action.add_argument(
        "--delay", metavar="DURATION", help="with slow: the delay, by the broker's clock"
    )


def identity(arguments: Namespace) -> None:
    """Show or change the identity provider; raises SystemExit if that fails."""
    action = arguments.action
    if action == "repair" and arguments.all is (arguments.id is not None):
        exit_with_error(USAGE_STATUS, "identity repair needs the ID of a failure, or --all")

    def perform(client: ControlClient) -> None:
        response, lines = _ACTIONS[action](client, arguments)
        print_output(as_json(response) if arguments.json else lines)

    run(arguments, perform)


def _show(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    del arguments
    provider = client.identity()
    return provider, _provider_lines(provider)


def _set(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    command = {
        name: value
        for name in ("audience", "token_lifetime")
        if (value := getattr(arguments, name)) is not None
    }
    if not command:
        raise ValueError("identity set needs --audience or --token-lifetime")
    provider = client.change_tokens(command)
    return provider, _provider_lines(provider)


def _add_client(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    from kafkalite.control.times import duration_ms  # noqa: PLC0415 - `--help` needs no broker

    lifetime = arguments.token_lifetime
    fields = {
        "id": arguments.id,
        "secret": _first_line(arguments.secret_file),
        "public_key": _text_of(arguments.public_key),
        "scopes": arguments.scope,
        "subjects": arguments.subject,
        "audience": arguments.audience,
        "token_lifetime_ms": None if lifetime is None else duration_ms(lifetime),
    }
    added = client.put_oauth_client(
        {name: value for name, value in fields.items() if value is not None}
    )
    return added, _client_line(added)


def _remove_client(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    removed = client.remove_oauth_client(arguments.id)
    return removed, _client_line(removed)


def _add_key(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    added = client.add_signing_key({"algorithm": arguments.algorithm})
    return added, _key_line(added)


def _retire_key(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    retired = client.retire_signing_key(arguments.id)
    return retired, _key_line(retired)


def _fail(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    from kafkalite.control.times import duration_ms  # noqa: PLC0415 - `--help` needs no broker

    fields = {
        "failure": arguments.failure,
        "endpoint": arguments.endpoint,
        "client": arguments.client,
        "times": arguments.times,
        "delay_ms": None if arguments.delay is None else duration_ms(arguments.delay),
    }
    added = client.add_identity_failure(
        {name: value for name, value in fields.items() if value is not None}
    )
    return added, _failure_line(added)


def _repair(client: ControlClient, arguments: Namespace) -> tuple[object, str]:
    if arguments.all:
        removed = client.clear_identity_failures()
        return removed, "".join(map(_failure_line, removed["failures"])) or "no failures\n"
    failure = client.remove_identity_failure(arguments.id)
    return failure, _failure_line(failure)


_ACTIONS: Mapping[str, Callable[[ControlClient, Namespace], tuple[object, str]]] = {
    "show": _show,
    "set": _set,
    "add-client": _add_client,
    "remove-client": _remove_client,
    "add-key": _add_key,
    "retire-key": _retire_key,
    "fail": _fail,
    "repair": _repair,
}
"""Action → function that returns the response, and its text."""


def _first_line(path: str | None) -> str | None:
    """Return the first line of a file with a secret; raises ValueError."""
    text = _text_of(path)
    return None if text is None else text.partition("\n")[0].rstrip("\r")


def _text_of(path: str | None) -> str | None:
    """Return the text of a file, None without one; raises ValueError if it cannot be read."""
    if path is None:
        return None
    try:
        if path == _STDIN:
            return sys.stdin.read(_MAX_FILE_LENGTH)
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to import
            return file.read(_MAX_FILE_LENGTH)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ValueError(f"cannot read {path}: {reason.lower()}") from error


def _provider_lines(provider: IdentityJson) -> str:
    head = (
        f"issuer {provider['issuer']}, audience {provider['audience']}, "
        f"lifetime {provider['token_lifetime_ms']} ms"
    )
    return "".join((
        f"{printable(head)}\n",
        *map(_client_line, provider["clients"]),
        *map(_key_line, provider["keys"]),
        *map(_failure_line, provider["failures"]),
    ))  # fmt: skip


def _client_line(client: ClientJson) -> str:
    parts = [
        f"client {client['id']}:",
        *(["secret"] if client["has_secret"] else []),
        *(["public key"] if client["has_public_key"] else []),
        "all scopes" if client["scopes"] is None else f"scopes {' '.join(client['scopes'])}",
    ]
    return f"{printable(' '.join((parts[0], ', '.join(parts[1:]))))}\n"


def _key_line(key: KeyJson) -> str:
    return f"key {key['id']}: {key['algorithm']}{', signs' if key['signs'] else ''}\n"


def _failure_line(failure: FailureJson) -> str:
    parts = [failure["failure"], f"endpoint {failure['endpoint']}"]
    if failure["client"] is not None:
        parts.append(f"client {failure['client']}")
    if failure["times"] is not None:
        parts.append(f"{failure['times']} times")
    if failure["delay_ms"]:
        parts.append(f"{failure['delay_ms']} ms")
    line = f"failure {failure['id']}: {', '.join(parts)} ({failure['firings']} fired)"
    return f"{printable(line)}\n"
