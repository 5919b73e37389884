"""The requests that clients sent to a broker, asserted from the test's own thread."""

from __future__ import annotations

import json
from http.client import HTTPConnection

import pytest

from kafkalite.control.command_table import JSON_LINES
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient


def test_requests_are_expected_and_listed() -> None:
    with Broker(request_log=10) as broker:
        client = RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))
        client.call(FindCoordinatorRequest(coordinator_keys=["shop"]), 4)
        for _ in range(2):
            client.call(MetadataRequest(topics=[]), 9)
        (found,) = broker.requests.expect(
            "FindCoordinator", group="shop", fields={"keyType": 0}, times=1
        )
        assert found.request["coordinatorKeys"] == ["shop"]
        assert broker.requests.wait("Metadata").number == 2
        assert [each.api for each in broker.requests.list()] == [
            "FindCoordinator", "Metadata", "Metadata",
        ]  # fmt: skip
        assert [each.number for each in broker.requests.list("Metadata", since=2)] == [3]
        broker.requests.expect("Produce", never=True)
        with pytest.raises(AssertionError, match=r"expected no Metadata request; 2 of 3 logged"):
            broker.requests.expect("Metadata", never=True)
        with pytest.raises(AssertionError, match=r"near: .* Metadata v9"):
            broker.requests.wait("Metadata", group="shop", timeout=0)
        with pytest.raises(ValueError, match="similar names are Metadata"):
            broker.requests.list("Metdata")
        broker.requests.clear()
        assert broker.requests.list() == ()
        client.close()


def test_requests_are_lines_of_json_for_a_client_that_accepts_them() -> None:
    with Broker(request_log=10, control=True) as broker:
        client = RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))
        for _ in range(2):
            client.call(MetadataRequest(topics=[]), 9)
        client.close()
        control = HTTPConnection(broker.control_url.removeprefix("http://"))
        control.request("GET", "/v1/requests?api=Metadata", headers={"Accept": JSON_LINES})
        answer = control.getresponse()
        assert answer.headers["content-type"] == JSON_LINES
        lines = answer.read().splitlines()
        control.close()
    assert [(json.loads(line)["number"], json.loads(line)["api"]) for line in lines] == [
        (1, "Metadata"), (2, "Metadata"),
    ]  # fmt: skip


def test_requests_are_logged_from_the_first_use_until_the_stop() -> None:
    with Broker() as broker:
        client = RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))
        client.call(MetadataRequest(topics=[]), 9)
        broker.requests.start()
        client.call(MetadataRequest(topics=[]), 9)
        assert [each.number for each in broker.requests.list()] == [1]
        broker.requests.stop()
        client.call(MetadataRequest(topics=[]), 9)
        assert broker.requests.list() == ()
        client.close()
