"""Small edits: (path, old text, new text[, how often]); a missing text is an error."""

from rule import DESIGN, IMPORT_RULE

WHY_MOVES = """splitter/ had 56 modules at the top, and packages that import each other both ways. Now every
module is in a room, as docs/design.md lists them. Modules that were two things are divided: options, progress,
processes, inputs.places, inputs.sources, audio.sound, outputs.contents, tar.archive, tar.places, trial, run.
Behaviour and messages are as before."""

# the command line: commands are made where they stand, and added in one place
_ADDED = "run_command, plan_command, report, serve, tar, manifest, verify, split, stats, recipes"
BEFORE = [
    (
        "splitter/cli.py",
        'commands.add_command(\n    RunCommand(\n        "run",',
        'run_command = (\n    RunCommand(\n        "run",',
    ),
    (
        "splitter/cli.py",
        'commands.add_command(\n    RunCommand(\n        "plan",',
        'plan_command = (\n    RunCommand(\n        "plan",',
    ),
    ("splitter/cli.py", "@commands.command(short_help=", "@click.command(short_help=", 5),
    (
        "splitter/cli.py",
        "commands.add_command(report)\ncommands.add_command(serve)\ncommands.add_command(tar)\n",
        f"for command in ({_ADDED}):\n    commands.add_command(command)\n",
    ),
]

NEW_WITH_MOVES = {
    "splitter/system/package.py": '''"""The folder of splitter's own code."""

import os

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(__file__))
''',
}


def _package(path, old, new):
    """What was the folder beside a module is the package's."""
    return [(path, old, new), (path, "import", "from splitter.system.package import PACKAGE_FOLDER")]


WITH_MOVES = [
    *_package("splitter/worker/failures.py", 'f"{os.path.dirname(__file__)}/"', 'f"{PACKAGE_FOLDER}/"'),
    *_package(
        "splitter/worker/guard.py",
        "f'  File \"{os.path.dirname(__file__)}/'",
        "f'  File \"{PACKAGE_FOLDER}/'",
    ),
    *_package(
        "splitter/ledger/identity.py", "        os.path.dirname(__file__),\n", "        PACKAGE_FOLDER,\n"
    ),
    *_package(
        "splitter/executors/ray/code.py",
        "os.path.dirname(os.path.abspath(__file__))",
        "os.path.abspath(PACKAGE_FOLDER)",
    ),
    (
        "splitter/executors/ray/executor.py",
        "comes to (see `splitter.executors.ray.guard_process`).\n",
        "comes to (see `guard_process`).\n",
    ),
    (
        "tests/ledger/test_identity.py",
        "path=[os.path.dirname(__file__)]",
        "path=[os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]",
    ),
    ("tests/system/test_pool.py", "children.threading", "pool.threading"),
    ("docs/performance.md", "`splitter/flac`", "`splitter/audio/formats/flac`"),
    ("tests/benchmarks/README.md", "`splitter/flac`", "`splitter/audio/formats/flac`"),
]

_MEASURED = '''class Measured(Protocol):
    """Inputs in the order of the list, of which keys and sizes are known."""

    @property
    def keys(self) -> np.ndarray:
        """The hash of each input's key."""

    @property
    def sizes(self) -> np.ndarray:
        """The bytes of each input."""


'''
_NAMES = '''class OutputFolders(NamedTuple):
    """What is no input: the output folder of this run, and what tells those of other runs.

    Attributes:
        current: The output folder of this run.
        own_folder: The name of a folder that only output folders have.
        reserved: What a run calls its own files and folders.
    """

    current: str
    own_folder: str
    reserved: frozenset[str]


'''

