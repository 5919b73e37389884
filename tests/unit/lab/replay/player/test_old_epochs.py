"""A recorded request with an old epoch has an old epoch at a target that bumps epochs earlier."""

# ruff: noqa: S311 - schedules must be reproducible
from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.capture.reading.captures import exchanges, ignore, read
from kafkalite.capture.reading.messages import parse_request, parse_response
from kafkalite.lab.replay.player.requests import OutgoingRequests
from kafkalite.lab.replay.player.response_checks import ResponseChecker
from kafkalite.lab.replay.report import ReplayReport
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.lab.replay.capture_builder import exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.model import Exchange

RECORDING = Path(__file__).parents[4] / "captures/kafka-4.4.0/member-lives.pcapng.gz"
_HEARTBEAT, _COMMIT = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT


class Replayed:
    """Translates requests, and receives the responses of a target."""

    def __init__(self) -> None:
        mapping = IdMapping()
        self._outgoing = OutgoingRequests(mapping, 0)
        self._checker = ResponseChecker(ReplayReport(), mapping, ())

    def send(self, recorded: Exchange) -> Any:  # noqa: ANN401 - any request
        """Return the request as the target receives it."""
        frame = self._outgoing.frame(recorded)
        parse = codec.request_parser(recorded.api_key, recorded.api_version)
        return parse(frame, recorded.request_start, len(frame))[0]

    def receive(self, recorded: Exchange, epoch: int) -> None:
        """Receive the recorded response with another epoch."""
        response: Any = parse_response(recorded)
        response.member_epoch = epoch
        out: list[bytes | memoryview] = []
        codec.response_builder(recorded.api_key, recorded.api_version)(response, out)
        assert recorded.response is not None
        head = recorded.response[: recorded.response_start]
        self._checker.compare(recorded, head + b"".join(out))


def heartbeat(member: str, sent: int, received: int) -> Exchange:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=sent)
    response = ConsumerGroupHeartbeatResponse(member_id=member, member_epoch=received)
    return exchange(request, response, 1)


def commit(group: str, member: str, epoch: int, error: ErrorCode = ErrorCode.NONE) -> Exchange:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    answer = OffsetCommitResponse.OffsetCommitResponsePartition(error_code=error)
    answers = OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[answer])
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=[topic]
    )
    return exchange(request, OffsetCommitResponse(topics=[answers]), 9)


def bumped_earlier(epochs: Sequence[int]) -> list[int]:
    """Return each epoch as of the next heartbeat."""
    return [*epochs[1:], epochs[-1]]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_target_earlier", [True, False])
def test_zombies_of_a_schedule_stay_zombies(seed: int, *, is_target_earlier: bool) -> None:
    random = Random(seed)
    replayed = Replayed()
    recorded: dict[str, list[int]] = {}
    target: dict[str, list[int]] = {}
    for member in "abc":
        epochs = [1]
        while len(epochs) < 12:
            epochs.append(epochs[-1] + random.choice([0, 0, 1, 2]))
        later, earlier = [1, *epochs[:-1]], bumped_earlier(epochs)
        recorded[member] = epochs
        target[member] = earlier if is_target_earlier else later
    for number in range(12):
        for member in random.sample("abc", 3):
            epochs, target_epochs = recorded[member], target[member]
            seen = epochs[number - 1] if number else 0
            replayed.receive(heartbeat(member, seen, epochs[number]), target_epochs[number])
            live = replayed.send(commit("g", member, epochs[number]))
            assert live.generation_id_or_member_epoch == target_epochs[number]
            old = [each for each in epochs[:number] if each < epochs[number]]
            lowest = min(target_epochs[: number + 1])
            if old and lowest < target_epochs[number]:
                error = random.choice([ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH])
                zombie = replayed.send(commit("g", member, random.choice(old), error))
                assert zombie.generation_id_or_member_epoch < target_epochs[number]


def test_recorded_members_that_miss_an_epoch_stay_zombies() -> None:
    """The target bumps each epoch of a recording one heartbeat earlier."""
    heartbeats: dict[tuple[str, str], list[tuple[Exchange, int]]] = defaultdict(list)
    for each in exchanges(read([RECORDING], ignore)):
        if each.api_key == _HEARTBEAT and each.response is not None:
            response: Any = parse_response(each)
            if not response.error_code and response.member_epoch > 0:
                group: str = parse_request(each).group_id
                heartbeats[group, response.member_id].append((each, response.member_epoch))
    replayed = Replayed()
    zombie_count = 0
    for (group, member), responses in heartbeats.items():
        epochs = [epoch for _, epoch in responses]
        target_epochs = bumped_earlier(epochs)
        for number, (recorded, epoch) in enumerate(responses):
            replayed.receive(recorded, target_epochs[number])
            live = replayed.send(commit(group, member, epoch))
            assert live.generation_id_or_member_epoch == target_epochs[number]
            previous = [each for each in epochs[:number] if each < epoch]
            if previous and min(target_epochs) < target_epochs[number]:
                zombie = replayed.send(
                    commit(group, member, max(previous), ErrorCode.STALE_MEMBER_EPOCH)
                )
                assert zombie.generation_id_or_member_epoch < target_epochs[number]
                zombie_count += 1
    assert zombie_count > 5
