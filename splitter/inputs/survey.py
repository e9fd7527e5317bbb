"""Look at every input once, before any work, and refuse outputs that would collide."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import cast

import numpy as np

from splitter.errors import Refused, UnreadableInput
from splitter.inputs.listing import InputList
from splitter.inputs.locations import UNREADABLE, InputMarks, absent, look_at
from splitter.inputs.shards.index import MemberIndex
from splitter.inputs.source import ListReading
from splitter.inputs.table import BLOCK, InputTable
from splitter.sorted_arrays import index_in_sorted
from splitter.storage.layout import RESERVED_FOLDERS, Layout, folders_around, key_hash, same_name, shard_of
from splitter.storage.naming import Naming
from splitter.stores.files import Found, look_at_all
from splitter.stores.listings import ListedFiles
from splitter.system.pool import in_processes
from splitter.text.csv import Row, parse_rows
from splitter.text.show import show_count
from splitter.text.urls import has_password, is_url, without_secrets

# the block size for remote inputs, which take longer to look at
FEW = 1_000
MOST_FOLDERS = 1000


@dataclass(frozen=True)
class Survey:
    """What the driver knows of each input, in the order of the list.

    Attributes:
        keys: The hash of each input's key.
        sizes: Bytes, or UNREADABLE.
        changed_ns: When each file last changed; for one that does not exist, a number for its location.
        folders: The hash of the output folder of each input, or of its claim to names.
        outer_folders: The hashes of the folders around these, sorted.
        members: The inputs in shards.
        at: The position of each input in `members`, or -1.
    """

    keys: np.ndarray
    sizes: np.ndarray
    changed_ns: np.ndarray
    folders: np.ndarray
    outer_folders: np.ndarray
    members: MemberIndex
    at: np.ndarray

    def fingerprints(self, table: InputTable, input_marks: InputMarks) -> np.ndarray:
        """Return the fingerprint of each input as it is now."""
        marks = np.empty(len(table), "u8")
        for start in range(0, len(table), BLOCK):
            stop = min(len(table), start + BLOCK)
            sizes, times = (numbers[start:stop].tolist() for numbers in (self.sizes, self.changed_ns))
            marks[start:stop] = [*map(input_marks.of, table.texts(start, stop), sizes, times)]
        return marks


def survey(table: InputTable, layout: Layout, reading: ListReading) -> Survey:
    """Look at every input once: take sizes and times, and refuse outputs that would collide.

    Files that a store has listed, and inputs in shards, were looked at when the list was read.
    """
    known, members = reading.known.in_order(), reading.members.in_order()
    # allocated at full size, since joining blocks would take twice the memory
    columns = tuple(np.empty(len(table), kind) for kind in ("u8", "i8", "i8", "i8", "i4"))
    outer_folders = np.empty(0, "i8")
    remote = table.names_urls or is_url(layout.root)
    look = partial(_look_at_block, table, layout, known, members)
    step = FEW if remote else BLOCK
    blocks = [range(start, min(len(table), start + step)) for start in range(0, len(table), step)]
    # a store's client brings threads, which this process must not have when it starts workers
    with contextlib.closing(in_processes(look, blocks, always_fork=remote)) as found_in_blocks:
        for block, (of_block, outer) in zip(blocks, found_in_blocks, strict=True):
            for column, numbers in zip(columns, of_block, strict=True):
                column[block.start : block.stop] = numbers
            seen = len(outer_folders)
            outer_folders.resize(seen + len(outer), refcheck=False)
            outer_folders[seen:] = outer
    outer_folders.sort()
    of_rows = columns[:2]
    if reading.group_rows:
        rows_of_inputs = table.group(columns[0])
        columns = tuple(numbers[rows_of_inputs] for numbers in columns)
    keys, folders, sizes, times, at = columns
    found = Survey(keys, sizes, times, folders, outer_folders, members, at)
    _refuse_listed_twice(table, keys)
    if layout.naming is None:
        _refuse_collisions(table, layout, found)
    else:
        _refuse_same_names(table, layout, found, *of_rows)
    return found


def _look_at_block(
    table: InputTable, layout: Layout, known: ListedFiles, members: MemberIndex, block: range
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return keys, folders, sizes, times and members of a block of inputs, and the folders around theirs."""
    keys, folders, sizes, times = [], [], [], []
    outer_folders: dict[str, int] = {}
    urls: dict[int, str] = {}
    rows = parse_rows(b"".join(table.texts(block.start, block.stop)))
    locations = [layout.location(row[table.at]) for row in rows]
    at = members.find(locations)
    for index, row, location, member, known_found in zip(
        block, rows, locations, at.tolist(), known.of_all(locations), strict=True
    ):
        listed = row[table.at]
        key = layout.key(listed)
        if key in ("", "."):
            raise Refused(
                f"row {index + 1} of the dataset list names no file: {listed!r}; fix or remove that row"
            )
        keys.append(key_hash(key))
        if layout.naming is None:
            folder = same_name(layout.folder(key))
            inner = folder.rfind("/")
            if inner < 0 or folder[:inner] not in outer_folders:
                _note_outer(folder, outer_folders, listed, key)
        else:
            folder, outer_claims = _claims(layout.naming, row, layout.folder(key), index)
            outer_folders.update((outer, hash(outer)) for outer in outer_claims)
        folders.append(hash(folder))
        found = members.found(member) if member >= 0 else known_found
        if member < 0 and is_url(location):
            _refuse_password(listed, index)
            if found is None:
                urls[index - block.start] = location
        elif found is None:
            with contextlib.suppress(OSError, UnreadableInput):
                found = look_at(location)
        found = found or absent(location)
        sizes.append(found.size)
        times.append(found.changed)
    told_of_urls = look_at_all(urls.values())
    for number, url in urls.items():
        if isinstance(remote := told_of_urls[url], Found):
            sizes[number], times[number] = remote
    numbers = np.array(folders, "i8"), np.array(sizes, "i8"), np.array(times, "i8")
    of_block = np.array(keys, "u8"), *numbers, at
    return of_block, np.fromiter(outer_folders.values(), "i8", len(outer_folders))


