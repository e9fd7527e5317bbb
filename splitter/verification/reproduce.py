"""`splitter verify --deep`: process inputs again in a temporary folder, and compare the outputs."""

import enum
import tempfile
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from splitter.dataset import ProcessorDataset
from splitter.errors import Refused, RunStopped, StorageError
from splitter.executors.base import Limits
from splitter.executors.temporary import TemporaryOutput, temporary_output
from splitter.inputs.locations import marks_of
from splitter.inputs.pieces import CUT, SOURCE_CHECKSUM, SOURCE_SIZE
from splitter.inputs.shards.index import MemberIndex
from splitter.inputs.shards.scan import add_members
from splitter.inputs.stages import stated
from splitter.inputs.survey import look_at_all_paths
from splitter.inputs.table import InputTable, copy_list
from splitter.ledger.journal import Journal
from splitter.ledger.list_copy import stored_rows
from splitter.ledger.recipe_record import PARAMETER, how_before, recipe_how
from splitter.ledger.records import FAILED, OUTPUT_COLUMNS, SKIPPED, RowColumns
from splitter.options import RunOptions
from splitter.outputs.pieces import have_virtual, is_virtual
from splitter.outputs.reader import OutputReader
from splitter.recipes.parameters import Parameter, recipe_parameters
from splitter.recipes.registry import load_recipe
from splitter.registry import RECIPES
from splitter.sinks.files import FilesSink
from splitter.storage.base import Storage
from splitter.storage.content import checksum_of
from splitter.storage.layout import Layout, key_hash, shard_of
from splitter.storage.naming import Naming
from splitter.stores.files import Found
from splitter.system.cpus import usable_cpus
from splitter.text.csv import Row, parse_rows
from splitter.verification.check import Verification
from splitter.verification.dropped_inputs import DroppedInputs
from splitter.worker.messages import Batch, Job

_Rows = tuple[RowColumns, list[Row]]
# how much is made at a time, before it is compared and removed
INPUTS_AT_ONCE, BYTES_AT_ONCE = 2000, 1 << 30
MOST_IN_BATCH = 64
# columns that say where an output is in a shard, not what it is
_ADDRESS = frozenset({"output", "output_name", "shard_offset"})
# columns that differ, or are missing, when a virtual piece is made as a file
_OF_VIRTUAL = frozenset({"size", "checksum", CUT, SOURCE_SIZE, SOURCE_CHECKSUM})


def recipe_of_run(
    storage: Storage, recipe: ProcessorDataset | type[ProcessorDataset] | str | None
) -> ProcessorDataset:
    """Return the recipe that made the outputs, with the parameters of that run; refuse any other."""
    past, _ = how_before(storage)
    if isinstance(recipe, ProcessorDataset):
        # the user's own keeps its device
        dataset = copy(recipe)
    elif isinstance(recipe, type) and issubclass(recipe, ProcessorDataset):
        dataset = _made(recipe, recipe.__name__, past)
    elif recipe is None or isinstance(recipe, str):
        name = recipe or _shipped(past)
        dataset = _made(load_recipe(name), name, past)
    else:
        raise Refused(
            f"splitter.verify: recipe {recipe!r:.100}: is not a ProcessorDataset; pass the dataset, "
            "its class, or a name as for --recipe"
        )
    dataset.device = str(past.get("device", "cpu"))
    for what, value in recipe_how(dataset).items():
        if past.get(what) != value:
            name = type(dataset).__name__
            raise Refused(
                f"--deep: {name}: {what} is {value!r:.100} and was {past.get(what)!r:.100} when the outputs "
                "were made; they can only be compared with outputs of the same recipe"
            )
    return dataset


def _shipped(past: dict[str, Any]) -> str:
    """Return the name of the recipe, if splitter ships it."""
    made_by = f"splitter.recipes.{past.get('file of the recipe')}:{past.get('recipe')}"
    for name, target in RECIPES.own.items():
        if target == made_by:
            if name in _NAMED_BY_THE_USER:
                given = past.get(f"{PARAMETER}command")
                raise Refused(
                    f"--deep: would run a program that the folder names, {given!r:.1000}; if you "
                    f"trust it, add --recipe {name}"
                )
            return name
    own = f"{past.get('file of the recipe')}.py:{past.get('recipe')}"
    raise Refused(f"--deep: the outputs were made by your own recipe; name it with --recipe path/to/{own}")


