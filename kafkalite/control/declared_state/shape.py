"""The fields of a declared state, and their reader.

`State` is the part `state` of a scenario, and the whole of a state file. An error has the path of
the wrong value, from which the position in a file follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from kafkalite.config.typed_json import About, JsonError, field_names, quote, read, to_json
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.ports.times import instant_ms
from kafkalite.security.acls import (
    OPERATION_NAMES,
    PERMISSION_NAMES,
    RESOURCE_NAMES,
    PatternType,
)
from kafkalite.security.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_BY_NAME,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")
Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

DEFAULT_ENTITY: Final = "<default>"
"""The name that stands for every user, client id or address without quotas of its own."""
NO_JSON: Final = object()
"""The value of a record without `value_json`: null is a value."""
FORMS: Final = ("", "_json", "_hex", "_base64", "_file")
"""The ends of the names of fields with a key or a value."""

MAX_OFFSET: Final = 2**63 - 1
MAX_END_OFFSET: Final = MAX_OFFSET - 2**32
"""The largest end of a log: clients must be able to write more records."""
_MAX_RECORD_OFFSET: Final = MAX_END_OFFSET - 1
_MAX_PARTITIONS: Final = 10_000
_OPERATIONS: Final = tuple(OPERATION_NAMES.values())
_PATTERNS: Final = (PatternType.LITERAL.name, PatternType.PREFIXED.name)


class MisplacedError(ValueError):
    """A wrong value in a state: the path of the value, and one sentence."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path


def _read_timestamp(where: str, value: object) -> object:
    """Check a timestamp; raises JsonError."""
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= MAX_OFFSET:
        return value
    if isinstance(value, str):
        try:
            instant_ms(value)
        except ValueError as error:
            raise JsonError(f"{where}: {error}") from error
        return value
    raise JsonError(
        f"{where} must be a time such as 2026-03-01T12:00:00Z, or a number of milliseconds since "
        f"the Unix epoch, not {quote(value)}"
    )


