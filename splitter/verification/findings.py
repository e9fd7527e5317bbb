"""What `splitter verify` found, and how it is printed: readable, however much there is."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from splitter.ledger.run_files import RUN_AGAIN, SAME_RUN
from splitter.text.show import NAMES_SHOWN, one_line, show_bytes, show_count, show_names, show_seconds

# findings of a kind that are printed, before the rest is only counted
TOLD_EACH = 20
OF_NO_ROW = (
    "its input has changed or is no longer in the list; the next run replaces it, or --prune removes it"
)
REPAIR = f"run {SAME_RUN} with --repair to redo what is damaged or missing"
# messages about one input that is not done, then about many
LEFT, CHANGED = f"is not done; {RUN_AGAIN}", f"has changed and is not redone yet; {RUN_AGAIN}"
SAMPLES_WITHOUT_ROWS = (
    f"holds samples of inputs that are no longer in the list; {SAME_RUN} with --prune removes them"
)
_MANY = {
    LEFT: f"are not done; {RUN_AGAIN}",
    CHANGED: f"have changed and are not redone yet; {RUN_AGAIN}",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        kind: `missing`, `size`, `checksum`, `header`, `unreadable`, `extra` and `again` are about an output
            file, `left` about one that has no row, `shard` about one that holds many, `row` and `table` about
            manifest.csv or errors.csv, `batch` and `record` about what is in .splitter, `input` and `source`
            about an input of the list.
        file: The file that it is about, relative to the output folder, or the input as listed.
        message: What is wrong with it.
    """

    kind: str
    file: str
    message: str

    @property
    def of_input(self) -> bool:
        """Whether it is about an input, not about a file in the output folder."""
        return self.kind in ("input", "source")

    @property
    def is_damage(self) -> bool:
        """Whether an output file is lost or damaged, so that its input must be redone."""
        return self.kind in ("missing", "size", "checksum", "unreadable", "shard")


@dataclass
class Verdict:
    """The result of a verification.

    Attributes:
        output: The output folder.
        inputs: How many inputs the dataset list has.
        done: How many of them have their rows in the manifest.
        skipped: How many of them the recipe skipped, with a row that says why.
        failed: How many of them are in errors.csv.
        outputs: How many output files were read.
        bytes: How many bytes these have.
        made_again: How many inputs were processed again, to compare the outputs.
        gone: How many inputs have outputs, but are no longer in the list.
        dropped: How many output files a pipeline kept only until they were used.
        inputs_dropped: How many inputs could not be processed again, because an earlier stage of a pipeline
            kept them only until they were used.
        unstated: How many shards an earlier version made, which have no checksum in the commit records.
        seconds: How long it took.
        findings: What is wrong.
    """

    output: str
    inputs: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    outputs: int = 0
    bytes: int = 0
    made_again: int = 0
    gone: int = 0
    dropped: int = 0
    inputs_dropped: int = 0
    unstated: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """0 if nothing was found, else 1."""
        return int(not self.ok)

    def to_json(self) -> str:
        """Return the verdict as JSON, for scripts."""
        content = asdict(self)
        return json.dumps({"output": content.pop("output"), "ok": self.ok, **content}, ensure_ascii=True)

    def __str__(self) -> str:
        """Return the last line of the command."""
        read = f"{show_count(self.outputs, 'output')} ({show_bytes(self.bytes)}) read"
        again = f", {show_count(self.made_again, 'input')} made again" if self.made_again else ""
        what = f"{show_count(self.inputs, 'input')}, {read}{again} in {show_seconds(self.seconds)}"
        if not self.ok:
            left = sum(finding.kind == "input" for finding in self.findings)
            damage = len(self.findings) - left
            found = [show_count(damage, "finding")] if damage else []
            found += [f"{show_count(left, 'input')} not done"] if left else []
            return f"{self.output}: {', '.join(found)}; {what}"
        others = [
            (self.failed, "failed (see errors.csv)"),
            (self.gone, "no longer in the list"),
            (self.dropped, "dropped after use"),
            (self.inputs_dropped, "not made again, since their files were dropped after use"),
        ]
        more = "".join(f"; {count:,} {words}" for count, words in others if count)
        if self.unstated:
            made = f"{show_count(self.unstated, 'shard')} made by an earlier version"
            more += f"; no checksum is recorded for {made}: only the outputs there were checked"
        return f"{self.output}: no problems found: {what}{more}"


class Telling:
    """A printer of findings, a line for each; it prints the first few of a kind, and counts the rest.

    Inputs that are not done are not damage: one line says how many there are, and how to continue.
    """

    def __init__(
        self,
        output: str,
        say: Callable[[str], object],
        *,
        everything: bool = False,
        command: str = SAME_RUN,
    ) -> None:
        """Print with `say`; with `everything`, print every finding. `command` continues the run."""
        self._output, self._say, self._everything = output.rstrip("/"), say, everything
        self._command = command
        self._counts: Counter[tuple[str, str]] = Counter()
        self._left: dict[str, list[str]] = {}

    def __call__(self, finding: Finding) -> None:
        """Print a finding, or count it."""
        if finding.kind == "input" and not self._everything:
            self._left.setdefault(finding.message, []).append(finding.file)
            return
        # rows are counted for each table, so that every table is named
        kind = finding.kind, finding.file if finding.kind == "row" else ""
        self._counts[kind] += 1
        if self._everything or self._counts[kind] <= TOLD_EACH:
            name = finding.file if finding.of_input else f"{self._output}/{finding.file}"
            self._line(f"{name}: {finding.message}")

    def _line(self, text: str) -> None:
        self._say(one_line(text.replace(SAME_RUN, self._command)))

    def end(self, verdict: Verdict) -> None:
        """Print the findings that were only counted, then the result."""
        for (kind, file), count in self._counts.items():
            if not self._everything and count > TOLD_EACH:
                more = f"{show_count(count - TOLD_EACH, 'more finding')} of kind {kind!r}"
                path = f"{self._output}/{file}" if file else self._output
                self._line(f"{path}: {more}; use --verbose or --json to see them all")
        for message, names in self._left.items():
            if len(names) == 1:
                self._line(f"{names[0]}: {message}")
                continue
            some = show_names(names[:NAMES_SHOWN], len(names))
            of = f"{len(names):,} of {show_count(verdict.inputs, 'input')}"
            self._line(f"{self._output}: {of} ({some}) {_MANY[message]}")
        self._line(str(verdict))
        if any(finding.is_damage for finding in verdict.findings):
            self._line(f"next: {REPAIR}")
