"""Faults: requests that are delayed, held, refused, disconnected, lost or repeated on purpose.

`Faults` has the rules of one cluster, and the step that applies them to its requests. Rules can be
added and removed while clients are connected. A rule affects only the routes of the APIs that it
may select.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cluster.waiting_budget import WaitingBudget
from kafkalite.coordinator.contract import Event
from kafkalite.gateway.deferred_request import DeferredRequest
from kafkalite.gateway.fault_answers import (
    alter_bytes,
    corrupt_records,
    may_change_answer,
    refusal_or_answer,
    throttle,
)
from kafkalite.gateway.fault_rules import (
    AlteredBytes,
    Disconnect,
    FaultError,
    FaultState,
    Lost,
    UnknownFaultError,
    describe_rule,
)
from kafkalite.gateway.fault_selection import ENTITIES, Selection, has_entity, may_select
from kafkalite.gateway.refusals import (
    ID_FIELDS,
    REFUSED,
    report_refusal,
    report_refusal_of_request,
)
from kafkalite.gateway.selection_filter import READ_WITH_SESSIONS
from kafkalite.gateway.steps import ConditionalStep, DisconnectError
from kafkalite.gateway.true_errors import HANDLED_DESPITE, Refused, make_true, names_leader
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.ports.watchers import Watchers
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import entities_in_request
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.errors import KafkaError, is_bug
from kafkalite.protocol.message import copy_views

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.fault_rules import Action, Match, Rule
    from kafkalite.gateway.gateway import Gateway
    from kafkalite.gateway.steps import Condition, Handler
    from kafkalite.ports.clock import Timer
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol.acl_operations import Entity
    from kafkalite.protocol.error_codes import ErrorCode
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.versions import Versions

MAX_FAULTS: Final = 100
"""Maximum number of faults per cluster; every request is checked against the faults of its API."""

MAX_LATE_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of waiting requests that outlive their connections; others end with theirs."""

LATE_REQUEST_BYTES: Final = 2048
"""The memory that a small waiting request takes, and by which each is larger than its bytes."""

RULE: Final = "fault"
"""The `rule` in the facts of a refusal that a fault caused."""

_PRODUCE, _FETCH = ApiKey.PRODUCE, ApiKey.FETCH
_ANSWERED_WITHOUT_ROWS: Final = frozenset((ApiKey.METADATA, ApiKey.SHARE_ACKNOWLEDGE))
"""APIs that are handled even if all rows are refused: the answer or the session needs it."""

LATE: Final = "late"
"""The kind of event of a request that is handled without its connection."""

_REFUSED: Final = object()
_MAX_EVENTS_PER_REQUEST: Final = 64
"""Maximum number of groups and transactional ids that get an event for one request."""


class FaultsState(NamedTuple):
    """The faults of a cluster at one moment."""

    faults: tuple[tuple[str, Rule, int, int], ...]
    """The id, rule, number of selected requests and of firings of each fault."""
    number: int
    """The number of the last fault that was added."""