def _read_headers(where: str, value: object) -> object:
    """Check headers; raises JsonError."""
    if isinstance(value, list):
        return [to_json(read(StateHeader, each, "a header")) for each in value]
    if isinstance(value, dict) and all(isinstance(each, str | None) for each in value.values()):
        return value
    raise JsonError(
        f"{where} must be an object with texts by name, or a list of headers, not {quote(value)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHeader:
    """A header of a record; one of its forms has the value, none of them for null."""

    OMITS_DEFAULTS: ClassVar = True

    key: Annotated[str, About("key of the header")]
    value: Annotated[str | None, About("value as text")] = None
    value_hex: Annotated[str | None, About("value in hexadecimal")] = None
    value_base64: Annotated[str | None, About("value in base64")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """A record of a topic; a record without any form of its value is a tombstone."""

    OMITS_DEFAULTS: ClassVar = True

    partition: Annotated[
        int | None,
        About(
            "partition; by default the one that Java's producer selects for the key, and 0 "
            "without a key",
            minimum=0,
            maximum=_MAX_PARTITIONS,
        ),
    ] = None
    offset: Annotated[
        int | None,
        About("offset; by default the next one", minimum=0, maximum=_MAX_RECORD_OFFSET),
    ] = None
    timestamp: Annotated[
        object,
        About(
            "time in ISO 8601, or milliseconds since the Unix epoch; by default that of the start",
            read=_read_timestamp,
            schema={"type": ["string", "integer"]},
        ),
    ] = None
    key: Annotated[str | None, About("key as text")] = None
    key_json: Annotated[object, About("key as a JSON value, written without spaces")] = NO_JSON
    key_hex: Annotated[str | None, About("key in hexadecimal")] = None
    key_base64: Annotated[str | None, About("key in base64")] = None
    key_file: Annotated[str | None, About("file with the key")] = None
    value: Annotated[str | None, About("value as text")] = None
    value_json: Annotated[object, About("value as a JSON value, written without spaces")] = NO_JSON
    value_hex: Annotated[str | None, About("value in hexadecimal")] = None
    value_base64: Annotated[str | None, About("value in base64")] = None
    value_file: Annotated[str | None, About("file with the value")] = None
    headers: Annotated[
        object,
        About(
            "texts by name, or a list of headers with key and value, value_hex or value_base64",
            read=_read_headers,
            schema={"type": ["object", "array"]},
        ),
    ] = None

    def __post_init__(self) -> None:
        for name in ("key", "value"):
            given = [
                f"{name}{form}"
                for form in FORMS
                if getattr(self, f"{name}{form}") not in (None, NO_JSON)
                or (form == "_json" and getattr(self, f"{name}_json") is None)
            ]
            if len(given) > 1:
                raise JsonError(f"a record takes one of {' and '.join(given)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopic:
    """A topic with its records."""

    OMITS_DEFAULTS: ClassVar = True

    partitions: Annotated[
        int | None,
        About("number of partitions [num.partitions]", minimum=1, maximum=_MAX_PARTITIONS),
    ] = None
    replication_factor: Annotated[
        int | None,
        About("number of replicas [default.replication.factor]", minimum=1, maximum=1000),
    ] = None
    config: Annotated[dict[str, object], About("settings of the topic by Kafka's names")] = field(
        default_factory=dict
    )
    end_offsets: Annotated[
        dict[str, int],
        About(
            "the offset after the last record, by partition, if it is not that of the records",
            minimum=0,
            maximum=MAX_END_OFFSET,
        ),
    ] = field(default_factory=dict)
    records: Annotated[tuple[StateRecord, ...], About("records in their order")] = ()
    records_file: Annotated[
        str | None, About("file with more records, each a line of JSON with these fields")
    ] = None

    def __post_init__(self) -> None:
        for name, value in self.config.items():
            if not isinstance(value, str | int | float):
                raise JsonError(f"config: {name} must be text or a number, not {quote(value)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateGroup:
    """A group without members."""

    OMITS_DEFAULTS: ClassVar = True

    offsets: Annotated[
        dict[str, dict[str, int]],
        About("committed offsets by topic and partition", minimum=0, maximum=MAX_OFFSET),
    ] = field(default_factory=dict)
    metadata: Annotated[
        dict[str, dict[str, str]],
        About("texts that were committed with the offsets, by topic and partition"),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAcl:
    """An ACL, with Kafka's names."""

    OMITS_DEFAULTS: ClassVar = True

    principal: Annotated[str, About("type and name of the principal, such as User:alice")]
    operation: Annotated[str, About("operation", choices=_OPERATIONS)]
    resource_type: Annotated[
        str, About("type of the resource", choices=tuple(RESOURCE_NAMES.values()))
    ]
    resource_name: Annotated[str, About("name of the resource, or * for all of this type")]
    pattern_type: Annotated[str, About("how the name selects resources", choices=_PATTERNS)] = (
        PatternType.LITERAL.name
    )
    host: Annotated[str, About("address of clients, or * for all")] = "*"
    permission: Annotated[
        str, About("whether it allows or denies", choices=tuple(PERMISSION_NAMES.values()))
    ] = "ALLOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateUser:
    """A user with SCRAM credentials; without a password, no client can log in."""

    OMITS_DEFAULTS: ClassVar = True

    password: Annotated[str | None, About("password", is_secret=True)] = None
    mechanisms: Annotated[
        dict[str, int],
        About(
            f"iterations by mechanism, SCRAM-SHA-256 and SCRAM-SHA-512 [both {MIN_ITERATIONS}]",
            minimum=MIN_ITERATIONS,
            maximum=MAX_ITERATIONS,
        ),
    ] = field(default_factory=lambda: dict.fromkeys(SCRAM_BY_NAME, MIN_ITERATIONS))

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"StateUser(mechanisms={self.mechanisms})"

    def __post_init__(self) -> None:
        for name in self.mechanisms:
            if name not in SCRAM_BY_NAME:
                known = " or ".join(SCRAM_BY_NAME)
                raise JsonError(f"mechanisms must be {known}, not {quote(name)}")
        if not self.mechanisms:
            raise JsonError(f"mechanisms must have {' or '.join(SCRAM_BY_NAME)}")
        if self.password is not None and not self.password:
            raise JsonError("password must not be empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuotas:
    """Quotas of a user, of a client id, of both together, or of an address."""

    OMITS_DEFAULTS: ClassVar = True

    user: Annotated[str | None, About(f"user, or {DEFAULT_ENTITY} for all others")] = None
    client_id: Annotated[str | None, About(f"client id, or {DEFAULT_ENTITY}")] = None
    ip: Annotated[str | None, About(f"address of clients, or {DEFAULT_ENTITY}")] = None
    quotas: Annotated[
        dict[str, float], About("quotas by Kafka's names, such as producer_byte_rate")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.user is self.client_id is self.ip is None:
            raise JsonError("quotas need user, client_id or ip")
        if not self.quotas:
            raise JsonError("quotas must have at least one quota, such as producer_byte_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a cluster contains at its start."""

    OMITS_DEFAULTS: ClassVar = True

    brokers: Annotated[int | None, About("number of nodes, at least", minimum=1, maximum=1000)] = (
        None
    )
    features: Annotated[
        dict[str, int],
        About("levels of features, with which the cluster is formatted", minimum=0, maximum=32767),
    ] = field(default_factory=dict)
    topics: Annotated[dict[str, StateTopic], About("topics by name")] = field(default_factory=dict)
    groups: Annotated[dict[str, StateGroup], About("groups by id")] = field(default_factory=dict)
    acls: Annotated[tuple[StateAcl, ...], About("ACLs; they need an authorizer")] = ()
    users: Annotated[dict[str, StateUser], About("users by name")] = field(default_factory=dict)
    quotas: Annotated[tuple[StateQuotas, ...], About("quotas of clients")] = ()


_BY_NAME: Final[Mapping[str, tuple[type, str]]] = {
    "topics": (StateTopic, "a topic"),
    "groups": (StateGroup, "a group"),
    "users": (StateUser, "a user"),
}
_LISTED: Final[Mapping[str, tuple[type, str]]] = {
    "acls": (StateAcl, "an ACL"),
    "quotas": (StateQuotas, "an entry of quotas"),
}


def state_of(value: object) -> State:
    """Return the state that a JSON value describes; raises MisplacedError."""
    known = field_names(State)
    if not isinstance(value, dict):
        fields = ", ".join(known)
        raise MisplacedError((), f"a state must be an object with these fields: {fields}")
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None:
        raise MisplacedError(
            (), f"a state has no field {quote(unknown)}; its fields are {', '.join(known)}"
        )
    plain = {name: each for name, each in value.items() if name not in {*_BY_NAME, *_LISTED}}
    state = read_at((), lambda: read(State, plain, "a state"))
    parts: dict[str, Any] = {}
    for name, (kind, title) in _BY_NAME.items():
        if name in value:
            read_one = _read_topic if kind is StateTopic else _reader_of(kind, title)
            parts[name] = _read_members(name, value[name], read_one)
    for name, (kind, title) in _LISTED.items():
        if name in value:
            parts[name] = _read_elements((name,), value[name], _reader_of(kind, title))
    _check_quota_entities(parts.get("quotas", ()))
    return replace(state, **parts)


def _check_quota_entities(quotas: Sequence[StateQuotas]) -> None:
    """Raise MisplacedError for quotas of an entity that has some already."""
    known: dict[tuple[str | None, ...], int] = {}
    for index, each in enumerate(quotas):
        entity = each.user, each.client_id, each.ip
        first = known.setdefault(entity, index)
        if first != index:
            raise MisplacedError(
                ("quotas", index), f"the entry {first} has quotas of the same entity: use one entry"
            )


def read_at(path: Path, parse: Callable[[], T]) -> T:
    """Return what `parse` returns; raises MisplacedError for its JsonError."""
    try:
        return parse()
    except JsonError as error:
        raise MisplacedError(path, str(error)) from error


def _reader_of(kind: type[T], title: str) -> Callable[[Path, object], T]:
    return lambda path, value: read_at(path, lambda: read(kind, value, title))


def _read_members(name: str, value: object, read_one: Callable[[Path, object], T]) -> dict[str, T]:
    if not isinstance(value, dict):
        raise MisplacedError((name,), f"{name} must be an object, not {quote(value)}")
    return {key: read_one((name, key), each) for key, each in value.items()}


def _read_elements(
    path: Path, value: object, read_one: Callable[[Path, object], T]
) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise MisplacedError(path, f"{path[-1]} must be a list, not {quote(value)}")
    return tuple(read_one((*path, index), each) for index, each in enumerate(value))


def _read_topic(path: Path, value: object) -> StateTopic:
    name = str(path[-1])
    if reason := invalid_name_reason(name):
        raise MisplacedError(path, reason)
    plain = value
    if isinstance(value, dict):
        plain = {key: each for key, each in value.items() if key != "records"}
    topic = read_at(path, lambda: read(StateTopic, plain, "a topic"))
    if isinstance(value, dict) and "records" in value:
        records = _read_elements((*path, "records"), value["records"], record_at)
        topic = replace(topic, records=records)
    return topic


def record_at(path: Path, value: object) -> StateRecord:
    """Return the record that a JSON value describes; raises MisplacedError."""
    return read_at(path, lambda: read(StateRecord, value, "a record"))


def config_texts(config: Mapping[str, object]) -> dict[str, str]:
    """Return settings as texts: Kafka's booleans are lower case."""
    return {
        key: f"{value}".lower() if isinstance(value, bool) else f"{value}"
        for key, value in config.items()
    }
