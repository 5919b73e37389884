"""Executors: jobs run in order outside the loop, and their results arrive on it."""

from __future__ import annotations

import asyncio
import threading

from kafkalite.ports.executors import InlineExecutor, ThreadExecutor


def refuse() -> None:
    raise OSError(28, "no space left on device")


def test_an_inline_worker_runs_jobs_at_once() -> None:
    worker = InlineExecutor()
    ended: list[object] = []
    worker.submit(lambda: ended.append("job"), ended.append)
    worker.submit(refuse, lambda failure: ended.append(str(failure)))
    worker.close()
    assert ended == ["job", None, "[Errno 28] no space left on device"]


async def test_jobs_run_in_order_in_one_thread_and_end_on_the_loop() -> None:
    worker = ThreadExecutor(asyncio.get_running_loop())
    seen: list[tuple[int, bool, bool]] = []
    threads: dict[int, threading.Thread] = {}
    over = asyncio.Event()

    def submit(number: int) -> None:
        def job() -> None:
            threads[number] = threading.current_thread()

        def done(failure: Exception | None) -> None:
            on_loop = threading.current_thread() is threading.main_thread()
            seen.append((number, failure is None, on_loop))
            if number == 9:
                over.set()

        worker.submit(job, done)

    for number in range(10):
        submit(number)
    await over.wait()
    worker.close()
    assert seen == [(number, True, True) for number in range(10)]
    assert len(set(threads.values())) == 1
    assert threading.main_thread() not in threads.values()


async def test_failure_is_passed_to_done() -> None:
    worker = ThreadExecutor(asyncio.get_running_loop())
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    worker.submit(refuse, ended.set_result)
    assert isinstance(await ended, OSError)
    worker.close()


async def test_closing_waits_for_the_job_that_runs_and_drops_the_others() -> None:
    worker = ThreadExecutor(asyncio.get_running_loop())
    begun = threading.Event()
    events: list[str] = []

    def slow() -> None:
        begun.set()
        while not worker.is_closed:
            pass
        events.append("slow")

    worker.submit(slow, lambda _: events.append("slow done"))
    worker.submit(lambda: events.append("dropped"), lambda _: events.append("dropped done"))
    begun.wait()
    worker.close()
    worker.submit(lambda: events.append("too late"), lambda _: None)
    await asyncio.sleep(0)
    assert events == ["slow"]


async def test_an_abandoned_executor_does_not_wait_for_its_job() -> None:
    worker = ThreadExecutor(asyncio.get_running_loop())
    begun, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()
    events: list[str] = []

    def slow() -> None:
        begun.set()
        may_end.wait()
        has_ended.set()

    worker.submit(slow, lambda _: events.append("slow done"))
    worker.submit(lambda: events.append("dropped"), lambda _: events.append("dropped done"))
    begun.wait()
    worker.abandon()
    assert not has_ended.is_set()
    may_end.set()
    has_ended.wait()
    await asyncio.sleep(0)
    assert events == []
