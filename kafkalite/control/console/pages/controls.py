"""The page of controls: clock, nodes, leaders, links, captures, snapshots, clusters, and reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.typed_json import fields_of
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.clock import ChangeClock, ShowClock
from kafkalite.control.commands.clusters import ForkCluster, ListClusters, StopCluster
from kafkalite.control.commands.leaders import MoveLeader
from kafkalite.control.commands.links import DisturbLink, HealLink, HealLinks, ListLinks
from kafkalite.control.commands.nodes import AddNode, ChangeNode, ListNodes, RemoveNode
from kafkalite.control.commands.recordings import (
    DeleteCapture,
    DownloadCapture,
    ListCaptures,
    StartCapture,
    StopCapture,
)
from kafkalite.control.commands.reset import ResetBroker
from kafkalite.control.commands.snapshots import (
    CreateSnapshot,
    DeleteSnapshot,
    ListSnapshots,
    LoadSnapshot,
    RestoreSnapshot,
    SaveSnapshot,
)
from kafkalite.control.console.command_forms import inputs_of, sender
from kafkalite.control.console.page import Action, Content, Download, Page, Section
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.captures import EXTERNAL
from kafkalite.server.link_rules import describe_link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.clock import ClockState
    from kafkalite.control.commands.recordings import CaptureStatus
    from kafkalite.control.console.command_forms import Input
    from kafkalite.control.console.page import View

_PATH: Final = "/controls"
_NOW: Final = "now"
_DOWNLOAD: Final = f"{_PATH}/capture-download"


class Control(NamedTuple):
    """A command of the page, with the fields that its form asks for."""

    name: str
    button: str
    kind: type[Command[Any]]
    inputs: Sequence[str] = ()
    """Names of the fields with an input; the page may send others in hidden fields."""
    fixed: Mapping[str, object] = {}
    """Fields that the form cannot change."""
    is_dangerous: bool = False

    @property
    def path(self) -> str:
        """The path of its action below `/console`."""
        return f"{_PATH}/{self.name}"


CONTROLS: Final[Sequence[Control]] = (
    Control("pause", "Pause", ChangeClock, fixed={"mode": "manual"}),
    Control("resume", "Resume", ChangeClock, fixed={"mode": "real"}),
    Control("auto", "Auto", ChangeClock, fixed={"mode": "auto"}),
    Control("advance", "Step", ChangeClock, ("advance_ms",)),
    Control("jump", "Jump", ChangeClock, ("now_ms",)),
    Control("rate", "Set the rate", ChangeClock, ("rate",)),
    Control("node-add", "Add", AddNode, ("id", "config")),
    Control("node-remove", "Remove …", RemoveNode, is_dangerous=True),
    Control("node-stop", "Stop", ChangeNode, fixed={"state": "stopped"}),
    Control("node-start", "Start", ChangeNode, fixed={"state": "running"}),
    Control("node-isolate", "Isolate", ChangeNode, fixed={"state": "isolated"}),
    Control("node-freeze", "Freeze metadata", ChangeNode, fixed={"metadata": "frozen"}),
    Control("node-thaw", "Thaw metadata", ChangeNode, fixed={"metadata": "live"}),
    Control("node-lag", "Pause replication", ChangeNode, fixed={"replication": "paused"}),
    Control("node-follow", "Resume replication", ChangeNode, fixed={"replication": "running"}),
    Control("leader", "Move", MoveLeader, ("topic", "partition", "leader", "unclean")),
    Control("link", "Disturb", DisturbLink, tuple(each.name for each in fields_of(DisturbLink))),
    Control("link-heal", "Heal", HealLink),
    Control("links-heal", "Heal all", HealLinks),
    Control("capture", "Record", StartCapture, ("name",)),
    Control("capture-stop", "Stop", StopCapture),
    Control("capture-delete", "Delete …", DeleteCapture, is_dangerous=True),
    Control("snapshot", "Make a snapshot", CreateSnapshot),
    Control("restore", "Restore …", RestoreSnapshot, is_dangerous=True),
    Control("snapshot-delete", "Delete …", DeleteSnapshot, is_dangerous=True),
    Control("snapshot-save", "Save", SaveSnapshot, ("snapshot_id", "path")),
    Control("snapshot-load", "Load", LoadSnapshot, ("path",)),
    Control("fork", "Fork", ForkCluster, ("name", "snapshot_id", "at")),
    Control("cluster-stop", "Stop …", StopCluster, is_dangerous=True),
    Control("reset", "Reset …", ResetBroker, ("topics", "groups"), is_dangerous=True),
)
"""All actions of the page."""


class ControlForm(NamedTuple):
    """A control with its inputs."""

    control: Control
    inputs: Sequence[Input]


async def _controls(view: View) -> Content:
    ask = view.source.ask
    nodes = (await ask(ListNodes())).nodes
    snapshots = (await ask(ListSnapshots())).snapshots
    links = (await ask(ListLinks())).links
    captures = await _captures(view)
    clock = await _clock(view)
    forms = {
        each.name: ControlForm(each, inputs_of(each.kind, each.inputs) if each.inputs else ())
        for each in CONTROLS
    }
    return Content(
        {
            "clock": clock,
            "nodes": nodes,
            "node_controls": {each.id: _node_controls(each) for each in nodes},
            "links": [(each, describe_link(each.rule)) for each in links],
            "captures": captures,
            "external": EXTERNAL,
            "download_path": _DOWNLOAD,
            "snapshots": snapshots,
            "clusters": (await ask(ListClusters())).clusters,
            "forms": forms,
        },
        commands=(
            *(() if clock is None else (ShowClock(), ChangeClock(mode="manual"))),
            ListNodes(),
            *(ChangeNode(each.id, state="stopped") for each in nodes[:1]),
            ListLinks(),
            *(HealLink(each.id) for each in links[:1]),
            *_capture_commands(captures),
            CreateSnapshot(),
            *(RestoreSnapshot(each.id) for each in snapshots[:1]),
            ForkCluster(snapshot_id=_NOW),
            ResetBroker(),
        ),
    )


async def _clock(view: View) -> ClockState | None:
    """Return the clock; None if the program that embeds the broker controls it."""
    try:
        return await view.source.ask(ShowClock())
    except CommandError:
        return None


async def _captures(view: View) -> Sequence[CaptureStatus]:
    """Return the captures; none if their directory cannot be read."""
    try:
        return (await view.source.ask(ListCaptures())).captures
    except CommandError:
        return ()


def _capture_commands(captures: Sequence[CaptureStatus]) -> Sequence[Command[Any]]:
    """Return commands about captures that are possible now."""
    recorded = [each.name for each in captures if each.state == "recording"]
    own = [each.name for each in captures if each.name != EXTERNAL]
    return (
        ListCaptures(),
        StopCapture(recorded[0]) if recorded else StartCapture(),
        *(DownloadCapture(each) for each in own[-1:]),
        *(DeleteCapture(each) for each in own[-1:] if each not in recorded),
    )


def _node_controls(node: Any) -> Sequence[str]:  # noqa: ANN401 - a NodeStatus
    """Return the names of the controls that change a node in its state."""
    first = ("node-stop", "node-isolate") if node.state == "running" else ("node-start",)
    metadata = "node-thaw" if node.metadata == "frozen" else "node-freeze"
    replication = "node-follow" if node.replication == "paused" else "node-lag"
    return (*first, metadata, replication, "node-remove")


SECTION: Final = Section(
    (Page(_PATH, "Controls", "controls.html.j2", _controls),),
    tuple(
        Action(each.path, sender(each.kind, **each.fixed), is_dangerous=each.is_dangerous)
        for each in CONTROLS
    ),
    (Download(_DOWNLOAD, sender(DownloadCapture)),),
)