class Faults:
    """The faults of one cluster, in the order in which they were added.

    Only the first fault that fires affects a request; later faults do not see it. `node_ids` are
    the nodes of the cluster, and `listeners` has the gateway of each listener by its name.
    `report(event, fault_id, rule)` is called for every fault that is added or removed,
    `report_bug(name of the API, exception)` for a bug in an answer that no client gets, and
    `install(step)` when the step has changed.
    """

    def __init__(
        self,
        node_ids: Collection[int],
        listeners: Mapping[str, Gateway],
        entropy: Entropy,
        *,
        report: Callable[[str, str, str], None],
        report_bug: Callable[[str, Exception], None],
        install: Callable[[FaultStep | None], None],
    ) -> None:
        self._node_ids = node_ids
        self._listeners = listeners
        self._report = report
        self._install_step = install
        self._faults: dict[str, _Fault] = {}
        self._shared = _Shared(entropy, WaitingBudget(MAX_LATE_BYTES), report_bug)
        self.watchers = Watchers()
        """Are notified of each firing of any fault, and when faults are removed."""
        self.step: FaultStep | None = None
        """Applies the faults to the requests of all gateways; None without faults."""
        self._number = 0

    def state(self, fault_id: str) -> FaultState:
        """Return a fault with its counts; raises UnknownFaultError for an unknown id."""
        return self._find(fault_id).state

    def states(self) -> list[FaultState]:
        """Return every fault with its counts."""
        return [fault.state for fault in self._faults.values()]

    def add(self, rule: Rule) -> FaultState:
        """Apply a rule to the requests that arrive from now on.

        Raises FaultError for a rule that cannot select any request, and for an error that the
        response has no field for.
        """
        self._check(rule)
        if len(self._faults) >= MAX_FAULTS:
            raise FaultError(f"there are {MAX_FAULTS} faults already: remove one first")
        self._number += 1
        fault = _Fault(f"f{self._number}", rule, self.watchers)
        self._faults[fault.id] = fault
        self._install()
        self._report("fault added", fault.id, describe_rule(rule))
        return fault.state

    def remove(self, fault_id: str) -> FaultState:
        """Remove a fault and return its final counts; requests that it delays are handled now.

        Raises UnknownFaultError for an unknown id.
        """
        fault = self._find(fault_id)
        del self._faults[fault_id]
        self._finish_removal((fault,))
        return fault.state

    def release(self, fault_id: str, limit: int | None = None) -> FaultState:
        """Handle the requests that a fault delays or holds now, or the first `limit` of them.

        The fault stays. Raises UnknownFaultError for an unknown id.
        """
        fault = self._find(fault_id)
        for delayed in tuple(fault.delayed)[:limit]:
            fault.end(delayed)
        return fault.state

    def clear(self) -> list[FaultState]:
        """Remove all faults, and return their final counts."""
        faults = tuple(self._faults.values())
        self._faults.clear()
        self._finish_removal(faults)
        return [fault.state for fault in faults]

    def snapshot(self) -> FaultsState:
        """Return the faults with their counts, without the requests that they delay."""
        return FaultsState(
            tuple(
                (each.id, each.rule, each.matches, each.firings) for each in self._faults.values()
            ),
            self._number,
        )

    def restore(self, state: FaultsState) -> None:
        """Have the faults of a state in place of the present ones, which delay no requests."""
        self._faults.clear()
        for fault_id, rule, matches, firings in state.faults:
            fault = self._faults[fault_id] = _Fault(fault_id, rule, self.watchers)
            fault.matches, fault.firings = matches, firings
        self._number = state.number
        self._install()
        self.watchers.notify()

    def close(self) -> None:
        """Remove all faults without handling the requests that they delay: the broker stops."""
        faults = tuple(self._faults.values())
        self._faults.clear()
        self._install()
        for fault in faults:
            for delayed in tuple(fault.delayed):
                delayed.waiting.abandon()
                if delayed in fault.delayed:  # it outlives its connection
                    fault.drop(delayed)

    def _find(self, fault_id: str) -> _Fault:
        fault = self._faults.get(fault_id)
        if fault is None:
            known = f"the faults are {', '.join(self._faults)}" if self._faults else "there is none"
            raise UnknownFaultError(f"there is no fault {fault_id[:40]!r}; {known}")
        return fault

    def _finish_removal(self, faults: Sequence[_Fault]) -> None:
        self._install()
        for fault in faults:
            self._report("fault removed", fault.id, describe_rule(fault.rule))
            for delayed in tuple(fault.delayed):
                fault.end(delayed)
        self.watchers.notify()

    def _install(self) -> None:
        """Replace the installed step by one with the current faults."""
        faults = tuple(self._faults.values())
        self.step = FaultStep(faults, self._shared) if faults else None
        self._install_step(self.step)

    def _check(self, rule: Rule) -> None:
        match = rule.match
        if match.node is not None and match.node not in self._node_ids:
            nodes = ", ".join(map(str, sorted(self._node_ids)))
            raise FaultError(f"match.node: there is no node {match.node}; the nodes are {nodes}")
        if match.listener is not None and match.listener not in self._listeners:
            raise FaultError(
                f"match.listener: there is no listener {match.listener[:40]!r}; the listeners are "
                f"{', '.join(self._listeners)}"
            )
        api = match.api
        if api is None:
            return
        name = match.listener
        listeners = self._listeners
        gateways = listeners.values() if name is None else (listeners[name],)
        served = [each.versions for gateway in gateways if (each := gateway.find_api(api))]
        if not served:
            place = "this broker" if name is None else f"listener {name}"
            raise FaultError(f"match.api {api_name(api)} is not served by {place}")
        _check_versions(match, served)
        for field in ENTITIES:
            if getattr(match, field) is not None and not has_entity(api, field):
                raise FaultError(
                    f"match.{field} selects no request: requests of {api_name(api)} have no {field}"
                )
        _check_error(rule.action, api)
        if not may_change_answer(rule.action, api):
            field, place = (
                ("throttle_ms", "throttle time")
                if rule.action.throttle_ms
                else ("answer", "record")
            )
            raise FaultError(
                f"action.{field}: the response of {api_name(api)} has no field for a {place}"
            )


