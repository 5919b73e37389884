"""The control endpoint: what it answers, and whom it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.control.commands import perform_on_clock
from kafkalite.control.http import MAX_BODY, Control, clock_command
from kafkalite.coordinator.contract import Event, SubjectKind
from kafkalite.coordinator.journal import Journal
from kafkalite.ports.clock import DrivenClock
from kafkalite.server.logging import Level, Log
from tests.unit.control.asked import Answer, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.server.broker import Broker

JSON = {"content-type": "application/json"}


class Driven:
    """The endpoint of a broker whose time stands."""

    def __init__(self, allowed: Sequence[str] | None = ("127.0.0.1", "localhost", "::1")) -> None:
        self.broker = SimpleNamespace(
            clock=DrivenClock(rate=0, now_ms=0),
            journal=Journal(),
            cluster_id="cluster",
            bootstrap_servers="localhost:1",
            bootstrap_by_listener=lambda: {"PLAINTEXT": "localhost:1"},
        )
        self.words = io.StringIO()
        log = Log(Level.ERROR, "json", self.words)
        self.app = Control(cast("Broker", self.broker), log, allowed).app

    async def get(self, path: str, **headers: str) -> Answer:
        return await ask(self.app, path, headers=headers)

    async def post(self, body: object, path: str = "/v1/clock") -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await ask(self.app, path, method="POST", body=raw, headers=JSON)


async def test_the_time_is_told() -> None:
    answer = await Driven().get("/v1/clock")
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
async def test_the_clock_is_driven(body: object, now_ms: int, mode: str, rate: float) -> None:
    answer = await Driven().post(body)
    assert answer.status == 200
    assert (answer.body["mode"], answer.body["rate"]) == (mode, rate)
    assert now_ms <= answer.body["now_ms"] < now_ms + 60_000


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[" * 60_000, b"\xff", b"1" * 10_000, [], None, 1, "7d", {},
        {"advance": 7}, {"advance": "soon"}, {"advance": None}, {"advance_ms": "7"},
        {"advance_ms": 1.5}, {"advance_ms": True}, {"advance_ms": -1}, {"advance_ms": 10**30},
        {"now": 5}, {"now": "yesterday"}, {"now_ms": -1}, {"mode": 1}, {"mode": "fast"},
        {"mode": "accelerated"}, {"rate": "60"}, {"rate": True}, {"rate": -1}, {"rate": 1e9},
        b'{"rate": NaN}', {"advance": "7d", "mode": "real"}, {"mode": "real", "rate": 60},
        {"speed": 3},
    ],
)  # fmt: skip
async def test_bad_input_is_told_in_one_sentence_and_changes_nothing(body: object) -> None:
    driven = Driven()
    answer = await driven.post(body)
    assert answer.status == 400
    assert list(answer.body) == ["error"]
    assert "\n" not in answer.body["error"]
    assert len(answer.body["error"]) < 200
    assert (driven.broker.clock.now_ms(), driven.broker.clock.rate) == (0, 0)
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
def test_no_body_does_worse_than_to_be_refused(bodies: list[object]) -> None:
    clock = DrivenClock(rate=0, now_ms=5_000)
    for body in bodies:
        before_ms = clock.now_ms()
        with contextlib.suppress(ValueError):
            command = clock_command(body)
            asyncio.run(perform_on_clock(cast("Broker", SimpleNamespace(clock=clock)), command))
        assert clock.now_ms() >= before_ms


async def test_a_body_that_is_too_large_is_refused() -> None:
    answer = await Driven().post(b" " * (MAX_BODY + 1))
    assert answer.status == 413


async def test_groups_are_explained() -> None:
    driven = Driven()
    driven.broker.journal.note(Event("g", "refused", "stale", {"epoch": 4}), 1_000)
    driven.broker.journal.note(Event("g", "refused", "stale", {"epoch": 4}), 2_000)
    driven.broker.journal.note(Event("h", "joined", "m joined", {}), 3_000)
    answer = await driven.get("/v1/explain?group=g")
    assert answer.body["groups"] == ["g", "h"]
    assert answer.body["entries"] == [
        {
            "number": 2,
            "group": "g",
            "transactional_id": None,
            "kind": "refused",
            "text": "stale",
            "facts": {"epoch": 4},
            "times": 2,
            "first_ms": 1_000,
            "first_iso": "1970-01-01T00:00:01.000Z",
            "at_ms": 2_000,
            "at_iso": "1970-01-01T00:00:02.000Z",
        }
    ]
    fencing = Event("g", "fenced", "epoch 3 is fenced", {}, SubjectKind.TRANSACTIONAL_ID)
    driven.broker.journal.note(fencing, 4_000)
    of_transactions = await driven.get("/v1/explain?transactional_id=g")
    assert of_transactions.body["transactional_ids"] == ["g"]
    (entry,) = of_transactions.body["entries"]
    assert (entry["group"], entry["transactional_id"], entry["kind"]) == (None, "g", "fenced")
    everything = await driven.get("/v1/explain?limit=2")
    assert [entry["group"] for entry in everything.body["entries"]] == ["h", None]
    assert (await driven.get("/v1/explain?group=nobody")).body["entries"] == []


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
    ],
)
async def test_what_cannot_be_explained_is_told(query: str) -> None:
    answer = await Driven().get(f"/v1/explain?{query}")
    assert answer.status == 400
    assert "\n" not in answer.body["error"]


async def test_there_is_a_list_of_what_there_is_and_a_word_on_health() -> None:
    driven = Driven()
    assert "/v1/clock" in (await driven.get("/v1")).body["paths"]
    health = await driven.get("/v1/health")
    assert health.body["status"] == "ok"
    assert health.body["bootstrap_servers"] == "localhost:1"


@pytest.mark.parametrize("path", ["/", "/v2", "/v1/", "/v1/clocks", "/v1/clock/", "/%00"])
async def test_paths_that_are_not_there_are_told(path: str) -> None:
    answer = await Driven().get(path)
    assert (answer.status, list(answer.body)) == (404, ["error"])


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/explain", "POST"), ("/v1/clock", "PUT"), ("/v1", "OPTIONS")]
)
async def test_methods_that_are_not_there_are_told(path: str, method: str) -> None:
    answer = await ask(Driven().app, path, method=method, headers=JSON)
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]
    assert method in answer.body["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_form_on_a_web_page_cannot_drive_the_broker(kind: str) -> None:
    driven = Driven()
    answer = await ask(
        driven.app,
        "/v1/clock",
        method="POST",
        body=b'{"advance": "7d"}',
        headers={"content-type": kind},
    )
    assert answer.status == 415
    assert driven.broker.clock.now_ms() == 0


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"host": "evil.example:9097"}, {"host": ""},
     {"origin": "http://evil.example"}, {"origin": "http://localhost:9097"}, {"origin": "null"}],
)  # fmt: skip
async def test_a_web_page_is_told_nothing(headers: dict[str, str]) -> None:
    """A page may have its own name lead to this machine; but browsers tell the name."""
    answer = await ask(Driven().app, "/v1/clock", headers=headers)
    assert (answer.status, list(answer.body)) == (403, ["error"])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9097", "[::1]"])
async def test_this_machine_may_be_named_as_people_do(host: str) -> None:
    assert (await Driven().get("/v1/clock", host=host)).status == 200


async def test_where_others_are_let_in_they_may_use_any_name() -> None:
    driven = Driven(allowed=None)
    assert (await driven.get("/v1/clock", host="kafkalite:9097")).status == 200
    assert (await driven.get("/v1/clock", host="x", origin="http://x")).status == 403


async def test_a_fault_of_ours_is_logged_and_told_as_such() -> None:
    driven = Driven()
    del driven.broker.journal
    answer = await driven.get("/v1/explain")
    assert answer.status == 500
    assert "AttributeError" in driven.words.getvalue()
