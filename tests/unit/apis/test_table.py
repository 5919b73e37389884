"""The dispatch table: complete, without doubles, and able to refuse in every version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.table import served_apis
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.apis.contract import Api

APIS = {api.key: api for api in served_apis()}

# What issue "A broker that real clients use" asks to be served, and in which versions at least.
ASKED = {
    0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (1, 10), 9: (1, 10), 10: (0, 6),
    11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 4),
    19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 32: (1, 4), 33: (0, 2),
    35: (1, 5), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 47: (0, 0), 60: (0, 2),
    68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
}  # fmt: skip


def test_no_api_is_served_twice() -> None:
    assert len(served_apis()) == len(APIS)


@pytest.mark.parametrize("key", ASKED)
def test_an_api_is_served_in_the_versions_asked_for(key: int) -> None:
    lowest, highest = ASKED[key]
    versions = APIS[key].versions
    assert versions.lowest <= lowest
    assert versions.highest >= highest


def test_nothing_is_served_that_nobody_asked_for() -> None:
    assert set(APIS) == set(ASKED)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_refusal_can_be_said_in_every_version(api: Api) -> None:
    for version in range(api.versions.lowest, api.versions.highest + 1):
        request = codec.request_class(api.key)()
        if api.lift is not None:
            request = api.lift(request, version)
        answer = api.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, "why")
        if answer is None:
            continue
        if api.lower is not None:
            answer = api.lower(answer, version)
        out: list[bytes | memoryview] = []
        codec.response_builder(api.key, version)(answer, out)
        codec.response_parser(api.key, version)(b"".join(out), 0, len(b"".join(out)))
