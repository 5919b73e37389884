"""Uses a made-up command and a made-up field of a fault; `test_new_command` adds them to a copy."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from urllib.request import urlopen

import pytest

import kafkalite
from kafkalite.cli.main import main
from kafkalite.control.client import ControlClient, ControlError
from kafkalite.control.endpoint import find_endpoint
from kafkalite.testing import Broker


def shell(*arguments: str) -> str:
    """Return the output of a command, or its error."""
    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(output):
            main(arguments)
    except SystemExit:
        pass
    return output.getvalue()


def fetched(broker: Broker, path: str) -> object:
    """Return the JSON at a path."""
    with urlopen(f"{broker.control_url}{path}") as response:  # noqa: S310 - http
        return json.load(response)


def use_the_command(broker: Broker) -> None:
    """Use the route, the client, the shell command and the description of the command."""
    greetings = importlib.import_module("kafkalite.control.commands.greetings")
    client = ControlClient(find_endpoint(broker.control_url))
    assert client.send(greetings.Greet("bob", 2)) == greetings.Greeting("hello bobhello bob")
    with pytest.raises(ControlError, match=r"^times must be a whole number from 1 to 3, not 4$"):
        client.send(greetings.Greet("bob", 4))
    assert shell("greet", "bob", "--times", "1") == "hello bob\n"
    assert "Greet a running broker." in shell("--help")
    paths = fetched(broker, "/v1")["paths"]  # type: ignore[index]
    assert paths["/v1/greetings"] == 'POST {"name": "bob"}: Return a greeting.'
    document = fetched(broker, "/v1/openapi.json")
    operation = document["paths"]["/v1/greetings"]["post"]  # type: ignore[index]
    assert operation["operationId"] == "Greet"


def use_the_field(broker: Broker) -> None:
    """Use the field in Python, over HTTP, in a shell, and in the description."""
    broker.faults.add(tag="a", delay_ms=5)  # type: ignore[call-arg]
    assert shell("fault", "add", "--tag", "b", "--delay", "5ms") == (
        "f2: tag=b; delay_ms=5 (0 selected, 0 fired)\n"
    )
    rules = [each.rule for each in broker.faults.list()]
    assert [rule.match.tag for rule in rules] == ["a", "b"]  # type: ignore[attr-defined]
    document = fetched(broker, "/v1/openapi.json")
    match = document["components"]["schemas"]["Match"]  # type: ignore[index]
    assert match["properties"]["tag"]["description"] == "made-up tag of the request"


if __name__ == "__main__":
    assert kafkalite.__file__.startswith(sys.argv[1])
    with Broker(control=True) as running:
        os.environ["KAFKALITE_CONTROL"] = running.control_url
        use_the_command(running)
        use_the_field(running)
