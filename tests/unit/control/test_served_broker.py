"""ServedBroker: the order of start and stop, and what a failed start leaves."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.capture.recording.recorder import Recorder
from kafkalite.control.address import control_address
from kafkalite.control.served_broker import ControlOptions, IdentityOptions, ServedBroker
from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = Log(Level.ERROR)
FREE = control_address("0")
SETTINGS = Settings(listen=("SASL_PLAINTEXT://127.0.0.1:0",))


async def start(served: ServedBroker, settings: Settings = SETTINGS, **given: Any) -> Any:  # noqa: ANN401 - of the call
    options = {"start_recording": None, "prepare": None, **given}
    return await served.start(settings, AdjustableClock(), **options)


def is_bound(address: str) -> bool:
    host, _, port = address.rpartition("//")[2].rpartition(":")
    with socket.socket() as other:
        try:
            other.bind((host, int(port)))
        except OSError:
            return True
    return False


async def test_all_servers_run_between_start_and_stop_also_the_second_time() -> None:
    served = ServedBroker(LOG, ControlOptions(FREE), IdentityOptions(FREE))
    for _ in range(2):
        broker = await start(served)
        assert served.control is not None
        assert broker.identity is not None
        addresses = [served.control.url, broker.identity.issuer, broker.bootstrap_servers]
        assert all(map(is_bound, addresses))
        assert await served.stop()
        assert served.control is None
        assert not any(map(is_bound, addresses))


async def test_a_broker_without_options_has_no_servers() -> None:
    served = ServedBroker(LOG, None, None)
    broker = await start(served)
    assert (served.control, broker.identity) == (None, None)
    assert await served.stop()
    assert await served.stop()


async def test_a_failed_start_releases_the_ports_and_ends_the_recording(tmp_path: Path) -> None:
    recorders: list[Recorder] = []

    def record(now_ns: Callable[[], int]) -> Recorder:
        recorders.append(Recorder(str(tmp_path), now_ns))
        return recorders[0]

    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            identity = control_address(f"127.0.0.1:{free.getsockname()[1]}")
        served = ServedBroker(
            LOG, ControlOptions(control_address(taken)), IdentityOptions(identity)
        )
        with pytest.raises(Exception, match="in use"):
            await start(served, start_recording=record)
    assert not is_bound(f"127.0.0.1:{identity.port}")
    assert served.recorder is None
    assert len(recorders) == 1
    again = ServedBroker(LOG, None, IdentityOptions(identity))
    assert (await start(again)).identity is not None
    assert await again.stop()


async def test_a_recording_that_cannot_start_leaves_no_port() -> None:
    served = ServedBroker(LOG, None, IdentityOptions(FREE))

    def fail(_: Callable[[], int]) -> Recorder:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await start(served, start_recording=fail)
    assert await served.stop()


def test_the_token_is_not_in_the_text_of_the_options() -> None:
    assert "s3cr3t" not in repr(ControlOptions(FREE, "s3cr3t"))
