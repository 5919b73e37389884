"""What a run has already done: which files it read, as they were, and what became of each.

Files are read in lots, a lot a task; a huge file in parts, each a lot by itself. What a run leaves
is a function of what it is given: a lot one of whose files has changed or is gone is taken back
whole, and what is left of it read anew. So all parts of a file stand or fall together.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkalite.spark.places import InputFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.columnar.parts import FilePart

NAME: Final = "_kafkalite/manifest.json"
"""Where it is kept, below where a run writes."""

_FORM: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """Files that one task has read, and what it wrote: paths below where the run writes."""

    inputs: tuple[InputFile, ...]
    requests: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    """What does not stand by itself: frames and answers of which another file may have the rest."""
    rows: int = 0
    quarantined: tuple[str, ...] = ()
    """Those of its files that could not be read, or not to their ends."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All that it wrote."""
        return (*self.requests, *self.problems, *self.connections, *self.loose)


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read at once: a file, or a part of a huge one."""

    file: InputFile
    part: FilePart | None = None

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.file.size if self.part is None else self.part.size_in(self.file.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The state of what runs have written to one place."""

    decoder: str
    """Says how files are decoded: what another decoder wrote is not kept."""
    run: int = 0
    lots: tuple[Lot, ...] = ()
    stitched: Lot | None = None
    """What all the lots' loose ends were, once put together."""
    audited: str = ""
    """Says what was audited, and how, when the audits' tables were written."""

    @property
    def outputs(self) -> frozenset[str]:
        """Every file that belongs to what was written."""
        stitched = () if self.stitched is None else self.stitched.outputs
        return frozenset([*stitched, *(name for lot in self.lots for name in lot.outputs)])

    def to_json(self) -> str:
        """Return it as it is kept."""
        return json.dumps({"form": _FORM, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None, decoder: str) -> Manifest:
        """Return what was kept; an empty one for none, or for another decoder's.

        ValueError for a text that is no manifest.
        """
        empty = cls(decoder=decoder)
        if text is None:
            return empty
        try:
            kept = json.loads(text)
            if kept.pop("form") != _FORM or kept["decoder"] != decoder:
                return cls(decoder=decoder, run=int(kept["run"]))
            stitched = kept.pop("stitched")
            lots = tuple(_lot(lot) for lot in kept.pop("lots"))
            return cls(lots=lots, stitched=None if stitched is None else _lot(stitched), **kept)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"no manifest of ours: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done, given what was done."""

    keep: tuple[Lot, ...]
    drop: tuple[Lot, ...]
    read: tuple[InputFile, ...]

    @property
    def is_empty(self) -> bool:
        """Whether all is as it was."""
        return not self.drop and not self.read


def plan(done: Manifest, listed: Iterable[InputFile], *, keep_vanished: bool = False) -> Plan:
    """Compare what was read with what there is now.

    With `keep_vanished`, what a file gave is kept when the file is gone.
    """
    now = {each.url: each for each in listed}
    keep: list[Lot] = []
    drop: list[Lot] = []
    for lot in done.lots:
        still = [
            now.get(was.url) == was or (keep_vanished and was.url not in now) for was in lot.inputs
        ]
        (keep if all(still) else drop).append(lot)
    kept = {each.url for lot in keep for each in lot.inputs}
    read = tuple(each for each in now.values() if each.url not in kept)
    return Plan(keep=tuple(keep), drop=tuple(drop), read=read)


def pieces(
    files: Sequence[InputFile],
    parts: Mapping[str, Sequence[FilePart]],
    tasks: int,
    largest_bytes: int,
) -> list[tuple[Piece, ...]]:
    """Share files out, those of which there are `parts` part by part.

    A part is never with anything else in a lot: all lots of its file are its file's alone.
    """
    cut = [(Piece(each, part),) for each in files for part in parts.get(each.url, ())]
    whole = lots([each for each in files if not parts.get(each.url)], tasks, largest_bytes)
    return [*cut, *(tuple(map(Piece, lot)) for lot in whole)]


class Sized(Protocol):
    """What takes the longer to read the larger it is."""

    @property
    def size(self) -> int:
        """How many bytes it has."""


S = TypeVar("S", bound=Sized)


def lots(files: Sequence[S], tasks: int, largest_bytes: int) -> list[tuple[S, ...]]:
    """Share files out, neighbours together: enough lots for `tasks` at once, none too large.

    A lot is larger than `largest_bytes` only where a single file is.
    """
    if not files:
        return []
    wanted = max(1, min(largest_bytes, -(-sum(each.size for each in files) // max(1, tasks))))
    shared: list[list[S]] = [[]]
    size = 0
    for each in files:
        if shared[-1] and size + each.size > wanted:
            shared.append([])
            size = 0
        shared[-1].append(each)
        size += each.size
    return [tuple(lot) for lot in shared]


def _lot(kept: dict[str, Any]) -> Lot:
    inputs = tuple(InputFile(**each) for each in kept.pop("inputs"))
    rows = int(kept.pop("rows"))
    return Lot(inputs=inputs, rows=rows, **{name: tuple(names) for name, names in kept.items()})
