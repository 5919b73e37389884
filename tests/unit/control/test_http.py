"""The control endpoint: its responses, and the requests that it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.apis.table import find_api
from kafkalite.config.typed_json import read
from kafkalite.control.command_table import rows
from kafkalite.control.commands.clock import ChangeClock
from kafkalite.control.http import ControlApp
from kafkalite.control.request_body import MAX_BODY_BYTES
from kafkalite.control.token import ControlToken
from kafkalite.coordinator.contract import Event
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.gateway.faults import Faults
from kafkalite.gateway.gateway import Gateway
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.acl_operations import Entity
from kafkalite.server.logging import Level, Log
from kafkalite.storage.disk_health import DiskFailure, DiskProblem
from kafkalite.telemetry.metrics import PushedMetrics
from tests.unit.control.asgi_client import Answer, ask, ask_for_text
from tests.unit.control.three_nodes import three_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.server.broker import Broker

JSON = {"content-type": "application/json"}


class ControlEndpoint:
    """The endpoint of a broker with a stopped clock."""

    def __init__(self, token: ControlToken | None = None) -> None:
        gateway = Gateway(find_api, lambda _, __: None)
        self.broker = SimpleNamespace(
            clock=AdjustableClock(rate=0, now_ms=0),
            history=EventHistory(),
            cluster_id="cluster",
            seed=42,
            bootstrap_servers="localhost:1",
            bootstrap_by_listener=lambda: {"PLAINTEXT": "localhost:1"},
            disk_failures=[],
            skip_time=lambda _: None,
            faults=Faults(
                (1,),
                {"PLAINTEXT": gateway},
                SeededEntropy(),
                report=self.report,
                report_bug=lambda *_: None,
                install=lambda _: None,
            ),
        )
        self.reported: list[tuple[str, str]] = []
        self.words = io.StringIO()
        log = Log(Level.ERROR, "json", self.words)
        allowed = ("127.0.0.1", "localhost", "::1")
        self.app = ControlApp(cast("Broker", self.broker), log, allowed, token).app

    def report(self, event: str, fault: str, rule: str) -> None:
        assert rule
        self.reported.append((event, fault))

    async def delete(self, path: str, **headers: str) -> Answer:
        return await ask(self.app, path, method="DELETE", headers=headers)

    async def get(self, path: str, **headers: str) -> Answer:
        return await ask(self.app, path, headers=headers)

    async def post(self, body: object, path: str = "/v1/clock") -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await ask(self.app, path, method="POST", body=raw, headers=JSON)


async def test_the_liveness_has_only_a_status() -> None:
    endpoint = ControlEndpoint()
    answer = await endpoint.get("/v1/live")
    assert (answer.status, answer.body) == (200, {"status": "ok"})
    endpoint.broker.disk_failures = [DiskFailure(DiskProblem.DAMAGED, "a", "b")]
    assert (await endpoint.get("/v1/live")).body == {"status": "ok"}
    endpoint.broker.disk_failures = [DiskFailure(DiskProblem.REFUSED, "/secret/path", "full")]
    answer = await endpoint.get("/v1/live")
    assert (answer.status, answer.body) == (503, {"status": "degraded"})


async def test_only_the_liveness_needs_no_token() -> None:
    endpoint = ControlEndpoint(token=ControlToken("a-token-of-tests"))
    for path in ("/v1", "/v1/health", "/v1/clock", "/v1/explain", "/v1/faults", "/v1/faults/f1",
                 "/v1/nodes", "/v1/nodes/1", "/v1/leaders", "/v1/client-metrics",
                 "/v1/nothing", "/"):  # fmt: skip
        for method in ("GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"):
            answer = await ask(endpoint.app, path, method=method, headers=JSON, body=b"{}")
            assert answer.status == 401, (method, path)
    assert (await endpoint.get("/v1/live")).status == 200
    answer = await endpoint.get("/v1/clock", authorization="Bearer a-token-of-tests")
    assert answer.status == 200


async def test_a_browser_gets_the_console_and_other_clients_the_api() -> None:
    endpoint = ControlEndpoint(token=ControlToken("a-token-of-tests"))
    browser = {"accept": "text/html"}
    page = await ask_for_text(endpoint.app, "/console/", headers=browser)
    assert (page.status, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert (await ask_for_text(endpoint.app, "/", headers=browser)).status == 401
    answer = await endpoint.get("/", authorization="Bearer a-token-of-tests")
    assert (answer.status, answer.body) == (
        404,
        {"error": "/ does not exist: GET /v1 lists all paths"},
    )


async def test_the_session_of_a_browser_is_not_for_the_api() -> None:
    token = ControlToken("a-token-of-tests")
    endpoint = ControlEndpoint(token)
    page = await ask_for_text(endpoint.app, f"/console/?token={token.text}")
    session = page.headers["set-cookie"].partition(";")[0]
    assert (await ask_for_text(endpoint.app, "/console", headers={"cookie": session})).status == 303
    assert (await endpoint.get("/v1/clock", cookie=session)).status == 401


async def test_the_clock_is_returned() -> None:
    answer = await ControlEndpoint().get("/v1/clock")
    assert answer.status == 200
    assert answer.body == {
        "now_ms": 0, "iso": "1970-01-01T00:00:00.000Z", "mode": "manual", "rate": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "now_ms", "mode", "rate"),
    [
        ({"advance": "7d"}, 604_800_000, "manual", 0),
        ({"advance_ms": 5}, 5, "manual", 0),
        ({"advance_ms": 0}, 0, "manual", 0),
        ({"now": "1970-01-01T00:01Z"}, 60_000, "manual", 0),
        ({"now_ms": 7}, 7, "manual", 0),
        ({"mode": "manual"}, 0, "manual", 0),
        ({"mode": "real"}, 0, "real", 1),
        ({"rate": 60}, 0, "accelerated", 60),
        ({"rate": 0.5}, 0, "accelerated", 0.5),
        ({"rate": 0}, 0, "manual", 0),
        ({"mode": "accelerated", "rate": 60}, 0, "accelerated", 60),
    ],
)
async def test_the_clock_is_controlled(body: object, now_ms: int, mode: str, rate: float) -> None:
    answer = await ControlEndpoint().post(body)
    assert answer.status == 200
    assert (answer.body["mode"], answer.body["rate"]) == (mode, rate)
    assert now_ms <= answer.body["now_ms"] < now_ms + 60_000


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[" * 60_000, b"\xff", b"1" * 10_000, [], None, 1, "7d", {},
        {"advance": 7}, {"advance": "soon"}, {"advance": None}, {"advance_ms": "7"},
        {"advance_ms": 1.5}, {"advance_ms": True}, {"advance_ms": -1}, {"advance_ms": 10**30},
        {"advance_ms": 10**1_000}, {"advance_ms": 10**18}, {"rate": 10**4_000},
        {"now": 5}, {"now": "yesterday"}, {"now_ms": -1}, {"now_ms": -(10**30)},
        {"now_ms": -(10**17)}, {"mode": 1}, {"mode": "fast"},
        {"mode": "accelerated"}, {"rate": "60"}, {"rate": True}, {"rate": -1}, {"rate": 1e9},
        b'{"rate": NaN}', b'{"rate": 1e400}', b'{"rate": 5, "rate": 6}',
        {"advance": "7d", "mode": "real"}, {"mode": "real", "rate": 60},
        {"speed": 3},
    ],
)  # fmt: skip
async def test_invalid_input_is_refused_in_one_sentence_without_a_change(body: object) -> None:
    driven = ControlEndpoint()
    answer = await driven.post(body)
    assert answer.status == 400
    assert list(answer.body) == ["error"]
    assert "\n" not in answer.body["error"]
    assert len(answer.body["error"]) < 200
    assert (driven.broker.clock.now_ms(), driven.broker.clock.rate) == (0, 0)
    assert driven.words.getvalue() == ""


@pytest.mark.parametrize(("opening", "end"), [("[", "]"), ('{"a":', "}")])
async def test_a_deep_body_is_refused_in_one_sentence(opening: str, end: str) -> None:
    # Near the recursion limit, a body can be parsed but not shown.
    driven = ControlEndpoint()
    for levels in range(800, 1_000):
        body = '{"advance_ms":' + opening * levels + "0" + end * levels + "}"
        answer = await driven.post(body.encode())
        assert answer.status == 400
        assert len(answer.body["error"]) < 200
    assert driven.words.getvalue() == ""


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["7d", "real", "manual", "accelerated", "2026-03-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text(max_size=3) | st.sampled_from(["advance", "advance_ms", "now", "now_ms", "rate",
                                               "mode"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(st.lists(_JSON, max_size=4))
def test_any_body_is_accepted_or_raises_value_error(bodies: list[object]) -> None:
    clock = AdjustableClock(rate=0, now_ms=5_000)
    for body in bodies:
        before_ms = clock.now_ms()
        with contextlib.suppress(ValueError):
            command = read(ChangeClock, body, "the body")
            asyncio.run(command.perform(cast("Broker", SimpleNamespace(clock=clock))))
        assert clock.now_ms() >= before_ms


async def test_a_too_large_body_is_refused() -> None:
    answer = await ControlEndpoint().post(b" " * (MAX_BODY_BYTES + 1))
    assert answer.status == 413


FAULT = {
    "match": {"api": "Produce", "topic": "orders"},
    "trigger": {"times": 1},
    "action": {"error": "NOT_ENOUGH_REPLICAS"},
}


async def test_faults_are_added_listed_and_removed() -> None:
    driven = ControlEndpoint()
    added = await driven.post(FAULT, "/v1/faults")
    assert added.status == 201
    assert added.body == {"id": "f1", **FAULT, "matches": 0, "firings": 0, "waiting": 0}
    await driven.post({"action": {"delay_ms": 5}}, "/v1/faults")
    listed = (await driven.get("/v1/faults")).body["faults"]
    assert [each["id"] for each in listed] == ["f1", "f2"]
    assert listed[0] == added.body
    removed = await driven.delete("/v1/faults/f1")
    assert (removed.status, removed.body) == (200, added.body)
    assert (await driven.delete("/v1/faults")).body["faults"] == listed[1:]
    assert (await driven.get("/v1/faults")).body == {"faults": []}
    assert driven.reported == [
        ("fault added", "f1"), ("fault added", "f2"),
        ("fault removed", "f1"), ("fault removed", "f2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[" * 60_000, b"\xff", [], None, 1, "Produce", {}, {"action": {}},
        {"match": {"api": "Produce"}}, {"action": {"error": "NO"}}, {"action": {"error": None}},
        {"action": {"error": "x" * 10_000}}, {"action": {"delay_ms": 10**30}},
        {"action": {"delay_ms": True}}, {"action": {"disconnect": "\x1b[2J"}},
        {"action": {"disconnect": True}, "trigger": {"times": -1}},
        {"action": {"disconnect": True}, "match": {"api": ["Produce"]}},
        {"action": {"disconnect": True}, "match": {"api": "Produce", "group": "g"}},
        {"action": {"disconnect": True}, "match": {"\ud800": "g"}},
        {"action": {"disconnect": True}, "match": {"group": "\ud800"}},
        {"action": {"disconnect": True}, "match": {"group": "g" * 40_000}},
        {"action": {"disconnect": True}, "match": {"api": "\ud800"}},
        {"action": {"disconnect": True}, "x" * 10_000: {}},
    ],
)  # fmt: skip
async def test_an_invalid_fault_is_refused_in_one_sentence(body: object) -> None:
    driven = ControlEndpoint()
    answer = await driven.post(body, "/v1/faults")
    assert answer.status == 400
    assert list(answer.body) == ["error"]
    assert "\n" not in answer.body["error"]
    assert len(answer.body["error"]) < 200
    assert (await driven.get("/v1/faults")).body == {"faults": []}
    assert driven.words.getvalue() == ""


@pytest.mark.parametrize("unknown", ["f9", "%00", "..%2f", "x" * 10_000, "%ff", "%1b%5b2J"])
async def test_an_unknown_fault_is_not_found(unknown: str) -> None:
    answer = await ControlEndpoint().delete(f"/v1/faults/{unknown}")
    assert answer.status == 404
    assert answer.body["error"].startswith("there is no fault ")
    assert answer.body["error"].isprintable()
    assert len(answer.body["error"]) < 200


async def test_web_pages_cannot_change_faults() -> None:
    driven = ControlEndpoint()
    await driven.post(FAULT, "/v1/faults")
    for path in ("/v1/faults", "/v1/faults/f1"):
        assert (await driven.delete(path, origin="http://evil")).status == 403
        assert (await driven.delete(path, host="evil")).status == 403
    body = json.dumps(FAULT).encode()
    for headers in ({**JSON, "origin": "http://evil"}, {**JSON, "host": "evil"}):
        answer = await ask(driven.app, "/v1/faults", method="POST", body=body, headers=headers)
        assert answer.status == 403
    as_form = await ask(driven.app, "/v1/faults", method="POST", body=body)
    assert as_form.status == 415
    assert len((await driven.get("/v1/faults")).body["faults"]) == 1


async def test_the_history_of_groups_is_returned() -> None:
    driven = ControlEndpoint()
    driven.broker.history.add(Event("g", "refused", "stale", {"epoch": 4}), 1_000)
    driven.broker.history.add(Event("g", "refused", "stale", {"epoch": 4}), 2_000)
    driven.broker.history.add(Event("h", "joined", "m joined", {}), 3_000)
    answer = await driven.get("/v1/explain?group=g")
    assert answer.body["groups"] == ["g", "h"]
    assert answer.body["entries"] == [
        {
            "number": 2,
            "group": "g",
            "transactional_id": None,
            "topic": None,
            "client": None,
            "kind": "refused",
            "text": "stale",
            "facts": {"epoch": 4},
            "times": 2,
            "first_ms": 1_000,
            "first_iso": "1970-01-01T00:00:01.000Z",
            "at_ms": 2_000,
            "at_iso": "1970-01-01T00:00:02.000Z",
            "members": [],
        }
    ]
    fencing = Event("g", "fenced", "epoch 3 is fenced", {}, Entity.TRANSACTIONAL_ID)
    driven.broker.history.add(fencing, 4_000)
    of_transactions = await driven.get("/v1/explain?transactional_id=g")
    assert of_transactions.body["transactional_ids"] == ["g"]
    (entry,) = of_transactions.body["entries"]
    assert (entry["group"], entry["transactional_id"], entry["kind"]) == (None, "g", "fenced")
    everything = await driven.get("/v1/explain?limit=2")
    assert [entry["group"] for entry in everything.body["entries"]] == ["h", None]
    driven.broker.history.add(Event("g", "refused", "stale", {}, Entity.TOPIC), 5_000)
    of_topics = await driven.get("/v1/explain?topic=g")
    assert of_topics.body["topics"] == ["g"]
    (entry,) = of_topics.body["entries"]
    assert (entry["group"], entry["topic"], entry["kind"]) == (None, "g", "refused")
    driven.broker.history.add(Event("g", "refused", "no", {}, Entity.CLIENT), 6_000)
    of_clients = await driven.get("/v1/explain?client=g")
    assert of_clients.body["clients"] == ["g"]
    (entry,) = of_clients.body["entries"]
    assert (entry["topic"], entry["client"], entry["text"]) == (None, "g", "no")
    assert (await driven.get("/v1/explain?group=unknown")).body["entries"] == []


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=99999",
        "limit=" + "9" * 99,
        "grp=g",
        "group=g&transactional_id=g",
        "group=g&topic=g",
    ],
)
async def test_invalid_history_requests_are_refused(query: str) -> None:
    answer = await ControlEndpoint().get(f"/v1/explain?{query}")
    assert answer.status == 400
    assert "\n" not in answer.body["error"]


async def test_the_index_lists_all_paths_and_health_is_ok() -> None:
    driven = ControlEndpoint()
    assert "/v1/clock" in (await driven.get("/v1")).body["paths"]
    health = await driven.get("/v1/health")
    assert health.body["status"] == "ok"
    assert health.body["bootstrap_servers"] == "localhost:1"
    assert (health.body["disk"], health.body["seed"]) == ([], 42)
    assert health.status == 200


@pytest.mark.parametrize(
    ("problems", "status"),
    [
        ([DiskProblem.DAMAGED], 200),
        ([DiskProblem.REFUSED], 503),
        ([DiskProblem.MISSING], 503),
        ([DiskProblem.DAMAGED, DiskProblem.REFUSED], 503),
    ],
)
async def test_health_lists_disk_failures(problems: list[DiskProblem], status: int) -> None:
    driven = ControlEndpoint()
    driven.broker.disk_failures = [DiskFailure(each, "/data/t-0", "bad") for each in problems]
    health = await driven.get("/v1/health")
    assert (health.status, health.body["status"]) == (status, "degraded")
    assert health.body["bootstrap_servers"] == "localhost:1"
    assert health.body["disk"] == [
        {"problem": each.value, "path": "/data/t-0", "reason": "bad"} for each in problems
    ]


async def test_health_limits_the_number_of_disk_failures() -> None:
    driven = ControlEndpoint()
    driven.broker.disk_failures = [
        DiskFailure(DiskProblem.REFUSED, f"/data/t-{index}", "full") for index in range(5_000)
    ]
    assert len((await driven.get("/v1/health")).body["disk"]) == 100


@pytest.mark.parametrize("path", ["/", "/v2", "/v1/", "/v1/clocks", "/v1/clock/", "/%00"])
async def test_unknown_paths_are_refused(path: str) -> None:
    answer = await ControlEndpoint().get(path)
    assert (answer.status, list(answer.body)) == (404, ["error"])


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/explain", "POST"), ("/v1/clock", "PUT"), ("/v1", "OPTIONS")]
)
async def test_unsupported_methods_are_refused(path: str, method: str) -> None:
    answer = await ask(ControlEndpoint().app, path, method=method, headers=JSON)
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]
    assert method in answer.body["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_form_on_a_web_page_cannot_control_the_broker(kind: str) -> None:
    driven = ControlEndpoint()
    answer = await ask(
        driven.app,
        "/v1/clock",
        method="POST",
        body=b'{"advance": "7d"}',
        headers={"content-type": kind},
    )
    assert answer.status == 415
    assert driven.broker.clock.now_ms() == 0


@pytest.mark.parametrize("origin", ["http://localhost:9097", "null"])
async def test_pages_of_this_machine_are_refused(origin: str) -> None:
    answer = await ControlEndpoint().get("/v1/clock", origin=origin)
    assert (answer.status, list(answer.body)) == (403, ["error"])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9097", "[::1]"])
async def test_all_names_of_this_machine_are_accepted(host: str) -> None:
    assert (await ControlEndpoint().get("/v1/clock", host=host)).status == 200


async def test_a_bug_is_logged_and_reported() -> None:
    driven = ControlEndpoint()
    del driven.broker.history
    answer = await driven.get("/v1/explain")
    assert answer.status == 500
    assert "AttributeError" in driven.words.getvalue()


# Nodes and leaders


@pytest.fixture
async def served() -> AsyncIterator[ServedControl]:
    async with three_nodes() as broker:
        yield ServedControl(broker)


class ServedControl:
    """The endpoint of a broker of three nodes."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app

    async def get(self, path: str) -> Answer:
        return await ask(self.app, path, headers={})

    async def post(self, path: str, body: object) -> Answer:
        raw = json.dumps(body).encode()
        return await ask(self.app, path, method="POST", body=raw, headers=JSON)

    async def leader(self) -> int:
        """Return the leader of t-0, the only partition."""
        nodes = (await self.get("/v1/nodes")).body["nodes"]
        (leader,) = (node["id"] for node in nodes if node["led_partitions"])
        return int(leader)


