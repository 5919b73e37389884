"""A broker that emulates a release serves the APIs and versions of that release."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.apis.releases import api_finder, served_rows
from kafkalite.apis.table import TABLE, find_api
from kafkalite.config.releases import emulated_release, release_names
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.versions import Versions
from tests.unit.frames import framed, header

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node

PRODUCE, LIST_OFFSETS, OFFSET_COMMIT, API_VERSIONS = 0, 2, 8, 18
TXN_OFFSET_COMMIT, DELETE_GROUPS = 28, 42
INIT_PRODUCER_ID = 22
STREAMS_GROUP_HEARTBEAT, STREAMS_GROUP_DESCRIBE = 88, 89
STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
UNREGISTER_CONTROLLER = 94
SHARE_FETCH = 78


def test_without_a_release_all_apis_are_served() -> None:
    release = emulated_release(None)
    assert served_rows(release) is TABLE
    assert api_finder(release) is find_api


@pytest.mark.parametrize("name", release_names())
def test_rows_and_found_apis_agree(name: str) -> None:
    release = emulated_release(name)
    rows, find = served_rows(release), api_finder(release)
    for key in TABLE:
        api = find(key)
        row = rows.get(key)
        assert (api is None) is (row is None)
        if api is not None and row is not None:
            assert (api.versions.lowest, api.versions.highest) == (row.lowest, row.highest)
    assert find(0x7FFF) is None


def test_the_default_release_has_every_api_in_the_newest_version() -> None:
    """Additional versions are older ones that it dropped."""
    rows = served_rows(emulated_release("4.4"))
    assert {key: row.highest for key, row in rows.items()} == {
        key: row.highest for key, row in TABLE.items()
    }
    assert TABLE[LIST_OFFSETS].lowest < rows[LIST_OFFSETS].lowest


def test_the_release_before_the_default_one_lacks_the_versions_of_the_default_one() -> None:
    rows = served_rows(emulated_release("4.3"))
    earlier = {
        key: rows[key].highest if key in rows else None
        for key, row in TABLE.items()
        if key not in rows or rows[key].highest != row.highest
    }
    assert earlier == {
        API_VERSIONS: 4,
        TXN_OFFSET_COMMIT: 5,
        DELETE_GROUPS: 2,
        STREAMS_GROUP_HEARTBEAT: 0,
        STREAMS_GROUP_DESCRIBE: 0,
        STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: None,
        UNREGISTER_CONTROLLER: None,
    }


def test_an_older_release_lacks_later_apis() -> None:
    rows = served_rows(emulated_release("3.9"))
    assert SHARE_FETCH not in rows
    assert (rows[PRODUCE].lowest, rows[PRODUCE].highest) == (0, 11)
    assert (rows[OFFSET_COMMIT].lowest, rows[OFFSET_COMMIT].highest) == (0, 9)


def test_the_oldest_versions_need_an_older_release() -> None:
    assert TABLE[PRODUCE].lowest == served_rows(emulated_release("4.0"))[PRODUCE].lowest == 3
    release = emulated_release("3.3")
    rows = served_rows(release)
    assert release.apis is not None
    assert {row.name: row.lowest for row in rows.values()} == {
        name: versions.lowest for name, versions in release.apis.items()
    }


def test_a_request_of_a_later_release_closes_the_connection() -> None:
    def never(*_: object) -> None:
        raise AssertionError("never called")

    gateway = Gateway(api_finder(emulated_release("3.9")), never)
    context = ConnectionContext(node=cast("Node", None), listener="A", client_host="/")
    for key, why in (
        (SHARE_FETCH, r"ShareFetch \(API key 78\) is not served"),
        (OFFSET_COMMIT, "OffsetCommit v10 is not served"),
    ):
        frame = bytearray(framed(header(key, 10, is_flexible=True)))
        with pytest.raises(ProtocolViolation, match=why):
            gateway.serve_in_worker(context, frame, 4, len(frame), [])


def test_unstable_versions_are_served_only_if_enabled() -> None:
    for name in (None, "4.4", "4.3", "4.2", "4.1"):
        release = emulated_release(name)
        rows = served_rows(release, unstable=True)
        assert (rows[INIT_PRODUCER_ID].lowest, rows[INIT_PRODUCER_ID].highest) == (0, 6)
        assert served_rows(release)[INIT_PRODUCER_ID].highest == 5
        for key, served in ((INIT_PRODUCER_ID, 6), (PRODUCE, rows[PRODUCE].highest)):
            api = api_finder(release, unstable=True)(key)
            assert api is not None
            assert api.versions.highest == served


def test_a_whole_api_can_be_unstable() -> None:
    release = emulated_release("4.1")
    assert STREAMS_GROUP_HEARTBEAT not in served_rows(release)
    rows = served_rows(release, unstable=True)
    row = rows[STREAMS_GROUP_HEARTBEAT]
    assert (row.lowest, row.highest) == (0, 0)
    assert (rows[OFFSET_COMMIT].lowest, rows[OFFSET_COMMIT].highest) == (2, 10)


@pytest.mark.parametrize("name", [None, "3.6", "4.1"])
def test_api_versions_lists_served_unstable_versions(name: str | None) -> None:
    release = emulated_release(name)
    rows, find = served_rows(release, unstable=True), api_finder(release, unstable=True)
    found = {key: api for key in TABLE if (api := find(key)) is not None}
    assert {key: api.versions for key, api in found.items()} == {
        key: Versions(row.lowest, row.highest) for key, row in rows.items()
    }
    assert api_finder(release)(API_VERSIONS) != found[API_VERSIONS]


def test_api_versions_itself_is_limited() -> None:
    api = api_finder(emulated_release("3.8"))(API_VERSIONS)
    assert api is not None
    assert api.versions.highest == 3
