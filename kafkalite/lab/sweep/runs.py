"""Runs of a command: each with a cluster of its own, which begins with the same state."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.control.endpoint import CONTROL_VARIABLE
from kafkalite.coordinator.event_history import REFUSAL_KINDS
from kafkalite.gateway.true_errors import TRUE_ERRORS
from kafkalite.lab.sweep.failures import (
    DEFAULT_SESSION_TIMEOUT_MS,
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    MOMENTARY,
    CaseContext,
    FollowUp,
)
from kafkalite.lab.sweep.final_state import HANGING, anomalies_of, call, in_sync
from kafkalite.lab.sweep.follow_ups import Follower
from kafkalite.lab.sweep.requests import RequestRecorder
from kafkalite.lab.sweep.timeline import timeline
from kafkalite.lab.sweep.unhandled import lost_records, notes_of, record_count
from kafkalite.lab.sweep.verdict import Observed
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.lab.sweep.cases import Case
    from kafkalite.lab.sweep.checks import Check, Problem
    from kafkalite.lab.sweep.commands import Command, CommandResult
    from kafkalite.lab.sweep.requests import Partition, SeenRequest
    from kafkalite.server.snapshot import Snapshot
    from kafkalite.testing.broker import Broker
    from kafkalite.testing.faults import InjectedFault

BOOTSTRAP_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRun:
    """A run without a failure."""

    command: CommandResult
    requests: tuple[SeenRequest, ...]
    violated_rules: frozenset[str]
    """The rules of the checker that it violates."""
    in_sync: Mapping[Partition, int]
    """The number of replicas in sync at the end."""
    nodes: int
    record_count: int
    """The number of records at the end; see `unhandled.record_count`."""
    check: Problem | None = None
    """What the check of the user found."""


def plain_run(
    cluster: Broker, recorder: RequestRecorder, result: CommandResult, check: Problem | None = None
) -> PlainRun:
    """Return what a run without a failure has shown at its end."""
    requests = tuple(recorder.requests())  # before those of `anomalies_of`
    return PlainRun(
        command=result,
        requests=requests,
        violated_rules=frozenset(each.rule for each in anomalies_of(cluster)),
        in_sync=in_sync(cluster),
        nodes=len(cluster.nodes),
        record_count=record_count(cluster),
        check=check,
    )


class Usual(NamedTuple):
    """What is so after runs without a failure."""

    violated_rules: frozenset[str]
    record_count: int
    """The lowest one."""


def usual_of(runs: Sequence[PlainRun]) -> Usual:
    """Return what is so after one of the runs."""
    rules = frozenset[str]().union(*(each.violated_rules for each in runs))
    return Usual(rules, min(each.record_count for each in runs))


class Runs:
    """Runs a command with clusters that are forks of one broker, and begin with its state.

    `check` says after each run whether what the user expects is so.
    """

    def __init__(
        self, broker: Broker, command: Command, check: Check | None, snapshot: Snapshot
    ) -> None:
        self._broker = broker
        self._command = command
        self._check = check
        self._snapshot = snapshot

    def plain(self, limit_s: float) -> PlainRun:
        """Run the command without a failure."""
        with self._cluster() as (cluster, recorder):
            variables = _variables(cluster)
            result = self._command.run(variables, limit_s)
            check = self._problem(cluster, variables, limit_s)
            return plain_run(cluster, recorder, result, check)

    def with_failures(
        self,
        cases: Sequence[Case],
        limit_s: float,
        usual: Usual,
        timeouts_ms: Mapping[FollowUp, int],
        *,
        keep: Callable[[Broker], None] | None = None,
    ) -> Observed:
        """Run the command with one or several failures.

        `usual` is so without failures. `keep` is called at the end, before the cluster stops.
        """
        with self._cluster() as (cluster, recorder):
            applied = AppliedFailures(cluster, recorder, cases, timeouts_ms)
            variables = _variables(cluster)
            result = self._command.run(variables, limit_s)
            observed = applied.observed(
                result,
                usual,
                partial(self._check_reasons, cluster, variables, limit_s),
            )
            if keep is not None:
                keep(cluster)
        return observed

    def _check_reasons(
        self, cluster: Broker, variables: Mapping[str, str], limit_s: float
    ) -> Iterator[str]:
        problem = self._problem(cluster, variables, limit_s)
        if problem is not None:
            yield problem.text

    def _problem(
        self, cluster: Broker, variables: Mapping[str, str], limit_s: float
    ) -> Problem | None:
        return None if self._check is None else self._check.problem(cluster, variables, limit_s)

    @contextmanager
    def _cluster(self) -> Iterator[tuple[Broker, RequestRecorder]]:
        with self._broker.fork(self._snapshot) as cluster:
            yield cluster, recorded(cluster)


class AppliedFailures:
    """The failures of one run, in a cluster whose requests a recorder records."""

    def __init__(
        self,
        cluster: Broker,
        recorder: RequestRecorder,
        cases: Sequence[Case],
        timeouts_ms: Mapping[FollowUp, int],
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._faults = [(each, cluster.faults.add(**each.fault_fields())) for each in cases]
        self._followers = [
            Follower(cluster, recorder, case, fault, timeouts_ms) for case, fault in self._faults
        ]

    def observed(
        self,
        result: CommandResult,
        usual: Usual,
        check_reasons: Callable[[], Iterable[str]] = tuple,
    ) -> Observed:
        """End the failures, and return what the run showed.

        `usual` is so without a failure, too. `check_reasons()` yields what else is wrong.
        """
        cluster, recorder = self._cluster, self._recorder
        waiting = tuple(recorder.waiting()) if result.status is None else ()
        for each in self._followers:
            each.end()
        happened = [(case, fault) for case, fault in self._faults if fault.firings]
        exchanges = recorder.exchanges()
        moments = partial(timeline, cluster, recorder, len(exchanges))
        found = (*_new_anomalies(cluster, result, usual, exchanges), *check_reasons())
        expels = any(case.kind.follow_up is FollowUp.SESSION for case, _ in happened)
        return Observed(
            command=result,
            fired=tuple(case.kind for case, _ in happened),
            is_true=all(_is_true(cluster, case, fault) for case, fault in happened),
            anomalies=found,
            notes=() if expels else tuple(notes_of(cluster, exchanges)),
            waiting=waiting,
            timeline=() if result.is_success and not found else moments(),
        )


def recorded(cluster: Broker) -> RequestRecorder:
    """Begin to record the requests of a cluster, and their history."""
    recorder = RequestRecorder()
    cluster.start_checking()
    call(cluster, lambda broker: broker.subscribe(recorder.observe))
    return recorder


def context_of(runs: Sequence[PlainRun]) -> CaseContext:
    """Return what runs without failures show about their cluster."""
    requests = [each for run in runs for each in run.requests]

    def longest_ms(key: ApiKey, default_ms: int) -> int:
        return max(
            (each.timeout_ms for each in requests if each.api_key == key), default=default_ms
        )

    return CaseContext(
        nodes=runs[-1].nodes,
        in_sync=runs[-1].in_sync,
        modern_groups=frozenset(
            group
            for each in requests
            if each.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT
            for group in each.groups
        ),
        session_timeout_ms=longest_ms(ApiKey.JOIN_GROUP, DEFAULT_SESSION_TIMEOUT_MS),
        transaction_timeout_ms=longest_ms(ApiKey.INIT_PRODUCER_ID, DEFAULT_TRANSACTION_TIMEOUT_MS),
    )


def timeouts_ms(context: CaseContext) -> Mapping[FollowUp, int]:
    """Return the time by which each follow-up moves the clock."""
    return {
        FollowUp.SESSION: context.session_timeout_ms,
        FollowUp.TRANSACTION: context.transaction_timeout_ms,
    }


def _variables(cluster: Broker) -> dict[str, str]:
    return {
        BOOTSTRAP_VARIABLE: cluster.bootstrap_servers,
        CONTROL_VARIABLE: cluster.control_url,
    }


def _new_anomalies(
    cluster: Broker, result: CommandResult, usual: Usual, exchanges: Sequence[Exchange]
) -> Iterator[str]:
    """Yield what is wrong at the end of a run, and not without a failure."""
    lost = lost_records(cluster, exchanges, usual.record_count) if result.is_success else ()
    for rule, text in (*anomalies_of(cluster), *lost):
        is_expected = rule == HANGING and not result.is_success
        if rule not in usual.violated_rules and not is_expected:
            yield f"{rule}: {text}"


def _is_true(cluster: Broker, case: Case, fault: InjectedFault) -> bool:
    """Return whether the broker has made the error of a fault true, by its history."""
    code = case.kind.action.get("error")
    if code is None or ErrorCode[code] in MOMENTARY or ErrorCode[code] not in TRUE_ERRORS:
        return True
    cause = f"fault {fault.id} "
    return any(
        cause in f"{each.text} " for each in cluster.explain() if each.kind not in REFUSAL_KINDS
    )
