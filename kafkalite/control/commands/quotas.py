"""The command that sets quotas of clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import CommandError, Family, Row, sentence
from kafkalite.control.internal_requests import answer_of
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.server.broker import Broker

_ENTITIES: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}


@dataclass(frozen=True, slots=True)
class QuotasOfEntity:
    """Quotas that were set."""

    quotas: Annotated[dict[str, float], About("The quotas that were set, by Kafka's names.")]


@dataclass(frozen=True, slots=True)
class SetQuotas:
    """Set quotas of a user, of a client id, of both together, or of an address.

    Quotas that are not given stay as they are. The quota that is most specific applies to a client.
    """

    quotas: Annotated[
        dict[str, float],
        About("quotas by Kafka's names, such as producer_byte_rate in bytes per second"),
    ]
    user: Annotated[str | None, About("user")] = None
    client_id: Annotated[str | None, About("client id")] = None
    ip: Annotated[str | None, About("address of clients")] = None

    def __post_init__(self) -> None:
        if not self._entity():
            raise CommandError("user, client_id or ip must be given")
        if not self.quotas:
            raise CommandError("quotas must have at least one quota, such as producer_byte_rate")

    async def perform(self, broker: Broker) -> QuotasOfEntity:
        """Set the quotas; raises CommandError if the broker refuses them."""
        entity, op = AlterClientQuotasRequest.EntityData, AlterClientQuotasRequest.OpData
        entry = AlterClientQuotasRequest.EntryData(
            entity=[
                entity(entity_type=_ENTITIES[field], entity_name=name)
                for field, name in self._entity().items()
            ],
            ops=[op(key=key, value=float(value)) for key, value in self.quotas.items()],
        )
        (row,) = (await answer_of(broker, AlterClientQuotasRequest(entries=[entry]))).entries
        if row.error_code:
            raise CommandError(sentence(KafkaError(ErrorCode(row.error_code), row.error_message)))
        return QuotasOfEntity(self.quotas)

    def _entity(self) -> Mapping[str, str]:
        given = {field: getattr(self, field) for field in _ENTITIES}
        return {field: name for field, name in given.items() if name is not None}


COMMANDS = Family(
    (
        Row(
            SetQuotas,
            QuotasOfEntity,
            "POST",
            "/v1/quotas",
            example={"client_id": "reports", "quotas": {"producer_byte_rate": 10000}},
        ),
    )
)
