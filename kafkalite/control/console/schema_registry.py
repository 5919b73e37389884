"""SchemaRegistry: schemas from a registry with the HTTP API of Confluent's, in the event loop.

Requests neither use a thread nor block: a registry that does not answer delays neither clients nor
the end of the process. What was read remains in a cache, because the schema of an id never changes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

import h11

from kafkalite.control.console.schemas import JSON, KINDS, PROTOBUF, Schema, SchemaError, UsedSchema
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

TIMEOUT_S: Final = 3.0
"""The time limit of a page for all schemas that it needs."""
MAX_BYTES: Final = 1024 * 1024
"""The maximum size of an answer of the registry."""
MAX_USED: Final = 50
"""The maximum number of schemas that one schema uses."""
MAX_IDS: Final = 40
"""The maximum number of schemas that are read for a page."""
_MAX_CACHED: Final = 500
_ERROR_S: Final = 10.0
"""The time for which an error remains in the cache."""
_CONNECTIONS: Final = 4
_READ_BYTES: Final = 64 * 1024
_OK, _NOT_FOUND = 200, 404
_SERIALIZED: Final = "?format=serialized"


class _Cached(NamedTuple):
    """The result of reading a schema."""

    found: Schema | SchemaError
    until: float | None
    """When it is read again, in time of the event loop; None for never."""


class SchemaRegistry:
    """Reads schemas by their ids, each once."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        """Use the registry at a URL, which may have a user and a password."""
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._is_https = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._name = f"{parts.scheme}://{self._authority}{self._path}"
        self._authorization = None
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._authorization = f"Basic {b64encode(user.encode()).decode()}"
        self._timeout_s = timeout_s
        self._cache: OrderedDict[int, _Cached] = OrderedDict()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._connections = asyncio.Semaphore(_CONNECTIONS)

    async def schemas(self, ids: Collection[int]) -> Mapping[int, Schema | SchemaError]:
        """Return the schemas with some ids, or why they are not available.

        It waits for the registry for a limited time; later calls find what arrives after it.
        """
        now = asyncio.get_running_loop().time()
        wished = [*dict.fromkeys(ids)][:MAX_IDS]
        for each in wished:
            cached = self._cache.get(each)
            is_current = cached is not None and (cached.until is None or now < cached.until)
            if not is_current and each not in self._tasks:
                self._cache.pop(each, None)
                self._tasks[each] = asyncio.create_task(self._load(each))
        pending = [self._tasks[each] for each in wished if each in self._tasks]
        if pending:
            await asyncio.wait(pending, timeout=self._timeout_s)
        return {each: self._found(each) for each in ids}

    def _found(self, schema_id: int) -> Schema | SchemaError:
        cached = self._cache.get(schema_id)
        if cached is not None:
            self._cache.move_to_end(schema_id)
            return cached.found
        if schema_id in self._tasks:
            return SchemaError(f"{self._name} has not returned schema {schema_id} yet")
        return SchemaError(f"schema {schema_id} is not read: a page reads at most {MAX_IDS}")

    async def _load(self, schema_id: int) -> None:
        """Put a schema into the cache, or the reason why it is not available."""
        found: Schema | SchemaError
        until = None
        try:
            async with self._connections, asyncio.timeout(self._timeout_s):
                found = await self._read(schema_id)
        except SchemaError as error:
            found = error
        except TimeoutError:
            found = SchemaError(f"{self._name} does not answer")
        except (OSError, UnicodeError) as error:  # the host may be no name of the Internet
            reason = getattr(error, "strerror", None) or f"{error}"
            found = SchemaError(f"the schema registry {self._name} is not available: {reason}")
        finally:
            self._tasks.pop(schema_id, None)
        if isinstance(found, SchemaError):
            until = asyncio.get_running_loop().time() + _ERROR_S
        self._cache[schema_id] = _Cached(found, until)
        while len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)

    async def _read(self, schema_id: int) -> Schema:
        what = f"schema {schema_id}"
        path = f"/schemas/ids/{schema_id}"
        document = await self._get(path, what)
        kind = document.get("schemaType", KINDS[0])
        if kind not in KINDS:
            raise SchemaError(f"{what} has the type {kind!r:.80}, not {', '.join(KINDS)}")
        if kind == PROTOBUF:
            document = await self._get(f"{path}{_SERIALIZED}", what)
        used: dict[str, UsedSchema] = {}
        if kind != JSON:
            await self._read_used(document, kind, used, what)
        return Schema(schema_id, kind, _text_in(document, what), tuple(used.values()))

    async def _read_used(
        self, document: Mapping[str, Any], kind: str, used: dict[str, UsedSchema], what: str
    ) -> None:
        """Add the schemas that a document refers to, each after those that it uses itself."""
        for each in _references_in(document):
            if each.name in used:
                continue
            if len(used) >= MAX_USED:
                raise SchemaError(f"{what} uses more than {MAX_USED} other schemas")
            used[each.name] = UsedSchema(each.name, "")  # a schema may use itself
            path = f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}"
            found = await self._get(
                f"{path}{_SERIALIZED if kind == PROTOBUF else ''}",
                f"{each.subject[:80]!r}, version {each.version}, which {what} uses",
            )
            await self._read_used(found, kind, used, what)
            del used[each.name]
            used[each.name] = UsedSchema(each.name, _text_in(found, what))

    async def _get(self, path: str, what: str) -> Mapping[str, Any]:
        """Return the JSON object at a path; raises SchemaError, and OSError."""
        status, body = await self._exchange(f"{self._path}{path}", what)
        if status == _NOT_FOUND:
            raise SchemaError(f"the schema registry {self._name} has no {what}")
        if status != _OK:
            raise SchemaError(f"the schema registry {self._name} answered {status} for {what}")
        try:
            document = await asyncio.to_thread(json.loads, body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise SchemaError(f"{self._name} returned no JSON object for {what}")
        return document

    async def _exchange(self, path: str, what: str) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a GET request."""
        context = await asyncio.to_thread(ssl.create_default_context) if self._is_https else None
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=context)
        try:
            connection = h11.Connection(h11.CLIENT)
            request = h11.Request(method="GET", target=path, headers=self._headers())
            for event in (request, h11.EndOfMessage()):
                writer.write(connection.send(event) or b"")
            return await _answer(connection, reader, what)
        except h11.RemoteProtocolError as error:
            raise SchemaError(f"{self._name} does not speak HTTP: {error}") from error
        finally:
            writer.close()

    def _headers(self) -> list[tuple[str, str]]:
        headers = [
            ("host", self._authority),
            ("accept", "application/vnd.schemaregistry.v1+json, application/json"),
            ("connection", "close"),
        ]
        if self._authorization is not None:
            headers.append(("authorization", self._authorization))
        return headers


async def _answer(
    connection: h11.Connection, reader: asyncio.StreamReader, what: str
) -> tuple[int, bytes]:
    status, body = 0, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BYTES:
                raise SchemaError(f"{what} has more than {MAX_BYTES:,} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(body)


class _Reference(NamedTuple):
    name: str
    subject: str
    version: int


def _references_in(document: Mapping[str, Any]) -> Sequence[_Reference]:
    try:
        found = [
            _Reference(f"{each['name']}", f"{each['subject']}", int(each["version"]))
            for each in document.get("references") or ()
        ]
        for each in found:
            each.subject.encode()  # JSON can have half of a surrogate pair
    except (TypeError, LookupError, ValueError, OverflowError) as error:
        raise SchemaError("the registry returned an invalid list of references") from error
    return found


def _text_in(document: Mapping[str, Any], what: str) -> str:
    text = document.get("schema")
    if not isinstance(text, str):
        raise SchemaError(f"the registry returned {what} without its text")
    return text
