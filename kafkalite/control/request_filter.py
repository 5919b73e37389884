"""RequestFilter: selects logged requests by API, client, entities, error and fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.config.typed_json import About, JsonError, quote, read_name
from kafkalite.gateway.fault_rules import (
    MAX_NODE,
    api_keys_by_name,
    error_codes_by_name,
    name_field,
)
from kafkalite.protocol import codec
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey  # noqa: TC001 - the type of a described field
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.spec import load_spec, snake_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.protocol.spec import FieldSpec, StructSpec
    from kafkalite.server.request_log import LoggedRequest

_BATCH_FIELDS: Final = (
    "baseOffset", "recordCount", "compression", "isTransactional", "isControl", "producerId",
    "producerEpoch", "baseSequence",
)  # fmt: skip
"""The fields of batches in `request_log`."""
_MAX_SHOWN_VALUES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """The requests to which all fields that are set apply."""

    api: Annotated[
        ApiKey | None,
        About(
            "API, such as OffsetCommit [all]",
            names=api_keys_by_name,
            kind="an API of Kafka",
            metavar="NAME",
        ),
    ] = None
    client_id: Annotated[str | None, name_field("client id of the request [all]")] = None
    group: Annotated[str | None, name_field("group that the request names [all]")] = None
    topic: Annotated[str | None, name_field("topic that the request names [all]", "NAME")] = None
    transactional_id: Annotated[
        str | None, name_field("transactional id that the request names [all]")
    ] = None
    error: Annotated[
        ErrorCode | None,
        About(
            "error in the answer, such as NOT_COORDINATOR [all]",
            names=error_codes_by_name,
            kind="an error of Kafka",
            metavar="NAME",
        ),
    ] = None
    node: Annotated[
        int | None,
        About("node that received the request [all]", minimum=0, maximum=MAX_NODE, metavar="ID"),
    ] = None
    since: Annotated[
        int, About("only requests after the one with this number", minimum=0, metavar="NUMBER")
    ] = 0

    def is_candidate(self, logged: LoggedRequest) -> bool:
        """Return whether a request is of the API, if one is set."""
        return self.api is None or logged.exchange.api_key == self.api

    def differences(self, logged: LoggedRequest) -> Iterator[str]:
        """Yield what is different in a request, one condition at a time."""
        exchange = logged.exchange
        if not self.is_candidate(logged):
            assert self.api is not None
            yield (f"the API is {codec.api_name(exchange.api_key)}, not {codec.api_name(self.api)}")
        if self.client_id is not None and exchange.client_id != self.client_id:
            yield f"client_id is {exchange.client_id!r}, not {self.client_id!r}"
        for field, entity in _ENTITIES.items():
            expected = getattr(self, field)
            if expected is not None and expected not in (names := logged.names(entity)):
                yield f"{field} is {_shown(names)}, not {expected!r}"
        if self.node is not None and exchange.node.id != self.node:
            yield f"node is {exchange.node.id}, not {self.node}"
        if self.error is not None and self.error not in (codes := logged.error_codes()):
            found = ", ".join(map(error_name, codes)) or "NONE"
            yield f"error is {found}, not {self.error.name}"

    def matches(self, logged: LoggedRequest) -> bool:
        """Return whether a request is selected."""
        return next(self.differences(logged), None) is None

    def description(self) -> str:
        """Return the conditions as text, such as "OffsetCommit with group='shop'"."""
        api = "request" if self.api is None else f"{codec.api_name(self.api)} request"
        conditions = [
            f"{name}={value.name if isinstance(value, ErrorCode) else repr(value)}"
            for name in ("client_id", *_ENTITIES, "error", "node")
            if (value := getattr(self, name)) is not None
        ]
        return f"{api} with {', '.join(conditions)}" if conditions else api


_ENTITIES: Final[Mapping[str, Entity]] = {
    "group": Entity.GROUP,
    "topic": Entity.TOPIC,
    "transactional_id": Entity.TRANSACTIONAL_ID,
}


def _shown(values: Sequence[Any]) -> str:
    if not values:
        return "missing"
    shown = ", ".join(map(repr, values[:_MAX_SHOWN_VALUES]))
    return f"{shown}, …" if len(values) > _MAX_SHOWN_VALUES else shown


# Fields of requests


def field_differences(expected: Mapping[str, object], logged: LoggedRequest) -> Iterator[str]:
    """Yield the fields of a request none of whose values is the expected one."""
    if not expected:
        return
    request = logged.request
    for name, value in expected.items():
        values = list(_values_of(request, name))
        if value not in values:
            yield f"{name} is {_shown(values)}, not {value!r}"


def _values_of(request: Mapping[str, Any], name: str) -> Iterator[object]:
    """Yield the values at all paths that are, or end with, a name."""
    expected = tuple(name.split("."))

    def visit(value: object, path: tuple[str, ...]) -> Iterator[object]:
        if path[-len(expected) :] == expected and not isinstance(value, list):
            yield value
        if isinstance(value, dict):
            for key, each in value.items():
                yield from visit(each, (*path, key))
        elif isinstance(value, list):
            if not value and path[-len(expected) :] == expected:
                yield value
            for each in value:
                yield from visit(each, path)

    yield from visit(request, ())


def check_fields(api: ApiKey | None, expected: Mapping[str, object]) -> None:
    """Raise JsonError for a field that no version of the API's requests has."""
    if not expected:
        return
    if api is None:
        raise JsonError("fields needs an API: set api")
    known = field_names_of(api)
    for name in expected:
        read_name("fields", name, f"a field of {codec.api_name(api)} requests", known)
    for name, value in expected.items():
        if isinstance(value, dict):
            raise JsonError(
                f"fields {quote(name)} must be a single value; "
                "write the path of a field in a list or struct, such as topics.name"
            )


@cache
def field_names_of(api: ApiKey) -> Mapping[str, str]:
    """Return each name and each end of a path of a field in the requests of an API."""
    spec = load_spec("apis", f"{snake_case(codec.api_name(api))}_request")
    names: dict[str, str] = {}
    for path in _paths(spec.fields, spec.structs):
        for start in range(len(path)):
            names.setdefault(".".join(path[start:]), ".".join(path))
    return names


def _paths(
    fields: Sequence[FieldSpec], structs: Mapping[str, StructSpec]
) -> Iterator[tuple[str, ...]]:
    for field in fields:
        name = field.name[0].lower() + field.name[1:]
        if field.type == "records":
            yield (f"{name}SizeInBytes",)
            for each in _BATCH_FIELDS:
                yield (f"{name}Batches", each)
            continue
        yield (name,)
        struct = structs.get(field.type)
        if struct is not None:
            for path in _paths(struct.fields, structs):
                yield (name, *path)
