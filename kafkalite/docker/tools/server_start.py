"""`kafka-server-start`: run the broker with the properties in a file."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from kafkalite.config.options import VARIABLE_PREFIX
from kafkalite.docker.files import ImageFiles, parse_properties
from kafkalite.docker.properties import VariableError
from kafkalite.docker.start import run
from kafkalite.docker.tools.arguments import ToolError, ToolParser, key_values
from kafkalite.docker.tools.running import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the broker; return an exit status if it cannot start."""
    return run_tool(name, lambda: _run(name, arguments, environment))


def _run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    parser = ToolParser(name, "Run the broker with the properties in a file.")
    parser.add_argument("file")
    parser.add_argument("-daemon", action="store_true", dest="daemon")
    parser.add_argument("--override", action="append", metavar="NAME=VALUE")
    parsed = parser.parse(arguments)
    if parsed.daemon:
        parser.error("-daemon is not supported here: the broker is the program of its container")
    overrides = dict(key_values(parsed.override, "--override"))
    text = ImageFiles.of(environment).read_text(parsed.file)
    if text is None:
        raise ToolError(f"cannot read {parsed.file}")
    try:
        properties = parse_properties(text, parsed.file)
    except VariableError as error:
        raise ToolError(str(error)) from None
    # As in Kafka, this program reads no properties from variables.
    own = {
        variable: value
        for variable, value in environment.items()
        if variable.startswith(VARIABLE_PREFIX) or variable == "KAFKA_OPTS"
    }
    return run(own, socket.gethostname(), properties={**properties, **overrides})
