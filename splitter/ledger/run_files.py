"""The files of `.splitter`: what each says, and what to do if it is damaged.

`RUN_FILES` lists all of them; docs/design.md shows the same table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from splitter.errors import Refused, SplitterError, StorageError
from splitter.storage.base import STAGING, Storage
from splitter.storage.checked_file import HollowFile, sealed, unsealed
from splitter.storage.layout import OWN_FOLDER, RECORDS

Content = TypeVar("Content")

SAME_RUN = "the same 'splitter run' command"
SAME_PIPELINE_RUN = "the same 'splitter pipeline run' command"
RUN_AGAIN = f"run {SAME_RUN} to continue"
RESTORE = "restore it, or start over with --fresh"


@dataclass(frozen=True)
class RunFile:
    """A file of `.splitter`.

    Attributes:
        name: Its name in the output folder, or a pattern of several names.
        says: What it says.
        remedy: What to do if it is damaged.
        is_sealed: Whether it is JSON, which may be followed by bytes, and holds its own checksum.
        error: The error to raise if it is damaged.
    """

    name: str
    says: str
    remedy: str
    is_sealed: bool = True
    error: type[SplitterError] = StorageError

    def named(self, name: str) -> "RunFile":
        """Return the file with this name, which matches the pattern."""
        return replace(self, name=name)

    def load(
        self,
        storage: Storage,
        parse: Callable[[dict[str, Any], bytes], Content],
        *,
        strict: bool = False,
    ) -> Content | None:
        """Return what `parse` makes of the JSON and the bytes after it; None if the file does not exist.

        `parse` raises ValueError, KeyError, TypeError, AttributeError, OverflowError or Refused if no run can
        have written this. `strict` refuses a file without a checksum, such as earlier versions wrote.
        """
        if not storage.exists(self.name):
            return None
        try:
            return parse(*unsealed(storage.read(self.name), strict=strict))
        except HollowFile as error:
            raise self.damaged(storage, error.why) from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, Refused) as error:
            raise self.damaged(storage, error) from None

    def save(
        self, storage: Storage, content: Mapping[str, Any], rest: bytes | None = None, *, pretty: bool = False
    ) -> None:
        """Write the file, unless it already has this content."""
        text = sealed(content, rest, pretty=pretty)
        try:
            is_the_same = storage.exists(self.name) and storage.read(self.name) == text
        except HollowFile:
            is_the_same = False
        if not is_the_same:
            storage.write(self.name, text)

    def fault(self, storage: Storage) -> str:
        """Return what is wrong with the file, and what to do; nothing if it is whole or does not exist."""
        try:
            if storage.exists(self.name):
                unsealed(storage.read(self.name), strict=True)
        except ValueError as error:
            return self.fault_of(error)
        except HollowFile as error:
            return self.fault_of(error.why)
        except StorageError as error:
            return str(error)
        return ""

    def fault_of(self, why: object) -> str:
        """Return why the file is damaged, and what to do."""
        return f"is damaged ({why}); {self.remedy}"

    def damaged(self, storage: Storage, why: object) -> SplitterError:
        """Return the error to raise: the file, why it is damaged, and what to do."""
        return self.error(f"{storage.path(self.name)}: {self.fault_of(why)}")

    def missing(self, storage: Storage) -> SplitterError:
        """Return the error to raise if the file should exist, but does not."""
        return self.error(f"{storage.path(self.name)}: does not exist; {self.remedy}")


RECORD = RunFile(
    f"{RECORDS}/<batch>",
    "what became of the inputs of a batch, and their rows of the manifest",
    "remove it to do its inputs again, or start over with --fresh",
    is_sealed=False,
)
BEGUN_RECORD = RunFile(
    f"{RECORDS}/<batch>.begun",
    "what a batch is about to publish and to remove, and for which inputs",
    "remove it, and run with --fresh",
    is_sealed=False,
)
LIST = RunFile(f"{OWN_FOLDER}/dataset.csv", "the dataset list of the last run", RUN_AGAIN, is_sealed=False)
LISTED = RunFile(
    f"{OWN_FOLDER}/list.json",
    "how the rows of `dataset.csv` name inputs, and its checksum",
    RUN_AGAIN,
    error=Refused,
)
RUN = RunFile(
    f"{OWN_FOLDER}/run.json",
    "the recipe, its parameters and the sink, of the last run and of earlier ones whose outputs are left",
    f"remove it, and {RUN_AGAIN}",
)
LAST_RUN = RunFile(
    f"{OWN_FOLDER}/last_run.json",
    "how long the last run took, and what it made",
    "remove it; only the report and virtual pieces use it",
)
SCHEMA = RunFile(
    f"{OWN_FOLDER}/schema.json",
    "the columns of the manifest, and their types",
    "'splitter manifest' makes it again from the commit records",
    is_sealed=False,
)
OTHER_TABLES = RunFile(
    f"{OWN_FOLDER}/tables.json",
    "which tables there are beside `manifest.csv`, and their checksums",
    "remove it and the tables beside manifest.csv, and make them again with 'splitter manifest'",
)
RULE = RunFile(
    f"{OWN_FOLDER}/split.json", "the rule of 'splitter split'", "run 'splitter split' again, or remove it"
)
KEEP = RunFile(f"{OWN_FOLDER}/keep.json", "the condition of --keep", "remove it, and run again with --keep")
GROUPS = RunFile(f"{OWN_FOLDER}/groups", "which inputs share a shard", RESTORE)
COLUMNS = RunFile(f"{OWN_FOLDER}/columns.json", "the columns of Parquet shards", RESTORE)
STALE_MARKS = RunFile(
    f"{OWN_FOLDER}/stale",
    "which inputs have changed and were not done again: their outputs have no rows",
    RUN_AGAIN,
)
UNSYNCED = RunFile(
    f"{OWN_FOLDER}/unsynced.json",
    "which outputs a power cut may take, since they are not forced to disk yet",
    RUN_AGAIN,
)
SHARES = RunFile(
    f"{OWN_FOLDER}/shares-of-<parts>",
    "which part of a run takes which input",
    "remove it, and run all parts again",
)
PIPELINE = RunFile(
    f"{OWN_FOLDER}/pipeline.json",
    "the stages of a pipeline, in its own folder",
    "remove it; the next run of the pipeline writes it",
)
OF_A_PIPELINE = "is the folder of a pipeline; pass the folder of one of its stages"
DROPPED = RunFile(
    f"{OWN_FOLDER}/dropped.json",
    "that a pipeline keeps the files of this stage only until they are used",
    "remove it, and run the same 'splitter pipeline' command to make missing files again",
)
STAGED = RunFile(
    f"{STAGING}/",
    "outputs on their way, and promised shards; what workers are doing, if somebody watches",
    "leave it to the next run",
    is_sealed=False,
)
LOCKS = RunFile(
    f"{OWN_FOLDER}/lock*, gate, workers, part-*",
    "who is at work",
    "leave them to the next run",
    is_sealed=False,
)
# all files above, so that none is forgotten
RUN_FILES = tuple(file for file in [*globals().values()] if isinstance(file, RunFile))
