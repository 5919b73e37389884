"""The output of a run that is killed at any step: that of the run before, or of this one."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

import pytest
from pyarrow import fs

from kafkalite.lab.spark import (
    compaction,
    locations,
    manifest,
    output_journal,
    table_descriptions,
)
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.derived_tables import FOLDERS
from kafkalite.lab.spark.locations import Location
from kafkalite.lab.spark.output_journal import STAGING, Output
from kafkalite.lab.spark.pipeline import REPORT, TABLES, Job, Outcome, audit
from tests.perf.big_capture import write
from tests.unit.lab.spark.observed_files import ObservedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from kafkalite.lab.spark.manifest import Manifest

T = TypeVar("T")

SPLITS: Final = 3
"""Number of splits of the runs before, which the observed run merges."""
STORE: Final = "s3a://bucket"
RECOVERY_STEPS: Final = 30


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("captures")
    written = write(folder, 10_000 * (SPLITS + 1), connections=2, file_bytes=10_000)
    assert len(written.files) > SPLITS
    return sorted(str(path) for path in folder.iterdir())[: SPLITS + 1]


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed output."""

    manifest: Manifest
    contents: dict[str, bytes]
    """By table file."""
    report: bytes | None


def recover(folder: Path, root: str, observe: Callable[[], None]) -> Committed:
    """Return what the next run finds; check that it is all of the manifest, and nothing else."""
    files = ObservedFiles(observe, is_object_store=bool(root))
    out = Location(files, str(folder), root)
    stored = Output(out, TABLES, FOLDERS, REPORT).recover()
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    tables = {name for name in names if not name.startswith("_kafkalite/") and "/" in name}
    folders = (f"{manifest.PARTS}/", STAGING)
    internal = {name for name in names if name.startswith(folders)}
    committed = stored.manifest.files
    assert tables == {name for name in committed if not name.startswith("_kafkalite/")}
    assert internal == {*stored.parts}
    report = folder / REPORT
    return Committed(
        stored.manifest,
        {name: (folder / name).read_bytes() for name in committed},
        report.read_bytes() if report.exists() else None,
    )


class KilledRun:
    """What the next run finds for each step at which a run is killed."""

    def __init__(self, folder: Path, scratch: Path, root: str) -> None:
        self._folder, self._scratch, self._root = folder, scratch, root
        self._random = random.Random(7)  # noqa: S311 - reproducible
        self.found: list[Committed] = []

    def observe(self) -> None:
        """Recover a copy of the output, and a copy of that at one step of its recovery."""
        copied, again = self._scratch / "killed", self._scratch / "killed again"
        steps_until_kill = self._random.randrange(RECOVERY_STEPS)
        found_again = None

        def observe_recovery() -> None:
            nonlocal steps_until_kill, found_again
            if not steps_until_kill:
                shutil.copytree(copied, again)
                found_again = recover(again, self._root, lambda: None)
                shutil.rmtree(again)
            steps_until_kill -= 1

        shutil.copytree(self._folder, copied)
        found = recover(copied, self._root, observe_recovery)
        shutil.rmtree(copied)
        if found_again is not None:
            assert (found_again.manifest, found_again.contents) == (found.manifest, found.contents)
        self.found.append(found)


def run(out: str, inputs: Sequence[str]) -> Outcome:
    with local_engine() as session:
        return audit(session, Job(inputs=tuple(inputs), out=out, audits=("producers",)))


def in_order(work: Callable[[T], object], items: Collection[T]) -> None:
    for each in items:
        work(each)


@pytest.mark.parametrize("root", ["", STORE], ids=["disk", "store"])
def test_run_that_is_killed_at_any_step_leaves_complete_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captures: list[str], root: str
) -> None:
    """The run reads a file, merges the output of others, stitches connections and audits."""
    for module in (locations, output_journal):
        monkeypatch.setattr(module, "in_parallel", in_order)
    folder = tmp_path / "out"
    killed = KilledRun(folder, tmp_path, root)

    def open_files(observe: Callable[[], None]) -> None:
        files = ObservedFiles(observe, is_object_store=bool(root))
        monkeypatch.setattr(locations, "_root", lambda _: Location(files, "", root, str(tmp_path)))
        locations.location.cache_clear()

    out = f"{root}/out" if root else str(folder)
    if root:
        open_files(lambda: None)
    for count in range(1, SPLITS + 1):
        run(out, captures[:count])
    before = recover(folder, root, lambda: None)
    assert len(before.manifest.splits) == SPLITS

    monkeypatch.setattr(compaction, "MIN_SPLITS", SPLITS)
    if root:
        open_files(killed.observe)
    else:

        class LocalFiles(ObservedFiles):
            def __init__(self) -> None:
                super().__init__(killed.observe)

        monkeypatch.setattr(fs, "LocalFileSystem", LocalFiles)
        locations.location.cache_clear()
    run(out, captures)
    monkeypatch.undo()
    locations.location.cache_clear()
    after = recover(folder, root, lambda: None)

    found = [before, *killed.found, after]
    decoded, audited = (
        next(each for each in found if each.manifest == changed)
        for changed, _ in list(groupby(each.manifest for each in found))[1:]
    )
    assert [len(split.inputs) for split in decoded.manifest.splits] == [SPLITS, 1]
    assert not decoded.manifest.audited
    assert audited.manifest == after.manifest
    for each in found:
        expected = next(one for one in (before, decoded, after) if one.manifest == each.manifest)
        assert each.contents == expected.contents
        assert each.report in {None, expected.report}
    assert len(killed.found) > 40


def test_descriptions_that_a_killed_run_did_not_write_are_written_by_the_next(
    tmp_path: Path, captures: list[str]
) -> None:
    run(str(tmp_path), captures)
    descriptions = tmp_path / table_descriptions.FILE
    expected = descriptions.read_text()
    for change in (descriptions.unlink, lambda: descriptions.write_text("of an earlier run")):
        change()
        run(str(tmp_path), captures)
        assert descriptions.read_text() == expected
