"""Assemble the page: one file with its style, its program and its data."""

import base64
import hashlib
import html
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from splitter.errors import Refused
from splitter.outputs.frame import read_manifest, without_left_out
from splitter.outputs.tables import location_of
from splitter.report.looking import POINTS, Effort, Looks, Outputs, look
from splitter.report.summary import LEVELS, Lengths, RunFacts, inputs_left, summary_of
from splitter.report.table import FAILED, LEFT_OUT, MOST_GROUPS, ReportTable, causes, packed
from splitter.storage.layout import Layout, shard_of
from splitter.text.show import show_failure
from splitter.text.urls import is_url, without_secrets

MOST_ROWS = 200_000
STYLES = ("uPlot.min.css", "page.css")
PROGRAMS = (
    "uPlot.iife.min.js",
    "data.js",
    "theme.js",
    "plots.js",
    "sound.js",
    "selection.js",
    "gallery.js",
    "table.js",
    "inspector.js",
    "page.js",
)
# the page may load files next to it, and nothing from anywhere else
POLICY = (
    "default-src 'none'; script-src {programs}; style-src 'unsafe-inline'; img-src 'self' data: blob: file:; "
    "media-src 'self' data: blob: file:; connect-src 'self' file:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page, and its numbers.

    Attributes:
        content: The file.
        outputs: Number of output files in the manifest.
        looked_at: How many of them were read.
        unread: Which of those cannot be read, and why.
        inputs: Number of inputs of the run.
        left: How many of them it has not tried yet.
        in_shards: Whether outputs are in shards.
    """

    content: bytes
    outputs: int
    looked_at: int
    unread: list[str]
    inputs: int
    left: int
    in_shards: bool


def page_of(output: str, location: str, effort: Effort) -> Page:
    """Return the page about an output folder, with links relative to the folder `location`."""
    files = location_of(output, "report").files
    manifest = read_manifest(output)
    folder = files.folder
    kept = RunFacts.of(files)
    column = str(kept.listed.get("column", ""))
    if not effort.all_rows:
        manifest = without_left_out(manifest, column)
    table = ReportTable.of(manifest, MOST_ROWS, column)
    layout = layout_of(kept)
    outputs = Outputs(folder, table)
    looks = look(outputs, table, layout, effort)
    lengths = Lengths.of(table, looks)
    groups, cause_of = causes(table)
    summary = {
        "title": os.path.basename(without_secrets(folder).rstrip("/")),
        **summary_of(table, lengths, looks, kept, inputs_left(files, table)),
        "causes": groups[:MOST_GROUPS],
        "more_causes": {
            "causes": len(groups[MOST_GROUPS:]),
            "count": sum(one["count"] for one in groups[MOST_GROUPS:]),
        },
        "worth": [{"row": row, "why": why} for row, why in looks.worth],
        "folder": _relative(folder, location),
        "sources": _relative(layout.root, location) if layout and looks.beside else None,
        "shards": outputs.has_virtual or any(shard_of(name)[0] for name in outputs.names),
        "virtual": outputs.has_virtual,
        "points": POINTS,
    }
    numbers = summary["numbers"]
    return Page(
        content=_filled(summary, _rows(table, looks, lengths, cause_of), looks),
        outputs=numbers["outputs"],
        looked_at=len(looks.chosen),
        unread=[show_failure(outputs.names[row], why) for row, why in sorted(looks.unread.items())],
        inputs=numbers["inputs"],
        left=numbers["left"],
        in_shards=summary["shards"],
    )


def layout_of(kept: RunFacts) -> Layout | None:
    """Return where the inputs are, if they are on this machine."""
    root = kept.listed.get("root")
    if not isinstance(root, str) or is_url(root) or not os.path.isdir(root):
        return None
    return Layout(root)


def _relative(folder: str, location: str) -> str | None:
    """Return the path from the page to a folder: empty if it is the same, None if there is none."""
    if is_url(folder) or is_url(location):
        return "" if folder == location else None
    way = os.path.relpath(folder, location)
    return "" if way == os.curdir else f"{way}/"


# -- data --------------------------------------------------------------------------------------------------


def _rows(table: ReportTable, looks: Looks, lengths: Lengths, cause_of: list[int]) -> dict[str, Any]:
    count = len(table.rows)
    columns = [name for name in table.rows.columns if name not in LEFT_OUT]
    levels: dict[str, list[Any]] = {name: [None] * count for name in (*LEVELS, "clipped")}
    for row, one in looks.levels.items():
        levels["rms_db"][row] = round(one.rms_db, LEVELS["rms_db"])
        levels["peak_db"][row] = round(one.peak_db, LEVELS["peak_db"])
        levels["silence"][row] = round(100 * one.silence, LEVELS["silence"])
        levels["clipped"][row] = float(f"{one.clipped:.3g}")
    failed = int((table.state == FAILED).sum())
    reasons = table.rows["skipped"].fillna("") if "skipped" in table.rows.columns else [""] * count
    messages = ["" if value is None else str(value) for value in reasons]
    if failed:
        messages[-failed:] = [str(message)[:1000] for message in table.failed["message"].iloc[:failed]]
    return {
        "count": count,
        "state": table.state.tolist(),
        "listed": table.listed,
        "columns": [
            {
                "name": name,
                "dataset": name in table.dataset,
                "number": table.rows[name].dtype.kind in "iuf",
                # a shortened name cannot be a link
                "cells": packed(table.rows[name], whole=name in ("output", table.listed)),
            }
            for name in columns
        ],
        "levels": {
            "seconds": packed(lengths.rows),
            **{name: packed(values) for name, values in levels.items()},
        },
        "message": packed(messages),
        "causes": cause_of[:failed],
        "errors": packed(table.failed["error"].iloc[:failed] if failed else ()),
        "measured": list(looks.levels),
        "texts": {str(row): text for row, text in looks.texts.items()},
        "unread": {str(row): text for row, text in {**looks.odd, **looks.unread}.items()},
        "sources": {
            name: base64.b64encode(np.rint(wave * 255).astype("u1").tobytes()).decode()
            for name, wave in looks.sources.items()
        },
    }


# -- the file ----------------------------------------------------------------------------------------------


def _safe(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return ASCII JSON that cannot end a script or start a comment, whatever texts it contains."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _compressed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _filled(summary: dict[str, Any], rows: dict[str, Any], looks: Looks) -> bytes:
    """Return the filled template."""
    # the minimum and maximum of each point, for each measured output
    waves = [np.rint(one.wave.T * 127).astype("i1").tobytes() for one in looks.levels.values()]
    data = {
        "summary": _safe(summary),
        "rows": _compressed(_safe(rows).encode()),
        "waves": _compressed(b"".join(waves)),
        "previews": _safe({str(row): one for row, one in looks.previews.items()}),
    }
    scripts = {
        name: f'<script type="text/plain" id="{name}">{content}</script>' for name, content in data.items()
    }
    title = summary["title"]
    return with_policy("page.html", "splitter report", title, styles=STYLES, programs=PROGRAMS, **scripts)


def with_policy(
    template: str, kind: str, title: str, *, styles: Sequence[str], programs: Sequence[str], **parts: str
) -> bytes:
    """Return a filled template, whose policy allows these programs and no other."""
    text = page_file(template)
    for part in ("head", "theme"):
        text = text.replace(f"{{{{{part}}}}}", page_file(f"{part}.html"))
    program = "".join(map(page_file, programs))
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    parts = {
        "kind": kind,
        "title": html.escape(title.encode("utf-8", "replace").decode()),
        "policy": html.escape(POLICY.format(programs=f"'sha256-{digest}'")),
        "style": "".join(map(page_file, styles)),
        "program": program,
        **parts,
    }
    pieces = text.split("{{")
    filled = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        filled += [parts[name.strip()], rest]
    return "".join(filled).encode()


def page_file(name: str) -> str:
    """Return the text of a file of the page."""
    try:
        return (resources.files("splitter.report") / "page" / name).read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(f"splitter's installation is incomplete: {error}; install it again") from None