class FaultStep(ConditionalStep):
    """The step that applies faults; see `gateway.steps.Step`."""

    __slots__ = ("_faults", "_shared")

    def __init__(self, faults: Sequence[_Fault], shared: _Shared) -> None:
        self._faults = faults
        self._shared = shared

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:  # noqa: ARG002 - see Step
        """Return a handler that applies the faults for this API and then calls `handler`."""
        faults = self._faults_of(ApiKey(api.key))
        return _FaultyHandler(api, faults, handler, self._shared).handle if faults else handler

    def condition(self, api: Api) -> Condition:
        """Return whether a fault may select a request of this API."""
        may_select = tuple(
            selection.may_select for _, selection in self._faults_of(ApiKey(api.key))
        )
        if len(may_select) == 1:
            return may_select[0]
        return lambda call, request: any(each(call, request) for each in may_select)

    def _faults_of(self, key: ApiKey) -> tuple[tuple[_Fault, Selection], ...]:
        return tuple(
            (each, Selection(key, each.rule.match))
            for each in self._faults
            if may_select(each.rule.match, key) and may_change_answer(each.rule.action, key)
        )


class _Shared(NamedTuple):
    """What all faults of a cluster share."""

    entropy: Entropy
    budget: WaitingBudget
    """Memory for requests that outlive their connections."""
    report_bug: Callable[[str, Exception], None]


class _Fault:
    """An active rule, its counts, and the requests that it delays."""

    __slots__ = ("_watchers", "delayed", "firings", "id", "matches", "rule")

    def __init__(self, fault_id: str, rule: Rule, watchers: Watchers) -> None:
        self._watchers = watchers
        self.id = fault_id
        self.rule = rule
        self.matches = 0
        self.firings = 0
        self.delayed: dict[DeferredRequest[Any], Timer | None] = {}
        """The requests that wait, in order of arrival, with the ends of their delays."""

    @property
    def state(self) -> FaultState:
        rule = self.rule
        return FaultState(
            self.id,
            rule.match,
            rule.trigger,
            rule.action,
            self.matches,
            self.firings,
            waiting=len(self.delayed),
        )

    def end(self, delayed: DeferredRequest[Any]) -> None:
        """Handle a delayed request now, unless it was dropped; no handler may be running."""
        if delayed in self.delayed:
            self.drop(delayed)
            delayed.resume()

    def drop(self, delayed: DeferredRequest[Any]) -> None:
        """Do not handle a delayed request."""
        timer = self.delayed.pop(delayed)
        if timer is not None:
            timer.cancel()

    def fires(self, entropy: Entropy) -> bool:
        """Count a selected request; return whether the fault fires for it."""
        self.matches += 1
        if not self.rule.trigger.fires(self.matches, self.firings, entropy):
            return False
        self.firings += 1
        self._watchers.notify()
        return True


