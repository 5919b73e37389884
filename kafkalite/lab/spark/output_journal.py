"""The commit of a run's output: the manifest and its files change at one moment, or not at all.

Where a move is cheap, new files are staged. The journal has the new head of the manifest. Once it
is written, this run or the next one moves the files.

In an object store a move is a copy, so files are written once, with unique names, where they stay.
Replacing the head of the manifest is the commit. The journal marks that the folders may have files
that are not committed, from the first write until these files are deleted.

Nothing here depends on Spark.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark import manifest
from kafkalite.lab.spark.locations import LocationError, in_parallel, location
from kafkalite.lab.spark.manifest import Manifest, StoredManifest
from kafkalite.ports.locks import lock_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kafkalite.lab.spark.locations import Location

STAGING: Final = "_kafkalite/staging"
"""Path of staged files below the output folder."""
JOURNAL: Final = "_kafkalite/journal.json"
"""Path of the journal below the output folder."""
LOCK: Final = "_kafkalite/lock"
"""Path of the lock file below the output folder."""

_WRITING: Final = '{"writing": true}'
"""The journal of a run in an object store."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output folder, and the folders and files below it whose content the manifest decides."""

    out: Location
    folders: tuple[str, ...]
    """Folders of tables that the manifest lists; no other program writes there."""
    derived: tuple[str, ...] = ()
    """Folders of state and audit tables."""
    report: str | None = "report.html"
    """A file that is deleted with each change, because it describes the tables before it; None if
    the caller replaces its report."""

    def load(self) -> StoredManifest:
        """Return the committed manifest; raises LocationError if it is invalid."""
        return self._parse((self.out / manifest.NAME).read_text(), self.out / manifest.NAME)

    def begin(self) -> Location:
        """Return the folder to which a run writes its files before it commits them."""
        if self.out.is_object:
            (self.out / JOURNAL).write_text(_WRITING)
            return self.out
        return self.out / STAGING

    @property
    def unproven(self) -> Location:
        """The folder of tables of audits whose proofs are not known yet."""
        return self.out / STAGING / "unproven"

    def commit(
        self, stored: StoredManifest, done: Manifest, new: Collection[str]
    ) -> StoredManifest:
        """Replace the manifest `stored` by `done`; `new` are the written files.

        If this is interrupted, `recover` finishes it. Files that `done` does not list are deleted.
        Raises LocationError, with nothing changed, if a new file is missing on a file system.
        """
        following = stored.next(done)
        if not self.out.is_object:
            staged = {*(self.out / STAGING).walk()}
            for name in new:
                if name not in staged:
                    missing = (self.out / STAGING / name).url
                    raise LocationError(f"{missing}: was written but is missing now")
        self._write_parts(stored, following)
        if self.out.is_object:
            (self.out / manifest.NAME).write_text(following.head())
            self._delete_others(following)
            self._delete_parts(following)
        else:
            (self.out / JOURNAL).write_text(following.head())
            self._carry_out(following)
        (self.out / JOURNAL).delete()
        return following

    def recover(self) -> StoredManifest:
        """Finish an interrupted change, and delete files that were not committed.

        Returns the committed manifest. Raises LocationError if the journal is invalid, because no
        other file has the change, or if a committed file is missing.
        """
        text = (self.out / JOURNAL).read_text()
        if text is not None and text != _WRITING:
            self._carry_out(self._changed(text))
        stored = self.load()
        if text is not None:
            self._delete_others(stored)
            (self.out / JOURNAL).delete()
        self._delete_parts(stored)
        (self.out / STAGING).delete()
        return stored

    def _changed(self, text: str) -> StoredManifest:
        """Return the manifest of an interrupted change."""
        journal = self.out / JOURNAL
        try:
            fields = json.loads(text)
            if "moves" in fields:
                return self._of_earlier_version(fields)
        except (ValueError, TypeError, KeyError) as error:
            raise self._invalid(journal, error) from error
        return self._parse(text, journal)

    def _of_earlier_version(self, fields: Mapping[str, object]) -> StoredManifest:
        """Return the manifest of a journal that lists moves and deletions."""
        moves, deletes = fields["moves"], fields["deletes"]
        if not (isinstance(moves, list) and isinstance(deletes, list)):
            raise TypeError("no list")
        changed = manifest.parse(str(fields["manifest"]), {}).manifest
        deleted = (*deletes, *(f"{name}/" for name in deletes))
        derived = [name for name in self._walk_derived() if not name.startswith(deleted)]
        moved = [target for _, target in moves if target not in changed.outputs]
        done = replace(changed, derived=tuple(sorted({*derived, *moved})))
        following = StoredManifest().next(done)
        self._write_parts(StoredManifest(), following)
        return following

    def _parse(self, head: str | None, source: Location) -> StoredManifest:
        try:
            names = manifest.part_names(head)
            texts: dict[str, str] = {}

            def read(name: str) -> None:
                texts[name] = (self.out / name).read_text() or ""

            in_parallel(read, names)
            stored = manifest.parse(head, texts)
        except ValueError as error:
            raise (
                LocationError(f"{source.url}: {error}")
                if source.path.endswith(manifest.NAME)
                else self._invalid(source, error)
            ) from error
        if stored.manifest.derived is None:
            derived = tuple(self._walk_derived())
            return replace(stored, manifest=replace(stored.manifest, derived=derived))
        return stored

    def _invalid(self, journal: Location, error: Exception) -> LocationError:
        return LocationError(
            f"{journal.url}: not a valid journal ({error}); delete {self.out.url} to start over"
        )

    def _write_parts(self, stored: StoredManifest, following: StoredManifest) -> None:
        new = [(name, each) for name, each in following.parts.items() if name not in stored.parts]
        in_parallel(
            lambda part: (self.out / part[0]).write_text(manifest.part_to_json(part[1])), new
        )

    def _carry_out(self, following: StoredManifest) -> None:
        """Move staged files and replace the manifest; some of this may be done already."""
        committed = following.manifest.files
        staged = committed.intersection((self.out / STAGING).walk())
        present = {*self._walk()}
        missing = min(committed - staged - present, default=None)
        if missing is not None:
            raise LocationError(
                f"{(self.out / STAGING / missing).url}: missing, and not at {missing}; delete"
                f" {self.out.url} to start over"
            )
        self._delete(present - (committed - staged))
        (self.out / STAGING).move_below(self.out, staged)
        (self.out / manifest.NAME).write_text(following.head())
        self._delete_parts(following)
        (self.out / STAGING).delete()

    def _delete_others(self, stored: StoredManifest) -> None:
        """Delete files that are not committed."""
        present = {*self._walk()}
        self._delete(present - stored.manifest.files)

    def _delete_parts(self, stored: StoredManifest) -> None:
        others = [f"{manifest.PARTS}/{name}" for name in (self.out / manifest.PARTS).walk()]
        self.out.delete_below([name for name in others if name not in stored.parts])

    def _delete(self, names: Collection[str]) -> None:
        """Delete files, folders of tables that become empty, and the report."""
        if self.report is not None:
            (self.out / self.report).delete()
            name, _, kind = self.report.rpartition(".")
            if kind == "html":  # it has the same as JSON
                (self.out / f"{name}.json").delete()
        self.out.delete_below(names)
        if not self.out.is_object:
            for name in sorted({name.rpartition("/")[0] for name in names}):
                folder = self.out / name
                while folder.path != self.out.path and folder.delete_if_empty():
                    folder = folder.with_path(folder.path.rpartition("/")[0])

    def _walk(self) -> Iterator[str]:
        """Yield the files of all tables."""
        for folder in self.folders:
            yield from (f"{folder}/{name}" for name in (self.out / folder).walk())
        yield from self._walk_derived()

    def _walk_derived(self) -> Iterator[str]:
        """Yield the files of state and audit tables; other folders may be next to theirs."""
        within = tuple(f"{name}/" for name in self.derived)
        for root in sorted({name.partition("/")[0] for name in self.derived}):
            names = (f"{root}/{name}" for name in (self.out / root).walk())
            yield from (name for name in names if name.startswith(within))


