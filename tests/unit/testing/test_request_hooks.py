"""Hooks in a test: errors of a function reach the test, and never the clients."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.gateway.request_hooks import HookedRequest


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as running:
        yield running


def metadata(broker: Broker) -> Any:  # noqa: ANN401 - a response class of its version
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        return client.call(MetadataRequest(topics=None), 9)


def test_a_hook_hides_a_topic_until_it_is_removed(broker: Broker) -> None:
    with broker.on_request(lambda request: request.answer({"topics": []}), "Metadata") as hook:
        assert metadata(broker).topics == []
        assert hook.calls == 1
        assert repr(hook) == "<hook for Metadata: 1 requests>"
    assert [each.name for each in metadata(broker).topics] == ["orders"]
    with pytest.raises(ValueError, match="'Metdata' is not an API of Kafka"):
        broker.on_request(lambda _: None, "Metdata")


def test_a_reset_removes_faults_and_no_hooks(broker: Broker) -> None:
    with broker.on_request(lambda _: None, "Metadata") as hook:
        broker.faults.add(api="Metadata", delay_ms=1)
        broker.reset()
        assert broker.faults.list() == []
        metadata(broker)
        assert hook.calls == 1


def test_held_requests_are_released_by_the_test(broker: Broker) -> None:
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        hook = broker.on_request(lambda request: request.hold(), "ListGroups")
        client.send(ListGroupsRequest(), 4)
        while not hook.held:
            metadata(broker)
        with pytest.raises(ValueError, match="count must be a whole number from 1, not -1"):
            hook.release(-1)
        hook.release()
        assert client.receive().error_code == ErrorCode.NONE
        hook.remove()
        assert (hook.held, hook.calls) == (0, 1)


def test_an_error_of_the_function_is_raised_when_the_hook_is_removed(broker: Broker) -> None:
    def expect_no_topic(request: HookedRequest) -> None:
        assert request.fields["topics"] is not None, "a client asked for all topics"

    hook = broker.on_request(expect_no_topic)
    for _ in range(2):
        assert metadata(broker).topics
    with pytest.raises(AssertionError, match="a client asked for all topics") as raised:
        hook.remove()
    assert raised.value.__notes__ == ["The callback of on_request failed 2 times."]
    hook.remove()


def test_a_call_of_the_broker_from_its_own_thread_is_refused(broker: Broker) -> None:
    def list_topics(_: HookedRequest) -> None:
        broker.topics()

    with (
        pytest.raises(RuntimeError, match="a call from the broker's own thread would wait forever"),
        broker.on_request(list_topics),
    ):
        metadata(broker)


def run_with_a_failing_hook(error: Exception | None = None) -> None:
    with Broker() as broker:
        broker.on_request(lambda _: 1 // 0)  # type: ignore[arg-type,return-value]
        metadata(broker)
        if error is not None:
            raise error


def test_an_error_that_no_one_has_raised_fails_the_block_of_the_broker() -> None:
    with pytest.raises(ZeroDivisionError):
        run_with_a_failing_hook()
    with pytest.raises(LookupError):
        run_with_a_failing_hook(LookupError())