class _FaultyHandler:
    """A handler of one API and the faults that may fire before it."""

    __slots__ = ("_api", "_faults", "_handler", "_key", "_shared")

    def __init__(
        self,
        api: Api,
        faults: Sequence[tuple[_Fault, Selection]],
        handler: Handler,
        shared: _Shared,
    ) -> None:
        self._api = api
        self._key = ApiKey(api.key)
        self._faults = faults
        self._handler = handler
        self._shared = shared

    def handle(self, call: Call, request: Any) -> Any:
        """Apply the first fault that fires to a request, or call the handler if none fires.

        Faults that corrupt records fire for the answer: many have no records.
        """
        corrupting = []
        for fault, selection in self._faults:
            if not selection.selects(call, request):
                continue
            if fault.rule.action.answer is AlteredBytes.CORRUPTED_RECORDS:
                corrupting.append((fault, selection))
            elif fault.fires(self._shared.entropy):
                answer = self._handle_with_fault(fault, selection, call, request)
                break
        else:
            answer = self._handler(call, request)
        for fault, selection in corrupting:
            answer = chain(answer, partial(self._corrupt, fault, selection, call))
        return answer

    def _handle_with_fault(
        self, fault: _Fault, selection: Selection, call: Call, request: Any
    ) -> Any:
        if call.context.exchange is not None:
            call.context.exchange.note_fault(fault.id)
        if fault.rule.action.waits:
            # The records of a Produce are views of the shared receive buffer.
            copy_views(request)
            return self._delay(fault, selection, call.without_pauses(), request)
        return self._apply_action(fault, selection, call, request)

    def _corrupt(self, fault: _Fault, selection: Selection, call: Call, response: Any) -> Any:
        """Return a response whose records have wrong checksums, if it has any and fires."""
        is_selected = partial(selection.selects_partition, call)
        corrupted = corrupt_records(self._key, response, is_selected)
        if corrupted is response or not fault.fires(self._shared.entropy):
            return response
        if call.context.exchange is not None:
            call.context.exchange.note_fault(fault.id)
        return corrupted

    def _delay(self, fault: _Fault, selection: Selection, call: Call, request: Any) -> Waiting[Any]:
        """Apply the action after the delay, or when the fault is released or removed.

        With `late` and `disconnect`, raise DisconnectError, and handle the request then.
        """
        action = fault.rule.action
        closes_first = action.late and action.disconnect is not None

        def handle(_: DeferredRequest[Any]) -> Any:
            if closes_first or deferred.waiting.is_abandoned:
                text = (
                    f"{api_name(self._key)} handled late, without a connection, by fault {fault.id}"
                )
                self._record(fault, call, request, LATE, text)
            if closes_first:
                return self._handler(call, request)
            return self._apply_action(fault, selection, call, request)

        deferred: DeferredRequest[Any] = DeferredRequest(handle)
        is_late = action.late and deferred.take_memory(
            self._shared.budget, LATE_REQUEST_BYTES + call.request_bytes
        )
        if closes_first and not is_late:
            # Without a connection, nothing but the budget limits the requests that wait.
            text = self._disconnection_text(fault, "before")
            text = f"{text}: those that wait without a connection have no memory left"
            self._record_disconnection(fault, call, request, text)
            raise DisconnectError(text)
        deferred.wait(None if is_late else lambda: fault.drop(deferred))
        clock = call.node.clock
        fault.delayed[deferred] = (
            None
            if action.hold
            else clock.call_at(
                clock.now_ms() + action.next_delay_ms(self._shared.entropy),
                lambda: fault.end(deferred),
            )
        )
        if closes_first:
            text = f"fault {fault.id} closed the connection; {api_name(self._key)} is handled later"
            self._record(fault, call, request, LATE, text)
            self._without_client(deferred.waiting)
            raise DisconnectError(text)
        return deferred.waiting

    def _without_client(self, answer: Any) -> Any:
        """Report a bug in an answer that no client gets, and return the answer."""
        if isinstance(answer, Waiting):
            answer.then(self._report_bug)
        return answer

    def _report_bug(self, answer: object) -> None:
        if is_bug(answer):
            self._shared.report_bug(api_name(self._key), answer)

    def _disconnection_text(self, fault: _Fault, when: str) -> str:
        name = api_name(self._key)
        return f"{name} refused: fault {fault.id} closed the connection {when} it was handled"

    def _apply_action(self, fault: _Fault, selection: Selection, call: Call, request: Any) -> Any:
        """Perform the action of a fault after its delay."""
        action = fault.rule.action
        if action.error is not None:
            return self._refuse(fault, action.error, selection, call, request)
        if action.throttle_ms or action.answer is not None:
            return self._change_answer(fault, call, request)
        if action.disconnect is None:
            return self._handle_or_lose(action, call, request)
        is_after = action.disconnect is Disconnect.AFTER
        text = self._disconnection_text(fault, "after" if is_after else "before")
        self._record_disconnection(fault, call, request, text)
        if is_after:
            return self._unanswered(call, request, text)
        raise DisconnectError(text)

    def _change_answer(self, fault: _Fault, call: Call, request: Any) -> Any:
        """Handle a request, and throttle its client or alter the bytes of the answer."""
        action = fault.rule.action
        if action.answer is None:
            return throttle(self._api, self._handler, call, request, action.throttle_ms)
        text = f"fault {fault.id} altered the answer to {api_name(self._key)} ({action.answer})"
        self._record(fault, call, request, REFUSED, text)
        return alter_bytes(action.answer, self._handler, call, request, text)

    def _refuse(
        self, fault: _Fault, code: ErrorCode, selection: Selection, call: Call, request: Any
    ) -> Any:
        """Return the answer with an error in the selected rows, or raise the error of the request.

        The error is made true before, unless the fault only answers.
        """
        name = api_name(self._key)
        text = f"{name} refused by fault {fault.id} ({code.name})"
        is_true = not fault.rule.action.only_answer
        is_handled = is_true and self._key in HANDLED_DESPITE.get(code, ())
        refused = Refused(self._key, call, request, selection, f"{RULE} {fault.id}")
        if selection.has_rows:
            rows_text = f"{text} for {selection.rows_text}"
            error = KafkaError(code, None, {"rule": RULE, RULE: fault.id}, rows_text)
            answer = self._refuse_rows(error, refused, is_true=is_true, is_handled=is_handled)
            if answer is not _REFUSED:
                return answer
        elif is_true:
            make_true(code, refused)
        if self._key is _PRODUCE and not request.acks:
            # With acks=0 no answer can carry the error, so Kafka closes the connection.
            self._record_disconnection(fault, call, request, text)
            if is_handled:
                return self._unanswered(call, request, text)
            raise DisconnectError(text)
        error = KafkaError(code, None, {"rule": RULE, RULE: fault.id}, text)
        for kind, attribute, subject in self._subjects(request):
            if subject != getattr(request, attribute, None):  # the gateway reports that id
                report_refusal(call, name, subject, error, request, kind=kind)
        if is_true and names_leader(code, refused):
            report_refusal_of_request(call, name, error, request)
            return self._handler(call, request)
        if is_handled:
            return chain(self._handler(call, request), partial(_raise, error))
        raise error

    def _handle_or_lose(self, action: Action, call: Call, request: Any) -> Any:
        """Handle a request, once or twice, and return the answer, if it is not lost."""
        if action.lost is Lost.REQUEST:
            return Waiting()
        if action.twice:
            # The records of a Produce are views of the shared receive buffer.
            copy_views(request)
            repeated, call = deepcopy(request), call.without_pauses()
            return _with_repetition(
                self._handler(call, request),
                lambda: self._without_client(self._handler(call, repeated)),
            )
        if action.lost is None:
            return self._handler(call, request)
        answer = self._refusal_or_answer(call, request)
        return Waiting(on_abandon=answer.abandon if isinstance(answer, Waiting) else None)

    def _refuse_rows(
        self,
        error: KafkaError,
        refused: Refused,
        *,
        is_true: bool,
        is_handled: bool,
    ) -> Any:
        """Return the answer with an error in the selected rows; _REFUSED if it needs no handler.

        With `is_true`, the error is made true. With `is_handled`, the rows are handled as well.
        """
        key, call, request, selection, _ = refused
        if key in READ_WITH_SESSIONS:
            if is_true:
                make_true(error.code, refused)
            self._report_rows(error, selection, call, request)
            return self._handler(call.with_row_fault(selection.row_fault(error.code)), request)
        split = selection.split(call, request, error)
        if is_true:
            make_true(error.code, refused)
        if not split.has_rows and selection.stands_for_request:
            return _REFUSED
        self._report_rows(error, selection, call, request)
        handled = request if is_handled else split.request
        if key is _PRODUCE and not request.acks:
            # As in Kafka, the other partitions are written, and the connection is closed.
            return self._unanswered(call, handled, error.explanation or "")
        if is_true and names_leader(error.code, refused):
            return self._handler(call, request)
        if is_handled:
            return chain(self._handler(call, request), split.replace)
        # In the oldest Metadata requests, an empty list means all topics.
        needs_handler = key in _ANSWERED_WITHOUT_ROWS and not getattr(
            call.era, "empty_means_all", False
        )
        return split.answer(partial(self._handler, call), is_handled_without_rows=needs_handler)

    def _refusal_or_answer(self, call: Call, request: object) -> Any:
        """Return the answer that no client gets, or the KafkaError that refuses the request."""
        return self._without_client(refusal_or_answer(self._handler, call, request))

    def _unanswered(self, call: Call, request: object, reason: str) -> Waiting[Any]:
        """Handle a request and drop its answer; raises DisconnectError, also by the Waiting."""
        answer = self._refusal_or_answer(call, request)
        if not isinstance(answer, Waiting):
            raise DisconnectError(reason)
        unanswered: Waiting[Any] = Waiting(on_abandon=answer.abandon)
        answer.then(lambda _: unanswered.refuse(DisconnectError(reason)))
        return unanswered

    def _report_rows(
        self, error: KafkaError, selection: Selection, call: Call, request: Message
    ) -> None:
        name = api_name(self._key)
        for kind, subject in selection.subjects:
            report_refusal(call, name, subject, error, request, kind=kind)
        report_refusal_of_request(call, name, error, request)

    def _record_disconnection(self, fault: _Fault, call: Call, request: Message, text: str) -> None:
        self._record(fault, call, request, REFUSED, text)

    def _record(
        self, fault: _Fault, call: Call, request: Message, event_kind: str, text: str
    ) -> None:
        """Add an event to the history of the groups and transactional ids in the request."""
        node = call.node
        facts = {
            "api": api_name(self._key),
            "client_id": call.client_id,
            "client_host": call.client_host,
            "rule": RULE,
            RULE: fault.id,
        }
        for kind, _, subject in self._subjects(request):
            event = Event(subject, event_kind, text, facts, kind)
            node.history.add(event, node.clock.now_ms())

    def _subjects(self, request: Message) -> Iterator[tuple[Entity, str, str]]:
        """Yield the groups and transactional ids of a request, each once."""
        for kind, attribute in ID_FIELDS.items():
            for subject in islice(
                dict.fromkeys(entities_in_request(self._key, kind, request)),
                _MAX_EVENTS_PER_REQUEST,
            ):
                yield kind, attribute, subject


