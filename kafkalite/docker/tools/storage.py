"""`kafka-storage`: random ids, and SCRAM users for the next start of the broker.

The broker formats its own data directory when it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.docker.credentials import Credential
from kafkalite.docker.files import ImageFiles
from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    bracketed_items,
    key_values,
    unbracketed,
)
from kafkalite.docker.tools.running import run_tool, write_line
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: _run(name, arguments, environment))


def _run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    parser = ToolParser(name, "Make ids of clusters, and add SCRAM users.")
    parser.add_argument("command", choices=("format", "random-uuid"))
    parser.add_argument("-t", "--cluster-id")
    parser.add_argument("-c", "--config")
    parser.add_argument("-S", "--add-scram", action="append", default=[])
    for switch in ("--ignore-formatted", "--standalone", "--no-initial-controllers"):
        parser.add_argument(switch, action="store_true")
    parser.add_argument("-g", action="store_true", dest="ignore_formatted")
    parsed = parser.parse(arguments)
    if parsed.command == "random-uuid":
        write_line(uuid_to_text(SystemEntropy().uuid()))
        return 0
    if not parsed.cluster_id:
        parser.error("format needs --cluster-id")
    users = [_user(text) for text in parsed.add_scram]
    if users:
        ImageFiles.of(environment).add_formatted_users(users)
    write_line("the broker formats its data directory when it starts")
    return 0


def _user(text: str) -> Credential:
    """Return the user in a text such as `SCRAM-SHA-256=[name=alice,password=secret]`."""
    mechanism, equals, rest = text.partition("=")
    if not equals or mechanism.strip() not in SCRAM_BY_NAME:
        raise ToolError(
            "--add-scram: write MECHANISM=[name=NAME,password=PASSWORD]; mechanisms are "
            f"{', '.join(SCRAM_BY_NAME)}"
        )
    options = {
        key: value.strip('"')
        for key, value in key_values(bracketed_items(unbracketed(rest.strip())), "--add-scram")
    }
    if not {"name", "password"} <= options.keys():
        raise ToolError("--add-scram needs a name and a password")
    if unsupported := options.keys() - {"name", "password", "iterations"}:
        raise ToolError(f"--add-scram: {', '.join(sorted(unsupported))} is not supported here")
    return Credential(options["name"], options["password"], mechanism.strip())
