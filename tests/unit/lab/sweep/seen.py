"""Requests and cases for tests of sweeps."""

from __future__ import annotations

from kafkalite.lab.sweep.commands import CommandResult
from kafkalite.lab.sweep.failures import CaseContext
from kafkalite.lab.sweep.requests import Partition, SeenRequest
from kafkalite.lab.sweep.schedules import parse_schedule
from kafkalite.lab.sweep.sweep import CaseResult
from kafkalite.lab.sweep.timeline import Moment
from kafkalite.lab.sweep.verdict import Outcome, Verdict
from kafkalite.protocol.api_keys import ApiKey

ORDERS = Partition("orders", 0)
CONTEXT = CaseContext(nodes=3, in_sync={ORDERS: 3})


def produce(client_id: str = "shop", partition: Partition = ORDERS, acks: int = -1) -> SeenRequest:
    return SeenRequest(
        api_key=ApiKey.PRODUCE, client_id=client_id, partitions=(partition,), acks=acks
    )


def of_member(key: ApiKey, *, epoch: int = 1, client_id: str = "shop") -> SeenRequest:
    return SeenRequest(
        api_key=key, client_id=client_id, groups=("shop",), names_member=True, epoch=epoch
    )


def ended(status: int | None = 0, output: str = "") -> CommandResult:
    return CommandResult(status=status, seconds=1.5, output=output)


def result(text: str, outcome: Outcome, *reasons: str, output: str = "") -> CaseResult:
    found = Verdict(outcome=outcome, reasons=reasons)
    moments = (Moment(5, "failure", "shop <Produce> v9"),) if output else ()
    return CaseResult(
        schedule=parse_schedule(text), verdict=found, seconds=1.25, output=output, timeline=moments
    )


FAILED = result("Produce#1 orders-0 late", Outcome.FAILED, "exit status 1", output="a\nb")
RESULTS = [
    result("Heartbeat#1 late", Outcome.SURVIVED),
    result("Produce#2 orders-0 late", Outcome.SURVIVED),
    result("Produce#2 orders-0 stalled", Outcome.SLOW, "the command did not end within 9.0 s"),
    FAILED,
]
