"""InitProducerId: ids of idempotent and of transactional producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.transactions.producer_ids import APIS
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.transactions.state import ProducerIdAndEpoch
from tests.cluster.transactions import TransactionCluster
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

(API,) = APIS


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)


def test_every_producer_gets_its_own_id(plane: DataPlane) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    answers = [plane.ask(API, request, node_id=node) for node in (0, 0, 1, 0, 0, 1)]
    ids = [answer.producer_id for answer in answers]
    assert ids == [0, 1, 3, 2, 6, 4]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert plane.metadata.blocks == [0, 1, 0]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TransactionCluster]:
    wire = TransactionCluster(tmp_path)
    yield wire
    wire.end()


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, ErrorCode.PRODUCER_FENCED),
        (5, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_a_fenced_producer_cannot_continue(
    wire: TransactionCluster, version: int, code: ErrorCode
) -> None:
    zombie = wire.new_producer()
    wire.new_producer()
    answer = wire.init(zombie, version=version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
    (event,) = wire.events()
    assert (event.kind, event.facts["api"]) == ("fenced", "InitProducerId")


def test_initializations_are_recorded_in_the_history(wire: TransactionCluster) -> None:
    first, second = wire.new_producer(), wire.new_producer()
    kind = Entity.TRANSACTIONAL_ID
    entries = wire.cluster.history.about("t", of=kind)
    assert [entry.kind for entry in entries] == ["initialized"] * 2
    assert [entry.facts["epoch"] for entry in entries] == [
        first.producer_epoch, second.producer_epoch,
    ]  # fmt: skip
    begins = "begins at epoch {0.producer_epoch}, for client client at 127.0.0.1"
    fenced = "; the previous producer of the id is fenced"
    assert [entry.text for entry in entries] == [
        f"producer {first.producer_id} {begins.format(first)}",
        f"producer {second.producer_id} {begins.format(second)}{fenced}",
    ]


def test_a_continuing_producer_is_not_recorded_as_fencing_another(
    wire: TransactionCluster,
) -> None:
    again = wire.init(wire.new_producer())
    (*_, last) = wire.cluster.history.about("t", of=Entity.TRANSACTIONAL_ID)
    assert last.text == (
        f"producer {again.producer_id} continues at epoch {again.producer_epoch}, "
        "for client client at 127.0.0.1"
    )


def test_an_open_transaction_of_the_previous_producer_is_aborted_first(
    wire: TransactionCluster,
) -> None:
    zombie = wire.new_producer()
    wire.add(zombie, ("orders", 0))
    answer = wire.init()
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert wire.state() == "CompleteAbort"
    assert wire.markers() == [
        (ProducerIdAndEpoch(zombie.producer_id, zombie.producer_epoch + 1), False),
    ]
    assert wire.new_producer().producer_epoch > zombie.producer_epoch + 1
    assert "fenced" in {entry.kind for entry in wire.events()}


def test_an_invalid_request_is_refused_by_every_node(tmp_path: Path) -> None:
    """Also before there is a coordinator."""
    wire = TransactionCluster(tmp_path, finds=False)
    assert TRANSACTION_STATE_TOPIC not in wire.cluster.metadata.image.topics
    assert wire.init(transactional_id="").error_code == ErrorCode.INVALID_REQUEST
    assert wire.init(timeout_ms=0).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert wire.init().error_code == ErrorCode.NOT_COORDINATOR
    wire.end()


@pytest.mark.parametrize(
    ("enable", "keep", "code"),
    [
        (True, True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (False, True, ErrorCode.UNSUPPORTED_VERSION),
        (False, False, ErrorCode.NONE),
    ],
)
def test_version_6_supports_two_phase_commit(
    tmp_path: Path, *, enable: bool, keep: bool, code: ErrorCode
) -> None:
    wire = TransactionCluster(tmp_path, config={"unstable.api.versions.enable": "true"})
    request = InitProducerIdRequest(
        transactional_id="t",
        transaction_timeout_ms=60_000,
        enable2_pc=enable,
        keep_prepared_txn=keep,
    )
    answer = wire.ask(request, 6)
    assert answer.error_code == code
    assert answer.ongoing_txn_producer_id == answer.ongoing_txn_producer_epoch == -1
    wire.end()


def test_version_6_is_unknown_unless_unstable_versions_are_enabled(
    wire: TransactionCluster,
) -> None:
    with pytest.raises(ProtocolViolation, match="v6 is not served"):
        wire.init(version=6)


def test_a_restart_forgets_no_producer(wire: TransactionCluster) -> None:
    before = wire.new_producer()
    wire.restart()
    after = wire.new_producer()
    assert after == ProducerIdAndEpoch(before.producer_id, before.producer_epoch + 1)
    wire.find("other")
    assert wire.new_producer(transactional_id="other").producer_id != before.producer_id
