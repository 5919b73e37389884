"""Clusters that begin with a snapshot, over HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from kafkalite.testing import Broker


def ask(url: str, path: str, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401 - JSON
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{url}{path}", data, {"content-type": "application/json"}, method=method)  # noqa: S310 - http
    with urlopen(request) as answer:  # noqa: S310 - as above
        return json.load(answer)


def end_offset(url: str) -> int:
    return int(ask(url, "/v1/topics/orders")["partitions"][0]["end_offset"])


def test_a_cluster_is_forked_listed_and_stopped() -> None:
    with Broker(storage="memory", control=True, topics={"orders": 1}) as broker:
        url = broker.control_url
        broker.produce("orders", "a")
        ask(url, "/v1/snapshots", "POST", {})
        broker.produce("orders", "b")
        made = ask(url, "/v1/clusters", "POST", {"from": "s1"})
        assert made["id"] == "c1"
        assert made["bootstrap_servers"] != broker.bootstrap_servers
        assert ask(url, "/v1/clusters") == {"clusters": [made]}
        assert end_offset(made["control"]) == 1
        present = ask(url, "/v1/clusters", "POST", {})
        assert end_offset(present["control"]) == 2
        assert ask(url, "/v1/clusters/c1", "DELETE") == made
        with pytest.raises(OSError, match="refused"):
            ask(made["control"], "/v1/topics")
        with pytest.raises(HTTPError) as refused:
            ask(url, "/v1/clusters/c1", "DELETE")
        assert json.load(refused.value) == {"error": "there is no cluster 'c1'; they are c2"}
        with pytest.raises(HTTPError) as refused:
            ask(url, "/v1/clusters", "POST", {"from": "s9"})
        assert json.load(refused.value) == {"error": "there is no snapshot 's9'; they are s1"}
    with pytest.raises(OSError, match="refused"):
        ask(present["control"], "/v1/topics")