WAITING: dict[str, tuple[str, object]] = {
    "ExpectCommit": (
        "/v1/groups/shop/expect-commit",
        {"topic": "t", "partition": 0, "offset": 7, "within_ms": 600_000},
    ),
    "ExpectRequests": ("/v1/requests/expect", {"api": "Fetch", "within_ms": 600_000}),
    "ListRequests": ("/v1/requests?api=Fetch&wait_ms=600000", None),
    "ReadRecords": ("/v1/topics/t/records?count=1&wait_ms=600000", None),
    "ShowFault": ("/v1/faults/f1?firings=1&wait_ms=600000", None),
    "ShowGroup": ("/v1/groups/shop?members=1&wait_ms=600000", None),
}
"""Commands that wait for something that does not happen."""


def test_all_waiting_commands_are_listed() -> None:
    assert {row.kind.__name__ for row in rows() if row.waits} == WAITING.keys()


@pytest.mark.parametrize("name", WAITING)
async def test_a_waiting_command_ends_when_its_client_disconnects(
    served: ServedControl, name: str
) -> None:
    path, body = WAITING[name]
    await served.post("/v1/faults", {"action": {"lost": "answer"}})
    answer = await ask(
        served.app,
        path,
        method="GET" if body is None else "POST",
        body=b"" if body is None else json.dumps(body).encode(),
        headers=JSON,
        disconnects=True,
    )
    assert (answer.status, answer.body) == (200, None)
    await asyncio.sleep(0)
    assert len(served.broker.request_log.watchers) == len(served.broker.faults.watchers) == 0


