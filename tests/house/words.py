#!/usr/bin/env python3
"""One word for one thing: rename classes, functions, methods and attributes on the moved tree.

    python3 HOUSE/words.py FOLDER [--no-commit]

FOLDER is a clean checkout on which move.py has run. The maps are in wordlist.py.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import wordlist

COMMIT = "--no-commit" not in sys.argv
ROOT = Path([one for one in sys.argv[1:] if not one.startswith("--")][0]).resolve()
BIN = ROOT / ".venv/bin"
TROUBLE = []


def fail(text):
    raise SystemExit(f"words.py: {text}")


def run(*command, check=True):
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)
    if check and done.returncode:
        fail(f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def read(path):
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def write(path, text):
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def files(*suffixes):
    listed = run("git", "ls-files", "-co", "--exclude-standard").split("\n")
    return [ROOT / n for n in listed if n.endswith(suffixes) and not n.startswith("docs/images") and (ROOT / n).is_file()]


def module_of(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def put(text, spots):
    """Replace names at (line, byte column)."""
    lines = text.splitlines(keepends=True)
    for (row, col), (old, new) in sorted(spots.items(), reverse=True):
        line = lines[row - 1].encode("utf-8", "surrogateescape")
        found = line[col : col + len(old.encode())].decode("utf-8", "surrogateescape")
        assert found == old, (row, col, old, found, line)
        lines[row - 1] = (line[:col] + new.encode() + line[col + len(old.encode()) :]).decode("utf-8", "surrogateescape")
    return "".join(lines)


class Tree:
    """All modules, and what their names stand for."""

    def __init__(self):
        self.paths = files(".py")
        self.text = {path: read(path) for path in self.paths}
        self.tree = {path: ast.parse(text) for path, text in self.text.items()}
        self.module = {module_of(path): path for path in self.paths}

    def origin(self, module, name, seen=()):
        """Where a name that a module gives was defined."""
        path = self.module.get(module)
        if path is None or (module, name) in seen:
            return None
        for node in ast.walk(self.tree[path]):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("splitter"):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        if f"{node.module}.{alias.name}" in self.module:
                            return None
                        return self.origin(node.module, alias.name, (*seen, (module, name)))
        return module, name


def top_definitions(tree):
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for one in ast.walk(target):
                    if isinstance(one, ast.Name):
                        found[one.id] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def def_spot(text, node):
    line = text.splitlines()[node.lineno - 1]
    match = re.compile(rf"\b(?:class|def)\s+({re.escape(node.name)})\b").search(line)
    return node.lineno, len(line[: match.start(1)].encode("utf-8", "surrogateescape"))


def byte_column(text, row, column):
    return len(text.splitlines()[row - 1][:column].encode("utf-8", "surrogateescape"))


def annotations(tree):
    """Strings that are types."""
    for node in ast.walk(tree):
        spots = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            a = node.args
            spots = [one.annotation for one in [*a.args, *a.kwonlyargs, *a.posonlyargs, a.vararg, a.kwarg] if one]
            spots.append(node.returns)
        elif isinstance(node, ast.AnnAssign):
            spots = [node.annotation]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar"):
            spots = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "bound")]
        elif isinstance(node, ast.Subscript):
            spots = [node.slice]
        for spot in filter(None, spots):
            for one in ast.walk(spot):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one


def hidden_names(root, names):
    """Names that are local variables of a function, and not the symbol."""
    found = set()

    def visit(node, local):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            a = node.args
            here = {one.arg for one in [*a.args, *a.kwonlyargs, *a.posonlyargs, a.vararg, a.kwarg] if one}
            for child in own_nodes(node):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                    here.add(child.id)
            outside = [*a.defaults, *filter(None, a.kw_defaults), *getattr(node, "decorator_list", [])]
            types = [one.annotation for one in [*a.args, *a.kwonlyargs, a.vararg, a.kwarg] if one and one.annotation]
            types += [node.returns] if getattr(node, "returns", None) else []
            for child in [*outside, *types]:
                visit(child, local)
            for child in node.body if isinstance(node.body, list) else [node.body]:
                visit(child, local | (here & names))
            return
        if isinstance(node, ast.Name) and node.id in local:
            found.add(node)
        for child in ast.iter_child_nodes(node):
            visit(child, local)

    visit(root, set())
    return found


def own_nodes(function):
    todo = list(function.body) if isinstance(function.body, list) else [function.body]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)


def symbols(tree, renames):
    """Rename top-level classes, functions and constants."""
    renames = {(f"splitter.{module}" if not module.startswith("tests") else module, old): new for (module, old), new in renames.items()}
    for (module, old), _ in renames.items():
        path = tree.module.get(module)
        if path is None or old not in top_definitions(tree.tree[path]):
            print("GONE:", f"{module} has no {old}")
    for path in tree.paths:
        text, root = tree.text[path], tree.tree[path]
        own = module_of(path)
        names, objects, spots = {}, {}, {}
        for (module, old), new in renames.items():
            if module == own and old in top_definitions(root):
                names[old] = new
        for node in ast.walk(root):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "splitter":
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    if full in tree.module:
                        objects[alias.asname or alias.name] = full
                        continue
                    found = tree.origin(node.module, alias.name)
                    if found in renames:
                        new = renames[found]
                        spots[alias.lineno, alias.col_offset] = (alias.name, new)
                        if not alias.asname:
                            names[alias.name] = new
        for old, new in names.items():
            clash = [
                n for n in ast.walk(root)
                if (isinstance(n, ast.arg) and n.arg == new)
                or (isinstance(n, ast.Name) and n.id == new)
                or (isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == new and n in root.body)
                or (isinstance(n, ast.alias) and (n.asname or n.name) == new)
            ]
            if clash:
                TROUBLE.append(f"{own}: {new} (for {old}) is there already, line {clash[0].lineno}")
        hidden = hidden_names(root, {*names})
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and node.id in names and node not in hidden:
                spots[node.lineno, node.col_offset] = (node.id, names[node.id])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in objects:
                found = tree.origin(objects[node.value.id], node.attr)
                if found in renames:
                    col = node.end_col_offset - len(node.attr.encode())
                    spots[node.end_lineno, col] = (node.attr, renames[found])
            elif (
                isinstance(node, ast.Call)
                and len(node.args) > 1
                and isinstance(node.args[0], ast.Name)
                and node.args[0].id in objects
                and isinstance(node.args[1], ast.Constant)
            ):
                found = tree.origin(objects[node.args[0].id], node.args[1].value)
                if found in renames:
                    spots[node.args[1].lineno, node.args[1].col_offset + 1] = (node.args[1].value, renames[found])
        for node in root.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in names:
                spots[def_spot(text, node)] = (node.name, names[node.name])
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
                for one in ast.walk(node.value):
                    if isinstance(one, ast.Constant) and one.value in names:
                        spots[one.lineno, one.col_offset + 1] = (one.value, names[one.value])
        for one in annotations(root):
            for old, new in names.items():
                for match in re.finditer(rf"(?<![\w.]){re.escape(old)}\b", one.value):
                    spots[one.lineno, one.col_offset + 1 + match.start()] = (old, new)
        new = put(text, spots) if spots else text
        for old, now in names.items():
            # what docstrings and comments call it
            new = re.sub(rf"`{re.escape(old)}`", f"`{now}`", new)
        if new != text:
            tree.text[path] = new
    for path in files(".py", ".md", ".toml"):
        text = tree.text.get(path) or read(path)
        new = programs(text, renames) if path.suffix == ".py" else text
        for (module, old), now in renames.items():
            new = re.sub(rf"(?<![\w.]){re.escape(module)}\.{re.escape(old)}\b", f"{module}.{now}", new)
        if new != text:
            if path in tree.text:
                tree.text[path] = new
            else:
                write(path, new)
    for path, text in tree.text.items():
        if text != read(path):
            write(path, text)


def programs(text, renames):
    """Names in programs that tests hold as text."""
    mentioned = [(m, old, new) for (m, old), new in renames.items() if f"from {m} import" in text and re.search(rf"\b{re.escape(old)}\b", text)]
    if not mentioned:
        return text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            segment = ast.get_source_segment(text, node)
            if not segment:
                continue
            new = segment
            for module, old, now in mentioned:
                if re.search(rf"from {re.escape(module)} import [^\n]*\b{re.escape(old)}\b", segment):
                    new = re.sub(rf"(?<![\w.]){re.escape(old)}\b", now, new)
            if new != segment:
                text = text.replace(segment, new)
                return programs(text, renames)
    return text


def members(tree, renames):
    """Rename methods and attributes: (old, new, where[, keywords]) with where a list of module prefixes or None."""
    for old, new, where, *more in renames:
        count = 0
        for path in tree.paths:
            module = module_of(path).removeprefix("splitter.")
            if where is not None and not any(module == one or module.startswith(f"{one}.") for one in where):
                continue
            text, root, spots = tree.text[path], tree.tree[path], {}
            for node in ast.walk(root):
                if isinstance(node, ast.Attribute) and node.attr == old:
                    spots[node.end_lineno, node.end_col_offset - len(old.encode())] = (old, new)
                elif isinstance(node, ast.ClassDef):
                    for one in node.body:
                        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name == old:
                            spots[def_spot(text, one)] = (old, new)
                        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.target.id == old:
                            spots[one.target.lineno, one.target.col_offset] = (old, new)
                        elif isinstance(one, ast.Assign):
                            for target in one.targets:
                                if isinstance(target, ast.Name) and target.id == old:
                                    spots[target.lineno, target.col_offset] = (old, new)
                elif more and isinstance(node, ast.keyword) and node.arg == old:
                    spots[node.lineno, node.col_offset] = (old, new)
            if spots:
                count += len(spots)
                tree.text[path] = put(text, spots)
                if more:
                    tree.text[path] = re.sub(rf"^(\s+){re.escape(old)}: (?=[A-Z])", rf"\1{new}: ", tree.text[path], flags=re.M)
                tree.tree[path] = ast.parse(tree.text[path])
                write(path, tree.text[path])
        if not count:
            print("GONE:", f"no member {old} in {where}")


MISSING = re.compile(
    r'^([^:]+):(\d+):(\d+):(\d+):(\d+): error: (?:Item )?"([^"]+)"(?: of "[^"]+")? has no attribute "(\w+)"'
)
KEYWORD = re.compile(
    r'^([^:]+):(\d+):(\d+):(\d+):(\d+): error: Unexpected keyword argument "(\w+)" for "(?:replace" of ")?(\w+)"'
)
SELF_TYPE = re.compile(r"(?:type\[)?([\w.]+)")


def typed(tree, renames):
    """Rename members of classes, (module, class, old) -> new; mypy tells where in splitter/ they are used."""
    by_class = defaultdict(dict)
    for (module, name, old), new in renames.items():
        path = tree.module.get(f"splitter.{module}")
        found = path and [n for n in ast.walk(tree.tree[path]) if isinstance(n, ast.ClassDef) and n.name == name]
        if not found:
            print("GONE:", f"{module} has no class {name}")
            continue
        by_class[name][old] = new
        text, spots = tree.text[path], {}
        for one in found[0].body:
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name == old:
                spots[def_spot(text, one)] = (old, new)
            elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.target.id == old:
                spots[one.target.lineno, one.target.col_offset] = (old, new)
        field = bool(spots) and not any(
            isinstance(one, ast.FunctionDef) and one.name == old for one in found[0].body
        )
        for node in ast.walk(found[0]):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == old
                and isinstance(node.value, ast.Name)
                and node.value.id in ("self", "cls")
            ):
                spots[node.end_lineno, node.end_col_offset - len(old)] = (old, new)
                field = field or isinstance(node.ctx, ast.Store)
            elif isinstance(node, ast.Constant) and node.value == old and old.startswith("_"):
                # in __getstate__ and the like
                spots[node.lineno, node.col_offset + 1] = (old, new)
        if not spots:
            print("GONE:", f"{module}.{name} has no {old}")
            continue
        tree.text[path] = put(text, spots)
        if field:
            tree.text[path] = re.sub(rf"^(\s{{8,}}){re.escape(old)}: (?=[A-Z])", rf"\1{new}: ", tree.text[path], flags=re.M)
        tree.tree[path] = ast.parse(tree.text[path])
        write(path, tree.text[path])
    bases = {
        n.name: [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in n.bases]
        for root in tree.tree.values() for n in ast.walk(root) if isinstance(n, ast.ClassDef)
    }

    def renamed(cls, name, seen=()):
        if name in by_class.get(cls, {}):
            return by_class[cls][name]
        found = [renamed(base, name, (*seen, cls)) for base in bases.get(cls, ()) if base not in seen]
        return next(filter(None, found), None)

    for _ in range(8):
        said = run(
            BIN / "mypy", "--show-error-end", "--no-error-summary", "--hide-error-context", "splitter", check=False
        )
        spots = defaultdict(dict)
        for line in said.splitlines():
            match = MISSING.match(line)
            if match:
                cls = re.sub(r"\[.*", "", match[6].removeprefix("type[").rstrip("]")).rpartition(".")[2]
                new = renamed(cls, match[7])
                if new:
                    # the end of the expression is the end of the attribute
                    spots[ROOT / match[1]][int(match[4]), int(match[5]) - len(match[7])] = (match[7], new)
                continue
            match = KEYWORD.match(line)
            if match and match[6] in by_class.get(match[7], {}):
                path = ROOT / match[1]
                for node in ast.walk(ast.parse(read(path))):
                    if (
                        isinstance(node, ast.Call)
                        and node.lineno <= int(match[2]) <= node.end_lineno
                        and ast.unparse(node.func).rpartition(".")[2] in (match[7], "replace")
                    ):
                        for keyword in node.keywords:
                            if keyword.arg == match[6]:
                                spots[path][keyword.lineno, keyword.col_offset] = (match[6], by_class[match[7]][match[6]])
        if not spots:
            break
        for path, found in spots.items():
            text = read(path)
            try:
                text = put(text, found)
            except AssertionError as error:
                TROUBLE.append(f"{path}: {error}")
                continue
            tree.text[path], tree.tree[path] = text, ast.parse(text)
            write(path, text)
    if "error:" in said:
        TROUBLE.append(said[-3000:])


def variables(tree, renames):
    """Rename local variables and parameters: (old, new, where); where names modules, or module:function."""
    for old, new, where in renames:
        for one in where:
            module, _, function = one.partition(":")
            path = tree.module.get(f"splitter.{module}")
            if path is None:
                print("GONE:", f"variables: there is no {module}")
                continue
            text, root, spots = tree.text[path], tree.tree[path], {}
            region = root
            if function:
                found = [
                    n for n in ast.walk(root)
                    if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and n.name == function
                ]
                if not found:
                    print("GONE:", f"variables: {module} has no {function}")
                    continue
                region = found[0]
            clash = None
            for node in ast.walk(region):
                name = getattr(node, "id", None) if isinstance(node, ast.Name) else getattr(node, "arg", None)
                if isinstance(node, (ast.Name, ast.arg)) and name == old:
                    spots[node.lineno, node.col_offset] = (old, new)
                elif isinstance(node, ast.keyword) and node.arg == old:
                    spots[node.lineno, node.col_offset] = (old, new)
                elif isinstance(node, (ast.Name, ast.arg)) and name == new:
                    clash = node
            if not spots:
                print(f"nothing to do: {old} in {one}")
                continue
            if clash is not None and clashes(region, old, new):
                TROUBLE.append(f"{one}: {new} (for {old}) is there already, in {clashes(region, old, new)}")
                continue
            tree.text[path] = put(text, spots)
            tree.tree[path] = ast.parse(tree.text[path])
            write(path, tree.text[path])


def clashes(region, old, new):
    """The functions that use both names."""
    found = []
    for node in ast.walk(region):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
                n.arg for n in ast.walk(node) if isinstance(n, ast.arg)
            }
            if {old, new} <= names:
                found.append(node.name)
    return found


def tidy():
    run(BIN / "ruff", "check", "--fix", "-q", "--select", "I,RUF022", ".", check=False)
    run(BIN / "ruff", "format", "-q", ".")


def commit(subject, body=""):
    run("git", "add", "-A")
    if COMMIT and run("git", "status", "--porcelain").strip():
        run("git", "commit", "-q", "-m", subject, *(["-m", body] if body else []))
        print(f"committed: {subject}")


def edit(changes):
    for path, old, new, *count in changes:
        file = ROOT / path
        text = read(file)
        if text.count(old) != (count[0] if count else 1):
            TROUBLE.append(f"edit of {path}: {text.count(old)} times: {old!r}")
            continue
        write(file, text.replace(old, new))


def main():
    if run("git", "status", "--porcelain").strip():
        fail(f"{ROOT} is not clean")
    if not (ROOT / "splitter/ledger").exists():
        fail("run move.py first")
    for subject, body, steps in wordlist.COMMITS:
        for kind, what in steps:
            if kind == "symbols":
                symbols(Tree(), what)
            elif kind == "typed":
                typed(Tree(), what)
            elif kind == "members":
                members(Tree(), what)
            elif kind == "variables":
                variables(Tree(), what)
            elif kind == "edits":
                edit(what)
            elif kind == "files":
                for name, content in what.items():
                    (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
                    write(ROOT / name, content)
        tidy()
        if TROUBLE:
            # it was clean before
            run("git", "reset", "-q", "--hard")
            run("git", "clean", "-qfd", "splitter", "tests")
            fail("\n".join(TROUBLE))
        commit(subject, body)
    print(run(sys.executable, Path(__file__).parent / "names.py", ROOT))
    print(run(BIN / "ruff", "check", "--output-format", "concise", ".", check=False)[-5000:])
    print(run(BIN / "ruff", "format", "--check", ".", check=False)[-800:])
    print(run(BIN / "mypy", "splitter", check=False)[-8000:])


main()