def committed_files(out: str, table: str) -> list[str]:
    """Return the paths or URLs of the Parquet files of a table, such as "audits/ghosts".

    `out` is the output folder of an audit, or of a period of a followed capture. Folders below a
    table, such as those of days, are included. All files are of the same run, also while another
    run writes; the state and audit tables of a growing period are those of its last audit. Raises
    LocationError if no run has written there.
    """
    folder = location(out)
    head = folder / manifest.NAME
    while True:
        text = head.read_text()
        try:
            stored = Output(folder, (), (table.strip("/"),)).load()
        except LocationError:
            # A run that commits deletes the parts of the head before it.
            if head.read_text() == text:
                raise
        else:
            break
    if not stored.manifest.run:
        raise LocationError(f"{folder.url}: has no tables of a run")
    within = f"{table.strip('/')}/"
    return [
        (folder / name).url for name in sorted(stored.manifest.files) if name.startswith(within)
    ]


@contextmanager
def locked(out: Location) -> Iterator[None]:
    """Lock the output folder against other runs; raises LocationError if it is locked already.

    Only runs that share this machine's file system see the lock.
    """
    if out.root:
        yield
        return
    path = Path((out / LOCK).path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        lock = lock_file(str(path))
    except BlockingIOError as error:
        raise LocationError(f"{out.url}: another run is writing there") from error
    except OSError as error:
        raise LocationError(f"{out.url}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
