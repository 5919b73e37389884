"""A broker that presents itself as a release serves what that one had, and nothing later."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.apis.context import RequestContext
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.releases import find_in, rows_in
from kafkalite.apis.table import TABLE, find_api
from kafkalite.config.releases import presented, release_names
from kafkalite.protocol.errors import ProtocolViolation
from tests.unit.frames import framed, header

if TYPE_CHECKING:
    from kafkalite.apis.context import Services

PRODUCE, LIST_OFFSETS, OFFSET_COMMIT, API_VERSIONS = 0, 2, 8, 18
SHARE_FETCH = 78


def test_without_a_release_all_that_is_served_is_served() -> None:
    release = presented(None)
    assert rows_in(release) is TABLE
    assert find_in(release) is find_api


@pytest.mark.parametrize("name", release_names())
def test_what_is_told_is_what_is_found(name: str) -> None:
    release = presented(name)
    rows, find = rows_in(release), find_in(release)
    for key in TABLE:
        api = find(key)
        told = rows.get(key)
        assert (api is None) is (told is None)
        if api is not None and told is not None:
            assert (api.versions.lowest, api.versions.highest) == (told.lowest, told.highest)
    assert find(0x7FFF) is None


def test_the_release_whose_rules_are_kept_has_every_api_in_the_newest_version_served() -> None:
    """What is served besides are versions that it dropped."""
    rows = rows_in(presented("4.3"))
    assert {key: row.highest for key, row in rows.items()} == {
        key: row.highest for key, row in TABLE.items()
    }
    assert TABLE[LIST_OFFSETS].lowest < rows[LIST_OFFSETS].lowest


def test_an_older_release_lacks_what_came_later() -> None:
    rows = rows_in(presented("3.9"))
    assert SHARE_FETCH not in rows
    assert (rows[PRODUCE].lowest, rows[PRODUCE].highest) == (TABLE[PRODUCE].lowest, 11)
    assert (rows[OFFSET_COMMIT].lowest, rows[OFFSET_COMMIT].highest) == (1, 9)


def test_a_request_that_came_later_ends_the_connection_as_an_unknown_one_does() -> None:
    def never(*_: object) -> None:
        raise AssertionError("nobody calls this")

    dispatcher = Dispatcher(find_in(presented("3.9")), never)
    context = RequestContext(
        services=cast("Services", None), node_id=1, listener="A", client_host="/"
    )
    for key, why in ((SHARE_FETCH, "unknown API key 78"), (OFFSET_COMMIT, "no version 10")):
        frame = bytearray(framed(header(key, 10, is_flexible=True)))
        with pytest.raises(ProtocolViolation, match=why):
            dispatcher.dispatch(context, frame, 4, len(frame), [])


def test_api_versions_itself_is_cut() -> None:
    api = find_in(presented("3.8"))(API_VERSIONS)
    assert api is not None
    assert api.versions.highest == 3