def _check_versions(match: Match, served: Collection[Versions]) -> None:
    """Raise FaultError if no version of a match is served."""
    lowest = min(each.lowest for each in served)
    highest = max(each.highest for each in served)
    for field, value, is_served in (
        ("min_version", match.min_version, (match.min_version or 0) <= highest),
        (
            "max_version",
            match.max_version,
            match.max_version is None or match.max_version >= lowest,
        ),
    ):
        if value is not None and not is_served:
            raise FaultError(
                f"match.{field} {value} selects no request: the versions are {lowest} to {highest}"
            )


def _check_error(action: Action, key: ApiKey) -> None:
    """Raise FaultError for an error that Kafka does not return for an API."""
    from kafkalite.protocol.possible_errors import possible_errors  # noqa: PLC0415 - large

    code, name = action.error, api_name(key)
    if code is None:
        return
    possible = possible_errors(key)
    if code not in possible and not action.force:
        names = ", ".join(sorted(each.name for each in possible))
        raise FaultError(
            f"action.error: Kafka never answers {name} with {code.name}; add force to do it all "
            f"the same. It answers with {names}"
        )


def _raise(error: KafkaError, answer: object) -> Any:
    """Refuse a request that was handled."""
    del answer
    raise error


def _with_repetition(answer: Any, repeat: Callable[[], Any]) -> Any:
    """Repeat a request when its answer has arrived, and return this first answer."""

    def after(first: Any) -> Any:
        with suppress(KafkaError):
            repeat()
        return first

    return chain(answer, after)
