#!/usr/bin/env python3
"""Move all modules of splitter into rooms.

    python3 HOUSE/move.py FOLDER [--no-commit]

FOLDER is a clean checkout with a .venv. See plan.py (what goes where), edits.py (small edits), engine.py (how).
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import edits
import plan
from engine import House, fail, read, write

COMMIT = "--no-commit" not in sys.argv
ROOT = Path([one for one in sys.argv[1:] if not one.startswith("--")][0]).resolve()
BIN = ROOT / ".venv/bin"


def run(*command, check=True, show=False):
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)
    if check and done.returncode:
        fail(f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}")
    if show:
        print(done.stdout[-6000:], done.stderr[-2000:])
    return done.stdout


def git(*arguments):
    return run("git", *arguments)


def commit(subject, body=""):
    git("add", "-A")
    if not git("status", "--porcelain").strip():
        print(f"nothing to commit: {subject}")
        return
    if COMMIT:
        git("commit", "-q", "-m", subject, *(["-m", body] if body else []))
        print(f"committed: {subject}")


def tidy():
    for _ in range(2):
        run(BIN / "ruff", "check", "--fix", "-q", "--select", "F401,I,TC004,TC005,PIE790", ".", check=False)
        run(BIN / "ruff", "format", "-q", ".")


def move_tests(house):
    """tests/ mirrors the tree; gives the new path of each file."""
    moved = {}
    for old, new in plan.TESTS.items():
        if not (ROOT / "tests" / old).exists():
            print(f"GONE: tests/{old} is not there (any more)")
            continue
        moved[old] = new
    flat = {path.name for path in (ROOT / "tests").glob("test_*.py")} - {*plan.TESTS} - plan.FLAT_TESTS
    if flat:
        print(f"NEW TEST FILES stay flat: {sorted(flat)}; enter them in TESTS")
    for old, new in moved.items():
        (ROOT / "tests" / new).parent.mkdir(parents=True, exist_ok=True)
        git("mv", f"tests/{old}", f"tests/{new}")
    for old, new in moved.items():
        deeper = new.count("/") - old.count("/")
        path = ROOT / "tests" / new
        text = read(path)
        if deeper and "__file__" in text:

            def beside(match, folder=ROOT / "tests" / Path(old).parent, up=deeper):
                if (folder / match[2]).exists():
                    return f"Path(__file__).parents[{up}] / {match[1]}{match[2]}{match[1]}"
                return match[0]

            text = re.sub(r"Path\(__file__\)\.with_name\((['\"])([^'\"]+)['\"]\)", beside, text)
            text = re.sub(
                r"Path\(__file__\)((?:\.resolve\(\))?)\.parents\[(\d+)\](?! / ['\"]\w+\.py)",
                lambda m: f"Path(__file__){m[1]}.parents[{int(m[2]) + deeper}]",
                text,
            )
            text = re.sub(r"Path\(__file__\)\.parent\b(?!s|\.parent)", f"Path(__file__).parents[{deeper}]", text)
            # f"{Path(__file__).parents[1] / 'copying.py'}:Copy" and the like are fine
            write(path, text)
    for path in texts(".py"):
        text = new = read(path)
        for old, now in moved.items():
            stem, stem_now = Path(old).stem, Path(now).stem
            if stem != stem_now:
                new = re.sub(rf"(?<![\w/.]){re.escape(stem)}(?=\.(py\b|[A-Z]))", stem_now, new)
        if new != text:
            write(path, new)
        text = new
        new = re.sub(
            r"^(\s*)from (test_\w+) import ",
            lambda m, own=path.stem: m[0] if m[2] == own else f"{m[1]}from {moved.get(m[2] + '.py', m[2] + '.py')[:-3].replace('/', '.')} import ",
            text,
            flags=re.M,
        )
        if new != text:
            write(path, new)
    names = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.name in names:
            fail(f"two test files of one name: {path} and {names[path.name]}")
        names[path.name] = path
    for path in texts():
        text = new = read(path)
        for old, now in moved.items():
            new = re.sub(rf"(?<![\w/.])tests/{re.escape(old)}\b", f"tests/{now}", new)
            if "/" in old:
                new = re.sub(rf"(?<=[\w)}}]/){re.escape(old)}\b", now, new)
                module, there = old[:-3].replace("/", "."), now[:-3].replace("/", ".")
                new = re.sub(rf"(?<![\w.]){re.escape(module)}(?=[\s.\"'])", there, new)
        if new != text:
            write(path, new)


def texts(*suffixes):
    wanted = suffixes or (".py", ".md", ".toml", ".ipynb", ".yml", ".yaml", ".cfg", ".txt", ".js", ".html")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    for name in listed:
        if name.endswith(wanted) and not name.startswith(("docs/images", "data_samples")):
            path = ROOT / name
            if path.is_file():
                yield path


def room_docs():
    """The docstring of every package: a sentence, and its modules."""
    for room, (sentence, modules) in plan.ROOMS.items():
        path = ROOT / "splitter" / room.replace(".", "/") / "__init__.py"
        there = {
            one.stem if one.is_file() else one.name
            for one in path.parent.iterdir()
            if (one.suffix == ".py" and one.stem != "__init__") or (one / "__init__.py").exists()
        }
        if {*modules} - there:
            print(f"GONE: in {room} there is no {sorted({*modules} - there)} (any more)")
            modules = {name: text for name, text in modules.items() if name in there}
        for name in sorted(there - {*modules}):
            about = ast.get_docstring(ast.parse(read(path.parent / f"{name}.py"))) or "?"
            modules[name] = about.split("\n")[0].rstrip(".")[:90]
            print(f"NEW MODULE {room}.{name}: enter it in ROOMS ({modules[name]})")
        if not sentence:
            sentence = (ast.get_docstring(ast.parse(read(path))) or "?").split("\n")[0]
        wide = max(map(len, modules)) + 3
        lines = "\n".join(f"{name:<{wide}}{text}" for name, text in modules.items())
        doc = f'"""{sentence}\n\n{lines}\n"""\n'
        text = read(path)
        tree = ast.parse(text)
        first = tree.body[0] if tree.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            rest = "".join(text.splitlines(keepends=True)[first.end_lineno :])
        else:
            rest = text
        write(path, doc + (f"\n{rest.lstrip()}" if rest.strip() else ""))


def public_docs():
    """Docstrings of functions that were private; one that has some keeps it."""
    for (module, name), text in plan.PUBLIC_DOCS.items():
        path = ROOT / "splitter" / f"{module.replace('.', '/')}.py"
        lines = read(path).splitlines(keepends=True)
        found = [
            n for n in ast.parse("".join(lines)).body if isinstance(n, ast.FunctionDef) and n.name == name
        ]
        if not found:
            fail(f"PUBLIC_DOCS: {module} has no function {name}")
        if not ast.get_docstring(found[0]):
            lines.insert(found[0].body[0].lineno - 1, f'    """{text}"""\n')
            write(path, "".join(lines))


def later(house):
    """What `splitter` imports when it is asked for."""
    path = ROOT / "splitter/__init__.py"
    text = read(path)
    block = re.search(r"^_LATER = \{\n(.*?)^\}", text, re.M | re.S)
    if not block:
        fail("splitter/__init__.py has no _LATER")

    def entry(match):
        found = house.lookup(match[2], match[1])
        if found is None or found[1] != match[1]:
            fail(f"_LATER: cannot follow {match[0]}")
        return f'"{match[1]}": "{found[0]}"'

    new = re.sub(r'"(\w+)": "([\w.]+)"', entry, block[1])
    write(path, text.replace(block[1], new))


def typing_only():
    """Imports that would go in a circle, needed for annotations only."""
    for module, names in plan.TYPING_ONLY.items():
        path = ROOT / "splitter" / f"{module.replace('.', '/')}.py"
        text = read(path)
        tree = ast.parse(text)
        spots = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                found = [a.annotation for a in [*node.args.args, *node.args.kwonlyargs]] + [node.returns]
                for one in filter(None, found):
                    if {n.id for n in ast.walk(one) if isinstance(n, ast.Name)} & {*names}:
                        spots.append(one)
        lines = text.splitlines(keepends=True)
        for one in sorted(spots, key=lambda n: (n.lineno, n.col_offset), reverse=True):
            assert one.lineno == one.end_lineno
            line = lines[one.lineno - 1]
            lines[one.lineno - 1] = (
                line[: one.col_offset] + f'"{line[one.col_offset : one.end_col_offset]}"' + line[one.end_col_offset :]
            )
        text = "".join(lines)
        found = re.findall(rf"^from (splitter\.[\w.]+) import \(?([\w\s,]+?)\)?$", text, re.M)
        under = []
        for source, listed in found:
            mine = [one for one in re.split(r"[\s,]+", listed) if one in names]
            if mine:
                under.append(f"    from {source} import {', '.join(mine)}\n")
                left = [one for one in re.split(r"[\s,]+", listed) if one and one not in names]
                line = f"from {source} import {', '.join(left)}" if left else ""
                text = re.sub(rf"^from {re.escape(source)} import \(?{re.escape(listed)}\)?$", line, text, flags=re.M)
        if not under:
            fail(f"TYPING_ONLY: {module} imports none of {names}")
        last = max(n.end_lineno for n in ast.parse(text).body if isinstance(n, (ast.Import, ast.ImportFrom)))
        lines = text.splitlines(keepends=True)
        lines.insert(last, "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n" + "".join(under) + "\n")
        write(path, "".join(lines))


def apply(changes):
    """Exact edits: (path, old, new); each must be found once, or as often as said."""
    for path, old, new, *count in changes:
        file = ROOT / path
        if old == "import":
            text = read(file)
            last = max(n.end_lineno for n in ast.parse(text).body if isinstance(n, (ast.Import, ast.ImportFrom)))
            lines = text.splitlines(keepends=True)
            write(file, "".join([*lines[:last], f"{new}\n", *lines[last:]]))
            continue
        if not file.exists():
            fail(f"edit of {path}: there is no such file")
        text = read(file)
        found = text.count(old)
        if found != (count[0] if count else 1):
            fail(f"edit of {path}: {found} times, not {count[0] if count else 1}:\n{old}")
        write(file, text.replace(old, new))


def main():
    if git("status", "--porcelain").strip():
        fail(f"{ROOT} is not clean")
    print("from", git("log", "-1", "--format=%h %s").strip())
    for step in edits.BEFORE:
        apply([step])
    house = House(ROOT, plan.MODULES, plan.SPLITS, plan.PUBLIC, plan.SAME_API)
    for one in house.auto:
        print("made public:", one, "->", house.public[one[0], one[1]])
    house.first = plan.FIRST
    new = {*house.modules.values()} | {home for home, _ in house.symbols.values()}
    packages = {*plan.ROOMS} | {one for one in new if any(other.startswith(f"{one}.") for other in new)}
    for one in sorted(packages - {*plan.ROOMS}):
        print(f"NEW PACKAGE {one}: enter it in ROOMS")
        plan.ROOMS[one] = ("", {})
    house.build(packages, plan.DOCS, git)
    move_tests(house)
    names = {}
    for module in {home for home, _ in house.symbols.values()} | {*house.modules.values()}:
        names[house.path_of(module, packages).resolve()] = module
    for path in texts():
        if path.name == "CHANGELOG.md":
            continue
        text = read(path)
        if path.suffix == ".py":
            try:
                new = house.rewrite_python(text, names.get(path.resolve()))
            except SyntaxError as error:
                fail(f"{path}: {error}")
        else:
            new = house.rewrite_text(text)
        if new != text:
            write(path, new)
    tidy()
    for name, content in edits.NEW_WITH_MOVES.items():
        write(ROOT / name, content)
    room_docs()
    typing_only()
    public_docs()
    later(house)
    apply(edits.WITH_MOVES)
    tidy()
    commit("Move every module into its room", edits.WHY_MOVES)
    for subject, body, changes, files in edits.AFTER:
        apply(changes)
        for name, content in files.items():
            if isinstance(content, tuple):
                content = read(ROOT / name).rstrip("\n") + "\n" + content[1]
            write(ROOT / name, content)
        tidy()
        commit(subject, body)
    print(run(sys.executable, Path(__file__).parent / "cycles.py", ROOT, check=False))
    print(run(BIN / "ruff", "check", ".", check=False)[-5000:])
    print(run(BIN / "ruff", "format", "--check", ".", check=False)[-800:])
    print(run(BIN / "mypy", "splitter", check=False)[-8000:])


main()
