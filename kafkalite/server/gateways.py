"""Gateways of one cluster, and the list of the steps around the handlers of its requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.apis.releases import api_finder
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.steps import StepOrder
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.apis.authorization.step import AuthorizationStep
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.gateway.exchanges import Observer
    from kafkalite.gateway.faults import Faults, FaultsState
    from kafkalite.gateway.request_hooks import RequestHooks
    from kafkalite.gateway.steps import Step
    from kafkalite.gateway.throttling import Throttling
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.server.assembly import ClusterAssembly
    from kafkalite.server.reports import Reports
    from kafkalite.server.request_log import RequestLog


class StepRow(NamedTuple):
    """A step of a cluster."""

    order: StepOrder
    use: str
    """When it is installed."""
    step: Callable[[Gateways, int], Step | None]
    """(gateways, index of one) → the step that this gateway needs now; None if it needs none."""


def _hook_step(own: Gateways, _: int) -> Step | None:
    return own.hooks.step


def _fault_step(own: Gateways, _: int) -> Step | None:
    return own.faults.step


def _forwarding_step(own: Gateways, index: int) -> Step | None:
    from kafkalite.gateway.forwarding import FORWARDING  # noqa: PLC0415 - rarely used

    return FORWARDING if own.has_isolated_node and index == _OF_NODES else None


def _throttling_step(own: Gateways, index: int) -> Step | None:
    throttling = own.throttling[index]
    return throttling if throttling.has_quotas else None


def _authorization_step(own: Gateways, index: int) -> Step | None:
    return own.authorization[index] if own.authorization else None


def _profile_step(own: Gateways, _: int) -> Step | None:
    release = own.assembly.config.release
    if release.profile is None:
        return None
    from kafkalite.apis.profile_step import ProfileStep  # noqa: PLC0415 - rarely used

    return ProfileStep(release)


STEPS: Final = (
    StepRow(StepOrder.HOOKS, "while a test has hooks", _hook_step),
    StepRow(StepOrder.FAULTS, "while there are faults", _fault_step),
    StepRow(StepOrder.FORWARD, "after a node was isolated", _forwarding_step),
    StepRow(StepOrder.THROTTLE, "while clients can have quotas", _throttling_step),
    StepRow(StepOrder.AUTHORIZE, "with an authorizer", _authorization_step),
    StepRow(StepOrder.POLICY, "with the profile of a service", _profile_step),
)
"""The steps around the handlers, the outermost first."""

_OF_NODES: Final = 0
_OF_CONTROLLERS: Final = 1


class Gateways:
    """The gateway for clients of the nodes, and that for clients of the controller.

    Each gateway has the steps that it needs, by STEPS.
    """

    def __init__(self, assembly: ClusterAssembly, cluster: Cluster, reports: Reports) -> None:
        self.assembly = assembly
        self._cluster = cluster
        self._reports = reports
        self._gateways = self._new_gateways()
        self._hooks: RequestHooks | None = None
        self._faults: Faults | None = None
        self._request_log: RequestLog | None = None
        self.has_isolated_node = False
        """Whether a node is or was isolated."""
        self.throttling: Sequence[Throttling] = ()
        """One of each gateway; empty without quotas."""
        self.authorization: Sequence[AuthorizationStep] = self._new_authorization()
        """One of each gateway; empty without an authorizer."""
        self._throttle(cluster.metadata.image, MetadataDelta())
        cluster.subscribe(self._throttle)
        self._install(StepOrder.AUTHORIZE)
        self._install(StepOrder.POLICY)

    def _new_gateways(self) -> Sequence[Gateway]:
        config, report_bug = self.assembly.config, self._reports.bug
        release, is_unstable = config.release, config.bool("unstable.api.versions.enable")
        gateways = [
            Gateway(
                api_finder(release, unstable=is_unstable), report_bug, self._cluster.commit_window
            )
        ]
        if any(listener.is_for_controllers for listener in self.assembly.listeners):
            from kafkalite.apis.controllers import controller_api_finder  # noqa: PLC0415 - rarely used

            find_api = controller_api_finder(release, unstable=is_unstable)
            gateways.append(Gateway(find_api, report_bug))
        if release.profile is not None:
            from kafkalite.apis.profile_step import reason_not_served  # noqa: PLC0415 - as above

            for gateway in gateways:
                gateway.reason_not_served = partial(reason_not_served, release.profile)
        return gateways

    def _new_authorization(self) -> Sequence[AuthorizationStep]:
        settings = self.assembly.authorizer
        if settings is None:
            return ()
        from kafkalite.apis.authorization.step import AuthorizationStep  # noqa: PLC0415 - rarely used

        return [
            AuthorizationStep(settings, is_for_controllers=index == _OF_CONTROLLERS)
            for index in range(len(self._gateways))
        ]

    def _install(self, order: StepOrder) -> None:
        """Replace the steps of a row by those that the gateways need now."""
        for index, gateway in enumerate(self._gateways):
            gateway.set_step(order, STEPS[order].step(self, index))

    @property
    def of_nodes(self) -> Gateway:
        """The gateway for clients of the nodes, and for requests between nodes."""
        return self._gateways[_OF_NODES]

    @property
    def of_controllers(self) -> Gateway:
        """The gateway for clients of the controller, if a listener accepts them."""
        return self._gateways[_OF_CONTROLLERS]

    def subscribe(self, observer: Observer) -> None:
        """Call `observer` with the exchange of each request that a client sends from now on."""
        for gateway in self._gateways:
            gateway.subscribe(observer)

    def unsubscribe(self, observer: Observer) -> None:
        """Stop calling an observer of exchanges; see `Gateway.unsubscribe`."""
        for gateway in self._gateways:
            gateway.unsubscribe(observer)

    @property
    def request_log(self) -> RequestLog:
        """The log of requests, which begins when it is first used."""
        return self.start_request_log() if self._request_log is None else self._request_log

    @property
    def logs_requests(self) -> bool:
        """Whether the log of requests has begun."""
        return self._request_log is not None

    def start_request_log(self, limit: int | None = None) -> RequestLog:
        """Begin to log requests, at most `limit` or the default."""
        from kafkalite.server.request_log import (  # noqa: PLC0415 - rarely used
            DEFAULT_LOGGED_REQUESTS,
            RequestLog,
        )

        log = self._request_log = RequestLog(limit or DEFAULT_LOGGED_REQUESTS)
        self.subscribe(log.observe)
        return log

    def clear_faults(self) -> None:
        """Remove all faults, if there are any."""
        if self._faults is not None:
            self._faults.clear()

    def clear_request_log(self) -> None:
        """Remove all requests from the log of requests, if there is one, and go on logging."""
        if self._request_log is not None:
            self._request_log.clear()

    def stop_request_log(self) -> int:
        """Stop the log of requests, and return the number of requests that it had."""
        log, self._request_log = self._request_log, None
        if log is None:
            return 0
        self.unsubscribe(log.observe)
        return log.clear()

    @property
    def hooks(self) -> RequestHooks:
        """The functions of a test that see each request."""
        if self._hooks is None:
            from kafkalite.gateway.request_hooks import RequestHooks  # noqa: PLC0415 - rarely used

            self._hooks = RequestHooks(
                self._reports.failed_hook, lambda: self._install(StepOrder.HOOKS)
            )
        return self._hooks

    @property
    def faults(self) -> Faults:
        """The injected faults: requests that are delayed, refused or disconnected."""
        if self._faults is None:
            from kafkalite.gateway.faults import Faults  # noqa: PLC0415 - rarely used

            self._faults = Faults(
                self._cluster.nodes,
                {
                    each.name: self.of_controllers if each.is_for_controllers else self.of_nodes
                    for each in self.assembly.listeners
                },
                self._cluster.entropy,
                report=self._reports.fault_rule,
                report_bug=self._reports.bug,
                install=lambda _: self._install(StepOrder.FAULTS),
            )
        return self._faults

    def faults_state(self) -> FaultsState | None:
        """Return the faults of now; None if there never were any."""
        return None if self._faults is None else self._faults.snapshot()

    def restore_faults(self, state: FaultsState | None) -> None:
        """Have the faults of a state; None means no faults."""
        if state is not None:
            self.faults.restore(state)
        else:
            self.clear_faults()

    def isolated_node(self) -> None:
        """Let requests for the controller wait at the nodes that do not reach it."""
        self.has_isolated_node = True
        self._install(StepOrder.FORWARD)

    def forget_node(self, node_id: int) -> None:
        """Forget the permissions of clients at a removed node."""
        for step in self.authorization:
            step.forget_node(node_id)

    def _throttle(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply the quotas of an image to clients."""
        if not self.throttling:
            if not image.client_quotas:
                return
            from kafkalite.gateway.throttling import (  # noqa: PLC0415 - rarely used
                Throttling,
                new_mutation_meters,
            )

            mutations = new_mutation_meters(self.assembly.config)
            self.throttling = [Throttling(mutations) for _ in self._gateways]
        for throttling in self.throttling:
            throttling.on_image(image, delta)
        self._install(StepOrder.THROTTLE)

    def close(self) -> None:
        """Drop delayed requests and responders, after the last client has disconnected."""
        if self._hooks is not None:
            self._hooks.close()
        if self._faults is not None:
            self._faults.close()
        for gateway in self._gateways:
            gateway.close()
