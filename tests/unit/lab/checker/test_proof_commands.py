"""Commands that show proofs: their text, and what they print about a capture."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from kafkalite.capture.reading.captures import ignore
from kafkalite.cli.main import main
from kafkalite.lab.checker import delivery_rules
from kafkalite.lab.checker.captured_history import captured_history
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.history import LogProof, Proof
from kafkalite.lab.checker.proof_commands import commands_of
from tests.captures.record import CORPUS
from tests.oracle.requirements import program, required

CAPTURE = CORPUS / "java-transactions.pcapng.gz"


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    """Return the commands of a finding, as lists of arguments."""
    result = check(captured_history([CAPTURE], ignore))
    finding = result.of_rule(delivery_rules.ABORTED_READ)[0]
    return [shlex.split(each) for each in commands_of(finding.proofs)]


def test_the_command_of_kafkalite_shows_the_requests(
    commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    show, _ = commands
    assert show[0] == "kafkalite"
    main(show[1:])
    (line,) = capsys.readouterr().out.splitlines()
    assert "  Fetch v" in line


@pytest.mark.endurance
def test_the_command_of_tshark_shows_the_request_and_its_answer(commands: list[list[str]]) -> None:
    _, tshark = commands
    with required():
        program(tshark[0])
    done = subprocess.run(tshark, capture_output=True, text=True, check=True)
    request, answer = done.stdout.splitlines()
    assert "Request" in request
    assert "Response" in answer


def test_each_capture_has_its_own_commands() -> None:
    proofs = (
        Proof("a b.pcapng", 5, "10.0.0.1:50 > 10.0.0.2:9092", 0, 7),
        Proof("a b.pcapng", 5, "10.0.0.1:50 > 10.0.0.2:9092", 0, 7),
        Proof("c.pcapng", 9, "[::1]:51 > [::2]:9093", 3, 8),
        LogProof("orders-0/0.log", 61, 3),
        Proof("", -1, "connection 0 of 127.0.0.1 to node 1", 2),
    )
    assert [*commands_of(proofs)] == [
        "kafkalite show 'a b.pcapng' --offset 5",
        (
            "tshark -r 'a b.pcapng' -d tcp.port==9092,kafka -Y "
            "'(tcp.port==50 && tcp.port==9092 && kafka.correlation_id==7)'"
        ),
        "kafkalite show c.pcapng --offset 9",
        (
            "tshark -r c.pcapng -d tcp.port==9093,kafka -Y "
            "'(tcp.port==51 && tcp.port==9093 && kafka.correlation_id==8)'"
        ),
        "kafka-dump-log.sh --print-data-log --files orders-0/0.log",
    ]
