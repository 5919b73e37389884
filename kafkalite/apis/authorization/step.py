"""AuthorizationStep: checks requests by ACLs before their handlers are called.

The names that a client may use are cached in its `Permissions`, so that nearly all requests need
one lookup for each group and topic. Calls between nodes of the cluster are not restricted.

As in Kafka, a node checks the requests that it answers by the ACLs that it knows. The controller
checks those that nodes forward to it, and those of its own clients, by the newest ACLs.
"""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkalite.apis.authorization import special
from kafkalite.apis.authorization.checks import (
    check,
    checks_of,
    cluster_message,
)
from kafkalite.apis.authorization.listed import listed_filter
from kafkalite.apis.authorization.rules import (
    CONTROLLER_RULES,
    RULES,
    ClusterMessage,
    Rule,
    has_all_permissions,
    names_permission,
    row_permission,
)
from kafkalite.gateway.refusals import (
    MAX_REPORTED,
    report_refusal,
    report_refusal_of_request,
    warn_about_denial,
)
from kafkalite.gateway.steps import ImmediateStep
from kafkalite.ports.waiting import chain
from kafkalite.protocol.acl_operations import Entity, Resource
from kafkalite.protocol.catalogue import AnsweringNode, Position, row, values_at
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.rows import split
from kafkalite.security.acls import CLUSTER_NAME
from kafkalite.security.permissions import PermissionsTable, permission_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.apis.authorization.checks import Check
    from kafkalite.apis.authorization.rules import NamesPermission, RowPermission
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol.acl_operations import Operation
    from kafkalite.security.authorizer import AuthorizerSettings
    from kafkalite.security.permissions import Permissions

_KINDS: Final[Mapping[object, Entity]] = {
    each.name: each for each in (Entity.TOPIC, Entity.GROUP, Entity.TRANSACTIONAL_ID)
}
"""Name of a type of resource → the entities with a history."""


_DEFAULT_RULE: Final = Rule()
_CONTROLLER: Final = -1
"""The key of the permissions by the ACLs of the controller, in place of a node's id."""


