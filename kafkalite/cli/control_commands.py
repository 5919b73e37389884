"""`kafkalite clock`, `fault`, `explain` and `client-metrics`: commands to a running broker.

The exit status is 0 if the broker carried out the command, 1 if it refused or does not answer, and
2 for invalid arguments. Errors are printed as one line on stderr.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalite.cli.argument_types import number, whole_number
from kafkalite.cli.output import FAILED_STATUS, USAGE_STATUS, as_json, exit_with_error, print_output
from kafkalite.cli.streams import open_closed_streams, printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Iterator, Mapping

    from kafkalite.control.client import ControlClient
    from kafkalite.control.client_metrics_json import ClientMetricsJson, NumberJson
    from kafkalite.control.http import ClockJson, EntryJson, FaultJson

_ACTIONS = ("show", "advance", "set", "pause", "resume", "rate")


def add_clock(parser: ArgumentParser) -> None:
    """Add the options of `clock`."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=_ACTIONS,
        default="show",
        help="show the time; advance it by a DURATION; set it to a later TIME; pause; resume; run "
        "at RATE times the speed of real time. The command ends when all due work is done "
        "[show]",
    )
    parser.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="DURATION such as 7d, 1h30m or 250ms; TIME such as 2026-03-01T12:00:00Z; RATE such as "
        "60",
    )
    add_common_options(parser)


def add_explain(parser: ArgumentParser) -> None:
    """Add the options of `explain`."""
    entity = parser.add_mutually_exclusive_group()
    entity.add_argument("--group", metavar="ID", help="only this group [all]")
    entity.add_argument("--transactional-id", metavar="ID", help="only this transactional id [all]")
    entity.add_argument("--topic", metavar="NAME", help="only this topic [all]")
    entity.add_argument("--client", metavar="ADDRESS", help="only clients at this address [all]")
    parser.add_argument(
        "--limit",
        metavar="NUMBER",
        type=whole_number,
        help="print only this many entries, the latest [128]",
    )
    add_common_options(parser)


def add_client_metrics(parser: ArgumentParser) -> None:
    """Add the options of `client-metrics`."""
    parser.add_argument("--client-id", metavar="ID", help="only clients with this client id [all]")
    parser.add_argument(
        "--prometheus", action="store_true", help="print the metrics in Prometheus's text format"
    )
    add_common_options(parser)


