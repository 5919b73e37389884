"""BrokerHooks and InstalledHook: functions of a test that the broker calls for each request."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kafkalite.protocol.codec import api_name

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from kafkalite.gateway.request_hooks import Callback, RequestHook
    from kafkalite.server.broker import Broker

    Call = Callable[[Callable[[Broker], Any]], Any]
    """Calls a function with the broker, on the broker's thread, and returns its result."""

T = TypeVar("T")


class BrokerHooks:
    """The method of `Broker` that installs request hooks."""

    _hooks: tuple[InstalledHook, ...] = ()

    def _running_broker(self) -> Broker:
        raise NotImplementedError

    def _run_on_loop(self, work: Coroutine[None, None, T]) -> T:
        raise NotImplementedError

    def _call(self, function: Callable[[Broker], T]) -> T:
        broker = self._running_broker()

        async def call() -> T:
            return function(broker)

        return self._run_on_loop(call())

    def on_request(self, callback: Callback, api: str | None = None) -> InstalledHook:
        """Call a function for each request of an API, or of all, before the broker handles it.

        The function gets a `HookedRequest`, and returns None or the result of one of its methods:
        `answer`, `change`, `hold` or `drop`. It runs on the broker's thread, which serves no client
        meanwhile, so it must not wait, and methods of `Broker` raise RuntimeError in it. If it
        raises an exception, the request is handled as usual, and the exception is raised again in
        the test: by `remove()`, or at the end of the broker's block. Faults apply after hooks.
        Raises ValueError for an unknown API, and for a callback that is no plain function.
        """
        added = self._call(lambda broker: broker.hooks.add(callback, api))
        hook = InstalledHook(self._call, added)
        self._hooks += (hook,)
        return hook

    def _raise_error_of_hooks(self, error: BaseException | None) -> None:
        """Raise the first exception of a hook, unless another exception leaves the block."""
        hooks, self._hooks = self._hooks, ()
        if error is None:
            for hook in hooks:
                hook.raise_error()


class InstalledHook:
    """One hook; as a context manager it is removed at the end of the block."""

    def __init__(self, call: Call, hook: RequestHook) -> None:
        self._call = call
        self._hook = hook

    @property
    def calls(self) -> int:
        """The number of requests that the function has seen."""
        return self._hook.calls

    @property
    def held(self) -> int:
        """The number of requests that wait."""
        return len(self._hook.held)

    def release(self, count: int | None = None) -> None:
        """Handle the requests that wait, or the first `count` of them.

        Raises ValueError for another count than a number from 1 on.
        """
        if count is not None and (type(count) is not int or count < 1):
            raise ValueError(f"count must be a whole number from 1, not {count!r}")
        self._call(lambda _: self._hook.release(count))

    def remove(self) -> None:
        """Remove the hook; the requests that wait are handled.

        Raises the first exception of the function that was not raised before. A hook that was
        removed before stays removed.
        """
        self._call(lambda broker: broker.hooks.remove(self._hook))
        self.raise_error()

    def raise_error(self) -> None:
        """Raise the first exception of the function that was not raised before, if there is one."""
        errors, self._hook.errors = self._hook.errors, []
        if errors:
            if len(errors) > 1:
                errors[0].add_note(f"The callback of on_request failed {len(errors)} times.")
            raise errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.remove()
        else:
            with suppress(Exception):  # the exception of the test is more important
                self.remove()

    def __repr__(self) -> str:
        api = self._hook.api
        return f"<hook for {'all APIs' if api is None else api_name(api)}: {self.calls} requests>"
