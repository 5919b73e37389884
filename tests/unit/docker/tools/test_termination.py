"""The end of a tool by SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal

from kafkalite.docker.tools.termination import ends_by_sigterm


def test_sigterm_cancels_the_command() -> None:
    ended = []

    async def command() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    asyncio.run(ends_by_sigterm(command()))
    assert ended == [True]
