"""The page about faults: those that exist, with their counts, and the form that adds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.control.commands.faults import (
    AddFault,
    ClearFaults,
    ListFaults,
    ReleaseFault,
    RemoveFault,
)
from kafkalite.control.console.command_forms import inputs_of, sender
from kafkalite.control.console.page import Action, Content, Page, Section
from kafkalite.control.console.source import Subject
from kafkalite.gateway.fault_rules import describe_rule

if TYPE_CHECKING:
    from kafkalite.control.console.page import View

_PATH: Final = "/faults"
_USUAL: Final = (
    "match.api", "match.topic", "match.group", "match.client_id",
    "action.error", "action.delay_ms", "action.disconnect", "action.hold", "trigger.times",
)  # fmt: skip
"""The inputs that are shown first."""


async def _faults(view: View) -> Content:
    faults = (await view.source.ask(ListFaults())).faults
    inputs = {each.name: each for each in inputs_of(AddFault)}
    released = [ReleaseFault(each.id) for each in faults if each.waiting][:1]
    removed = [RemoveFault(each.id) for each in faults[:1]]
    return Content(
        {
            "faults": [(each, describe_rule(each.rule)) for each in faults],
            "inputs": [inputs[name] for name in _USUAL],
            "more_inputs": [each for name, each in inputs.items() if name not in _USUAL],
        },
        commands=(ListFaults(), *released, *removed, ClearFaults()),
        changes=(Subject.FAULTS,),
    )


SECTION: Final = Section(
    (Page(_PATH, "Faults", "faults.html.j2", _faults),),
    (
        Action("/faults/add", sender(AddFault)),
        Action("/faults/release", sender(ReleaseFault)),
        Action("/faults/remove", sender(RemoveFault)),
        Action("/faults/clear", sender(ClearFaults), is_dangerous=True),
    ),
)
