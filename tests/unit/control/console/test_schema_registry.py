"""Schemas that are read from a registry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafkalite.control.console import schema_registry
from kafkalite.control.console.schema_registry import MAX_IDS, MAX_USED, SchemaRegistry
from kafkalite.control.console.schemas import Schema, SchemaError, UsedSchema
from tests.unit.control.console.schema_server import schema_server

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

STRING = {"schema": '"string"'}


async def schema_7(answers: Mapping[str, object]) -> Schema | SchemaError:
    with schema_server(answers) as server:
        return (await SchemaRegistry(server.url).schemas([7]))[7]


async def problem_of(answer: object) -> str:
    found = await schema_7({"/schemas/ids/7": answer})
    assert isinstance(found, SchemaError)
    return f"{found}"


async def test_a_schema_is_read_once() -> None:
    with schema_server({"/schemas/ids/7": STRING}) as server:
        registry = SchemaRegistry(server.url)
        for found in await asyncio.gather(registry.schemas([7, 7]), registry.schemas([7])):
            assert found == {7: Schema(7, "AVRO", '"string"')}
        assert server.paths == ["/schemas/ids/7"]


async def test_a_path_and_a_password_of_the_url_are_used() -> None:
    with schema_server({"/apis/v7/schemas/ids/7": STRING}) as server:
        url = server.url.replace("http://", "http://al%40ice:secret@")
        found = (await SchemaRegistry(f"{url}/apis/v7/").schemas([7]))[7]
        assert isinstance(found, Schema)
        assert server.authorizations == ["Basic YWxAaWNlOnNlY3JldA=="]
        missing = (await SchemaRegistry(url).schemas([7]))[7]
        assert f"{missing}" == f"the schema registry {server.url} has no schema 7"


def reference(name: str) -> dict[str, object]:
    return {"name": name, "subject": f"s/{name}", "version": 3}


async def test_used_schemas_are_read_before_those_that_use_them() -> None:
    found = await schema_7(
        {
            "/schemas/ids/7": {"schema": "main", "references": [reference("b"), reference("a")]},
            "/subjects/s%2Fb/versions/3": {"schema": "B", "references": [reference("a")]},
            "/subjects/s%2Fa/versions/3": {"schema": "A", "references": [reference("b")]},
        }
    )
    assert isinstance(found, Schema)
    assert found.used == (UsedSchema("a", "A"), UsedSchema("b", "B"))


async def test_protobuf_is_read_as_a_descriptor() -> None:
    text: dict[str, Any] = {"schemaType": "PROTOBUF", "schema": "syntax"}
    found = await schema_7(
        {
            "/schemas/ids/7": {**text, "references": [reference("a")]},
            "/schemas/ids/7?format=serialized": {**text, "schema": "CgA=",
                                                 "references": [reference("a")]},
            "/subjects/s%2Fa/versions/3?format=serialized": {**text, "schema": "CgB="},
        }
    )  # fmt: skip
    assert found == Schema(7, "PROTOBUF", "CgA=", (UsedSchema("a", "CgB="),))


async def test_problems_are_named() -> None:
    assert "returned no JSON object for schema 7" in await problem_of(b"[")
    assert "returned no JSON object for schema 7" in await problem_of([])
    assert "returned schema 7 without its text" in await problem_of({})
    assert "has the type 'XML', not AVRO, JSON, PROTOBUF" in await problem_of({"schemaType": "XML"})
    invalid: object
    for invalid in (
        7, [7], [[]], [{}], [{**reference("a"), "version": float("inf")}],
        [{**reference("a"), "subject": "\ud800"}],
    ):  # fmt: skip
        found = await problem_of({**STRING, "references": invalid})
        assert found == "the registry returned an invalid list of references"
    missing = {**STRING, "references": [reference("a")]}
    assert "has no 's/a', version 3, which schema 7 uses" in await problem_of(missing)
    assert "schema 7 has more than 1,048,576 bytes" in await problem_of(b" " * 2**20 + b" ")


async def test_few_schemas_are_read() -> None:
    many = {**STRING, "references": [reference(f"{number}") for number in range(MAX_USED + 1)]}
    used: dict[str, object] = {
        f"/subjects/s%2F{number}/versions/3": STRING for number in range(MAX_USED + 1)
    }
    found = await schema_7({"/schemas/ids/7": many, **used})
    assert f"{found}" == f"schema 7 uses more than {MAX_USED} other schemas"
    with schema_server({}) as server:
        schemas = await SchemaRegistry(server.url).schemas(range(MAX_IDS + 1))
        assert len(server.paths) == MAX_IDS
    assert f"a page reads at most {MAX_IDS}" in f"{schemas[MAX_IDS]}"


async def test_a_registry_that_does_not_answer_is_named() -> None:
    with schema_server({"/schemas/ids/7": None}) as server:
        registry = SchemaRegistry(server.url, timeout_s=0.01)
        (found,) = (await registry.schemas([7])).values()
        assert server.url in f"{found}"
        while "does not answer" not in f"{found}":
            (found,) = (await registry.schemas([7])).values()
    (found,) = (await SchemaRegistry(server.url).schemas([7])).values()
    assert f"{found}".startswith(f"the schema registry {server.url} is not available: ")


async def test_a_host_that_is_no_name_is_named() -> None:
    (found,) = (await SchemaRegistry(f"http://{'a' * 64}").schemas([7])).values()
    assert f"{found}".startswith(f"the schema registry http://{'a' * 64} is not available: ")


async def test_a_server_that_speaks_no_http_is_named() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answers.pop())
        writer.close()

    requests: list[bytes] = []
    answers = [b"", b"SSH-2.0\r\n\r\n"]
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for _ in range(2):
            assert "does not speak HTTP" in f"{(await SchemaRegistry(url).schemas([7]))[7]}"
    assert all(url.removeprefix("http://").encode() in each for each in requests)


async def test_an_error_is_forgotten_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "_ERROR_S", 0.0)
    with schema_server({}) as server:
        registry = SchemaRegistry(server.url)
        assert isinstance((await registry.schemas([7]))[7], SchemaError)
        server.answers["/schemas/ids/7"] = STRING
        assert isinstance((await registry.schemas([7]))[7], Schema)


async def test_the_cache_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "_MAX_CACHED", 1)
    with schema_server({f"/schemas/ids/{each}": STRING for each in (7, 8)}) as server:
        registry = SchemaRegistry(server.url)
        for each in (7, 8, 8, 7):
            assert isinstance((await registry.schemas([each]))[each], Schema)
        assert len(server.paths) == 3
