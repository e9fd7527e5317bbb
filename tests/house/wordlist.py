"""Which word says what instead."""

CLASSES = {
    ("archives.members", "Waiting"): "SharedFile",
    ("archives.members", "Part"): "FilePart",
    ("archives.reader", "Head"): "MemberHead",
    ("archives.reader", "Counting"): "CountedStream",
    ("archives.sources", "Source"): "ArchiveSource",
    ("annotations.tables", "_Columns"): "_TableColumns",
    ("audio.decoders", "_Part"): "_FileWindow",
    ("audio.formats.mp3.layout", "Layout"): "FrameLayout",
    ("audio.probe", "Known"): "ProbedSound",
    ("audio.sources", "Source"): "SoundSource",
    ("audio.sources", "Unread"): "UnreadSource",
    ("audio.window", "_Stored"): "_FileBlock",
    ("engine.lost_workers", "Losses"): "LostWorkers",
    ("engine.main", "Asked"): "RunRequest",
    ("executors.ray.code", "Source"): "ModuleText",
    ("executors.ray.code", "Travelled"): "TextImporter",
    ("executors.temporary", "Apart"): "TemporaryOutput",
    ("executors.temporary", "apart"): "temporary_output",
    ("inputs.fetching", "_Asked"): "_FetchRequest",
    ("inputs.fetching", "Wanted"): "RemoteInput",
    ("inputs.fetching", "Fetched"): "FetchedFile",
    ("inputs.labels", "Labels"): "LabelTable",
    ("inputs.labels", "Tally"): "RowTally",
    ("inputs.listing", "Reading"): "ListReading",
    ("inputs.listing", "Several"): "ListSequence",
    ("inputs.listing", "Source"): "ListSource",
    ("inputs.shards.archives", "_Sample"): "_MemberGroup",
    ("inputs.shards.archives", "_Samples"): "_MemberGroups",
    ("inputs.shards.index", "Looked"): "ShardScan",
    ("inputs.shards.index", "Place"): "MemberLocation",
    ("inputs.shards.index", "Shard"): "InputShard",
    ("inputs.shards.index", "_Reading"): "_ShardAccess",
    ("inputs.shards.reader", "_Reader"): "_ShardReader",
    ("inputs.table", "Table"): "InputTable",
    ("inputs.where", "_Reader"): "_ConditionParser",
    ("ledger.manifest", "Manifest"): "ManifestTables",
    ("ledger.records", "Head"): "RowColumns",
    ("ledger.run_files", "Listed"): "ListDescription",
    ("ledger.shard_groups", "Kept"): "GroupMember",
    ("ledger.status", "Standing"): "InputStatus",
    ("options", "Part"): "RunPart",
    ("outputs.dataset", "Samples"): "OutputSamples",
    ("outputs.files", "Part"): "ByteRange",
    ("outputs.reader", "_Shard"): "_OpenShard",
    ("outputs.reader", "TarShard"): "TarShardReader",
    ("outputs.reader", "ParquetShard"): "ParquetShardReader",
    ("outputs.stats", "Tally"): "OutputTally",
    ("outputs.streaming", "Place"): "ReaderRank",
    ("outputs.tables", "Place"): "ManifestLocation",
    ("outputs.tables", "place_of"): "location_of",
    ("report.summary", "Kept"): "RunFacts",
    ("report.table", "Table"): "ReportTable",
    ("report.writing", "Written"): "ReportResult",
    ("sinks.base", "Owner"): "OutputOwner",
    ("sinks.base", "Stored"): "StoredOutput",
    ("sinks.columns", "Columns"): "OutputColumns",
    ("sinks.columns", "Written"): "ColumnHistory",
    ("sinks.discard", "Nowhere"): "DiscardWriter",
    ("sinks.shards", "Sample"): "ShardSample",
    ("sinks.shards", "Shard"): "NewShard",
    ("sinks.shards", "_Held"): "_PendingOutput",
    ("storage.ownership", "Owner"): "LockOwner",
    ("stores.listings", "Known"): "ListedFiles",
    ("system.capture", "Voice"): "OutputCapture",
    ("system.reaper", "is_keeper"): "is_reaper",
    ("system.reaper", "keeping"): "reaper_beside",
    ("system.stderr", "hushed"): "silenced_stderr",
    ("tar.copying", "_Reader"): "_ReaderThread",
    ("tar.mapping", "Failure"): "SampleFailure",
    ("tar.ordering", "_Place"): "_SampleAddress",
    ("tar.samples", "Sample"): "TarSample",
    ("verification.check", "_Part"): "_BlockResult",
    ("verification.reproduce", "Again"): "Reproduction",
    ("verification.reproduce", "recipe_again"): "recipe_of_run",
    ("worker.failures", "InHand"): "CurrentMember",
}

