"""FileKeys and RemoteKeys: changed files, downloads by the clock, retries, and unknown keys."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.http_get import HttpGetError
from kafkalite.security.sasl.json_web_keys import MAX_KEY_SET_BYTES, KeySetError
from kafkalite.server.token_keys import FileKeys, KeysUnavailableError, RefreshTimes, RemoteKeys
from kafkalite.testing.clock import ManualClock
from tests.unit.ports.workers import HeldWorker

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.ports.waiting import Waiting
    from kafkalite.server.token_keys import TokenKeys

TIMES = RefreshTimes(refresh_ms=60_000, retry_ms=100, max_retry_ms=1000)


def key_set(*key_ids: str) -> bytes:
    keys = [{"kty": "OKP", "crv": "Ed25519", "kid": each, "x": 43 * "A"} for each in key_ids]
    return json.dumps({"keys": keys}).encode()


def ids_of(keys: TokenKeys) -> set[str]:
    return set(keys.keys().key_ids)


def reason_of(keys: TokenKeys) -> str:
    with pytest.raises(KeysUnavailableError) as error:
        keys.keys()
    return str(error.value)


class Server:
    """A server of keys, and RemoteKeys that use it; downloads run when the test says so."""

    def __init__(self, times: RefreshTimes = TIMES) -> None:
        self.answer: bytes | Exception = key_set("a")
        self.downloads = 0
        self.clock = ManualClock()
        self.worker = HeldWorker()
        self.reports: list[str] = []
        self.keys = RemoteKeys(
            self._download,
            times,
            clock=self.clock,
            executor=self.worker,
            report=self.reports.append,
        )

    def _download(self) -> bytes:
        self.downloads += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def wait(self) -> Waiting[None]:
        waiting = self.keys.first_keys()
        assert waiting is not None
        return waiting

    def fail_for_ever(self) -> None:
        """Let the downloads of the start and their retries fail."""
        self.answer = HttpGetError("Connection refused")
        self.worker.run()
        for delay_ms in (100, 200, 400, 300):
            self.clock.advance(delay_ms)
            self.worker.run()


def test_clients_wait_for_the_first_download() -> None:
    server = Server()
    waiting = server.wait()
    assert reason_of(server.keys) == "the download has not ended"
    assert not waiting.is_resolved
    server.worker.run()
    assert waiting.is_resolved
    assert ids_of(server.keys) == {"a"}
    assert server.keys.first_keys() is None


def test_thousands_of_clients_disconnect_while_they_wait() -> None:
    server = Server()
    *abandoned, last = [server.wait() for _ in range(20_000)]
    for waiting in reversed(abandoned):
        waiting.abandon()
    server.worker.run()
    assert last.is_resolved
    assert not any(waiting.is_resolved for waiting in abandoned)


def test_clients_wait_for_one_download_and_not_for_its_retries() -> None:
    server = Server()
    server.answer = HttpGetError("Connection refused")
    waiting, abandoned = server.wait(), server.wait()
    abandoned.abandon()
    server.worker.run()
    assert (waiting.is_resolved, abandoned.is_resolved) == (True, False)
    assert reason_of(server.keys) == "Connection refused"
    server.answer = key_set("a")
    waiting = server.wait()
    server.clock.advance(100)
    server.worker.run()
    assert waiting.is_resolved
    assert ids_of(server.keys) == {"a"}
    assert server.reports == []


def test_a_server_that_never_answers_is_reported_once_and_asked_seldom() -> None:
    server = Server()
    server.fail_for_ever()
    assert server.downloads == 5
    assert server.reports == ["Connection refused"]
    assert server.keys.first_keys() is None
    for _ in range(3):
        assert server.worker.jobs == []
        server.clock.advance(1000)
        server.worker.run()
    assert server.reports == ["Connection refused"]
    server.answer = b"<html>"
    server.clock.advance(1000)
    server.worker.run()
    assert reason_of(server.keys) == server.reports[1] == "the key set is not valid JSON"
    server.answer = key_set("b")
    server.clock.advance(1000)
    server.worker.run()
    assert ids_of(server.keys) == {"b"}


def test_keys_are_downloaded_again_after_each_interval() -> None:
    server = Server()
    server.worker.run()
    server.answer = key_set("b")
    server.clock.advance(59_999)
    assert server.worker.jobs == []
    server.clock.advance(1)
    assert ids_of(server.keys) == {"a"}
    server.worker.run()
    assert ids_of(server.keys) == {"b"}
    server.clock.advance(60_000)
    assert len(server.worker.jobs) == 1


def test_one_download_runs_at_once_in_a_jump_of_the_clock() -> None:
    server = Server(RefreshTimes(refresh_ms=1, retry_ms=0, max_retry_ms=0))
    server.worker.run()
    server.clock.advance(86_400_000)
    assert len(server.worker.jobs) == 1


def test_keys_remain_in_use_while_later_downloads_fail() -> None:
    server = Server()
    server.worker.run()
    server.answer = HttpGetError("HTTP status 500")
    server.clock.advance(60_000)
    server.worker.run()
    for delay_ms in (100, 200, 400, 300):
        assert server.reports == []
        server.clock.advance(delay_ms)
        server.worker.run()
    assert server.reports == ["HTTP status 500"]
    assert ids_of(server.keys) == {"a"}
    server.clock.advance(58_999)
    assert server.worker.jobs == []
    server.clock.advance(1)
    assert len(server.worker.jobs) == 1


def test_an_unknown_key_causes_one_download_per_minute() -> None:
    server = Server()
    server.worker.run()
    server.clock.advance(1000)
    server.answer = key_set("a", "b")
    server.keys.report_unknown("b")
    server.keys.report_unknown("b")
    assert len(server.worker.jobs) == 1
    server.worker.run()
    assert ids_of(server.keys) == {"a", "b"}
    server.keys.report_unknown("c")
    server.worker.run()
    server.clock.advance(58_000)
    server.keys.report_unknown("c")
    assert server.worker.jobs == []
    server.clock.advance(2000)  # also the interval
    server.worker.run()
    server.keys.report_unknown("c")
    assert len(server.worker.jobs) == 1


def test_a_key_that_vanishes_after_a_download_causes_the_next_one_at_once() -> None:
    server = Server()
    server.worker.run()
    server.keys.report_unknown("b")
    server.answer = key_set("b")
    server.worker.run()
    server.keys.report_unknown("b")
    assert len(server.worker.jobs) == 1


def test_the_memory_for_unknown_keys_is_limited() -> None:
    server = Server()
    server.worker.run()
    server.keys.report_unknown(1001 * "x")
    assert server.worker.jobs == []
    for number in range(100):
        server.keys.report_unknown(str(number))
    assert len(server.worker.jobs) == 1
    assert len(server.keys._unknown_ids) == 16


def test_nothing_is_downloaded_after_the_end() -> None:
    server = Server()
    waiting = server.wait()
    job, done = server.worker.jobs[0]
    server.keys.close()
    assert waiting.is_resolved
    job()
    done(None)
    assert reason_of(server.keys) == "the download has not ended"
    server.keys.report_unknown("b")
    server.clock.advance(3_600_000)
    assert server.worker.jobs == []


def test_an_unexpected_failure_is_a_reason_too() -> None:
    server = Server()
    server.answer = MemoryError()
    server.worker.run()
    assert reason_of(server.keys) == "MemoryError()"


def write(path: Path, content: bytes, time_ns: int) -> None:
    path.write_bytes(content)
    os.utime(path, ns=(time_ns, time_ns))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path, reports = tmp_path / "keys.json", list[str]()
    write(path, key_set("a"), 1)
    keys = FileKeys(str(path), reports.append)
    assert keys.first_keys() is None
    keys.report_unknown("b")
    assert ids_of(keys) == {"a"}
    write(path, b"{", 2)
    for _ in range(2):
        assert reason_of(keys) == f"{path}: the key set is not valid JSON"
    assert reports == [f"{path}: the key set is not valid JSON"]
    path.unlink()
    assert reason_of(keys) == reports[1] == f"{path}: No such file or directory"
    write(path, key_set("b"), 3)
    assert ids_of(keys) == {"b"}
    keys.close()


def test_an_unusable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for content, reason in (
        (b"", "the key set is not valid JSON"),
        ((MAX_KEY_SET_BYTES + 1) * b" ", "is larger than 1048576 bytes"),
    ):
        path.write_bytes(content)
        with pytest.raises(KeySetError, match=reason):
            FileKeys(str(path), print)
    with pytest.raises(KeySetError, match="is not a regular file"):
        FileKeys(str(tmp_path), print)