class AuthorizationStep(ImmediateStep):
    """The step that refuses the requests, and the parts of requests, that no ACL allows."""

    __slots__ = ("_is_for_controllers", "_rules", "_table")

    def __init__(self, settings: AuthorizerSettings, *, is_for_controllers: bool = False) -> None:
        """`is_for_controllers` is true for clients that are connected to the controller."""
        self._table = PermissionsTable(settings)
        self._is_for_controllers = is_for_controllers
        self._rules = CONTROLLER_RULES if is_for_controllers else RULES

    def forget_node(self, node_id: int) -> None:
        """Release what is cached for the clients of a node that was removed."""
        self._table.forget_node(node_id)

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Return a handler that checks permissions and then calls `handler`; see `Step`."""
        del version
        rule = self._rules.get(api.key, _DEFAULT_RULE)
        if rule is None or not row(api.key).access:
            return handler
        if rule.is_derived and not has_all_permissions(api.key):
            return _refuse_all
        is_at_controller = self._is_for_controllers or row(api.key).node is AnsweringNode.CONTROLLER
        return Guard(
            api, handler, rule, self._table, is_at_controller=is_at_controller
        ).checking_handler()


class Guard:
    """The checks of one API, and the handler behind them."""

    __slots__ = (
        "_after", "_checks", "_complete", "_is_at_controller", "_names", "_needed", "_row_key",
        "_rule", "_table", "api", "function", "handler",
    )  # fmt: skip

    def __init__(
        self,
        api: Api,
        handler: Handler,
        rule: Rule,
        table: PermissionsTable,
        *,
        is_at_controller: bool,
    ) -> None:
        self.api = api
        self._is_at_controller = is_at_controller
        self.handler = handler
        self._table = table
        self._checks = checks_of(row(api.key)) if rule.is_whole else ()
        self._rule = rule
        self._needed = needed = None if rule.is_in_handler else row_permission(api.key)
        """The permission that each row needs."""
        self._names = names_permission(api.key)
        self._row_key = 0 if needed is None else permission_key(needed.operation, needed.resource)
        self.function: Callable[[Guard, Call, Permissions, Any], Any] | None = getattr(
            special, rule.function, None
        )
        self._complete: Callable[[Call, list[Any]], None] | None = getattr(
            special, rule.complete, None
        )
        self._after: Callable[[Permissions, Any], Any] | None = getattr(special, rule.after, None)
        if self._after is None and not rule.is_in_handler:
            self._after = listed_filter(api.key, rule.hidden)

    def checking_handler(self) -> Handler:
        """Return the handler that clients' requests are passed to."""
        if len(self._checks) == 1 and self._checks[0][0].field == "group_id":
            if self.function is None and self._needed is None and self._after is None:
                return self._heartbeat_handler(self._checks[0][0])
            if self._needed is not None and self._needed.has_ids:
                return self._commit_handler(self._checks[0][0])
        return self._serve

    def _commit_handler(self, only_check: Check) -> Handler:
        """Return a handler for frequent requests that name one group and few topics."""
        handler, group_key, topic_key = self.handler, only_check.key, self._row_key
        serve = self._serve

        def handle(call: Call, request: Any) -> Any:
            context = call.context
            permissions = context.permissions
            if (
                permissions is None
                or permissions.acls is not call.node.image.acls
                or permissions.principal is not context.principal
            ):
                return serve(call, request)
            permitted = permissions.permitted
            if request.group_id not in permitted[group_key]:
                return serve(call, request)
            topics = permitted[topic_key]
            for topic in request.topics:
                if (topic.name or topic.topic_id) not in topics:
                    return serve(call, request)
            return handler(call, request)

        return handle

    def _heartbeat_handler(self, only_check: Check) -> Handler:
        """Return a handler for frequent requests that need one permission on a group.

        Requests that name topics need more permissions.
        """
        handler, key, serve = self.handler, only_check.key, self._serve
        names_field = "" if self._names is None else self._names.field

        def check_and_handle(call: Call, request: Any) -> Any:
            image, context = call.node.image, call.context
            permissions = context.permissions
            if (
                permissions is None
                or request.group_id not in permissions.permitted[key]
                or permissions.acls is not image.acls
                or permissions.principal is not context.principal
                or (names_field and getattr(request, names_field))
            ):
                return serve(call, request)
            context.checked_request, context.checked_image = request, image
            return handler(call, request)

        def handle(call: Call, request: Any) -> Any:
            # A repeated request is the same object as before.
            context = call.context
            if context.checked_request is request and context.checked_image is call.node.image:
                return handler(call, request)
            return check_and_handle(call, request)

        return handle

    def _renew(self, call: Call) -> Permissions:
        """Set the permissions of a client by the present ACLs of the node, or of the controller."""
        context = call.context
        if self._is_at_controller:
            permissions = self._find(call, _CONTROLLER, call.node.cluster.metadata.image)
        else:
            permissions = self.permissions_at_node(call)
        # The same object, so that later requests compare it by identity.
        context.principal = permissions.principal
        context.permissions = permissions
        return permissions

    def permissions_at_node(self, call: Call) -> Permissions:
        """Return the permissions of a call by the present ACLs of its node."""
        return self._find(call, call.node.id, call.node.image)

    def _find(self, call: Call, node_id: int, image: MetadataImage) -> Permissions:
        return self._table.find(
            node_id,
            image.acls,
            call.principal,
            call.client_host.removeprefix("/"),
            is_node=call.sender is not None,
        )

    def _serve(self, call: Call, request: Any) -> Any:
        permissions = call.permissions
        node = call.node
        if (
            permissions is None
            or permissions.acls
            is not (node.cluster.metadata if self._is_at_controller else node).image.acls
            or permissions.principal != call.principal
        ):
            permissions = self._renew(call)
        permitted = permissions.permitted
        for alternatives in self._checks:
            _, _, field, key = alternatives[0]
            name = getattr(request, field) if field else CLUSTER_NAME
            if name not in permitted[key]:
                self.check_alternatives(call, permissions, alternatives, request)
        if self.function is not None:
            return self.function(self, call, permissions, request)
        if self._names is not None:
            self._check_names(self._names, call, permissions, request)
        return self.serve_listed(call, permissions, request)

    def check_alternatives(
        self, call: Call, permissions: Permissions, alternatives: Sequence[Check], request: object
    ) -> None:
        """Raise the KafkaError of a request that none of these permissions allows."""
        if any(
            permissions.allows(c.operation, c.resource, c.name_in(request)) for c in alternatives
        ):
            return
        self.check_first(call, request)
        operation, resource = alternatives[0].operation, alternatives[0].resource
        message = self._message(operation) if resource is Resource.CLUSTER else None
        check(permissions, operation, resource, alternatives[0].name_in(request), message)

    def _check_names(
        self, needed: NamesPermission, call: Call, permissions: Permissions, request: Any
    ) -> None:
        """Raise the KafkaError of the first name that is refused."""
        operation, resource, places = needed
        names = dict.fromkeys(name for place in places for name in values_at(request, place))
        refused = next((n for n in names if not permissions.allows(operation, resource, n)), None)
        refuses = self._rule.refuses
        if refused is None or (refuses is not None and any(map(refuses, names))):
            return
        self.check_first(call, request)
        check(permissions, operation, resource, refused)

    def _message(self, operation: Operation) -> str | None:
        """Return the message of a refusal for the cluster."""
        if self._rule.cluster_message is ClusterMessage.STANDARD:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED.message
        if self._rule.cluster_message is ClusterMessage.NEEDED:
            return cluster_message(self.api.name, operation)
        return None

    def check_first(self, call: Call, request: object) -> None:
        """Raise the KafkaError that has precedence over a refusal."""
        if self.api.check_first is not None:
            self.api.check_first(call, request)

    def serve_listed(self, call: Call, permissions: Permissions, request: Any) -> Any:
        """Return the answer of the handler, with rows for elements that are refused."""
        needed = self._needed
        if needed is None:
            return self.finish(permissions, self.handler(call, request))
        permitted = permissions.permitted[self._row_key]
        field = needed.name
        for each in getattr(request, needed.rows) or ():
            name = (getattr(each, field) or each.topic_id) if needed.has_ids else (
                getattr(each, field) if field else each
            )  # fmt: skip
            if name not in permitted:
                answer = self._serve_permitted(needed, call, permissions, request)
                return self.finish(permissions, answer)
        return self.finish(permissions, self.handler(call, request))

    def finish(self, permissions: Permissions, answer: Any) -> Any:
        """Remove the parts of an answer that the client may not see."""
        return answer if self._after is None else chain(answer, partial(self._after, permissions))

    def serve_rows(
        self,
        call: Call,
        request: Any,
        refusal_of: Callable[[Any], KafkaError | None],
        *,
        position: Position | None = None,
        handler: Handler | None = None,
        complete: Callable[[list[Any]], None] | None = None,
        is_called_without_rows: bool = True,
    ) -> Any:
        """Return the answer of a handler for some rows of a request, and refusals of the others.

        `refusal_of` returns the refusal of a row, or None. `complete` gets the refused rows of the
        response.
        """
        serve = self.handler if handler is None else handler
        # Rows with the same resource share one error: a request may name it a million times.
        errors: dict[object, KafkaError] = {}

        def error_of(path: Sequence[Any]) -> KafkaError | None:
            error = refusal_of(path[0])
            if error is None:
                return None
            assert error.facts is not None
            facts = error.facts
            return errors.setdefault(
                (facts["operation"], facts["resource_type"], facts["resource"]), error
            )

        divided = split(self.api.key, request, 0, error_of)
        if errors:
            self.report(call, request, errors.values())
            if complete is not None:
                complete(divided.refused)
        return divided.answer(
            partial(serve, call), position, is_handled_without_rows=is_called_without_rows
        )

    def _serve_permitted(
        self, needed: RowPermission, call: Call, permissions: Permissions, request: Any
    ) -> Any:
        """Serve a request without the rows that are refused."""
        if needed.alternative is not None and permissions.allows(
            needed.alternative, Resource.CLUSTER, CLUSTER_NAME
        ):
            return self.handler(call, request)
        rule = self._rule
        counts: Counter[object] = Counter()
        if rule.omits_repeated:
            counts.update(_name_of(needed, call, row) for row in getattr(request, needed.rows))

        def refusal_of(row: Any) -> KafkaError | None:
            name = _name_of(needed, call, row)
            if name is None or counts[name] > 1:
                return None
            if rule.refuses is not None and rule.refuses(name):
                return None
            decision = permissions.decide(needed.operation, needed.resource, name)
            if decision.is_allowed:
                permissions.remember(self._row_key, name)
                if needed.has_ids and not getattr(row, needed.name):
                    permissions.remember(self._row_key, row.topic_id)
                return None
            error = permissions.refusal(needed.operation, needed.resource, name, decision)
            error.message = rule.message
            return error

        return self.serve_rows(
            call,
            request,
            refusal_of,
            complete=None if self._complete is None else partial(self._complete, call),
            is_called_without_rows=rule.is_called_without_rows,
        )

    def report(self, call: Call, request: object, errors: Iterable[KafkaError]) -> None:
        """Report refused rows under their names, and under the group of the request.

        The cluster has no history, so refusals for it are only logged.
        """
        by_resource = defaultdict[object, list[KafkaError]](list)
        for error in errors:
            assert error.facts is not None
            by_resource[error.facts["resource_type"]].append(error)
        for resource, refused in by_resource.items():
            kind = _KINDS.get(resource)
            for error in refused[:MAX_REPORTED]:
                warn_about_denial(call, self.api.name, error)
                if kind is not None and error.facts is not None:
                    name = str(error.facts["resource"])
                    report_refusal(call, self.api.name, name, error, request, kind=kind)
            if kind is not None:
                report_refusal_of_request(call, self.api.name, refused[0], request)


def _name_of(needed: RowPermission, call: Call, row: Any) -> str | None:
    """Return the name of a row; None for an unknown topic id, which the handler refuses."""
    if not needed.name:
        return str(row)
    name: str = getattr(row, needed.name)
    return name if name or not needed.has_ids else call.node.image.topic_name(row.topic_id)


def _refuse_all(call: Call, request: Any) -> NoReturn:
    """Refuse an API with permissions that nothing checks."""
    del call, request
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