def _note_outer(folder: str, outer_folders: dict[str, int], listed: str, key: str) -> None:
    if folder.partition("/")[0] in RESERVED_FOLDERS:
        raise _reserved(listed, key)
    for outer in folders_around(folder):
        if outer in outer_folders:
            break
        outer_folders[outer] = hash(outer)


def _claims(naming: Naming, row: Row, folder: str, index: int) -> tuple[str, Iterator[str]]:
    """Return the claim of a row, and the claims of inputs that could have a file where it needs a folder."""
    try:
        return naming.claim(row, folder), naming.outer_claims(row, folder)
    except ValueError as error:
        raise Refused(f"row {index + 1} of the dataset list: {error}") from None


def _refuse_password(listed: str, index: int) -> None:
    if has_password(listed):
        raise Refused(
            f"row {index + 1} of the dataset list: {without_secrets(listed)} contains a password, "
            "which would appear in the manifest; remove it, and put it into ~/.netrc or the "
            "store's own config"
        )


def _reserved(listed: str, key: str) -> Refused:
    top, slash, _ = key.partition("/")
    # the input is a sample in a shard, or a whole shard
    shard = shard_of(listed)[0] or shard_of(f"{listed}/sample")[0]
    if shard:
        shards = f"{shard.rpartition('/')[0]}/*{os.path.splitext(shard)[1]}"
        which = "is" if shard == listed else "is in"
        remedy = f"it {which} a shard: pass the shards as DATASET, as in 'FOLDER/{shards}'"
    elif slash:
        remedy = f"rename the folder {top}/, or start inside it: as DATASET, or with --root {top} for a list"
    elif same_name(key) in RESERVED_FOLDERS:
        remedy = "rename it"
    else:
        remedy = "use --keep-extension, or rename it"
    return Refused(f"{listed}: its outputs would get a name that splitter reserves; {remedy}")