FUNCTIONS = {
    ("audio.probe", "known_length"): "probed_length",
    ("engine.batches", "_known"): "_failures_by_index",
    ("executors.ray.cluster", "_read_environment_again"): "_reread_environment",
    ("inputs.shards.scan", "_apart"): "_in_helper",
    ("inputs.shards.scan", "_look_again"): "_rescan",
    ("inputs.shards.scan", "_places"): "_shards_named",
    ("inputs.shards.scan", "members_again"): "members_at",
    ("inputs.survey", "look_at_places"): "look_at_all_paths",
    ("ledger.manifest", "Places"): "ColumnPositions",
    ("ledger.manifest", "_places"): "_positions_in_union",
    ("ledger.run_files", "_known_shares"): "_stored_shares",
    ("ledger.run_files", "kept_list"): "stored_list",
    ("ledger.run_files", "kept_rows"): "stored_rows",
    ("report.looking", "standing_out"): "outliers",
    ("report.looking", "_STANDING_OUT"): "_OUTLIERS",
    ("system.signals", "signals_held_back"): "signals_blocked",
    ("system.signals", "signals_let_in"): "unblock_signals",
}

# (module, class, name) -> new name; mypy finds where it is used
METHODS = {
    ("audio.formats.mp3.index", "Mp3Index", "place"): "offset_of",
    ("audio.formats.mp3.index", "Mp3Index", "_places_of_group"): "_offsets_of_group",
    ("audio.formats.mp3.index", "Mp3Index", "places_between"): "offsets_between",
    ("storage.tree", "Tree", "_known"): "_still_open",
    ("storage.tree", "Tree", "_is_in_place"): "_is_still_there",
    ("engine.batches", "GroupPlanner", "_kept"): "_members_of_group",
    ("engine.rounds", "Work", "_settle_columns"): "_choose_columns",
    ("executors.base", "Executor", "place"): "status",
    ("executors.ray.executor", "RayExecutor", "place"): "status",
    ("executors.ray.executor", "RayExecutor", "_wanted"): "_needs_told",
    ("inputs.shards.index", "MemberIndex", "place"): "location",
    ("ledger.journal", "Journal", "_settle"): "_finish_batch",
    ("ledger.journal", "Journal", "settle"): "finish_batch",
    ("ledger.shard_groups", "Groups", "places"): "ranks",
    ("ledger.splits", "SplitRule", "kept"): "stored",
    ("ledger.status", "InputStatus", "kept"): "all_entries",
    ("outputs.dataset", "OutputSamples", "wanted"): "address",
    ("outputs.files", "Files", "place"): "location",
    ("outputs.files", "LocalFiles", "place"): "location",
    ("outputs.files", "RemoteFiles", "place"): "location",
    ("outputs.stats", "ManifestRows", "place_of"): "index_of",
    ("sinks.base", "GroupWriter", "passed"): "advance",
    ("sinks.shards", "ShardsWriter", "passed"): "advance",
    ("storage.base", "Storage", "settle"): "publish_file",
    ("storage.folder", "LocalStorage", "settle"): "publish_file",
    ("storage.layout", "Layout", "place"): "location",
    ("storage.locks", "FolderLock", "held"): "hold",
    ("storage.remote", "RemoteStorage", "_said"): "_named_errors",
    ("storage.remote", "RemoteStorage", "settle"): "publish_file",
    ("tar.copying", "Shards", "place"): "name_of",
    ("tar.ray_map", "Targets", "_place"): "_path",
    ("worker.guard", "Guard", "_said"): "_printed",
}

# in tests, where nothing says what is of which class: (old, new, modules)
TEST_MEMBERS = [
    ("settle", "finish_batch", ["tests.ledger.test_journal"]),
    ("settle", "publish_file", ["tests.storage.test_folder"]),
    ("held", "hold", ["tests.storage.test_locks"]),
]

# local variables and parameters: (old, new, modules or module:function)
VARIABLES = [
    ("place", "in_line", ["worker.worker:setup"]),
    ("places", "starts", ["worker.worker:_as_they_are_read"]),
    ("places", "indexes", ["worker.worker"]),
    ("place_of", "index_of", ["worker.worker"]),
    ("place", "final", ["sinks.shards:_begin"]),
    ("place", "index", [
        "worker.worker", "worker.batch_state", "worker.guard", "inputs.fetching", "system.capture",
        "audio.headers", "engine.columns", "sinks.shards:typed_row", "verification.check", "verification.shards",
    ]),
    ("place", "member", ["dataset"]),
    ("place", "path", [
        "inputs.folders", "ledger.records", "ledger.splits", "ledger.journal", "report.looking", "outputs.tables",
    ]),
    ("place", "location", [
        "inputs.survey", "inputs.locations", "inputs.shards.archives", "inputs.shards.index", "inputs.shards.parquet",
        "inputs.shards.scan", "outputs.stats", "outputs.frame", "outputs.reader",
        "outputs.files", "storage.locks", "report.page", "archives.sources", "archives.reader", "tar.targets",
        "tar.samples", "tar.tables", "tar.mapping", "tar.copying", "tar.ray_map", "recipes.registry",
        "cli.completion",
    ]),
    ("place", "target", ["verification.reproduce:_shipped"]),
    ("place", "span", ["inputs.shards.reader"]),
    ("place", "temporary", ["verification.reproduce", "forecast.estimate", "forecast.shard_overhead"]),
    ("place", "reader_rank", ["outputs.opening", "outputs.streaming"]),
    ("place", "status", ["engine.display"]),
    ("places", "positions", [
        "engine.batches", "ledger.manifest", "ledger.formats", "outputs.streaming", "audio.resampling",
        "audio.formats.flac.stream", "verification.check",
    ]),
    ("places_of", "positions_of", ["ledger.manifest"]),
    ("places", "ranks", ["ledger.shard_groups"]),
    ("places", "numbers", ["verification.table_differences"]),
    ("places", "locations", [
        "inputs.survey", "inputs.shards.index", "inputs.shards.scan", "verification.reproduce", "tar.copying",
    ]),
    ("places", "slots", ["executors.ray.executor"]),
    ("kept", "stored", ["engine.finish"]),
    ("kept", "past", ["verification.reproduce"]),
    ("standing", "input_status", [
        "engine.finish", "engine.rounds", "ledger.manifest", "ledger.tables", "verification.check",
        "verification.repair",
    ]),
]

