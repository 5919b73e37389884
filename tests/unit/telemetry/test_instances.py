"""Client instances: the rules about the time, the order and the content of their requests."""

from __future__ import annotations

import pytest

from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ONE_UUID, ZERO_UUID, uuid_to_text
from kafkalite.telemetry import instances as module
from kafkalite.telemetry.instances import ClientAttributes, Instances, Push, check_instance_id

MINUTE_MS = 60_000
START_MS = 1_000_000_000
ID, OTHER = bytes([1]) * 16, bytes([2]) * 16


class NodeInstances:
    """The instances of a node whose subscriptions have an interval of 20 seconds."""

    def __init__(self) -> None:
        self.instances = Instances(1_000, SeededEntropy().uuid)
        self.now_ms = START_MS
        self.connection = "first"
        self.subscribe("20000")

    def subscribe(self, interval_ms: str) -> None:
        resource = ConfigResource(ResourceType.CLIENT_METRICS, "s")
        self.instances.update_subscriptions({resource: {"interval.ms": interval_ms}})

    def get(self, instance: bytes = ID) -> int | ErrorCode:
        """Return the id of the subscription, or the error."""
        try:
            return self.instances.get_subscription(
                self._client(instance), instance, self.connection, self.now_ms
            ).id
        except KafkaError as error:
            return error.code

    def push(
        self,
        subscription: int | ErrorCode,
        instance: bytes = ID,
        *,
        is_terminating: bool = False,
        compression: int = 0,
        size: int = 0,
    ) -> ErrorCode:
        push = Push(instance, subscription, is_terminating, compression, size)
        try:
            self.instances.admit_push(push, self._client(instance), self.connection, self.now_ms)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    @staticmethod
    def _client(instance: bytes) -> ClientAttributes:
        return ClientAttributes(uuid_to_text(instance), "c", "java", "4", "127.0.0.1", "1")


def test_a_subscription_is_requested_once_per_interval() -> None:
    instances = NodeInstances()
    subscription = instances.get()
    assert instances.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    instances.now_ms += 19_999
    assert instances.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    instances.now_ms += 1
    assert instances.get() == subscription


def test_metrics_are_pushed_after_the_subscription_and_then_once_per_interval() -> None:
    instances = NodeInstances()
    subscription = instances.get()
    assert instances.push(subscription) is ErrorCode.NONE
    assert instances.push(subscription) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert instances.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    instances.now_ms += 20_000
    assert instances.push(subscription) is ErrorCode.NONE


