"""Proofs of findings: the requests at the times that the rows of audits name.

The rows of an audit name times, and the client, the group or the API of a request. So the proofs
are found after the audits, by one scan of all requests for these times, instead of places in every
query.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.audits.connect import GENERATIONS as CONNECT_GENERATIONS
from kafkalite.lab.spark.audits.connect import TASKS as CONNECT_TASKS
from kafkalite.lab.spark.audits.departures import DEPARTURES, REBALANCE_WAITS, REMOVED
from kafkalite.lab.spark.audits.fencing import CASES
from kafkalite.lab.spark.audits.health import ERRORS
from kafkalite.lab.spark.audits.members import GHOSTS
from kafkalite.lab.spark.audits.metadata import STALE
from kafkalite.lab.spark.audits.offsets import EXPIRY
from kafkalite.lab.spark.audits.partition_epochs import OUTDATED_REQUESTS, RECREATED
from kafkalite.lab.spark.audits.producers import FENCES, TRANSACTIONS, ZOMBIES
from kafkalite.lab.spark.audits.resets import EPOCH_ERRORS, RESETS
from kafkalite.lab.spark.audits.retained_offsets import RETAINED_OFFSETS
from kafkalite.lab.spark.local.data_types import parse_type
from kafkalite.lab.spark.stages.projection import Projection
from kafkalite.lab.spark.state.tables import Column, Table
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from kafkalite.lab.spark.requests import Requests

    Times = npt.NDArray[np.int64]
    Row = Mapping[str, Any]

PROOFS: Final = Column(
    "proofs",
    "array<struct<file: string, offset: bigint, connection: string, correlation_id: int>>",
    "the requests that prove it: file, position of the packet in it, connection, correlation id",
)
_MAX_PROOFS: Final = 4


class Evidence(NamedTuple):
    """What a row says about a request that proves it; the names are those of its columns."""

    at: str
    """Time of the request or of its response."""
    client: str = ""
    """The client, as host:port."""
    same_host: str = ""
    """A client of the same host, or its address; its port may be another one."""
    client_id: str = ""
    group: str = ""
    api: str = ""
    """Name of the API."""
    apis: tuple[ApiKey, ...] = ()
    """The possible APIs; empty for all."""
    cause: str = ""
    """The value of the column `cause` in rows with this evidence; empty for all rows."""


_COMMITS: Final = (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
_OFFSETS: Final = (*_COMMITS, ApiKey.END_TXN, ApiKey.OFFSET_FETCH)
_TOPICS: Final = (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.CREATE_TOPICS)

EVIDENCE: Final[Mapping[str, tuple[Evidence, ...]]] = {
    CASES.name: (Evidence("at", client="client", apis=_COMMITS),),
    GHOSTS.name: (Evidence("last_seen", client="client"),),
    DEPARTURES.name: (
        Evidence("last_seen", client="client"),
        Evidence("ended_at", same_host="client", client_id="client_id"),
        Evidence("ended_at", apis=(ApiKey.LEAVE_GROUP,), cause=REMOVED),
    ),
    REBALANCE_WAITS.name: (
        Evidence("asked_at", same_host="client", client_id="client_id"),
        Evidence("until", same_host="client", client_id="client_id"),
    ),
    EXPIRY.name: (
        Evidence("committed_at", group="group_id", apis=_OFFSETS),
        Evidence("returned_at", group="group_id", apis=_OFFSETS),
    ),
    RETAINED_OFFSETS.name: (
        Evidence("committed_at", group="group_id", apis=_OFFSETS),
        Evidence("fetched_at", group="group_id", apis=_OFFSETS),
    ),
    STALE.name: (
        Evidence("known_since", same_host="host", client_id="client_id"),
        Evidence("at", client="client"),
    ),
    RESETS.name: (
        Evidence("at", client="client"),
        Evidence("reset_at", same_host="host", client_id="client_id", apis=(ApiKey.LIST_OFFSETS,)),
    ),
    EPOCH_ERRORS.name: (
        Evidence("first_at", same_host="host", client_id="client_id", api="api"),
        Evidence("last_at", same_host="host", client_id="client_id", api="api"),
    ),
    RECREATED.name: (
        Evidence("last_seen_at", apis=_TOPICS),
        Evidence("first_seen_at", apis=_TOPICS),
    ),
    OUTDATED_REQUESTS.name: (Evidence("at", client="client", api="api"),),
    FENCES.name: (Evidence("at", client="client", apis=(ApiKey.INIT_PRODUCER_ID,)),),
    ZOMBIES.name: (
        Evidence("fenced_at", client="fenced_by", apis=(ApiKey.INIT_PRODUCER_ID,)),
        Evidence("at", client="client", api="api"),
    ),
    TRANSACTIONS.name: (
        Evidence("began_at", client="client"),
        Evidence("ended_at", same_host="client", apis=(ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID)),
    ),
    CONNECT_TASKS.name: (
        Evidence("began_at", client="client"),
        Evidence("ended_at", client="ended_by"),
    ),
    CONNECT_GENERATIONS.name: (
        Evidence("configured_at", client="leader"),
        Evidence("task_count_at", client="leader"),
    ),
    ERRORS.name: (Evidence("first_at", api="api"), Evidence("last_at", api="api")),
}
"""Table → the requests that prove its rows. Rows of the other tables are sums of many requests."""


def with_proofs(table: Table) -> Table:
    """Return the description of a table as it is written: with proofs, if its rows have some."""
    if table.name not in EVIDENCE:
        return table
    return Table(table.name, table.about, (*table.columns, PROOFS), table.times)


class Place(NamedTuple):
    """A request that may prove a row."""

    file: str
    offset: int
    correlation_id: int
    client: str
    broker: str
    client_id: str | None
    api_key: int
    groups: tuple[str, ...] | None
    """None for an API whose requests are not searched for groups."""

    def proof(self) -> dict[str, Any]:
        """Return it as an element of `proofs`."""
        return {
            "file": self.file,
            "offset": self.offset,
            "connection": f"{self.client} > {self.broker}",
            "correlation_id": self.correlation_id,
        }


class Places:
    """The requests at the times that rows name."""

    def __init__(self, places: Iterable[tuple[int, Place]]) -> None:
        self._by_time: dict[int, list[Place]] = defaultdict(list)
        for at_us, place in places:
            self._by_time[at_us].append(place)

    def add_to(self, name: str, rows: pa.Table) -> pa.Table:
        """Return rows of a table with their proofs."""
        evidence = EVIDENCE[name]
        used = dict.fromkeys(
            column for each in evidence for column in (*each[:6], "cause" if each.cause else "")
        )
        known = rows.select([column for column in used if column])
        times = {
            each.at: _microseconds(rows[each.at]).to_pylist() for each in evidence
        }  # fmt: skip
        found = [
            [
                place.proof()
                for place in self._places(
                    evidence, row, {at: values[index] for at, values in times.items()}
                )
            ]
            for index, row in enumerate(known.to_pylist())
        ]
        return rows.append_column(PROOFS.name, pa.array(found, parse_type(PROOFS.type)))

    def _places(
        self, evidence: Sequence[Evidence], row: Row, times: Mapping[str, int | None]
    ) -> list[Place]:
        found: dict[Place, None] = {}
        for each in evidence:
            if each.cause and row["cause"] != each.cause:
                continue
            own = [
                place
                for place in self._by_time.get(times[each.at] or -1, ())
                if _matches(each, row, place)
            ]
            own.sort(key=_position)  # a scan by several tasks has no order
            # EndTxn names no group, so it proves a commit only if no other request does.
            found |= dict.fromkeys([place for place in own if place.groups] or own)
        return [*found][:_MAX_PROOFS]


def _position(place: Place) -> tuple[str, int, int]:
    return place.file, place.offset, place.correlation_id


def _matches(evidence: Evidence, row: Row, place: Place) -> bool:
    """Return whether a request can be the one that a row names."""
    if evidence.group:
        is_of_group = place.api_key == ApiKey.END_TXN or (
            place.groups is not None and row[evidence.group] in place.groups
        )
        if not is_of_group:
            return False
    elif place.groups is not None:
        return False  # the same request is also in the scan of all APIs
    return (
        (not evidence.client or row[evidence.client] == place.client)
        and (not evidence.same_host or _host(row[evidence.same_host]) == _host(place.client))
        and (not evidence.client_id or row[evidence.client_id] == place.client_id)
        and (not evidence.api or row[evidence.api] == codec.api_name(place.api_key))
        and (not evidence.apis or place.api_key in evidence.apis)
    )


def _host(client: str | None) -> str:
    """Return the host of host:port, or an address as it is; IPv6 addresses with a port have []."""
    text = client or ""
    host, _, port = text.rpartition(":")
    is_with_port = port.isdigit() and (":" not in host or host.endswith("]"))
    return (host if is_with_port else text).strip("[]")


# -- the scan ----------------------------------------------------------------------------------

_ENVELOPE: Final = {
    name: name for name in ("file", "correlation_id", "client", "broker", "client_id", "api_key")
}
PLACES: Final = pa.schema(
    [
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("connection", pa.int64()),
        ("position", pa.int64()),
        ("file", pa.string()),
        ("correlation_id", pa.int32()),
        ("client", pa.string()),
        ("broker", pa.string()),
        ("client_id", pa.string()),
        ("api_key", pa.int16()),
        ("groups", pa.list_(pa.string())),
    ]
)
_GROUP_APIS: Final = (*_COMMITS, ApiKey.OFFSET_FETCH)


def times_in(name: str, rows: pa.Table) -> Times:
    """Return the times of requests that rows of a table name, in microseconds."""
    times = [
        np.asarray(_microseconds(rows[each.at]).drop_null(), np.int64) for each in EVIDENCE[name]
    ]
    return np.unique(np.concatenate(times))


def _microseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def find_requests(requests: Requests, times: Times, *, has_groups: bool = False) -> pa.Table:
    """Return the requests that were sent or answered at some times, as `PLACES`, by one scan.

    With `has_groups`, requests about committed offsets are searched by group, too.
    """
    projections = [_projection(ApiKey.API_VERSIONS, {}, times, is_of_all_apis=True)]
    if has_groups:
        projections += (_projection(key, {"group": "request.group_id"}, times) for key in _COMMITS)
        both = {"group": "request.group_id", "groups_in": "request.groups"}
        projections.append(_projection(ApiKey.OFFSET_FETCH, both, times))
    found = (requests.project(each).toArrow() for each in projections)
    return pa.concat_tables([PLACES.empty_table(), *(each.cast(PLACES) for each in found)])


def places_in(rows: pa.Table, times: Times) -> Places:
    """Return the requests in rows of `PLACES` by the times that are known."""
    known = frozenset(times.tolist())
    return Places(stamped for row in rows.to_pylist() for stamped in _stamped(row, known))


def _stamped(row: Row, known: frozenset[int]) -> Iterator[tuple[int, Place]]:
    groups = None if row["groups"] is None else tuple(row["groups"])
    place = Place(
        row["file"], row["position"], row["correlation_id"], row["client"], row["broker"],
        row["client_id"], row["api_key"], groups,
    )  # fmt: skip
    for at_us in {row["start_us"], row["end_us"]} & known:
        yield at_us, place


def _projection(
    key: ApiKey, fields: Mapping[str, str], times: Times, *, is_of_all_apis: bool = False
) -> Projection:
    return Projection(
        api_key=int(key),
        fields={**_ENVELOPE, **fields},
        reduce_rows=partial(requests_at, times=times),
        schema=PLACES,
        is_of_all_apis=is_of_all_apis,
    )


def requests_at(rows: pa.Table, times: Times) -> pa.Table:
    """Return the requests that were sent or answered at one of some sorted times, as `PLACES`."""
    found = at_times(rows, times)
    return found.append_column("groups", pa.array(_groups(found), pa.list_(pa.string())))


def at_times(rows: pa.Table, times: Times) -> pa.Table:
    """Return the rows with a request that was sent or answered at one of some sorted times."""
    start = np.asarray(rows["start_us"], np.int64)
    end = np.asarray(pc.fill_null(rows["end_us"], -1), np.int64)
    return rows.filter(pa.array(_are_in(start, times) | _are_in(end, times)))


def _are_in(values: Times, known: Times) -> npt.NDArray[np.bool_]:
    """Return whether each value is one of the sorted known ones."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    index = np.searchsorted(known, values).clip(max=len(known) - 1)
    is_known: npt.NDArray[np.bool_] = known[index] == values
    return is_known


def _groups(rows: pa.Table) -> list[list[str] | None]:
    if "group" not in rows.column_names:
        return [None] * rows.num_rows
    alone = rows["group"].to_pylist()
    several = (
        rows["groups_in"].to_pylist()
        if "groups_in" in rows.column_names
        else [None] * rows.num_rows
    )
    return [
        [each for each in (one, *(row["group_id"] for row in many or ())) if each]
        for one, many in zip(alone, several, strict=True)
    ]