ATTRIBUTES = {
    ("archives.reader", "CountedStream", "_place"): "_name",
    ("archives.sources", "ArchiveSource", "place"): "location",
    ("engine.rounds", "Work", "asked"): "request",
    ("inputs.shards.archives", "_Choice", "_place"): "_location",
    ("inputs.shards.index", "InputShard", "place"): "location",
    ("inputs.shards.index", "_ShardAccess", "_place"): "_location",
    ("ledger.shard_groups", "Group", "kept"): "members",
    ("outputs.files", "_RemoteFile", "_place"): "_location",
    ("outputs.streaming", "OutputStream", "_place"): "_reader_rank",
    ("storage.unnamed_copies", "Pack", "_places"): "_positions",
    ("tar.copying", "Divided", "places"): "names",
    ("tar.mapping", "SampleFailure", "place"): "location",
    ("tar.ray_map", "Targets", "places"): "locations",
    ("tar.samples", "TarSample", "place"): "location",
    ("tar.samples", "SampleWriter", "_place"): "_location",
    ("worker.guard", "Guard", "_voice"): "_capture",
    ("worker.guard", "_Death", "place"): "index",
    ("worker.messages", "Batch", "behind"): "waits_for_verdict",
}

WORD_TEST = '''"""One word for one thing: no class, function or module is called by a word that is retired."""

import ast
import re
from collections import Counter
from pathlib import Path

import splitter

PACKAGE = Path(splitter.__file__).parent
# docs/design.md says what is said instead
RETIRED = {
    "again",
    "anew",
    "apart",
    "behind",
    "held",
    "kept",
    "keeper",
    "known",
    "mend",
    "passed",
    "place",
    "places",
    "said",
    "settle",
    "settled",
    "settles",
    "standing",
    "voice",
    "wanted",
}


def definitions() -> list[tuple[str, str]]:
    """Return the kind and the name of every module, class and function."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found.append(("module", path.parent.name if path.stem == "__init__" else path.stem))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.append(("class", node.name))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(("function", node.name))
    return found


def words(name: str) -> set[str]:
    """Return the words of a name, whether `like_this` or `LikeThis`."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_no_name_has_a_retired_word():
    assert not [f"{kind} {name}" for kind, name in definitions() if words(name) & RETIRED]


def test_a_class_has_a_name_of_its_own():
    """With or without an underscore: who reads of a `Shard` need not ask which."""
    counts = Counter(name.lstrip("_") for kind, name in definitions() if kind == "class")
    assert not [name for name, count in counts.items() if count > 1]


def test_this_test_can_fail():
    assert words("members_again") & RETIRED
    assert words("_KeptList") & RETIRED
    assert not words("signals_blocked") & RETIRED
'''

COMMITS = [
    (
        "Give every class a name of its own",
        "Twenty-three names were those of two to five classes each, and others were participles. A noun, with its "
        "room in it where needed.",
        [("symbols", CLASSES)],
    ),
    (
        "Say one word for one thing in the names of functions",
        "`place` was seven things, `settle` three; `kept`, `held`, `known` and the like said nothing of what they "
        "are. A test keeps the words out of names of classes, functions and modules.",
        [
            ("symbols", FUNCTIONS),
            ("typed", METHODS),
            ("members", TEST_MEMBERS),
            ("files", {"tests/test_words.py": WORD_TEST}),
        ],
    ),
    (
        "Say which place is meant: an index, a location, a position",
        "Local variables, parameters and attributes; the retired word said all of these.",
        [
            ("typed", ATTRIBUTES),
            ("variables", VARIABLES),
            ("edits", [("tests/outputs/test_opening.py", '__getstate__()["_place"]', '__getstate__()["_reader_rank"]')]),
        ],
    ),
]