async def test_nodes_are_listed_and_shown(served: ServedControl) -> None:
    nodes = (await served.get("/v1/nodes")).body["nodes"]
    assert [node["id"] for node in nodes] == [1, 2, 3]
    leader = await served.leader()
    shown = await served.get(f"/v1/nodes/{leader}")
    assert shown.status == 200
    address = shown.body["listeners"].pop("PLAINTEXT")
    assert address.startswith("127.0.0.1:")
    assert shown.body == {
        "id": leader, "state": "running", "metadata": "live", "replication": "running",
        "led_partitions": 1, "rack": None, "registered": True, "listeners": {},
    }  # fmt: skip


async def test_a_node_is_changed_by_one_field(served: ServedControl) -> None:
    for body, expected in (
        ({"state": "isolated"}, ("isolated", "live", "running")),
        ({"state": "stopped"}, ("stopped", "stale", "running")),
        ({"state": "running"}, ("running", "live", "running")),
        ({"metadata": "frozen"}, ("running", "frozen", "running")),
        ({"replication": "paused"}, ("running", "frozen", "paused")),
        ({"metadata": "live"}, ("running", "live", "paused")),
        ({"replication": "running"}, ("running", "live", "running")),
    ):
        answer = await served.post("/v1/nodes/2", body)
        assert answer.status == 200, answer.body
        found = answer.body
        assert (found["state"], found["metadata"], found["replication"]) == expected


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/nodes/4", "there is no node 4: the nodes are 1, 2, 3"),
        ("/v1/nodes/0", "there is no node 0: the nodes are 1, 2, 3"),
        ("/v1/nodes/" + "9" * 40, "there is no node 999999999999: the nodes are 1, 2, 3"),
        ("/v1/nodes/x", "'x' is not the id of a node"),
        ("/v1/nodes/-1", "'-1' is not the id of a node"),
        ("/v1/nodes/", "'' is not the id of a node"),
    ],
)
async def test_an_unknown_node_is_not_found(served: ServedControl, path: str, error: str) -> None:
    for answer in (await served.get(path), await served.post(path, {"state": "stopped"})):
        assert (answer.status, answer.body) == (404, {"error": error})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([], 'the body must be a JSON object, such as {"state": "stopped"}'),
        ({}, "the body must have exactly one of these fields: state, metadata, replication"),
        ({"state": "stopped", "metadata": "live"},
         "the body must have exactly one of these fields: state, metadata, replication"),
        ({"rack": "a"},
         "the body has no field 'rack'; its fields are state, metadata, replication, controlled"),
        ({"state": 1}, "state must be text, not 1"),
        ({"state": "dead"}, "state must be running, isolated or stopped, not 'dead'"),
        ({"metadata": "stale"}, "metadata must be frozen or live, not 'stale'"),
        ({"replication": "\ud800"}, "the body is not JSON"),
    ],
)  # fmt: skip
async def test_an_invalid_change_of_a_node_is_refused(
    served: ServedControl, body: object, error: str
) -> None:
    answer = await served.post("/v1/nodes/2", body)
    assert (answer.status, answer.body) == (400, {"error": error})