def test_a_terminating_push_is_accepted_early_and_is_the_last() -> None:
    instances = NodeInstances()
    subscription = instances.get()
    instances.push(subscription)
    assert instances.push(subscription, is_terminating=True) is ErrorCode.NONE
    assert instances.push(subscription, is_terminating=True) is ErrorCode.INVALID_REQUEST
    assert instances.push(subscription) is ErrorCode.INVALID_REQUEST
    # As in Kafka, the refused push was not terminating, so that the instance no longer is.
    assert instances.push(subscription) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        ({"subscription": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": 1_001}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_a_client_may_correct_some_errors_at_once(refused: dict[str, int], code: ErrorCode) -> None:
    instances = NodeInstances()
    arguments = {"subscription": instances.get(), **refused}
    assert instances.push(**arguments) is code  # type: ignore[arg-type]  # options by name
    instances.now_ms += 1
    is_corrected_at_once = code is not ErrorCode.TELEMETRY_TOO_LARGE
    assert isinstance(instances.get(), ErrorCode) is not is_corrected_at_once


def test_the_largest_push_is_accepted() -> None:
    instances = NodeInstances()
    assert instances.push(instances.get(), size=1_000) is ErrorCode.NONE


def test_a_change_of_the_subscriptions_starts_the_instance_again() -> None:
    instances = NodeInstances()
    before = instances.get()
    instances.push(before, is_terminating=True)
    instances.subscribe("30000")
    after = instances.get()
    assert after != before
    assert instances.push(after) is ErrorCode.NONE
    instances.subscribe("40000")
    assert instances.push(after) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert isinstance(instances.get(), int)
    # As in Kafka, the refused push counts for the interval.
    assert instances.push(after) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_settings_with_the_same_values_are_no_change() -> None:
    instances = NodeInstances()
    instances.get()
    instances.subscribe("20000")
    assert instances.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_an_instance_ends_with_the_connection_that_created_it() -> None:
    instances = NodeInstances()
    instances.get()
    instances.connection = "second"
    assert instances.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    instances.instances.close_connection("second")
    assert instances.get() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    instances.instances.close_connection("first")
    assert len(instances.instances) == 0
    assert isinstance(instances.get(), int)


def test_an_instance_is_forgotten_after_three_intervals() -> None:
    """The error of its last request shows whether it is known."""
    for passed_ms, is_known in ((59_999, True), (MINUTE_MS, False)):
        instances = NodeInstances()
        subscription = instances.get()
        instances.push(subscription, is_terminating=True)
        instances.now_ms += passed_ms
        code = instances.push(subscription)
        assert code is (ErrorCode.INVALID_REQUEST if is_known else ErrorCode.NONE)


def test_an_expired_instance_no_longer_belongs_to_its_connection() -> None:
    instances = NodeInstances()
    instances.get()
    instances.now_ms += MINUTE_MS
    instances.connection = "second"
    instances.get()
    instances.instances.close_connection("first")
    assert len(instances.instances) == 1


def test_the_instance_that_was_used_least_recently_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_INSTANCES", 3)
    instances = NodeInstances()
    ids = [bytes([number]) * 16 for number in range(1, 5)]
    for each in ids[:3]:
        instances.get(each)
    instances.get(ids[0])
    instances.get(ids[3])
    assert len(instances.instances) == 3
    assert isinstance(instances.get(ids[0]), ErrorCode)
    assert isinstance(instances.get(ids[1]), int)


def test_thousands_of_instances_are_remembered_up_to_the_limit() -> None:
    instances = NodeInstances()
    for number in range(module.MAX_INSTANCES + 1_000):
        instances.connection = str(number)
        instances.get(number.to_bytes(16, "big"))
    assert len(instances.instances) == module.MAX_INSTANCES


def test_a_request_without_an_id_gets_a_new_one() -> None:
    instances = NodeInstances()
    first, second = (instances.instances.id_of(ZERO_UUID) for _ in range(2))
    assert ZERO_UUID not in {first, second}
    assert first != second
    assert instances.instances.id_of(ID) == ID
    assert instances.instances.id_of(ONE_UUID) == ONE_UUID


@pytest.mark.parametrize("reserved", [ZERO_UUID, ONE_UUID])
def test_a_reserved_id_is_no_instance(reserved: bytes) -> None:
    with pytest.raises(KafkaError) as refusal:
        check_instance_id(reserved)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    check_instance_id(OTHER)


def test_many_subscriptions_take_long() -> None:
    instances = Instances(1_000, lambda: bytes(16))
    few, many = (
        {
            ConfigResource(ResourceType.CLIENT_METRICS, f"{number}"): {"metrics": "a."}
            for number in range(count)
        }
        for count in (1, 100)
    )
    assert not instances.has_many_subscriptions(few)
    assert instances.has_many_subscriptions(many)
    instances.update_subscriptions(many)
    assert instances.has_many_subscriptions(many)
    instances.update_subscriptions(few)
    assert not instances.has_many_subscriptions(few)


def test_settings_that_another_request_used_during_a_pause_remain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instances = Instances(1_000, lambda: bytes(16))
    resource = ConfigResource(ResourceType.CLIENT_METRICS, "one")
    earlier, later = {resource: {"metrics": "a."}}, {resource: {"metrics": "b."}}

    def pause() -> None:
        monkeypatch.undo()
        instances.update_subscriptions(later)

    monkeypatch.setattr("kafkalite.telemetry.subscriptions.pause", pause)
    instances.update_subscriptions(earlier)
    client = ClientAttributes("id", "c", "java", "4", "10.0.0.1", None)
    subscription = instances.get_subscription(client, bytes(15) + b"x", None, 1_000_000)
    assert subscription.metrics == ["b."]
