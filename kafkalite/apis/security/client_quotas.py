"""DescribeClientQuotas and AlterClientQuotas: limits of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.java_order import JavaHashMap, in_java_order, string_hash
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, Api
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps
from kafkalite.protocol._generated.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from kafkalite.security.quotas import ENTITY_TYPES, IP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.gateway.call import Call
    from kafkalite.security.quotas import QuotaEntity


class _Match(IntEnum):
    """How a component of a filter selects names, with Kafka's codes."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class _Selection(NamedTuple):
    """The entities that a request describes."""

    exact_names: Mapping[str, str | None]
    """Entity type → name; None selects the default entity."""
    types: frozenset[str]
    """Types of which every name is selected."""
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether an entity is selected."""
        names = dict(entity)
        return (
            (not self.is_strict or len(names) == len(self.exact_names) + len(self.types))
            and self.types <= names.keys()
            and self.exact_names.keys() <= names.keys()
            and all(names[kind] == name for kind, name in self.exact_names.items())
        )


# DescribeClientQuotas


def handle_describe_client_quotas(
    call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that a filter selects; raises KafkaError if invalid."""
    selection = _selection_of(request)
    quotas = call.node.image.client_quotas
    entities: JavaHashMap[QuotaEntity, None] = JavaHashMap(_hash_code, initial_capacity=0)
    for entity in in_steps(quotas):
        entities.put(entity, None)
    return DescribeClientQuotasResponse(
        entries=[
            DescribeClientQuotasResponse.EntryData(
                entity=[
                    DescribeClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in _in_order(entity)
                ],
                values=[
                    DescribeClientQuotasResponse.ValueData(key=key, value=value)
                    for key, value in _values_in_order(quotas[entity])
                ],
            )
            for entity in in_steps(entities.keys())
            if selection.matches(entity)
        ],
    )


def _values_in_order(values: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the quotas of an entity in the order of Kafka's hash map, if they were set at once."""
    ordered: JavaHashMap[str, float] = JavaHashMap(string_hash, initial_capacity=0)
    for key in in_java_order(values, string_hash):
        ordered.put(key, values[key])
    return list(zip(ordered.keys(), ordered.values(), strict=True))


def _selection_of(request: DescribeClientQuotasRequest) -> _Selection:
    exact_names: dict[str, str | None] = {}
    types: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        _check_component(component, {*exact_names, *types})
        if component.match_type == _Match.SPECIFIED:
            types.add(kind)
        else:
            exact_names[kind] = component.match
    selected = {*exact_names, *types}
    if IP in selected and len(selected) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return _Selection(exact_names, frozenset(types), request.strict)


def _check_component(
    component: DescribeClientQuotasRequest.ComponentData, selected: Iterable[str]
) -> None:
    """Raise KafkaError if a component is invalid, in the order of Kafka's ClientQuotasImage."""
    kind, match = component.entity_type, component.match
    if not kind:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if kind in selected:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Entity type {kind} cannot appear more than once in the filter.",
        )
    if kind not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if component.match_type not in tuple(_Match):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    is_exact = component.match_type == _Match.EXACT
    if is_exact and match is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        )
    if not is_exact and match is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Request specified MATCH_TYPE_{_Match(component.match_type).name}, but also "
            "specified a match string.",
        )


def _in_order(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    def place(pair: tuple[str, str | None]) -> tuple[int, str]:
        kind = pair[0]
        return (ENTITY_TYPES.index(kind) if kind in ENTITY_TYPES else len(ENTITY_TYPES), kind)

    return sorted(entity, key=place)


# AlterClientQuotas


def handle_alter_client_quotas(
    call: Call, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Set or remove quotas; each entity succeeds or fails on its own."""
    alterations = [
        QuotaAlteration(
            # A type that appears twice has its last name, as in Kafka.
            tuple({each.entity_type: each.entity_name for each in entry.entity}.items()),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in request.entries
    ]
    outcome = call.node.cluster.metadata.alter_client_quotas(
        alterations, validate_only=request.validate_only
    )
    # Kafka collects the results in a hash map.
    entities = in_java_order(outcome, _hash_code)
    return AlterClientQuotasResponse(
        entries=[_altered(_in_order(each), outcome[each]) for each in in_steps(entities)]
    )


def _hash_code(entity: QuotaEntity) -> int:
    """Return the hash code of Kafka's ClientQuotaEntity, which has one map."""
    codes = (
        string_hash(kind) ^ (0 if name is None else string_hash(name)) for kind, name in entity
    )
    return (31 + sum(codes)) & 0xFFFF_FFFF


def _altered(
    entity: Iterable[tuple[str, str | None]], error: KafkaError | None
) -> AlterClientQuotasResponse.EntryData:
    return AlterClientQuotasResponse.EntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[
            AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
    )


def refuse_alter_client_quotas(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    """Return the response with one error for every entity, in the order of the request."""
    error = KafkaError(code, message)
    return AlterClientQuotasResponse(
        entries=[
            _altered(((each.entity_type, each.entity_name) for each in entry.entity), error)
            for entry in request.entries
        ]
    )


APIS = (
    Api(
        key=DescribeClientQuotasRequest.API_KEY,
        other_pausing_lists=frozenset(("components",)),
        versions=Versions(0, 1),
        handler=handle_describe_client_quotas,
        inline_bytes=0,
    ),
    Api(
        key=AlterClientQuotasRequest.API_KEY,
        other_pausing_lists=frozenset(("entries",)),
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 1),
        handler=handle_alter_client_quotas,
        refusal=refuse_alter_client_quotas,
    ),
)
