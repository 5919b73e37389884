"""Selects the requests of earlier periods that audits of a period need as evidence.

The audits of a period read its requests and those of the period before. What began earlier shows in
few requests: the first and the last of equal heartbeats, the last commit of an offset, and those of
transactions that are open. They are copied from period to period, so their number depends on the
members, topics and producers of the capture, not on its traffic. Hosts that are silent for long are
forgotten, and so are the oldest of very many requests of a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.spark.memory import duckdb_bytes
from kafkalite.lab.spark.requests import EVIDENCE, PLAIN_EVIDENCE, api_key
from kafkalite.lab.spark.stages.plain_requests import PLAIN
from kafkalite.lab.spark.state.connect import LEADER
from kafkalite.ports.system import machine_bytes
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.lab.spark.local.session import LocalSession
    from kafkalite.lab.spark.locations import Location

_ROWS: Final = """(
    select * replace (epoch_us(ts) as ts) from {files} where epoch_us(ts) < {until})
"""
"""The requests of an API before a time, with their places in files."""
_ALL: Final = "select filename, file_row_number from {rows}"
_DISTINCT: Final = """
    select filename, file_row_number from {rows}
    qualify row_number() over (
        partition by client, hash(request), hash(response) order by ts, file_row_number) = 1
    or row_number() over (
        partition by client, hash(request), hash(response)
        order by ts desc, file_row_number desc) = 1
"""
"""The first and the last of equal requests of a client."""
_LAST_OFFSETS: Final = """
    select distinct filename, file_row_number from (
        select * from (
            select filename, file_row_number, ts, client, request.group_id as group_id,
                request.member_id as member_id, hash(response) as response, topic.name as name,
                topic.topic_id as topic_id,
                unnest(topic.partitions).partition_index as partition_index
            from (select *, unnest(request.topics) as topic from {rows})
        )
        qualify row_number() over (
            partition by client, group_id, member_id, response, name, topic_id, partition_index
            order by ts desc, file_row_number desc) = 1
    )
"""
"""The last of the commits of an offset that have the same result."""
_LAST_OF_PARTITIONS: Final = """
    select distinct filename, file_row_number from (
        select * from (
            select filename, file_row_number, ts, topic.{topic} as topic,
                unnest(topic.{partitions}).{index} as partition_index
            from (select *, unnest(response.{topics}) as topic from {{rows}})
        )
        qualify row_number() over (
            partition by topic, partition_index order by ts desc, file_row_number desc) = 1
    )
"""
"""The last requests whose responses have a high watermark of a partition."""
_OPEN: Final = """
    select filename, file_row_number
    from (select filename, file_row_number, ts, {id} as id from {rows}) left join ends using (id)
    where id != '' and (last_end is null or ts >= last_end)
"""
"""The requests of a transactional id after its last end of a transaction."""
_LAST_ENDS: Final = """
    select filename, file_row_number from {rows}
    qualify row_number() over (
        partition by request.transactional_id order by ts desc, file_row_number desc) = 1
"""
_NEXT_ENDS: Final = """
    select filename, file_row_number
    from last_commits asof join
        (select filename, file_row_number, ts, request.transactional_id as id from {rows}) as ended
    on last_commits.id = ended.id and last_commits.committed <= ended.ts
"""
"""The ends of the transactions with the last commits."""

_CLIENTS: Final = "select client, ts from {rows}"
_HOSTS: Final = """
    create or replace temp table hosts as
    select regexp_replace(client, ':[0-9]+$', '') as host
    from ({rows}) group by host having max(ts) >= {since}
"""
_RETAINED: Final = """
    select filename, file_row_number from {rows} join ({selected})
    using (filename, file_row_number)
    where regexp_replace(client, ':[0-9]+$', '') in (select host from hosts)
    qualify row_number() over (
        partition by client order by ts desc, file_row_number desc) <= {most}
"""
_MAX_REQUESTS: Final = 10_000
"""Maximum number of requests of a client and an API."""

_CONNECTION: Final = "connection"
_TRANSACTIONAL_ID: Final = "request.transactional_id"
_ENDS: Final = """
    create or replace temp table ends as
    select id, max(ts) as last_end from ({rows}) group by id
"""
_END: Final = """
    select request.transactional_id as id, ts from {rows}
    where response is null or response.error_code = 0
"""
_ENDING: Final = (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID)
_COMMITS: Final = """
    create or replace temp table last_commits as select id, ts as committed from ({rows})
"""
_COMMIT: Final = """
    select request.transactional_id as id, ts
    from {rows} join ({last}) using (filename, file_row_number)