def _refuse_listed_twice(table: InputTable, keys: np.ndarray) -> None:
    twin = _first_twins(keys)
    if twin:
        first, second = (table.listed(index) for index in twin[:2])
        message = f"{second}: is listed twice, in rows {twin[0] + 1} and {twin[1] + 1}"
        also = "" if first == second else f", first as {first}"
        more = f", and {twin[2]:,} more like it" if twin[2] else ""
        raise Refused(f"{message}{also}{more}; remove one, or use a recipe that groups rows")


def _refuse_collisions(table: InputTable, layout: Layout, found: Survey) -> None:
    """Refuse two inputs whose outputs could meet: the same folder, or one folder inside another."""
    twin = _first_twins(found.folders)
    if twin:
        first, second = (table.listed(index) for index in twin[:2])
        one, other = (same_name(layout.key(listed)) for listed in (first, second))
        remedy = _remedy(layout, helps=one != other)
        more = f", and likewise for {show_count(twin[2], 'more pair')}" if twin[2] else ""
        raise Refused(
            f"{second}: its outputs would go to the same folder as those of {first}{more}; {remedy}"
        )
    for outer in _members(found.folders, found.outer_folders):
        listed = table.listed(outer)
        key = layout.key(listed)
        inner = _first_inside(table, layout, same_name(layout.folder(key)))
        if inner is not None:
            around = folders_around(same_name(layout.key(inner)))
            remedy = _remedy(layout, helps=same_name(key) not in around)
            raise Refused(
                f"{inner}: its outputs would go into {layout.folder(key)}/, which is the folder of {listed}; "
                f"{remedy}"
            )


def _refuse_same_names(
    table: InputTable, layout: Layout, found: Survey, keys: np.ndarray, claims: np.ndarray
) -> None:
    """Refuse inputs that a template could give the same name, or a name that another needs as a folder.

    `keys` and `claims` have a number for each row, since an input may have several rows.
    """
    twin = _first_twins(claims, keys)
    pairs = twin and [(int(keys[row]), int(claims[row])) for row in twin[:2]]
    if not pairs:
        held = next(_members(claims, found.outer_folders), None)
        if held is None:
            return
        inner = _first_needing(table, layout, int(claims[held]))
        pairs = [(int(keys[held]), int(claims[held])), inner]
    raise Refused(_same_names(table, layout, found, pairs, more=twin[2] if twin else 0))


def _same_names(
    table: InputTable, layout: Layout, found: Survey, pairs: list[tuple[int, int]], more: int
) -> str:
    """Return the message for two inputs that could share a name, each by its key and the claim of its row."""
    naming = cast("Naming", layout.naming)
    listed, examples = [], []
    for key, claim in pairs:
        rows = parse_rows(table.text(int(np.flatnonzero(found.keys == key)[0])))
        folder = layout.folder(layout.key(rows[0][table.at]))
        row = next(row for row in rows if hash(naming.claim(row, folder)) == claim)
        listed.append(row[table.at])
        examples.append(naming.example(row, folder))
    names = [*dict.fromkeys(map(repr, examples))]
    both = f"{'both ' if len(names) == 1 else ''}give {' and '.join(names)}"
    also = f", and so could {more:,} more" if more else ""
    return (
        f"--name {naming.template!r}: two inputs could get the same name: {' and '.join(listed)} "
        f"{both}{also}; use {{path}}, or build a folder or name from columns and {{source}} that is "
        "different for each input, followed by nothing but '_{index}'"
    )


def _first_needing(table: InputTable, layout: Layout, claim: int) -> tuple[int, int]:
    """Return the key and the claim of the first input that needs a folder where `claim` may have a file."""
    naming = cast("Naming", layout.naming)
    for index in range(len(table)):
        for row in parse_rows(table.text(index)):
            folder = layout.folder(layout.key(row[table.at]))
            if claim in map(hash, naming.outer_claims(row, folder)):
                return key_hash(layout.key(row[table.at])), hash(naming.claim(row, folder))
    raise AssertionError("some input needs it")


def _remedy(layout: Layout, *, helps: bool) -> str:
    return "use --keep-extension, or rename one" if helps and not layout.keep_extension else "rename one"