def add_fault(parser: ArgumentParser) -> None:
    """Add the actions of `fault` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, about, add_options in (
        ("add", "Add a fault that delays, refuses or disconnects requests.", _add_rule_options),
        ("list", "Print all faults, with the numbers of selected and affected requests.", None),
        ("remove", "Remove one fault or all faults.", _add_removal_options),
    ):
        action = actions.add_parser(
            name,
            help=about,
            description=about,
            allow_abbrev=False,
            formatter_class=parser.formatter_class,
        )
        if add_options is not None:
            add_options(action)
        add_common_options(action)
        action.set_defaults(parser=action)


def add_action(
    actions: _SubParsersAction[ArgumentParser], parser: ArgumentParser, name: str, about: str
) -> ArgumentParser:
    """Return the parser of a new action of a command, with the options of all actions."""
    action = actions.add_parser(
        name,
        help=about,
        description=about,
        allow_abbrev=False,
        formatter_class=parser.formatter_class,
    )
    add_common_options(action)
    action.set_defaults(parser=action)
    return action


def _add_rule_options(parser: ArgumentParser) -> None:
    match = parser.add_argument_group("selection of requests; all given options must match")
    match.add_argument("--api", metavar="NAME", help="API, such as Produce [all]")
    match.add_argument("--client-id", metavar="ID", help="client id of the request")
    match.add_argument("--group", metavar="ID", help="group that the request names")
    match.add_argument("--topic", metavar="NAME", help="topic that the request names")
    match.add_argument(
        "--partition", metavar="N", type=whole_number, help="partition that the request names"
    )
    match.add_argument(
        "--transactional-id", metavar="ID", help="transactional id that the request names"
    )
    match.add_argument(
        "--node", metavar="ID", type=whole_number, help="node that receives the request"
    )
    match.add_argument("--listener", metavar="NAME", help="listener that receives the request")
    trigger = parser.add_argument_group("trigger; by default every selected request")
    trigger.add_argument("--times", metavar="N", type=whole_number, help="fire at most N times")
    trigger.add_argument(
        "--after", metavar="N", type=whole_number, help="skip the first N requests"
    )
    trigger.add_argument(
        "--every", metavar="N", type=whole_number, help="fire for every N-th request"
    )
    trigger.add_argument(
        "--nth", metavar="N", type=whole_number, help="fire for the N-th request only"
    )
    trigger.add_argument(
        "--probability", metavar="P", type=number, help="fire with this probability"
    )
    action = parser.add_argument_group("effect; at least one is required")
    action.add_argument(
        "--error", metavar="NAME", help="return this error, such as NOT_ENOUGH_REPLICAS"
    )
    action.add_argument(
        "--delay", metavar="DURATION", help="wait first, such as 500ms or 2s of the broker's clock"
    )
    action.add_argument(
        "--disconnect",
        nargs="?",
        const="before",
        choices=("before", "after"),
        help="close the connection before or after the request is handled [before]",
    )


def _add_removal_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="id that `fault add` and `fault list` print"
    )
    parser.add_argument("--all", action="store_true", help="remove all faults")


def add_common_options(parser: ArgumentParser) -> None:
    """Add the options of all commands to a running broker."""
    parser.add_argument(
        "--json", action="store_true", help="print the response of the broker as JSON"
    )
    parser.add_argument(
        "--control",
        metavar="URL",
        help="address of the control API, which `kafkalite serve --control` prints "
        "[KAFKALITE_CONTROL, else http://127.0.0.1:9097]",
    )
    add_token_options(parser)


def add_token_options(parser: ArgumentParser) -> None:
    """Add the options for the token and the certificate of a control API."""
    parser.add_argument(
        "--control-token",
        metavar="TOKEN|@FILE",
        help="token of the control API [KAFKALITE_CONTROL_TOKEN, else the file of a broker of this "
        "user on this machine]",
    )
    parser.add_argument(
        "--control-ca",
        metavar="FILE",
        help="trusted certificate authorities of the control API, PEM [those of --tls auto of a "
        "broker of this user on this machine, else the system's]",
    )


def token_from(arguments: Namespace) -> str | None:
    """Return the token or @FILE of the arguments or of the environment; None without one.

    The token of an argument is hidden from other processes.
    """
    from kafkalite.config.options import CONTROL_TOKEN_AUTO  # noqa: PLC0415 - see `run`
    from kafkalite.control.endpoint import CONTROL_TOKEN_VARIABLE  # noqa: PLC0415 - as above
    from kafkalite.ports.command_line import hide_option  # noqa: PLC0415 - as above

    token: str | None = arguments.control_token
    if token is None:
        token = os.environ.get(CONTROL_TOKEN_VARIABLE) or None
        # The variable is also that of the broker in the same container.
        return None if token == CONTROL_TOKEN_AUTO else token
    hide_option("--control-token", token)
    return token


def clock(arguments: Namespace) -> None:
    """Show or change the clock; raises SystemExit if that fails."""

    def perform(client: ControlClient) -> None:
        command = _clock_command(arguments.action, arguments.value)
        response = client.clock() if command is None else client.change_clock(command)
        print_output(as_json(response) if arguments.json else _clock_line(response))

    run(arguments, perform)


def explain(arguments: Namespace) -> None:
    """Print the history of groups, transactional ids, topics and clients; raises SystemExit."""
    names = {
        "group": arguments.group,
        "transactional id": arguments.transactional_id,
        "topic": arguments.topic,
        "client": arguments.client,
    }

    def perform(client: ControlClient) -> None:
        found = client.explain(
            arguments.group,
            arguments.limit,
            arguments.transactional_id,
            arguments.topic,
            arguments.client,
        )
        is_unfiltered = all(name is None for name in names.values())
        lines = [_entry_line(entry, is_unfiltered=is_unfiltered) for entry in found["entries"]]
        entity = (
            "any group, transactional id, topic or client" if is_unfiltered else _entity_text(names)
        )
        print_output(
            as_json(found)
            if arguments.json
            else "".join(lines) or f"no entries about {entity}{_address_hint(arguments.client)}\n"
        )

    run(arguments, perform)


def client_metrics(arguments: Namespace) -> None:
    """Print the metrics that clients have pushed; raises SystemExit if that fails."""

    def perform(client: ControlClient) -> None:
        if arguments.prometheus:
            print_output(client.prometheus_text(arguments.client_id))
            return
        found = client.client_metrics(arguments.client_id)
        if arguments.json:
            print_output(as_json(found))
            return
        lines = [line for each in found["clients"] for line in _client_lines(each)]
        if found["problem"] is not None:
            lines.insert(0, found["problem"])
        if not found["clients"]:
            lines.append(_no_client_text(arguments.client_id))
        print_output("".join(f"{printable(line)}\n" for line in lines))

    if arguments.prometheus and arguments.json:
        exit_with_error(USAGE_STATUS, "client-metrics takes --prometheus or --json, not both")
    run(arguments, perform)


def _no_client_text(client_id: str | None) -> str:
    selected = "" if client_id is None else f" with the id {client_id!r}"
    return f"no client{selected} has pushed metrics; a client pushes if a subscription selects it"


def _client_lines(client: ClientMetricsJson) -> Iterator[str]:
    """Yield one line for a client, and one for each of its metrics."""
    state = ", terminated" if client["terminated"] else ""
    pushes = "1 push" if client["pushes"] == 1 else f"{client['pushes']} pushes, the last"
    yield (
        f"{client['client_id'] or '-'} ({client['software_name']} {client['software_version']}, "
        f"{client['address']}, instance {client['client_instance_id']}): "
        f"{pushes} at {client['last_push_iso']}{state}"
    )
    for metric in client["metrics"]:
        labels = ",".join(f"{name}={label}" for name, label in metric["labels"].items())
        value = metric["value"]
        if isinstance(value, dict):
            text = f"count={value['count']} sum={_number_text(value['sum'])}"
        else:
            text = _number_text(value)
        yield f"  {metric['name']}{{{labels}}} {text}"


def _number_text(number: NumberJson) -> str:
    return number if isinstance(number, str) else f"{number:.12g}"


def fault(arguments: Namespace) -> None:
    """Add, list or remove faults; raises SystemExit if that fails."""

    def perform(client: ControlClient) -> None:
        response: object
        if arguments.action == "add":
            response = added = client.add_fault(_rule(arguments))
            found = [added]
        elif arguments.action == "list" or arguments.all:
            response = faults = (
                client.faults() if arguments.action == "list" else client.clear_faults()
            )
            found = list(faults["faults"])
        else:
            response = removed = client.remove_fault(arguments.id)
            found = [removed]
        print_output(
            as_json(response)
            if arguments.json
            else "".join(map(_fault_line, found)) or "no faults\n"
        )

    if arguments.action == "remove" and arguments.all is (arguments.id is not None):
        exit_with_error(USAGE_STATUS, "fault remove needs either the ID of a fault or --all")
    run(arguments, perform)


def _rule(arguments: Namespace) -> Mapping[str, Mapping[str, object]]:
    """Return the body of POST /v1/faults; raises ValueError for invalid arguments."""
    from kafkalite.control.times import duration_ms  # noqa: PLC0415 - see above

    fields = {
        "match": (
            "api",
            "client_id",
            "group",
            "topic",
            "partition",
            "transactional_id",
            "node",
            "listener",
        ),
        "trigger": ("times", "after", "every", "nth", "probability"),
        "action": ("error", "disconnect"),
    }
    rule: dict[str, dict[str, object]] = {
        part: {name: value for name in names if (value := getattr(arguments, name)) is not None}
        for part, names in fields.items()
    }
    if arguments.delay is not None:
        rule["action"]["delay_ms"] = duration_ms(arguments.delay)
    if not rule["action"]:
        raise ValueError("fault add needs --error, --delay or --disconnect")
    return rule


def _fault_line(response: FaultJson) -> str:
    parts = (
        " ".join(f"{name}={value}" for name, value in each.items())
        for each in (response["match"], response["trigger"], response["action"])
    )
    rule = "; ".join(part for part in parts if part)
    counts = f"{response['matches']} selected, {response['firings']} fired"
    line = f"{response['id']}: {rule} ({counts})"
    return f"{printable(line)}\n"


def run(arguments: Namespace, perform: Callable[[ControlClient], None]) -> None:
    """Call `perform` with a client of the broker; raises SystemExit if that fails."""
    # Imported here: a broker starts faster without them.
    from kafkalite.config.options import DEFAULT_CONTROL  # noqa: PLC0415
    from kafkalite.control.client import ControlClient, ControlError  # noqa: PLC0415
    from kafkalite.control.endpoint import CONTROL_VARIABLE, find_endpoint  # noqa: PLC0415

    open_closed_streams()
    address = arguments.control or os.environ.get(CONTROL_VARIABLE) or DEFAULT_CONTROL
    try:
        endpoint = find_endpoint(address, token_from(arguments), arguments.control_ca)
        perform(ControlClient(endpoint))
    except ControlError as error:
        exit_with_error(FAILED_STATUS, str(error))
    except ValueError as error:
        exit_with_error(USAGE_STATUS, str(error))


def _clock_command(action: str, value: str | None) -> Mapping[str, str | float] | None:
    """Return the body of POST /v1/clock, None for `show`; raises ValueError."""
    from kafkalite.control.times import (  # noqa: PLC0415 - see above
        duration_ms,
        instant_ms,
        parse_rate,
    )

    commands_with_value: dict[str, tuple[str, Callable[[str], Mapping[str, str | float]]]] = {
        "advance": ("a duration, such as 7d", lambda text: {"advance_ms": duration_ms(text)}),
        "set": ("a time, such as 2026-03-01", lambda text: {"now_ms": instant_ms(text)}),
        "rate": ("a rate, such as 60", lambda text: {"rate": parse_rate(text)}),
    }
    modes = {"pause": "manual", "resume": "real"}
    if action in commands_with_value:
        parameter, command = commands_with_value[action]
        if value is None:
            raise ValueError(f"clock {action} needs {parameter}")
        return command(value)
    if value is not None:
        raise ValueError(f"clock {action} takes no value, got {value!r}")
    return {"mode": modes[action]} if action in modes else None


def _clock_line(response: ClockJson) -> str:
    rate = f", {response['rate']:g} times as fast" if response["mode"] == "accelerated" else ""
    return f"{response['iso']} ({response['mode']}{rate})\n"


def _address_hint(client: str | None) -> str:
    """Return the end of a sentence about the address of a client, if it is the name of a host."""
    from ipaddress import ip_address  # noqa: PLC0415 - for an empty answer only

    if client is None:
        return ""
    try:
        ip_address(client)
    except ValueError:
        return "; write the address of a client as numbers, such as 127.0.0.1"
    return ""


def _entity_text(names: Mapping[str, str | None]) -> str:
    """Return the kind and the name of the only entity with a name."""
    return next(f"a {kind} {printable(name)!r}" for kind, name in names.items() if name is not None)


def _entry_line(entry: EntryJson, *, is_unfiltered: bool) -> str:
    name = entry["group"] or entry["transactional_id"] or entry["topic"] or entry["client"]
    entity = f" {name}" if is_unfiltered else ""
    repeated = f" ({entry['times']} times since {entry['first_iso']})" if entry["times"] > 1 else ""
    line = f"{entry['at_iso']}{entity} {entry['kind']}: {entry['text']}{repeated}"
    return f"{printable(line)}\n"
