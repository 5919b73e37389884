"""Cases: one request of a command, and one failure of it; their text form and their order."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import TYPE_CHECKING, Final

from kafkalite.gateway.fault_rules import api_keys_by_name
from kafkalite.gateway.fault_selection import has_entity
from kafkalite.lab.sweep.failures import FAILURES
from kafkalite.lab.sweep.requests import Partition, client_patterns
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import AnsweringNode, row
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.possible_errors import possible_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.gateway.fault_rules import FaultFields
    from kafkalite.lab.sweep.failures import CaseContext, Failure
    from kafkalite.lab.sweep.requests import SeenRequest

_REQUEST: Final = re.compile(r"([A-Za-z]+)#([1-9][0-9]{0,8})")
_PARTITION: Final = re.compile(r"([A-Za-z0-9._-]{1,249})-([0-9]{1,10})")
_CLIENT: Final = "client="
_EXAMPLE: Final = "'Produce#3 orders-0 late'"
_FIRST_POLLS: Final = 3
"""Later requests of an API that is polled are usually equal to the earlier ones."""
_INFORMATIVE: Final = (
    ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.INIT_PRODUCER_ID,
    ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH,
)  # fmt: skip
"""The APIs whose failures cost records most often, in this order; then the others."""


class CaseError(ValueError):
    """A text that is no case; one sentence."""


@dataclass(frozen=True, slots=True)
class Case:
    """The `nth` request of an API, by one client and with one partition if these are set, fails."""

    api: str
    nth: int
    failure: str
    partition: Partition | None = None
    client: str | None = None
    """The client id, in which `*` stands for any characters."""

    @property
    def api_key(self) -> ApiKey:
        """The API."""
        return api_keys_by_name()[self.api]

    @property
    def kind(self) -> Failure:
        """The failure."""
        return FAILURES[self.failure]

    def fault_fields(self) -> FaultFields:
        """Return the fault that applies the case."""
        fields: FaultFields = {"api": self.api, "nth": self.nth, **self.kind.action}
        if self.client is not None:
            fields["client_id"] = self.client
        if self.partition is not None:
            fields["topic"], fields["partition"] = self.partition.topic, self.partition.index
        return fields

    def __str__(self) -> str:
        """Return the text form, which `parse_case` reads."""
        words = [f"{self.api}#{self.nth}"]
        if self.client is not None:
            words.append(f"{_CLIENT}{shlex.quote(self.client)}")
        if self.partition is not None:
            words.append(str(self.partition))
        return " ".join([*words, self.failure])


def parse_case(text: str) -> Case:
    """Return the case with this text form; raises CaseError for another text."""
    try:
        first, *between, failure = shlex.split(text)
    except ValueError:
        raise CaseError(f"{text!r} is not a case such as {_EXAMPLE}") from None
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise CaseError(f"case {text!r} must begin with an API and a number, such as Produce#3")
    api, nth = request.groups()
    if api not in api_keys_by_name():
        hint = similar_names_hint(api, api_keys_by_name())
        raise CaseError(f"case {text!r}: there is no API {api}{hint}")
    if failure not in FAILURES:
        hint = similar_names_hint(failure, FAILURES) or f"; the failures are {', '.join(FAILURES)}"
        raise CaseError(f"case {text!r}: there is no failure {failure!r}{hint}")
    clients = [each.removeprefix(_CLIENT) for each in between if each.startswith(_CLIENT)]
    partitions = [each for each in between if not each.startswith(_CLIENT)]
    if len(clients) > 1 or len(partitions) > 1:
        raise CaseError(f"case {text!r} has more words than such as {_EXAMPLE}")
    partition = _parse_partition(text, partitions[0]) if partitions else None
    case = Case(api, int(nth), failure, partition, clients[0] if clients else None)
    if partition is not None and not has_entity(case.api_key, "partition"):
        raise CaseError(f"case {text!r}: requests of {api} have no partitions")
    error = case.kind.action.get("error")
    if error is not None and ErrorCode[error] not in possible_errors(case.api_key):
        raise CaseError(f"case {text!r}: Kafka never answers {api} with {error}")
    return case


def _parse_partition(text: str, word: str) -> Partition:
    found = _PARTITION.fullmatch(word)
    if found is None:
        raise CaseError(f"case {text!r}: {word!r} is not a partition such as orders-0")
    return Partition(found[1], int(found[2]))


def cases_of(runs: Sequence[Sequence[SeenRequest]], context: CaseContext) -> list[Case]:
    """Return the cases of a command, in the order of its requests.

    `runs` has the requests of several runs without failures. A request of which one of them has
    fewer gives no case, because another run may not send it.
    """
    patterns = client_patterns(runs)
    counts = [
        Counter(key for _, keys in _numbered(run, patterns) for key, _ in keys) for run in runs
    ]
    found: dict[Case, None] = {}
    for request, keys in _numbered(runs[-1], patterns):
        steady = [(key, nth) for key, nth in keys if all(nth <= each[key] for each in counts)]
        for failure in FAILURES.values():
            if not failure.applies(request, context):
                continue
            for (api, client, partition), nth in steady if failure.is_of_partition else steady[:1]:
                found[Case(api, nth, failure.name, partition, client)] = None
    return _without_superfluous_clients(found)


_Key = tuple[str, str, Partition | None]


def _numbered(
    run: Iterable[SeenRequest], patterns: dict[str, str]
) -> Iterator[tuple[SeenRequest, list[tuple[_Key, int]]]]:
    """Yield requests with their numbers among those of an API, a client and a partition."""
    counts: Counter[_Key] = Counter()
    for request in run:
        client = patterns[request.client_id]
        keys: list[_Key] = [(request.api, client, each) for each in _partitions_of(request)]
        counts.update(keys)
        yield request, [(key, counts[key]) for key in keys]


def _partitions_of(request: SeenRequest) -> Sequence[Partition | None]:
    """Return the partitions by which a request is counted; those of a fetch are in its session."""
    is_read_by_session = request.api_key in {ApiKey.FETCH, ApiKey.SHARE_FETCH}
    is_of_leader = row(request.api_key).node is AnsweringNode.PARTITION_LEADER
    return request.partitions if is_of_leader and not is_read_by_session else (None,)


def _without_superfluous_clients(cases: Iterable[Case]) -> list[Case]:
    """Return cases without the client where only one client sends such requests."""
    cases = list(cases)
    clients: dict[tuple[str, Partition | None], set[str | None]] = {}
    for case in cases:
        clients.setdefault((case.api, case.partition), set()).add(case.client)
    return [
        Case(each.api, each.nth, each.failure, each.partition)
        if len(clients[each.api, each.partition]) == 1 or each.client == "*"
        else each
        for each in cases
    ]


def selected(cases: Iterable[Case], only: Sequence[str], skip: Sequence[str]) -> list[Case]:
    """Return the cases that match a pattern of `only`, if there is one, and none of `skip`.

    A pattern is compared with the text form and with each of its words; `*` stands for any
    characters, and an API without number for all its requests.
    """

    def matches(case: Case, pattern: str) -> bool:
        text = str(case)
        return any(fnmatchcase(each, pattern) for each in (text, case.api, *shlex.split(text)))

    return [
        each
        for each in cases
        if (not only or any(matches(each, pattern) for pattern in only))
        and not any(matches(each, pattern) for pattern in skip)
    ]


def ordered(cases: Iterable[Case], seed: int) -> list[Case]:
    """Return the cases, the most informative first.

    Each failure of each API comes once before any comes again. The others follow in an order that
    the seed determines. Repeated polls, and failures for which a client waits long, are last.
    """
    first: dict[tuple[str, str], Case] = {}
    others: list[Case] = []
    last: list[Case] = []
    for case in cases:
        if case.kind.stalls or (row(case.api_key).is_polled and case.nth > _FIRST_POLLS):
            last.append(case)
        elif (case.api, case.failure) in first:
            others.append(case)
        else:
            first[case.api, case.failure] = case
    random = Random(seed)  # noqa: S311 - not for secrets
    random.shuffle(others)
    random.shuffle(last)
    last.sort(key=lambda each: each.kind.stalls)
    return [*sorted(first.values(), key=_rank), *others, *last]


def _rank(case: Case) -> tuple[int, int]:
    key = case.api_key
    api_rank = _INFORMATIVE.index(key) if key in _INFORMATIVE else len(_INFORMATIVE)
    return [*FAILURES].index(case.failure), api_rank