def _first_inside(table: InputTable, layout: Layout, folder: str) -> str | None:
    """Return the first input, as listed, whose outputs would go into a folder."""
    for start in range(0, len(table), BLOCK):
        for row in parse_rows(b"".join(table.texts(start, min(len(table), start + BLOCK)))):
            own = same_name(layout.folder(layout.key(row[table.at])))
            if own.startswith(f"{folder}/"):
                return row[table.at]
    return None


def _first_twins(numbers: np.ndarray, owners: np.ndarray | None = None) -> tuple[int, int, int] | None:
    """Return the first pair of indices with the same number, and how many more pairs there are.

    With `owners`, indices of the same owner may share a number.
    """
    in_order = np.sort(numbers)
    if not (in_order[1:] == in_order[:-1]).any():
        return None
    # indices take more memory, and are seldom needed
    order = np.argsort(numbers, kind="stable")
    equal = np.flatnonzero(numbers[order[1:]] == numbers[order[:-1]])
    if owners is not None:
        equal = equal[owners[order[equal]] != owners[order[equal + 1]]]
        if not len(equal):
            return None
    at = equal[np.argmin(order[equal + 1])]
    return int(order[at]), int(order[at + 1]), len(equal) - 1


def _members(numbers: np.ndarray, sorted_numbers: np.ndarray) -> Iterator[int]:
    """Yield the indices of the numbers that are among the sorted ones, with little memory."""
    for start in range(0, len(numbers), BLOCK):
        at = index_in_sorted(sorted_numbers, numbers[start : start + BLOCK])
        yield from (np.flatnonzero(at >= 0) + start).tolist()


def advice_on_missing(listing: InputList, table: InputTable, layout: Layout, found: Survey) -> str:
    """Return what is probably wrong if no input can be read; else an empty text."""
    if not len(table) or (found.sizes != UNREADABLE).any():
        return ""
    first = table.listed(0)
    location = layout.location(first)
    many = f"none of the {len(table):,} inputs can be read, the first" if len(table) > 1 else "the only input"
    if is_url(location):
        return f"{many} is {why_unreadable(location)}" if len(table) > 1 else ""
    if first[:1] == "/" or "://" in first or os.path.lexists(location):
        return f"{many} is at {location}" if len(table) > 1 else ""
    roots = [
        root
        for root in _likely_roots(listing, layout)
        if os.path.exists(os.path.join(layout.root, root, first))
    ]
    if len(roots) == 1:
        root = os.path.join(listing.root or "", roots[0])
        return f"{many} is not at {location} but in {roots[0]}: use --root {root}"
    return f"{many} is not at {location}; use --root to set the folder that paths start from"


def look_at_all_paths(locations: Sequence[str]) -> list[Found | OSError | UnreadableInput]:
    """Return the size and time of each local or remote file, or the error for one that cannot be read."""
    urls = [*filter(is_url, locations)]
    (remote,) = in_processes(look_at_all, [urls], always_fork=True) if urls else [{}]
    return [remote[location] if location in remote else _looked_at(location) for location in locations]


def _looked_at(location: str) -> Found | OSError | UnreadableInput:
    try:
        return look_at(location)
    except (OSError, UnreadableInput) as error:
        return error


def why_unreadable(location: str) -> str:
    """Return why an input cannot be read, with its name; empty if it can."""
    (found,) = look_at_all_paths([location])
    return "" if isinstance(found, Found) else str(found)


def _likely_roots(listing: InputList, layout: Layout) -> list[str]:
    """Return folders that paths may start from: the current one, that of a linked list, those in the root."""
    roots = [os.getcwd()]
    if isinstance(listing.source, (str, os.PathLike)):
        roots.append(os.path.dirname(os.path.realpath(listing.source)))
    roots = [root for root in dict.fromkeys(roots) if root != layout.root]
    with contextlib.suppress(OSError), os.scandir(layout.root) as entries:
        roots += [entry.name for entry in islice(entries, MOST_FOLDERS) if entry.is_dir()]
    return roots
