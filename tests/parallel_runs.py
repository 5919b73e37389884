"""Hooks of parallel runs: how files are assigned, and one message for each test that passes.

The controller of pytest-xdist receives six messages for each test, and searches lists of all tests
to assign one. That takes as much processor time as a short test.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.grouped_files import group_of

if TYPE_CHECKING:
    from xdist.remote import Producer, WorkerInteractor
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

_REPORT: Final = "testreport"
_COMPLETE: Final = "runtest_protocol_complete"
_UNREAD: Final = frozenset({"logstart", "logfinish"})
"""Messages that only `--verbose` shows."""


def register(config: pytest.Config) -> None:
    """Register the hooks of the controller, or those of one of its processes."""
    config.option.loadscopereorder = False  # the slowest files first, not those with most tests
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Controller())
        return
    option = config.option
    if option.verbose > 0 or option.durations is not None or option.xmlpath:
        return  # these show more than the results
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":  # its module is not imported by name
            config.pluginmanager.register(_Process(plugin))


class _Process:
    """Sends one message for a test that passes, after its teardown."""

    def __init__(self, interactor: WorkerInteractor) -> None:
        self._channel = interactor.channel
        self._send_one = interactor.sendevent
        self._passed: list[dict[str, Any]] = []
        interactor.sendevent = self._send

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: object) -> dict[str, Any] | None:
        """Make a short text of what is not sent."""
        if type(report) is pytest.TestReport and report.passed and report.when != "call":
            return {"$report_type": "TestReport", "outcome": "passed", "when": report.when}
        return None

    def _send(self, name: str, **arguments: Any) -> None:  # noqa: ANN401 - as in pytest-xdist
        if name in _UNREAD:
            return
        if name == _COMPLETE:
            events = [*((_REPORT, passed) for passed in self._passed), (name, arguments)]
            self._channel.send(json.dumps(events))
            self._passed.clear()
        elif name == _REPORT and _has_passed(arguments["data"]):
            if arguments["data"]["when"] == "call":
                self._passed.append(arguments)
        else:
            for passed in self._passed:
                self._send_one(_REPORT, **passed)
            self._passed.clear()
            self._send_one(name, **arguments)


def _has_passed(report: dict[str, Any]) -> bool:
    return report.get("$report_type") == "TestReport" and report["outcome"] == "passed"


class _Controller:
    """Reads the messages of `_Process`, and assigns files."""

    @pytest.hookimpl
    def pytest_configure_node(self, node: WorkerController) -> None:
        forward = node.process_from_remote

        def process(message: Any) -> None:  # noqa: ANN401 - as in pytest-xdist
            if isinstance(message, str):
                for name, arguments in json.loads(message):
                    forward((name, arguments))
            else:
                forward(message)

        node.process_from_remote = process

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> Scheduling | None:
        return _Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]  # of untyped modules
    """With `--dist loadfile`, lets one process run all files of a group.

    Work has the tests that are not complete only, so that no step takes longer with more tests.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._numbers: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._numbers:
            self._numbers = {name: number for number, name in enumerate(self.collection or ())}
        group, tests = self.workqueue.popitem(last=False)
        self.assigned_work.setdefault(node, {})[group] = tests
        node.send_runtest_some([self._numbers[name] for name in tests])

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        del duration
        name = self.registered_collections[node][item_index]
        work = self.assigned_work[node]
        group = self._split_scope(name)
        del work[group][name]
        if not work[group]:
            del work[group]
        self._reschedule(node)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        return sum(map(len, workload.values()))
