"""The notebook runs from its first cell to its last, and prints what it shows."""

import ast
import contextlib
import io
import json
import shutil
import sys
import types
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
NOTEBOOK = CHECKOUT / "docs" / "notebook.ipynb"


def run_cell(source: str, namespace: dict) -> str:
    """Run a cell as Jupyter does: what it prints, and its last value."""
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), namespace)  # noqa: S102 - our own notebook
        value = eval(compile(last, "cell", "eval"), namespace) if last else None  # noqa: S307 - the same
    return printed.getvalue() + ("" if value is None else repr(value))


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    """Each cell gives the outputs that are in the file; there is nothing to see that is not checked."""
    shutil.copytree(CHECKOUT / "data_samples", tmp_path / "data_samples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module = types.ModuleType("a_notebook")
    monkeypatch.setitem(sys.modules, "a_notebook", module)
    cells = [
        cell
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    shown = [
        "".join("".join(one.get("text") or one["data"]["text/plain"]) for one in cell["outputs"])
        for cell in cells
    ]
    assert [run_cell("".join(cell["source"]), vars(module)) for cell in cells] == shown
    assert sum(map(bool, shown)) >= 5
