"""Client quotas: limits of users, client ids and addresses, as records of the metadata log.

The rules are those of Kafka's ClientQuotaControlManager (KIP-546). `kafkalite.security.quotas`
applies the quotas to requests.
"""

from __future__ import annotations

from collections import Counter
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.metadata.image_table import ImageTable
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.records.client_quota import ClientQuotaRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.security.quotas import QuotaEntity

MAX_RECORDS_PER_REQUEST: Final = 10_000
"""Maximum number of quotas that one request changes, as in Kafka."""

_MAX_INTEGERS: Final = {"LONG": (1 << 63) - 1, "INT": (1 << 31) - 1}
_MAX_FRACTION: Final = 1e-6

_CLIENT_KEYS: Final = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: "DOUBLE",
    CONTROLLER_MUTATION_RATE: "DOUBLE",
}
_IP_KEYS: Final = {CONNECTION_CREATION_RATE: "INT"}


class QuotaAlteration(NamedTuple):
    """The requested quotas of one entity; the value None removes a quota."""

    entity: tuple[tuple[str, str | None], ...]
    values: tuple[tuple[str, float | None], ...]


class ClientQuotas:
    """All quotas of a cluster, by entity."""

    __slots__ = ("_requires_finite", "table")

    def __init__(self, *, requires_finite: bool = True) -> None:
        self._requires_finite = requires_finite
        # The quotas of an entity are replaced as a whole, so that images can share them.
        self.table: ImageTable[QuotaEntity, Mapping[str, float]] = ImageTable()

    def alter(
        self, alterations: Sequence[QuotaAlteration]
    ) -> tuple[dict[QuotaEntity, KafkaError | None], list[ClientQuotaRecord]]:
        """Return an error or None for each entity, and the records of the valid alterations.

        If an entity is altered twice, the first alteration is made and the second is the error of
        the entity, as in Kafka. Raises KafkaError POLICY_VIOLATION if there are too many records.
        """
        outcome: dict[QuotaEntity, KafkaError | None] = {}
        records: list[ClientQuotaRecord] = []
        for alteration in alterations:
            entity = frozenset(alteration.entity)
            if entity in outcome:
                outcome[entity] = _invalid("The entity is altered twice in one request.")
                continue
            try:
                records += self._records_of(alteration, entity)
            except KafkaError as error:
                outcome[entity] = error.without_traceback()
            else:
                outcome[entity] = None
        if len(records) > MAX_RECORDS_PER_REQUEST:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, ErrorText.TOO_LARGE_BATCH.template)
        return outcome, records

    def _records_of(
        self, alteration: QuotaAlteration, entity: QuotaEntity
    ) -> list[ClientQuotaRecord]:
        keys = Counter(key for key, _ in alteration.values)
        if duplicate := next((key for key, count in keys.items() if count > 1), None):
            raise _invalid(f"Duplicate quota key {duplicate} not updating quota")
        types = _key_types(alteration.entity)
        current = self.table.rows.get(entity, {})
        records = []
        for key, value in alteration.values:
            if value is not None:
                _check_value(types, key, value, requires_finite=self._requires_finite)
            if value == current.get(key):
                continue
            records.append(
                ClientQuotaRecord(
                    entity=[
                        ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in alteration.entity
                    ],
                    key=key,
                    value=0.0 if value is None else value,
                    remove=value is None,
                )
            )
        return records

    def replay_client_quota(self, record: ClientQuotaRecord) -> None:
        """Set or remove one quota."""
        entity = frozenset((each.entity_type, each.entity_name) for each in record.entity)
        values = dict(self.table.rows.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self.table.replay_set(entity, MappingProxyType(values))
        elif entity in self.table.rows:
            self.table.replay_remove(entity)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _key_types(entity: Iterable[tuple[str, str | None]]) -> Mapping[str, str]:
    """Return the keys that an entity can have, with their types; raises KafkaError."""
    names: dict[str, str | None] = {}
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name is not None and not name:
            raise _invalid(f"Empty {kind} not supported")
        names[kind] = name
    if not names:
        raise _invalid("Invalid empty client quota entity")
    if IP not in names:
        return _CLIENT_KEYS
    if len(names) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    address = names[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    """Whether a text is an IP address; other host names are not resolved, except `localhost`."""
    if text == "localhost":
        return True
    from ipaddress import ip_address  # noqa: PLC0415 - a start needs no addresses

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(
    types: Mapping[str, str], key: str, value: float, *, requires_finite: bool
) -> None:
    kind = types.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if requires_finite and not isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if not value > 0.0:  # NaN, too
        raise _invalid(f"Quota {key} must be greater than 0")
    limit = _MAX_INTEGERS.get(kind)
    if limit is None:
        return
    if value > limit:
        raise _invalid(
            f"Proposed value for {key} is too large for a{'n' * (kind == 'INT')} {kind}."
        )
    if value % 1.0 > _MAX_FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")