def _made(recipe: type[ProcessorDataset], name: str, past: dict[str, Any]) -> ProcessorDataset:
    """Make the recipe with the parameters that run.json has."""
    given = {
        one.name: _as_given(one, past[PARAMETER + one.name])
        for one in recipe_parameters(recipe)
        if PARAMETER + one.name in past
    }
    try:
        return recipe((), **given)
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        raise Refused(f"--deep: {name}: {type(error).__name__}: {error}") from error


def _as_given(parameter: Parameter, value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value of a parameter from its form in fingerprints."""
    kind = parameter.kind
    if isinstance(value, list):
        return [_as_given(parameter, one) for one in value]
    if isinstance(value, str) and isinstance(kind, type):
        if issubclass(kind, Path):
            return kind(value)
        if issubclass(kind, enum.Enum) and value in kind.__members__:
            return kind[value]
    return value


# they run what their parameters say, and these come from the folder, which may be a stranger's
_NAMED_BY_THE_USER = frozenset({"command"})


class Reproduction:
    """A check that makes the outputs of some inputs again, and compares them."""

    def __init__(self, recipe: ProcessorDataset, *, most: int | None, workers: int | None) -> None:
        """Check all inputs that are done, or at most `most` of them, spread evenly over the list."""
        self._recipe, self._most = recipe, most
        self._members = MemberIndex()
        self._dropped: DroppedInputs
        self._reader: OutputReader | None = None
        # the index of the column with the size of an earlier stage's output
        self._size_at: int | None = None
        self._workers = workers or usable_cpus()

    def __call__(self, verification: Verification, done: np.ndarray) -> None:
        """Process the inputs `done` of the stored list, and add a finding for each difference."""
        if self._most is not None and self._most < len(done):
            done = done[np.linspace(0, len(done) - 1, self._most).astype("i8")]
        storage = verification.storage
        listed, header, rows = stored_rows(storage)
        how, _ = how_before(storage)
        naming = Naming(str(how["name"]), header, listed.column) if "name" in how else None
        layout, at = Layout(listed.root, listed.keep_extension, naming), header.index(listed.column)
        marks = marks_of(how, header, listed.size_column)
        with tempfile.TemporaryFile() as file:
            table = copy_list(header, rows, file, listed.column)
            keys = np.fromiter((key_hash(layout.key(row[at])) for row in stored_rows(storage)[2]), "u8")
            if listed.group_rows:
                keys = keys[table.group(keys)]
            sink, keep = FilesSink(RunOptions()), str(how.get("keep", ""))
            job = Job(self._recipe, storage, sink, layout, header, at, marks, retries=2, keep=keep)
            locations = (layout.location(table.listed(index)) for index in done.tolist())
            add_members(locations, listed.member, self._members)
            self._members.in_order()
            self._dropped = DroppedInputs(listed)
            with temporary_output(job, Limits(self._workers)) as temporary:
                self._size_at = header.index(listed.size_column) if listed.size_column else None
                for some in self._at_once(verification.journal, keys, done):
                    batch = self._unchanged(verification, temporary.job, table, keys, some)
                    self._compare(verification, temporary, batch)

    @staticmethod
    def _at_once(journal: Journal, keys: np.ndarray, chosen: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the inputs in parts whose outputs do not take too much space."""
        sizes = journal.entries["bytes"][journal.find(keys[chosen])].astype("i8")
        group = np.cumsum(sizes) // BYTES_AT_ONCE + np.arange(len(chosen)) // INPUTS_AT_ONCE
        yield from np.split(chosen, np.flatnonzero(np.diff(group)) + 1)

    def _unchanged(
        self, verification: Verification, job: Job, table: InputTable, keys: np.ndarray, chosen: np.ndarray
    ) -> Batch:
        """Return the inputs that have not changed since they were done; add a finding for each other."""
        batch = Batch("", [], [], [], [])
        journal = verification.journal
        names = [table.listed(index) for index in chosen.tolist()]
        locations = [job.layout.location(listed) for listed in names]
        in_shards = self._members.find(locations).tolist()
        loose = iter(look_at_all_paths([one for one, at in zip(locations, in_shards, strict=True) if at < 0]))
        looks = [self._members.found(at) if at >= 0 else next(loose) for at in in_shards]
        entries = journal.find(keys[chosen]).tolist()
        for index, entry, listed, found, at in zip(
            chosen.tolist(), entries, names, looks, in_shards, strict=True
        ):
            text = table.text(index)
            if not isinstance(found, Found):
                if listed in self._dropped:
                    verification.verdict.inputs_dropped += 1
                else:
                    verification.find("source", listed, f"cannot be made again: {found}")
                continue
            # the fingerprint of an earlier stage's output has the size that this stage stated
            file = found if self._size_at is None else stated(parse_rows(text)[0][self._size_at])
            if job.marks.of(text, *file) != journal.entries["fingerprint"][entry]:
                verification.find("source", listed, "cannot be made again: it has changed since")
                continue
            member = self._members.location(at)
            if member:
                batch.members[len(batch)] = member
            batch.texts.append(text)
            batch.keys.append(int(keys[index]))
            batch.sizes.append(found.size)
            batch.times.append(found.changed)
        return batch

    def _compare(self, verification: Verification, temporary: TemporaryOutput, batch: Batch) -> None:
        """Process some inputs, compare the outputs, and remove them."""
        if not len(batch):
            return
        journal = verification.journal
        size = max(1, min(MOST_IN_BATCH, -(-len(batch) // (4 * self._workers))))
        mine = Journal(temporary.storage)
        parts = [
            batch.part(f"{mine.next_generation:06d}-{start:06d}", start, start + size)
            for start in range(0, len(batch), size)
        ]
        for report in temporary.reports(parts):
            if report.problems.stop:
                raise RunStopped(report.problems.stop)
        mine.load()
        keys_made = np.array(batch.keys, "u8")
        made, committed = mine.find(keys_made), journal.find(keys_made)
        for index, (one, other) in enumerate(zip(made.tolist(), committed.tolist(), strict=True)):
            name = parse_rows(batch.texts[index])[0][temporary.job.at]
            if one < 0:
                verification.find("source", name, "cannot be made again: its worker was lost")
                continue
            both = _one(journal, other), _one(mine, one)
            differences = [*_differences(name, *both, int(mine.entries["status"][one]))]
            for file, message in differences or self._differences_of_pieces(*both, verification.storage.root):
                verification.find("source" if file == name else "again", file, message)
        verification.verdict.made_again += len(batch)
        temporary.storage.remove(mine.outputs(made[made >= 0]))

    def _differences_of_pieces(self, committed: _Rows, made: _Rows, root: str) -> Iterator[tuple[str, str]]:
        """Yield each virtual piece that has another content when it is read than when it was made."""
        if not have_virtual(committed[0].keys):
            return
        if self._reader is None:
            self._reader = OutputReader(root)
        for one, other in zip(_named(*committed), _named(*made), strict=True):
            if is_virtual(one):
                try:
                    found = checksum_of(xxhash.xxh3_128(self._reader.read(self._reader.address(one))))
                except StorageError as error:
                    yield one["output"], str(error)
                    continue
                if found != other["checksum"]:
                    yield (
                        one["output"],
                        f"has the checksum {found} when read, but {other['checksum']} when made again",
                    )


def _one(journal: Journal, entry: int) -> _Rows:
    return next(journal.rows_of_each(np.array([entry])))


def _differences(listed: str, committed: _Rows, made: _Rows, status: int) -> Iterator[tuple[str, str]]:
    """Yield each file that differs, and how; `status` is that of the input that was processed again."""
    if status == FAILED:
        error, message = made[1][0][len(made[0].columns) :][:2]
        yield listed, f"cannot be made again: {error}: {message}"
        return
    if status == SKIPPED:
        yield listed, "is skipped by the recipe when it is made again"
        return
    before, now = (_named(*rows, "column ") for rows in (committed, made))
    if len(before) != len(now):
        yield listed, f"has {len(now):,} rows when it is made again, but {len(before):,} are committed"
        return
    for one, other in zip(before, now, strict=True):
        output = one["output"]
        if bool(output) != bool(other["output"]):
            yield listed, "has a file where it had none, or the reverse, when it is made again"
            continue
        ignored = _ADDRESS if not output or shard_of(output)[0] else frozenset({"shard_offset"})
        if is_virtual(one):
            ignored |= _OF_VIRTUAL
        # a column that was added since then is not a difference
        names = [name for name in one if name not in ignored]
        name = next((name for name in names if one[name] != other.get(name)), None)
        if name is not None:
            values = f"{other.get(name)!r:.100} where {one[name]!r:.100} is committed"
            yield output or listed, f"made again, its {name} is {values}"


def _named(head: RowColumns, rows: list[Row], of_list: str = "") -> list[dict[str, str]]:
    names = [*(f"{of_list}{name}" for name in head.columns), *OUTPUT_COLUMNS, *head.keys]
    return [dict(zip(names, row, strict=True)) for row in rows]
