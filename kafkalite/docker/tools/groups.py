"""`kafka-groups`: list the groups of all types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.groups import list_groups
from kafkalite.docker.tools.arguments import ToolParser, add_bootstrap_options, is_given
from kafkalite.docker.tools.running import run_tool, run_with_client
from kafkalite.docker.tools.tables import write_table

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_HEADER: Final = ("GROUP", "TYPE", "PROTOCOL")
_WIDTHS: Final = (20, 20, 20)
_FILTERS: Final = ("consumer", "share", "streams")
_CONSUMER_TYPES: Final = ("classic", "consumer")
_CONSUMER_PROTOCOLS: Final = ("consumer", "")


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parser = ToolParser(name, "List the groups of all types.")
        add_bootstrap_options(parser)
        parser.add_switches("list", *_FILTERS)
        parser.add_values("group-type", type=str.lower)
        parser.add_values("protocol")
        parsed = parser.parse(arguments)
        if not parsed.list:
            parser.error("Command must include exactly one action: --list.")
        selections = [*_FILTERS, "group-type"]
        if sum(is_given(parsed, each) for each in selections) > 1:
            parser.error(f"Only one of {', '.join(f'--{each}' for each in selections)} is possible")
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    rows = []
    for each in await list_groups(client):
        is_consumer = each.type in _CONSUMER_TYPES and each.protocol_type in _CONSUMER_PROTOCOLS
        if (
            (not parsed.consumer or is_consumer)
            and (not parsed.share or each.type == "share")
            and (not parsed.streams or each.type == "streams")
            and parsed.group_type in (None, each.type)
            and parsed.protocol in (None, each.protocol_type)
        ):
            rows.append((each.group_id, each.type.capitalize(), each.protocol_type))
    write_table(_HEADER, rows, _WIDTHS)
    return 0
