"""A minimal client: one connection, whole requests, whole answers."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.frames import read_answer, request_frame

METADATA_VERSION = 12


class Client:
    """One connection with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, address: str) -> Client:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, request: Any, version: int) -> None:  # noqa: ANN401 - any generated request
        self._writer.write(request_frame(request, version))

    async def receive(self, request: Any, version: int) -> Any:  # noqa: ANN401
        length = int.from_bytes(await self._reader.readexactly(4))
        content = await self._reader.readexactly(length)
        return read_answer(request.API_KEY, version, content)[1]

    async def ask(self, request: Any, version: int) -> Any:  # noqa: ANN401
        self.send(request, version)
        return await self.receive(request, version)

    async def is_closed(self) -> bool:
        return await self._reader.read(1) == b""

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