"""
_NO_END: Final = "select null::varchar as id, null::bigint as ts"
_RULES: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.INIT_PRODUCER_ID: (_ALL,),
    ApiKey.JOIN_GROUP: (_ALL,),
    ApiKey.SYNC_GROUP: (_ALL,),
    ApiKey.LEAVE_GROUP: (_ALL,),
    ApiKey.CREATE_TOPICS: (_ALL,),
    ApiKey.HEARTBEAT: (_DISTINCT,),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (_DISTINCT,),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (_DISTINCT,),
    ApiKey.SHARE_GROUP_HEARTBEAT: (_DISTINCT,),
    ApiKey.METADATA: (_DISTINCT,),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_DISTINCT,),
    ApiKey.OFFSET_COMMIT: (_LAST_OFFSETS,),
    ApiKey.TXN_OFFSET_COMMIT: (_LAST_OFFSETS, _OPEN.replace("{id}", _TRANSACTIONAL_ID)),
    ApiKey.ADD_OFFSETS_TO_TXN: (_OPEN.replace("{id}", _TRANSACTIONAL_ID),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (_OPEN.replace("{id}", "request.v3_and_below_transactional_id"),),
    ApiKey.PRODUCE: (
        _OPEN.replace("{id}", _TRANSACTIONAL_ID),
        *(
            _LAST_OF_PARTITIONS.format(
                topics="responses", topic=topic, partitions="partition_responses", index="index"
            )
            for topic in ("name", "topic_id")
        ),
        f"{_ALL} where starts_with(request.transactional_id, '{LEADER}')",
    ),
    ApiKey.FETCH: tuple(
        _LAST_OF_PARTITIONS.format(
            topics="responses", topic=topic, partitions="partitions", index="partition_index"
        )
        for topic in ("topic", "topic_id")
    ),
    ApiKey.LIST_OFFSETS: (
        _LAST_OF_PARTITIONS.format(
            topics="topics", topic="name", partitions="partitions", index="partition_index"
        ),
    ),
    ApiKey.END_TXN: (_LAST_ENDS, _NEXT_ENDS),
}
"""API → queries that select its evidence. The other APIs have none."""


def copy_evidence(  # noqa: PLR0917 - called by a period
    source: Location,
    names: Iterable[str],
    target: Location,
    token: str,
    before_us: int,
    retained_us: int,
    connection_ids: Mapping[int, int],
) -> list[str]:
    """Copy the requests before a time that later audits need; returns the paths of the new files.

    `names` are files of requests below `source`. Hosts that are silent for `retained_us` are
    forgotten. Connections get the numbers that they have in `connection_ids`.
    """
    by_api: dict[int, list[str]] = {}
    for name in names:
        key = api_key(name.split("/")[1].removeprefix("api="))
        if key in _RULES:
            by_api.setdefault(key, []).append(name)
    if not by_api:
        return []
    from kafkalite.lab.spark.local.session import LocalSession  # noqa: PLC0415 - needs DuckDB

    session = LocalSession(duckdb_bytes(None, machine_bytes()))
    try:
        return _copy(
            session, source, by_api, target, token, (before_us, retained_us), connection_ids
        )
    finally:
        session.close()


def _copy(  # noqa: PLR0917 - called once
    session: LocalSession,
    source: Location,
    by_api: Mapping[int, Sequence[str]],
    target: Location,
    token: str,
    times_us: tuple[int, int],
    connection_ids: Mapping[int, int],
) -> list[str]:
    parts: dict[str, list[pa.Table]] = {}
    for key, selected in _select(session, source, by_api, *times_us).items():
        for name in by_api[key]:
            rows = selected.get(session.file_name(source / name))
            if rows is not None:
                end = PLAIN_EVIDENCE if name.endswith(PLAIN) else EVIDENCE
                table = _read_rows(source / name, rows)
                part = parts.setdefault(f"{name.rpartition('/')[0]}/{token}{end}", [])
                part.append(_with_numbers(table, connection_ids))
    for name, tables in parts.items():
        with (target / name).create() as stream:
            parquet.write_table(pa.concat_tables(tables), stream)
    return sorted(parts)


def _select(
    session: LocalSession,
    source: Location,
    by_api: Mapping[int, Sequence[str]],
    before_us: int,
    retained_us: int,
) -> dict[int, dict[str, list[int]]]:
    """Return the numbers of the selected rows, by API and name of the file."""
    rows = {
        key: _ROWS.format(files=session.rows_of(source / name for name in names), until=before_us)
        for key, names in by_api.items()
    }
    clients = " union all ".join(_CLIENTS.format(rows=each) for each in rows.values())
    session.execute(_HOSTS.format(rows=clients, since=before_us - retained_us))
    ends = [_END.format(rows=rows[key]) for key in _ENDING if key in rows]
    session.execute(_ENDS.format(rows=" union all ".join([_NO_END, *ends])))
    commits = rows.get(ApiKey.TXN_OFFSET_COMMIT)
    last = commits and _COMMIT.format(rows=commits, last=_LAST_OFFSETS.format(rows=commits))
    session.execute(_COMMITS.format(rows=last or _NO_END))
    selected: dict[int, dict[str, list[int]]] = {}
    for key in by_api:
        queries = [query.format(rows=rows[key]) for query in _RULES[key]]
        query = _RETAINED.format(
            rows=rows[key], selected=" union ".join(queries), most=_MAX_REQUESTS
        )
        by_file = selected[key] = {}
        for row in session.run(query).to_pylist():
            by_file.setdefault(row["filename"], []).append(row["file_row_number"])
    return selected


def _read_rows(file: Location, rows: Sequence[int]) -> pa.Table:
    """Return some rows of a file, in its order."""
    with file.files.open_input_file(file.path) as stream:
        return parquet.ParquetFile(stream).read().take(sorted(rows))


def _with_numbers(table: pa.Table, numbers: Mapping[int, int]) -> pa.Table:
    """Replace the numbers of connections that have several."""
    index = table.schema.get_field_index(_CONNECTION)
    connections = table[_CONNECTION].to_pylist()
    if numbers.keys().isdisjoint(connections):
        return table
    renamed = pa.array([numbers.get(each, each) for each in connections], pa.int64())
    return table.set_column(index, table.schema.field(index), renamed)
