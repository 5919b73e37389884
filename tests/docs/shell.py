"""Runs command lines of the documentation, with their addresses replaced by those of a test."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.architecture.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.testing import Broker

BOOTSTRAP = "localhost:9092"
CONTROL = "http://127.0.0.1:9097"
_SERVERS = ("kafkalite serve", "kafkalite capture")
_CLUSTER_COMMAND = re.compile(
    r"kafkalite (?:(?:topic|group|transaction) \w+|produce|consume|fence-producers)\b"
)
"""Commands to any cluster, whose address is that of the broker unless a line has another."""
_TIMEOUT_S = 120.0


def command_lines(text: str) -> list[str]:
    """Return the command lines of a block, without comments and with continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [re.sub(r"\s{2,}#\s.*$", "", line).strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def environment(workspace: Path, broker: Broker | None) -> dict[str, str]:
    """Return an environment in which `kafkalite` runs this source code.

    If a broker is given, the control commands use its control address.
    """
    programs = workspace / "bin"
    programs.mkdir(exist_ok=True)
    program = programs / "kafkalite"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m kafkalite "$@"\n', "utf-8")
    program.chmod(0o755)
    variables = {
        **os.environ,
        "PATH": os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "*",
    }
    if broker is not None:
        variables["KAFKALITE_CONTROL"] = broker.control_url
    return variables


def console_commands(text: str) -> list[tuple[str, str]]:
    """Return the command lines of a console block, each with the output that the page shows."""
    commands: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append((line[2:].strip(), ""))
        else:
            command, output = commands[-1]
            commands[-1] = (command, output + line)
    return commands


def matches_shown_output(output: str, expected: str) -> bool:
    """Return whether a program printed the output that the page shows.

    `…` stands for any text within a line, and a port of localhost for the address of any broker.
    """
    normalized = re.sub(r"127\.0\.0\.1:\d+", BOOTSTRAP, output)
    shown = re.sub(r"localhost:\d+", BOOTSTRAP, expected)
    pattern = re.escape(shown).replace("…", "[^\n]*")
    return re.fullmatch(pattern, normalized) is not None


def run_line(line: str, workspace: Path, broker: Broker) -> str:
    """Run one command line at a broker and return its output; AssertionError if it fails."""
    variables = environment(workspace, broker)
    if line.startswith(_SERVERS):
        return run_server_until_ready(line, workspace, variables, broker.bootstrap_servers)
    if line.startswith("curl") and shutil.which("curl") is None:
        return ""
    command = line.replace(BOOTSTRAP, broker.bootstrap_servers).replace(CONTROL, broker.control_url)
    if "--bootstrap-server" not in line:
        option = f"--bootstrap-server {broker.bootstrap_servers}"
        command = _CLUSTER_COMMAND.sub(rf"\g<0> {option}", command)
    completed = subprocess.run(
        ["sh", "-c", command],
        cwd=workspace,
        env=variables,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert completed.returncode == 0, (line, completed.stdout, completed.stderr)
    assert not completed.stdout.startswith('{"error"'), (line, completed.stdout)
    return completed.stdout


def run_server_until_ready(
    line: str, workspace: Path, variables: Mapping[str, str], upstream: str
) -> str:
    """Start a server, wait until it is ready, stop it as Ctrl-C does, and return its output."""
    process = subprocess.Popen(
        _with_free_ports(shlex.split(line), upstream),
        cwd=workspace,
        env=dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        output = ""
        for line_of_output in process.stdout:
            output += line_of_output
            if "Ctrl-C" in line_of_output:
                break
    finally:
        process.send_signal(signal.SIGINT)
        remaining, errors = process.communicate(timeout=_TIMEOUT_S)
    assert "Ctrl-C" in output, (line, output, errors)
    assert process.returncode == 0, (line, errors)
    return output + remaining


def _with_free_ports(arguments: list[str], upstream: str) -> list[str]:
    """Return a server's command with free ports, and the address of a cluster that exists."""
    result = []
    previous = ""
    for argument in arguments:
        value = argument
        if previous == "--listen":
            value = re.sub(r":\d+$", ":0", argument)
        elif previous == "--upstream":
            value = upstream
        result.append(value)
        if argument == "--control":
            result.append("127.0.0.1:0")
        previous = argument
    if "--listen" not in arguments:
        result += ["--listen", "127.0.0.1:0"]
    return result
