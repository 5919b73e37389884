"""InitProducerId: one id each, for idempotent producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.producer_ids import APIS, refuse_init_producer_id
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path

(API,) = APIS


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)


def test_every_producer_gets_an_id_of_its_own(plane: DataPlane) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    answers = [plane.ask(API, request, node_id=node) for node in (0, 0, 1, 0, 0, 1)]
    ids = [answer.producer_id for answer in answers]
    assert ids == [0, 1, 3, 2, 6, 4]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert plane.metadata.blocks == [0, 1, 0]


def test_an_epoch_that_ran_out_is_answered_with_a_fresh_id(plane: DataPlane) -> None:
    request = InitProducerIdRequest(transactional_id=None, producer_id=7, producer_epoch=32767)
    answer = plane.ask(API, request)
    assert (answer.producer_id, answer.producer_epoch) == (0, 0)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (
            InitProducerIdRequest(transactional_id="tx"),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (InitProducerIdRequest(transactional_id=""), ErrorCode.INVALID_REQUEST),
        (
            InitProducerIdRequest(transactional_id=None, producer_id=4, producer_epoch=-1),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=4),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_what_cannot_be_given_is_refused(
    plane: DataPlane, request_: InitProducerIdRequest, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        plane.ask(API, request_)
    assert caught.value.code == code
    answer = refuse_init_producer_id(request_, caught.value.code, None)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