async def test_an_impossible_state_is_refused(served: ServedControl) -> None:
    for node in (1, 2):
        await served.post(f"/v1/nodes/{node}", {"state": "stopped"})
    answer = await served.post("/v1/nodes/3", {"state": "isolated"})
    assert answer.status == 400
    assert answer.body == {"error": "node 3 cannot be isolated: no other node is running"}


async def test_a_leader_is_moved(served: ServedControl) -> None:
    leader = await served.leader()
    target = leader % 3 + 1
    body = {"topic": "t", "partition": 0, "leader": target, "unclean": False}
    answer = await served.post("/v1/leaders", body)
    assert answer.status == 200
    assert {name: answer.body[name] for name in ("topic", "partition", "leader")} == {
        "topic": "t", "partition": 0, "leader": target,
    }  # fmt: skip
    assert (answer.body["leader_epoch"], answer.body["truncated_records"]) == (1, 0)
    assert sorted(answer.body["isr"]) == sorted(answer.body["replicas"]) == [1, 2, 3]
    again = await served.post("/v1/leaders", body)
    assert (again.status, again.body) == (200, answer.body)


@pytest.mark.parametrize(
    "body",
    [
        None, [], {}, {"topic": "t", "partition": 0}, {"topic": "t", "partition": 0, "node": 1},
        {"topic": 1, "partition": 0, "leader": 1}, {"topic": "t", "partition": "0", "leader": 1},
        {"topic": "t", "partition": True, "leader": 1}, {"topic": "t", "partition": 0, "leader": 9},
        {"topic": "t", "partition": 0, "leader": None}, {"topic": "u", "partition": 0, "leader": 1},
        {"topic": "t", "partition": 10**30, "leader": 1},
        {"topic": "t", "partition": -1, "leader": 1}, {"topic": "", "partition": 0, "leader": 1},
        {"topic": "\ud800", "partition": 0, "leader": 1},
        {"topic": "x" * 10_000, "partition": 0, "leader": 1},
        {"topic": "t", "partition": 0, "leader": 1, "unclean": 1},
        {"topic": "t", "partition": 0, "leader": 1, "force": True},
    ],
)  # fmt: skip
async def test_an_invalid_move_is_refused_in_one_sentence(
    served: ServedControl, body: object
) -> None:
    answer = await served.post("/v1/leaders", body)
    assert answer.status == 400
    assert list(answer.body) == ["error"]
    assert "\n" not in answer.body["error"]
    assert len(answer.body["error"]) < 200


