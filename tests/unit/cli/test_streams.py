"""Brokers with closed standard streams, or with output that has no reader."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.oracle.target import free_port
from tests.unit.cli.test_serve import ENVIRONMENT

START_TIMEOUT_S = 10


def connected(port: int) -> socket.socket:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("redirection", "banners", "lines"),
    [("<&-", 1, 2), (">&-", 0, 2), ("2>&-", 1, 0), ("<&- >&- 2>&-", 0, 0), (">/dev/full", 0, 2)],
)
def test_broker_serves_with_closed_standard_streams(
    redirection: str, banners: int, lines: int
) -> None:
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    port = free_port()
    command = f'exec "{sys.executable}" -m kafkalite serve --listen 127.0.0.1:{port} {redirection}'
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    try:
        for _ in range(3):
            with connected(port) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert client.recv(1) == b""
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=10)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert output.count(b"is ready") == banners
    # One line for the first connection, one for the others.
    assert errors.count(b"connection closed") == lines


def test_characters_that_the_encoding_lacks_are_escaped() -> None:
    program = (
        "from kafkalite.cli.streams import open_closed_streams, write_stdout\n"
        "open_closed_streams()\n"
        "assert write_stdout('Äpfel … \\n') is None\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert completed.stdout == b"\\xc4pfel \\u2026 \n"


@pytest.mark.parametrize("arguments", [["completion", "bash"], ["serve", "--help"]])
def test_output_without_a_reader_ends_silently(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "kafkalite", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
