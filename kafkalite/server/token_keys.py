"""The keys that verify signed tokens: FileKeys from a file, RemoteKeys from a server.

RemoteKeys does what Kafka's RefreshingHttpsJwks does: it downloads the key set at the start, again
after each interval, and soon after a token whose key is not known.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.ports.http_get import HttpGetError
from kafkalite.ports.key_files import modification_time_ns, read_small_file
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting
from kafkalite.security.sasl.json_web_keys import MAX_KEY_SET_BYTES, KeySetError, parse_key_set

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.executors import Executor
    from kafkalite.security.sasl.json_web_keys import KeySet

_MAX_UNKNOWN_IDS: Final = 16
_MAX_ID_LENGTH: Final = 1000
_UNKNOWN_ID_MS: Final = 60_000
"""The time in which an unknown id causes one download."""
_MIN_RETRY_MS: Final = 1000
"""The minimum delay of further retries while there are no keys."""


class KeysUnavailableError(Exception):
    """There are no keys; the text is the reason."""


class TokenKeys(Protocol):
    """A source of keys."""

    def keys(self) -> KeySet:
        """Return the present keys; raises KeysUnavailableError."""

    def first_keys(self) -> Waiting[None] | None:
        """Return a Waiting for the end of the first download; None if there is none to wait for."""

    def report_unknown(self, key_id: str) -> None:
        """Note that a token has a key that is not in the set."""

    def close(self) -> None:
        """Stop downloads."""


class FileKeys:
    """The keys of a file, which is read again when it changes.

    As in Kafka, a file that is replaced by an invalid one has no keys.
    """

    __slots__ = ("_keys", "_modified_ns", "_path", "_reason", "_report")

    def __init__(self, path: str, report: Callable[[str], None]) -> None:
        """Read the file; raises KeySetError. `report` is called when a changed file is invalid."""
        self._path = path
        self._report = report
        self._modified_ns = modification_time_ns(path)
        self._reason = ""
        self._keys = _read_file(path)

    def keys(self) -> KeySet:
        """Return the keys of the file; raises KeysUnavailableError."""
        modified_ns = modification_time_ns(self._path)
        if modified_ns != self._modified_ns:
            self._modified_ns = modified_ns
            try:
                self._keys, self._reason = _read_file(self._path), ""
            except KeySetError as error:
                self._reason = str(error)
                self._report(self._reason)
        if self._reason:
            raise KeysUnavailableError(self._reason)
        return self._keys

    def first_keys(self) -> Waiting[None] | None:
        """Return None: the file has been read."""
        return None

    def report_unknown(self, key_id: str) -> None:
        """Do nothing: the file has been read after its last change."""

    def close(self) -> None:
        """Do nothing: there are no downloads."""


def _read_file(path: str) -> KeySet:
    try:
        return parse_key_set(read_small_file(path, MAX_KEY_SET_BYTES))
    except OSError as error:
        raise KeySetError(f"{path}: {error.strerror or error}") from error
    except KeySetError as error:
        raise KeySetError(f"{path}: {error}") from error


class RefreshTimes(NamedTuple):
    """The times between downloads."""

    refresh_ms: int
    retry_ms: int
    """The delay before the first retry of a failed download; each retry doubles it."""
    max_retry_ms: int
    """The sum of the delays after which a failed download is reported. It is not retried then,
    unless there are no keys: then this is the delay of further retries."""


class RemoteKeys:
    """The keys of a server. Downloads use an executor, so they do not block the event loop.

    Clients wait for the first download. If it fails, they are refused, and the download is retried.
    Keys remain in use while later downloads fail.
    """

    __slots__ = (
        "_clock",
        "_download",
        "_executor",
        "_is_beginning",
        "_is_closed",
        "_is_downloading",
        "_keys",
        "_reason",
        "_refresh_timer",
        "_report",
        "_retry_timer",
        "_times",
        "_unknown_ids",
        "_waited_ms",
        "_waiting",
    )

    def __init__(
        self,
        download: Callable[[], bytes],
        times: RefreshTimes,
        *,
        clock: Clock,
        executor: Executor,
        report: Callable[[str], None],
    ) -> None:
        """Begin the first download.

        `download` raises HttpGetError. `report` is called with the reason when a download and its
        retries have failed.
        """
        self._download = download
        self._times = times
        self._clock = clock
        self._executor = executor
        self._report = report
        self._keys: KeySet | None = None
        self._reason = ""
        self._waited_ms = 0
        """The sum of the delays of retries since the last success or report."""
        self._is_downloading = self._is_closed = False
        self._is_beginning = True
        """Whether clients wait: no download has succeeded, and no failure has been reported."""
        self._retry_timer: Timer | None = None
        self._refresh_timer: Timer | None = None
        self._waiting: dict[Waiting[None], None] = {}
        """In the order of their clients; thousands of clients may disconnect at once."""
        self._unknown_ids: OrderedDict[str, int] = OrderedDict()
        """The latest unknown ids, and the times from which they cause a download again."""
        self._start()
        self._schedule(clock.now_ms())

    def keys(self) -> KeySet:
        """Return the keys of the last download; raises KeysUnavailableError without one."""
        if self._keys is None:
            raise KeysUnavailableError(self._reason or "the download has not ended")
        return self._keys

    def first_keys(self) -> Waiting[None] | None:
        """Return a Waiting for the next end of a download, if none has succeeded."""
        if not self._is_beginning:
            return None

        def forget() -> None:
            self._waiting.pop(waiting, None)

        waiting: Waiting[None] = Waiting(on_abandon=forget)
        self._waiting[waiting] = None
        return waiting

    def report_unknown(self, key_id: str) -> None:
        """Download the keys soon, at most once per minute for each id."""
        if len(key_id) > _MAX_ID_LENGTH:
            return
        now_ms = self._clock.now_ms()
        next_ms = self._unknown_ids.get(key_id)
        if next_ms is not None:
            self._unknown_ids.move_to_end(key_id)
            if now_ms < next_ms:
                return
        self._unknown_ids[key_id] = now_ms + _UNKNOWN_ID_MS
        if len(self._unknown_ids) > _MAX_UNKNOWN_IDS:
            self._unknown_ids.popitem(last=False)
        self._start()

    def close(self) -> None:
        """Stop downloads, and let clients continue that wait."""
        self._is_closed = True
        self._is_beginning = False
        for timer in (self._retry_timer, self._refresh_timer):
            if timer is not None:
                timer.cancel()
        self._executor.abandon()
        self._resolve_waiting()

    def _schedule(self, now_ms: int) -> None:
        deadline_ms = self._clock.periodic_deadline_ms(now_ms + self._times.refresh_ms)
        self._refresh_timer = self._clock.call_at(deadline_ms, self._refresh)

    def _refresh(self) -> None:
        self._schedule(self._clock.now_ms())
        self._start()

    def _start(self) -> None:
        """Begin a download, unless one is running or will be retried."""
        if not self._is_downloading and self._retry_timer is None and not self._is_closed:
            self._waited_ms = 0
            self._attempt(self._times.retry_ms)

    def _attempt(self, next_delay_ms: int) -> None:
        self._is_downloading, self._retry_timer = True, None
        results: list[KeySet] = []

        def job() -> None:
            results.append(parse_key_set(self._download()))

        self._executor.submit(job, partial(self._finish, results, next_delay_ms))

    def _finish(self, results: list[KeySet], next_delay_ms: int, failure: Exception | None) -> None:
        if self._is_closed:
            return
        self._is_downloading = False
        if failure is None:
            self._keys, self._reason = results[0], ""
            self._is_beginning = False
            for key_id in self._keys.key_ids.intersection(self._unknown_ids):
                del self._unknown_ids[key_id]
        else:
            self._retry_later(next_delay_ms, failure)
        self._resolve_waiting()

    def _resolve_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            each.resolve(None)

    def _retry_later(self, delay_ms: int, failure: Exception) -> None:
        is_expected = isinstance(failure, (HttpGetError, KeySetError))
        previous, self._reason = self._reason, str(failure) if is_expected else repr(failure)
        wait_ms = min(delay_ms, self._times.max_retry_ms - self._waited_ms)
        if wait_ms <= 0:
            if self._is_beginning or self._keys is not None or self._reason != previous:
                self._report(self._reason)
            self._is_beginning = False
            if self._keys is not None:
                return
            wait_ms = max(self._times.max_retry_ms, _MIN_RETRY_MS)
        else:
            self._waited_ms += wait_ms
        # The server uses its own time: while the broker's clock is paused, the machine's counts.
        self._retry_timer = self._clock.wait_at(
            self._clock.now_ms() + wait_ms, partial(self._attempt, 2 * delay_ms)
        )
