"""The pages of a console over captures: what they show, and that they change nothing."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from kafkalite.capture.model import Endpoint
from kafkalite.capture.reading.problems import Problems
from kafkalite.control.console import access
from kafkalite.control.console.app import ConsoleApp
from kafkalite.control.request_filter import RequestFilter
from kafkalite.lab.file_console.capture_index import read_index
from kafkalite.lab.file_console.capture_pages import SECTIONS
from kafkalite.lab.file_console.capture_source import CaptureSource
from kafkalite.protocol.api_keys import ApiKey
from tests.captures import damage, traffic
from tests.unit.control.asgi_client import ask_for_text
from tests.unit.control.console.served_console import HOSTILE
from tests.unit.frames import framed

if TYPE_CHECKING:
    from pathlib import Path


async def page(source: CaptureSource, path: str, status: int = 200) -> str:
    app = ConsoleApp(source, access.Endpoint(), SECTIONS).app
    answer = await ask_for_text(app, f"/console{path}")
    assert answer.status == status, answer.body
    text: str = answer.body
    return text


async def test_the_first_page_has_numbers_and_problems(groups_source: CaptureSource) -> None:
    text = await page(groups_source, "/")
    assert "Requests by API" in text
    assert "FENCED_INSTANCE_ID" in text
    assert "The files have no problems." in text
    assert "kafkalite show " in text
    assert "read only" in text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/requests", "requests examined"),
        ("/requests?group=classic-works&api=OffsetCommit", "OffsetCommit"),
        ("/request?number=10", "--offset"),
        ("/groups", "classic-works"),
        ("/group?group=classic-works", "generation 2 of group classic-works"),
        ("/group?group=classic-works&step=3", "The group as it was at"),
        ("/entry?group=classic-works&entry=3", "Requests that were served at this time"),
        ("/topic?topic=orders", "A capture has no logs of partitions"),
    ],
)
async def test_pages_show_the_capture_and_have_no_forms_that_change(
    groups_source: CaptureSource, path: str, expected: str
) -> None:
    text = await page(groups_source, path)
    assert expected in text
    assert 'method="post"' not in text
    assert "data-changes" not in text
    assert "GET /v1" not in text


async def test_a_transactional_id_has_a_line_of_states(
    transactions_source: CaptureSource,
) -> None:
    text = await page(transactions_source, "/transactions")
    names = {each.partition('"')[0] for each in text.split("/console/transaction?id=")[1:]}
    pages = [await page(transactions_source, f"/transaction?id={each}") for each in names]
    assert len(pages) == 3
    assert any("CompleteCommit" in each for each in pages)


async def test_pages_of_a_broker_are_absent(groups_source: CaptureSource) -> None:
    text = await page(groups_source, "/")
    for path in ("/topics", "/faults", "/controls"):
        assert f'href="/console{path}"' not in text
        await page(groups_source, path, 404)
    assert "topic must be the name of a topic" in await page(groups_source, "/topic", 400)


async def test_nothing_in_a_capture_is_markup(tmp_path: Path) -> None:
    talk = damage.TcpConnection(Endpoint("10.9.8.7", 40_000), traffic.BROKER, traffic.START_NS)
    for number in range(2):
        at_ns = traffic.START_NS + (number + 1) * traffic.MS
        request, response = traffic.commit_request(HOSTILE, 7), traffic.commit_response()
        request.member_id = HOSTILE
        for row in (*request.topics, *response.topics):
            row.name = HOSTILE
        response.topics[0].partitions[0].error_code = 25 * number
        asked = traffic.request_frame(8, 8, number, request)
        talk.request(at_ns, framed(asked))
        talk.response(at_ns + 500_000, framed(traffic.response_frame(8, 8, number, response)))
    path = tmp_path / f"{HOSTILE.replace('/', '|')[:-1]}.pcap"
    path.write_bytes(damage.capture_file(talk.packets))
    problems = Problems()
    index = read_index([str(path)], problems)
    source = CaptureSource([str(path)], index, problems, [])
    name = quote(HOSTILE)
    for page_path in (
        "/", "/requests", "/request?number=1", f"/group?group={name}", f"/topic?topic={name}",
        f"/group?group={name}&step=1", f"/entry?group={name}&entry=1", f"/requests?group={name}",
    ):  # fmt: skip
        text = re.sub(r'value="[^"]*"', "", await page(source, page_path))
        assert "<script>" not in text
        assert "\u202e" not in text
        assert "\x00" not in text
    source.close()


async def test_an_api_that_kafka_does_not_have_is_shown_by_its_key(tmp_path: Path) -> None:
    talk = damage.TcpConnection(Endpoint("10.9.8.7", 40_000), traffic.BROKER, traffic.START_NS)
    known = traffic.request_frame(8, 8, 0, traffic.commit_request("shop", 7))
    for number, asked in enumerate((known, (999).to_bytes(2, "big") + known[2:])):
        talk.request(traffic.START_NS + (number + 1) * traffic.MS, framed(asked))
    path = tmp_path / "unknown.pcap"
    path.write_bytes(damage.capture_file(talk.packets))
    problems = Problems()
    with closing(read_index([str(path)], problems)) as index:
        source = CaptureSource([str(path)], index, problems, [])
        for page_path in ("/", "/requests"):
            assert "API 999" in await page(source, page_path)


async def test_records_are_shown_without_links_to_logs(
    transactions_source: CaptureSource,
) -> None:
    page_of = await transactions_source.latest_requests(RequestFilter(api=ApiKey.PRODUCE), 100)
    texts = [
        await page(transactions_source, f"/request?number={each.number}")
        for each in page_of.requests[-3:]
    ]
    assert any('<table class="records">' in each for each in texts)
    assert not any("/console/record" in each for each in texts)