EDGES = [
    # errors -> engine.summary
    ("splitter/errors.py", "if TYPE_CHECKING:\n    from splitter.engine.summary import Summary\n", ""),
    ("splitter/errors.py", "from typing import TYPE_CHECKING\n", "from typing import Any\n"),
    (
        "splitter/errors.py",
        "        self.summary: Summary | None = None\n",
        "        # of the run, where there is one: an `engine.summary.Summary`\n        self.summary: Any = None\n",
    ),
    # ledger -> inputs.survey
    ("splitter/ledger/run_files.py", "from splitter.inputs.survey import Survey\n", ""),
    ("splitter/ledger/run_files.py", "import", "from typing import Protocol"),
    ("splitter/ledger/run_files.py", "@dataclass(frozen=True)\nclass Listed:", f"{_MEASURED}@dataclass(frozen=True)\nclass Listed:"),
    ("splitter/ledger/run_files.py", "found: Survey", "found: Measured"),
    ("splitter/ledger/shard_groups.py", "from splitter.inputs.survey import Survey\n", ""),
    ("splitter/ledger/shard_groups.py", "import", "from splitter.ledger.run_files import Measured"),
    ("splitter/ledger/shard_groups.py", "found: Survey", "found: Measured"),
    # ledger -> dataset
    ("splitter/ledger/recipe_record.py", "from splitter.dataset import ProcessorDataset\n", ""),
    (
        "splitter/ledger/recipe_record.py",
        "import",
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from splitter.dataset import ProcessorDataset\n",
    ),
    ("splitter/ledger/recipe_record.py", "dataset: ProcessorDataset", 'dataset: "ProcessorDataset"', 2),
    # outputs -> dataset
    ("splitter/outputs/dataset.py", "from splitter.dataset import ProcessorDataset\n", ""),
    ("splitter/outputs/dataset.py", "return ProcessorDataset.collate_fn(list(samples))", "return list(samples)"),
    # stores -> storage
    ("splitter/stores/listings.py", "from splitter.storage.layout import OWN_FOLDER, RESERVED_FOLDERS\n", ""),
    ("splitter/stores/listings.py", "from typing import IO, Any\n", "from typing import IO, Any, NamedTuple\n"),
    ("splitter/stores/listings.py", "class Known:\n", f"{_NAMES}class Known:\n"),
    (
        "splitter/stores/listings.py",
        "leave_out: str, known: Known, pass_over: PassOver\n",
        "leave_out: OutputFolders, known: Known, pass_over: PassOver\n",
    ),
    (
        "splitter/stores/listings.py",
        "    url: str, patterns: Sequence[str], leave_out: str\n) -> Iterator[tuple",
        "    url: str, patterns: Sequence[str], leave_out: OutputFolders\n) -> Iterator[tuple",
    ),
    (
        "splitter/stores/listings.py",
        'fsspec.core.strip_protocol(leave_out).rstrip("/") + "/" if is_url(leave_out) else',
        'fsspec.core.strip_protocol(current).rstrip("/") + "/" if is_url(current) else',
    ),
    ("splitter/stores/listings.py", "    import fsspec\n", "    import fsspec\n\n    current, own = leave_out.current, f\"/{leave_out.own_folder}/\"\n"),
    (
        "splitter/stores/listings.py",
        'outputs = {name.partition(f"/{OWN_FOLDER}/")[0] + "/" for name in listed if f"/{OWN_FOLDER}/" in name}',
        'outputs = {name.partition(own)[0] + "/" for name in listed if own in name}',
    ),
    (
        "splitter/stores/listings.py",
        "names = sorted((name for name in wanted if _may_be_input(name, folder, outputs)), key=_in_folders)",
        "meant = (name for name in wanted if _may_be_input(name, folder, outputs, leave_out.reserved))\n"
        "    names = sorted(meant, key=_in_folders)",
    ),
    (
        "splitter/stores/listings.py",
        "def _may_be_input(name: str, folder: str, outputs: set[str]) -> bool:",
        "def _may_be_input(name: str, folder: str, outputs: set[str], reserved: frozenset[str]) -> bool:",
    ),
    ("splitter/stores/listings.py", "parts[-1] in RESERVED_FOLDERS and", "parts[-1] in reserved and"),
    (
        "splitter/inputs/folders.py",
        "files = remote_files(path, patterns, leave_out, reading.known, pass_over)",
        "outputs = OutputFolders(leave_out, OWN_FOLDER, RESERVED_FOLDERS)\n"
        "        files = remote_files(path, patterns, outputs, reading.known, pass_over)",
    ),
    ("splitter/inputs/folders.py", "import", "from splitter.stores.listings import OutputFolders"),
    # the constant is where the other content types are
    (
        "splitter/stores/objects.py",
        "    # brings NumPy along\n    from splitter.text.content_types import REPORT\n\n",
        "",
    ),
    ("splitter/stores/objects.py", "import", "from splitter.text.content_types import REPORT"),
]

AFTER = [
    (
        "Let every room import only the rooms above it",
        """The list of rooms is in docs/design.md, where the test reads it. Type-checking imports obey it too,
but for three that are named. The eight edges that led the other way are gone: types are protocols or loose,
and names of the output folder are passed in.""",
        EDGES,
        {"tests/test_import_rule.py": IMPORT_RULE, "docs/design.md": ("append", DESIGN)},
    ),
]