async def test_nodes_are_added_and_removed(served: ServedControl) -> None:
    added = await served.post("/v1/nodes", {})
    assert (added.status, added.body["id"], added.body["state"]) == (201, 4, "running")
    added = await served.post("/v1/nodes", {"id": 9, "config": {"broker.rack": "b"}})
    assert (added.status, added.body["id"], added.body["rack"]) == (201, 9, "b")
    assert (await served.get("/v1/nodes/9")).body == added.body
    removed = await ask(served.app, "/v1/nodes/9", method="DELETE", headers={})
    assert (removed.status, removed.body["state"], removed.body["registered"]) == (
        200, "removed", False,
    )  # fmt: skip
    again = await ask(served.app, "/v1/nodes/9", method="DELETE", headers={})
    assert (again.status, again.body) == (
        404, {"error": "there is no node 9: the nodes are 1, 2, 3, 4"},
    )  # fmt: skip
    refused = await ask(served.app, "/v1/nodes/1", method="DELETE", headers={})
    assert refused.status == 400
    assert "it has replicas of 1 partition, such as t-0" in refused.body["error"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([], 'the body must be a JSON object, such as {"id": 4, "config": {"broker.rack": "b"}}'),
        ({"rack": "a"}, "the body has no field 'rack'; its fields are id, config"),
        ({"id": "4"}, "id must be a whole number, not '4'"),
        ({"id": 1}, "node 1 exists already"),
        ({"id": -1}, "a node id is a number from 0 to 2147483647, not -1"),
        ({"config": []}, "config must be an object, not []"),
        ({"config": {"broker.rack": 1}}, "broker.rack must be text, not 1"),
    ],
)
async def test_an_invalid_node_is_not_added(
    served: ServedControl, body: object, error: str
) -> None:
    answer = await served.post("/v1/nodes", body)
    assert (answer.status, answer.body) == (400, {"error": error})


