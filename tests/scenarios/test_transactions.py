"""Every request to a transaction coordinator, in every state, from every kind of producer.

The tables have the results of requests. The columns are the producers: the current one; one with
the previous epoch, which repeats a request or is a zombie; one with an older epoch; one with an
epoch that was never assigned; one with another id. In the cells, NONE is a success without a
change, a state is the one that the transaction changes to, and everything else is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.state import NO_PRODUCER, ProducerIdAndEpoch
from tests.unit.transactions.transaction_coordinator import (
    A,
    B,
    ManualTransactionCoordinator,
    error_code_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark import ParameterSet

    from kafkalite.transactions.state import Transaction

EPOCH = 5
WORDS = {
    "CT": ErrorCode.CONCURRENT_TRANSACTIONS,
    "PF": ErrorCode.PRODUCER_FENCED,
    "ID": ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    "ITS": ErrorCode.INVALID_TXN_STATE,
    "TA": ErrorCode.TRANSACTION_ABORTABLE,
}


class Cell(NamedTuple):
    """One cell of a table: the result of a request of this producer in this state."""

    state: str
    column: str
    outcome: str


def cells(table: str) -> list[ParameterSet]:
    """Parse a table: a header with columns, then a row for each state."""
    head, *rows = (line.split() for line in table.strip().splitlines())
    return [
        pytest.param(Cell(state, column, outcome), id=f"{state}-{column}")
        for state, *outcomes in rows
        for column, outcome in zip(head[1:], outcomes, strict=True)
    ]


class Stage:
    """A transactional id in a state, and a producer that sends a request."""

    def __init__(self, state: str, version: int) -> None:
        self.version = version
        self.coordinator = coordinator = ManualTransactionCoordinator(level=version)
        coordinator.seed(producer_epoch=EPOCH)
        word, _, end = state.partition("-")
        if word != "Empty":
            coordinator.add(self.present, A, version=version)
        coordinator.writes_markers = word == "Complete"
        if end:
            coordinator.end(self.present, is_commit=end == "Commit", version=version)
        assert coordinator.describe().state.label == state.replace("-", "")
        self.before = coordinator.describe()
        self.entries = len(coordinator.log.entries)
        self.markers = len(coordinator.markers) + len(coordinator.written)

    @property
    def present(self) -> ProducerIdAndEpoch:
        return self.coordinator.describe().producer

    def asked_by(self, column: str) -> ProducerIdAndEpoch | None:
        producer_id, epoch = self.present
        return {
            "absent": None,
            "present": ProducerIdAndEpoch(producer_id, epoch),
            "before": ProducerIdAndEpoch(producer_id, epoch - 1),
            "older": ProducerIdAndEpoch(producer_id, epoch - 2),
            "future": ProducerIdAndEpoch(producer_id, epoch + 1),
            "other": ProducerIdAndEpoch(producer_id + 1, epoch),
        }[column]

    def is_refused(self, cell: Cell, ask: Callable[[], object]) -> bool:
        """Send a request; if the cell is an error, it must change nothing."""
        refused = error_code_of(ask)
        expected = WORDS.get(cell.outcome, ErrorCode.NONE)
        assert refused is expected, cell
        if refused is not ErrorCode.NONE or cell.outcome == "NONE":
            assert self.coordinator.describe() == self.before
            assert len(self.coordinator.log.entries) == self.entries
            assert len(self.coordinator.markers) + len(self.coordinator.written) == self.markers
        return refused is not ErrorCode.NONE or cell.outcome == "NONE"


def ends(stage: Stage, cell: Cell, *, is_commit: bool) -> None:
    """Request an end, and check the result with pending and then with written markers."""
    coordinator = stage.coordinator
    coordinator.writes_markers = False
    answers: list[ProducerIdAndEpoch] = []
    producer = stage.asked_by(cell.column)
    assert producer is not None
    if stage.is_refused(
        cell,
        lambda: answers.append(
            coordinator.end(producer, is_commit=is_commit, version=stage.version)
        ),
    ):
        unchanged = NO_PRODUCER if stage.version < 2 else stage.before.producer
        assert answers == ([unchanged] if cell.outcome == "NONE" else [])
        return
    prepared = coordinator.describe()
    assert prepared.state.label == cell.outcome
    bumped = stage.before.producer_epoch + (1 if stage.version == 2 else 0)
    assert prepared.producer_epoch == bumped
    assert prepared.partitions == stage.before.partitions
    (markers,) = coordinator.markers
    assert markers.producer_epoch == bumped
    assert markers.is_commit is is_commit
    assert markers.transaction_version == stage.version
    assert markers.partitions == tuple(sorted(stage.before.partitions))
    coordinator.write_markers()
    over = coordinator.describe()
    assert over.state.label == prepared.state.label.replace("Prepare", "Complete")
    assert over.partitions == frozenset()
    assert over.producer_epoch == bumped
    assert over.start_timestamp_ms != -1
    assert answers == [NO_PRODUCER if stage.version < 2 else over.producer]


COMMIT_BEFORE_2 = """
state            present        before  older  future  other
Empty            ITS            PF      PF     PF      ID
Ongoing          PrepareCommit  PF      PF     PF      ID
Prepare-Commit   CT             PF      PF     PF      ID
Prepare-Abort    CT             PF      PF     PF      ID
Complete-Commit  NONE           PF      PF     PF      ID
Complete-Abort   ITS            PF      PF     PF      ID
"""

ABORT_BEFORE_2 = """
state            present        before  older  future  other
Empty            ITS            PF      PF     PF      ID
Ongoing          PrepareAbort   PF      PF     PF      ID
Prepare-Commit   CT             PF      PF     PF      ID
Prepare-Abort    CT             PF      PF     PF      ID
Complete-Commit  ITS            PF      PF     PF      ID
Complete-Abort   NONE           PF      PF     PF      ID
"""

COMMIT_SINCE_2 = """
state            present        before  older  future  other
Empty            ITS            PF      PF     PF      ID
Ongoing          PrepareCommit  PF      PF     PF      ID
Prepare-Commit   CT             CT      CT     CT      CT
Prepare-Abort    CT             CT      CT     CT      CT
Complete-Commit  ITS            NONE    PF     PF      ID
Complete-Abort   ITS            ITS     PF     PF      ID
"""

ABORT_SINCE_2 = """
state            present        before  older  future  other
Empty            PrepareAbort   PF      PF     PF      ID
Ongoing          PrepareAbort   PF      PF     PF      ID
Prepare-Commit   CT             CT      CT     CT      CT
Prepare-Abort    CT             CT      CT     CT      CT
Complete-Commit  PrepareAbort   ITS     PF     PF      ID
Complete-Abort   PrepareAbort   NONE    PF     PF      ID
"""


@pytest.mark.parametrize("cell", cells(COMMIT_BEFORE_2))
def test_commit_before_version_2_has_the_outcome_of_the_table(cell: Cell) -> None:
    ends(Stage(cell.state, 0), cell, is_commit=True)


@pytest.mark.parametrize("cell", cells(ABORT_BEFORE_2))
def test_abort_before_version_2_has_the_outcome_of_the_table(cell: Cell) -> None:
    ends(Stage(cell.state, 0), cell, is_commit=False)


@pytest.mark.parametrize("cell", cells(COMMIT_SINCE_2))
def test_commit_since_version_2_has_the_outcome_of_the_table(cell: Cell) -> None:
    ends(Stage(cell.state, 2), cell, is_commit=True)


@pytest.mark.parametrize("cell", cells(ABORT_SINCE_2))
def test_abort_since_version_2_has_the_outcome_of_the_table(cell: Cell) -> None:
    ends(Stage(cell.state, 2), cell, is_commit=False)


ADD = """
state            present  before  older  future  other
Empty            Ongoing  PF      PF     PF      ID
Ongoing          Ongoing  PF      PF     PF      ID
Prepare-Commit   CT       CT      CT     CT      CT
Prepare-Abort    CT       CT      CT     CT      CT
Complete-Commit  Ongoing  PF      PF     PF      ID
Complete-Abort   Ongoing  PF      PF     PF      ID
"""


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("cell", cells(ADD))
def test_add_partitions_has_the_outcome_of_the_table(cell: Cell, version: int) -> None:
    stage = Stage(cell.state, version)
    producer = stage.asked_by(cell.column)
    assert producer is not None
    stage.coordinator.clock.advance(1_000)
    if stage.is_refused(cell, lambda: stage.coordinator.add(producer, B, version=version)):
        return
    now = stage.coordinator.describe()
    assert now.state.label == "Ongoing"
    assert now.partitions == stage.before.partitions | {B}
    assert now.producer == stage.before.producer
    assert now.client_transaction_version == version
    assert now.last_update_timestamp_ms == stage.coordinator.clock.now_ms()
    begun = stage.before if cell.state == "Ongoing" else now
    assert now.start_timestamp_ms == begun.start_timestamp_ms
    assert begun.start_timestamp_ms == begun.last_update_timestamp_ms


def test_partitions_that_were_added_before_change_nothing() -> None:
    stage = Stage("Ongoing", 2)
    stage.is_refused(
        Cell("Ongoing", "present", "NONE"), lambda: stage.coordinator.add(stage.present, A)
    )


def test_a_log_of_the_older_format_does_not_support_version_2() -> None:
    coordinator = ManualTransactionCoordinator(level=0)
    producer = coordinator.init()
    assert (
        error_code_of(lambda: coordinator.add(producer, A, version=2))
        is ErrorCode.UNSUPPORTED_VERSION
    )
    assert coordinator.describe().state.label == "Empty"
    aborted = error_code_of(lambda: coordinator.end(producer, is_commit=False))
    assert aborted is ErrorCode.UNSUPPORTED_VERSION
    coordinator.add(producer, A, version=0)
    assert error_code_of(lambda: coordinator.end(producer)) is ErrorCode.UNSUPPORTED_VERSION
    assert coordinator.describe().state.label == "Ongoing"
    assert not coordinator.written
    # The same request succeeds after the cluster's feature level has changed.
    coordinator.set_level(1)
    coordinator.end(producer)
    assert coordinator.describe().producer == producer._replace(producer_epoch=1)


VERIFY_ITS_OWN = """
state            present  before  older  future  other
Empty            TA       PF      PF     PF      ID
Ongoing          NONE     PF      PF     PF      ID
Prepare-Commit   CT       PF      PF     PF      ID
Prepare-Abort    CT       PF      PF     PF      ID
Complete-Commit  TA       PF      PF     PF      ID
Complete-Abort   TA       PF      PF     PF      ID
"""


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("cell", cells(VERIFY_ITS_OWN))
def test_verification_of_an_added_partition_has_the_outcome_of_the_table(
    cell: Cell, version: int
) -> None:
    stage = Stage(cell.state, version)
    producer = stage.asked_by(cell.column)
    assert producer is not None
    codes: list[ErrorCode] = []
    refused = error_code_of(lambda: codes.extend(stage.coordinator.verify(producer, A)))
    expected = WORDS.get(cell.outcome, ErrorCode.NONE)
    assert (codes or [refused]) == [expected]
    assert bool(codes) is (cell.outcome in {"TA", "NONE"})
    assert stage.coordinator.describe() == stage.before


INIT = """
state            absent  present  before  older  future  other
Empty            Empty   Empty    PF      PF     PF      PF
Ongoing          fenced  fenced   fenced  fenced fenced  PF
Prepare-Commit   CT      CT       CT      CT     CT      CT
Prepare-Abort    CT      CT       CT      CT     CT      CT
Complete-Commit  Empty   Empty    PF      PF     PF      PF
Complete-Abort   Empty   Empty    PF      PF     PF      PF
"""
"""Before version 2. Since then the previous epoch is accepted after an end, and may be retried."""

INIT_SINCE_2 = """
state            absent  present  before  older  future  other
Empty            Empty   Empty    PF      PF     PF      PF
Ongoing          fenced  fenced   fenced  fenced fenced  PF
Prepare-Commit   CT      CT       CT      CT     CT      CT
Prepare-Abort    CT      CT       CT      CT     CT      CT
Complete-Commit  Empty   Empty    again   PF     PF      PF
Complete-Abort   Empty   Empty    again   PF     PF      PF
"""


def begins(stage: Stage, cell: Cell) -> None:
    """Request a producer id, with a changed timeout."""
    coordinator = stage.coordinator
    coordinator.writes_markers = False
    coordinator.clock.advance(1_000)
    expected = stage.asked_by(cell.column)
    if cell.outcome == "fenced":
        assert (
            error_code_of(lambda: coordinator.init(expected)) is ErrorCode.CONCURRENT_TRANSACTIONS
        )
        fenced = coordinator.describe()
        assert fenced.state.label == "PrepareAbort"
        assert fenced.producer_epoch == stage.before.producer_epoch + 1
        (markers,) = coordinator.markers
        assert (markers.producer_epoch, markers.is_commit) == (fenced.producer_epoch, False)
        assert markers.transaction_version == stage.version
        coordinator.write_markers()
        assert coordinator.init().producer_epoch == stage.before.producer_epoch + 2
        return
    answers: list[ProducerIdAndEpoch] = []
    if stage.is_refused(cell, lambda: answers.append(coordinator.init(expected, timeout_ms=77))):
        return
    now = coordinator.describe()
    bump = 0 if cell.outcome == "again" else 1
    assert answers == [now.producer]
    assert now.producer_epoch == stage.before.producer_epoch + bump
    assert now.state.label == "Empty"
    assert (now.timeout_ms, now.start_timestamp_ms, now.partitions) == (77, -1, frozenset())
    assert now.last_update_timestamp_ms == coordinator.clock.now_ms()
    assert not coordinator.markers
    assert len(coordinator.log.entries) == stage.entries + 1


@pytest.mark.parametrize("cell", cells(INIT))
def test_init_producer_id_before_version_2_has_the_outcome_of_the_table(cell: Cell) -> None:
    begins(Stage(cell.state, 0), cell)


@pytest.mark.parametrize("cell", cells(INIT_SINCE_2))
def test_init_producer_id_since_version_2_has_the_outcome_of_the_table(cell: Cell) -> None:
    begins(Stage(cell.state, 2), cell)


def requests_for(
    coordinator: ManualTransactionCoordinator, name: str
) -> dict[str, Callable[[], object]]:
    absent = ProducerIdAndEpoch(1, 0)
    return {
        "add": lambda: coordinator.add(absent, A, transactional_id=name),
        "verify": lambda: coordinator.machine.verify_partitions(name, absent, [A]),
        "end": lambda: coordinator.end(absent, transactional_id=name),
        "end-before-2": lambda: coordinator.end(absent, version=0, transactional_id=name),
        "describe": lambda: coordinator.describe(name),
    }


@pytest.mark.parametrize("request_", ["add", "verify", "end", "end-before-2", "describe"])
def test_an_unknown_id(request_: str) -> None:
    coordinator = ManualTransactionCoordinator()
    expected = (
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if request_ == "describe"
        else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert error_code_of(requests_for(coordinator, "absent")[request_]) is expected
    assert error_code_of(requests_for(coordinator, "")[request_]) is ErrorCode.INVALID_REQUEST
    assert not coordinator.log.entries


@pytest.mark.parametrize(
    ("parameters", "refused"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": -1}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 1}, ErrorCode.NONE),
        ({"timeout_ms": 5_000}, ErrorCode.NONE),
        ({"timeout_ms": 5_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "", "timeout_ms": 0}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_parameters_of_a_producer_are_validated(
    parameters: dict[str, object], refused: ErrorCode
) -> None:
    coordinator = ManualTransactionCoordinator({"transaction.max.timeout.ms": "5000"})
    arguments: dict[str, object] = {"timeout_ms": 1_000, **parameters}
    assert error_code_of(lambda: coordinator.init(**arguments)) is refused  # type: ignore[arg-type]
    assert bool(coordinator.log.entries) is (refused is ErrorCode.NONE)
    assert next(coordinator.producer_ids) == 4_000 + len(coordinator.log.entries), (
        "an id was drawn and not used"
    )


def described(transaction: Transaction) -> tuple[str, int, int, int, int, list[tuple[str, int]]]:
    return (
        transaction.state.label,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.start_timestamp_ms,
        sorted(transaction.partitions),
    )


def test_transactions_are_described_and_listed_in_each_state() -> None:
    coordinator = ManualTransactionCoordinator(writes_markers=False)
    start_ms = coordinator.clock.now_ms()
    producer = coordinator.init()
    assert described(coordinator.describe()) == ("Empty", 4_000, 0, 60_000, -1, [])
    coordinator.add(producer, B)
    coordinator.add(producer, A)
    assert described(coordinator.describe()) == ("Ongoing", 4_000, 0, 60_000, start_ms, [A, B])
    coordinator.end(producer)
    assert described(coordinator.describe()) == (
        "PrepareCommit",
        4_000,
        1,
        60_000,
        start_ms,
        [A, B],
    )
    coordinator.clock.advance(10)
    coordinator.write_markers()
    assert described(coordinator.describe()) == ("CompleteCommit", 4_000, 1, 60_000, start_ms, [])
    coordinator.init(transactional_id="y")
    assert [each.transactional_id for each in coordinator.machine.transactions()] == ["x", "y"]