async def test_a_stop_is_controlled(served: ServedControl) -> None:
    leader = await served.leader()
    body = {"state": "stopped", "controlled": True}
    answer = await served.post(f"/v1/nodes/{leader}", body)
    assert (answer.status, answer.body["state"]) == (200, "stopped")
    assert await served.leader() != leader
    for invalid, error in (
        ({"state": "running", "controlled": True},
         "only a stop can be controlled, not the state 'running'"),
        ({"state": "stopped", "controlled": 1}, "controlled must be true or false, not 1"),
        ({"state": 1, "controlled": True}, "state must be text, not 1"),
    ):  # fmt: skip
        answer = await served.post("/v1/nodes/2", invalid)
        assert (answer.status, answer.body) == (400, {"error": error})
    other = await served.leader()
    answer = await served.post(f"/v1/nodes/{other}", {"state": "stopped", "controlled": False})
    assert answer.body["state"] == "stopped"


@pytest.mark.parametrize("path", ["/v1/client-metrics", "/v1/client-metrics/prometheus"])
async def test_client_metrics_have_one_parameter(path: str) -> None:
    endpoint = ControlEndpoint()
    endpoint.broker.cluster = None
    answer = await endpoint.get(f"{path}?client=c")
    assert answer.status == 400
    name = path.removeprefix("/v1/")
    assert answer.body == {
        "error": f"{name} has no parameter 'client'; its parameters are client_id"
    }
    answer = await endpoint.get(f"{path}?client_id=c")
    assert (answer.status, answer.body) == (400, {"error": "the broker is not running"})


async def test_the_text_for_prometheus_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = ControlEndpoint()
    config = SimpleNamespace(bool=lambda _: True)
    endpoint.broker.cluster = SimpleNamespace(config=config, pushed_metrics=PushedMetrics())
    assert (await endpoint.get("/v1/client-metrics")).body["clients"] == []
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = await endpoint.get("/v1/client-metrics/prometheus")
    assert answer.status == 400
    assert "kafkalite[telemetry]" in answer.body["error"]
