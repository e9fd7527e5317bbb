"""The machinery of move.py: split modules, move files, rewrite imports. Nothing here knows where anything goes."""

import ast
import builtins
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


class Trouble(SystemExit):
    pass


def fail(text):
    raise Trouble(f"move.py: {text}")


def read(path):
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8", errors="surrogateescape")


@dataclass
class Piece:
    """A top-level statement with the comments above it."""

    text: str
    node: ast.stmt
    names: list
    uses: set
    home: str = ""


def names_of(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def uses_of(node):
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.add(one.id)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.isidentifier():
            # a forward reference, perhaps
            found.add(one.value)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and len(one.value) < 200:
            try:
                found |= {n.id for n in ast.walk(ast.parse(one.value, mode="eval")) if isinstance(n, ast.Name)}
            except (SyntaxError, ValueError, RecursionError):
                pass
    return found


def is_header(node):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return True
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def first_line(node):
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def divided(text):
    """Docstring, imports, pieces."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    doc, header, pieces, at = "", [], [], 0
    for node in tree.body:
        start, end = first_line(node), node.end_lineno
        raw = "".join(lines[at:end])
        at = end
        if node is tree.body[0] and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            doc = raw
        elif is_header(node):
            header.append(raw)
        else:
            pieces.append(Piece(raw, node, names_of(node), uses_of(node)))
    rest = "".join(lines[at:])
    if rest.strip():
        pieces[-1].text += rest
    return doc, header, pieces


def rename_tokens(text, old, new):
    """A name in code (not an attribute, not a keyword argument)."""
    tree = ast.parse(text)
    spots = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == old:
            spots.append((node.lineno, node.col_offset))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == old:
            line = text.splitlines()[node.lineno - 1]
            spots.append((node.lineno, len(line[: line.index(old)].encode())))
    return replaced_at(text, spots, old, new)


def replaced_at(text, spots, old, new):
    lines = text.splitlines(keepends=True)
    for row, col in sorted(set(spots), reverse=True):
        line = lines[row - 1].encode("utf-8", "surrogateescape")
        assert line[col : col + len(old)].decode() == old, (line, col, old)
        lines[row - 1] = (line[:col] + new.encode() + line[col + len(old) :]).decode("utf-8", "surrogateescape")
    return "".join(lines)


class House:
    """What is where, before and after."""

    def __init__(self, root, modules, splits, public, same_api=()):
        self.root, self.modules, self.public = Path(root), dict(modules), public
        self.splits = splits
        self.same_api = set(same_api)
        self.old = {}
        for path in sorted((self.root / "splitter").rglob("*.py")):
            parts = list(path.relative_to(self.root / "splitter").with_suffix("").parts)
            if parts[-1] == "__init__" and len(parts) > 1:
                parts.pop()
            self.old[".".join(parts)] = path
        for name in sorted({*self.old} - {*self.modules}):
            # a new module of a package goes where the package goes
            parent = name.rpartition(".")[0]
            if parent and parent in self.modules:
                to = self.modules[parent]
                to = to.rpartition(".")[0] if parent in ("executors", "recipes") else to
                self.modules[name] = f"{to}.{name.rpartition('.')[2]}"
                print(f"NEW MODULE {name}: goes to {self.modules[name]}; enter it in MODULES")
        missing = sorted({*self.old} - {*self.modules})
        if missing:
            fail(f"modules without a room: {missing}; enter them in MODULES")
        gone = sorted({*self.modules} - {*self.old})
        for name in gone:
            print(f"GONE: there is no module {name} (any more)")
            del self.modules[name]
        self.symbols = {}  # (old module, name) -> (new module, new name)
        self.pieces = {}
        self.auto, self.first = [], []
        self.public = dict(public)
        root = ast.parse(read(self.old["__init__"]))
        self.api = {
            one.asname or one.name for node in ast.walk(root) if isinstance(node, ast.ImportFrom) for one in node.names
        } | {
            one.value for node in ast.walk(root) if isinstance(node, (ast.List, ast.Dict))
            for one in ast.iter_child_nodes(node) if isinstance(one, ast.Constant)
        }
        self._assign()

    # -- who goes where -----------------------------------------------------------------------------------

    def _assign(self):
        for name, path in self.old.items():
            doc, header, pieces = divided(read(path))
            self.pieces[name] = (doc, header, pieces)
            spec = self.splits.get(name, {})
            homes = {}
            defined = {one for piece in pieces for one in piece.names}
            for target, wanted in spec.items():
                for one in wanted:
                    if one not in defined:
                        print(f"GONE: {name} has no {one!r} (any more), which was to move to {target}")
                        continue
                    homes[one] = target
            default = self.modules[name]
            open_ = []
            for piece in pieces:
                chosen = {homes[one] for one in piece.names if one in homes}
                if len(chosen) > 1:
                    fail(f"{name}: {piece.names} would go to {chosen}")
                if chosen:
                    piece.home = chosen.pop()
                elif spec and piece.names and all(
                    one.startswith("_") or (len(one) > 2 and one.isupper()) for one in piece.names
                ):
                    open_.append(piece)  # private names and constants follow those who use them
                else:
                    piece.home = default
            changed = True
            while changed and open_:
                changed = False
                for piece in list(open_):
                    users = [other for other in pieces if other is not piece and {*piece.names} & other.uses]
                    if any(not other.home for other in users):
                        continue
                    found = {other.home for other in users}
                    if len(found) <= 1:
                        piece.home = found.pop() if found else default
                    elif default in found:
                        piece.home = default
                    else:
                        piece.home = sorted(found)[0]
                    open_.remove(piece)
                    changed = True
            for piece in open_:
                piece.home = default
            taken = {one for piece in pieces for one in piece.names} | {
                n.id for piece in pieces for n in ast.walk(piece.node) if isinstance(n, ast.Name)
            } | {n.arg for piece in pieces for n in ast.walk(piece.node) if isinstance(n, ast.arg)}
            for piece in pieces:
                for other in pieces:
                    if other.home != piece.home:
                        for one in sorted({*other.names} & piece.uses):
                            if one.startswith("_") and (name, one) not in self.public:
                                if one.lstrip("_") in taken:
                                    fail(
                                        f"{name}: {piece.names} ({piece.home}) uses {one} ({other.home}); "
                                        "say where it goes (SPLITS), or what it is called (PUBLIC)"
                                    )
                                self.public[name, one] = one.lstrip("_")
                                self.auto.append((name, one, other.home))
            for piece in pieces:
                for one in piece.names:
                    new = self.public.get((name, one), one)
                    self.symbols[name, one] = (piece.home, new)

    def targets(self, name):
        found = [self.modules[name]]
        for piece in self.pieces[name][2]:
            if piece.home not in found:
                found.append(piece.home)
        return found

    # -- files --------------------------------------------------------------------------------------------

    def path_of(self, module, packages):
        below = module.replace(".", "/")
        return self.root / "splitter" / (f"{below}/__init__.py" if module in packages else f"{below}.py")

    def build(self, packages, docs, git):
        """Move and split; imports are still the old ones. Returns old module of each new file."""
        contents = {}
        first = [one for one in self.first if one in self.old]
        for name in [*first, *(one for one in self.old if one not in first)]:
            path = self.old[name]
            text = read(path)
            targets = self.targets(name)
            doc, header, pieces = self.pieces[name]
            if len(targets) == 1 and not any((name, one) in self.public for p in pieces for one in p.names):
                contents.setdefault(targets[0], []).append((name, doc, None, text))
                continue
            for target in targets:
                mine = [piece for piece in pieces if piece.home == target]
                used = set().union(*(piece.uses for piece in mine)) if mine else set()
                own = {one for piece in mine for one in piece.names}
                others = sorted(
                    one for piece in pieces if piece.home != target for one in piece.names if one in used - own
                )
                body = "".join(piece.text for piece in mine)
                head = "".join(header)
                if others:
                    head += f"\nfrom splitter.{name} import {', '.join(others)}\n"
                for (module, one), new in self.public.items():
                    if module == name and one in own:
                        body = rename_tokens(body, one, new)
                contents.setdefault(target, []).append((name, doc if target == self.modules[name] else "", head, body))
        self.contents = contents
        moved = {}
        for name, path in self.old.items():
            new = self.path_of(self.modules[name], packages)
            if new != path:
                new.parent.mkdir(parents=True, exist_ok=True)
                moved[path] = new
        # two steps, as a name may be another's old one
        taken = set()
        for number, (path, new) in enumerate(moved.items()):
            git("mv", str(path), str(path.with_name(f"moving_{number}")))
        for number, (path, new) in enumerate(moved.items()):
            if new in taken or new.exists():
                # merged into another
                git("rm", "-q", "-f", str(path.with_name(f"moving_{number}")))
                continue
            taken.add(new)
            git("mv", str(path.with_name(f"moving_{number}")), str(new))
        for target, sources in contents.items():
            if len(sources) == 1 and sources[0][2] is None:
                continue
            write(self.path_of(target, packages), self._joined(target, sources, docs))
        for package in packages:
            path = self.path_of(package, packages)
            if not path.exists():
                write(path, "")

    def _joined(self, target, sources, docs):
        doc = docs.get(target)
        plain = [one for one in sources if one[1]]
        if doc is None and plain:
            doc = plain[0][1]
        if doc is None:
            fail(f"{target}: needs a docstring in DOCS")
        doc = doc if doc.lstrip().startswith(('"""', "r\"\"\"")) else f'"""{doc}"""\n'
        heads, bodies = [], []
        for name, _, head, text in sources:
            if head is None:
                _, header, pieces = divided(text)
                head, text = "".join(header), "".join(piece.text for piece in pieces)
            heads.append(head)
            bodies.append(text.strip("\n"))
        return f"{doc.rstrip()}\n\n{''.join(heads)}\n\n" + "\n\n\n".join(filter(None, bodies)) + "\n"

    # -- imports ------------------------------------------------------------------------------------------

    def lookup(self, module, name):
        """Where `from splitter.<module> import <name>` finds it now: (new module, new name) or a module."""
        full = f"{module}.{name}" if module else name
        if not module and name in self.api:
            # the public names are where they were
            return "", name
        if (module, name) in self.symbols:
            return self.symbols[module, name]
        if full in self.modules:
            return self.modules[full], None
        if module in self.modules:
            # what it imports itself, or __init__'s
            return self.modules[module] if module else "", name
        if not module:
            return "", name
        return None

    def dotted(self, chain):
        """`.a.b.c` after `splitter` -> the same after the moves."""
        parts = chain.strip(".").split(".")
        for count in range(len(parts), 0, -1):
            module = ".".join(parts[:count])
            if module in self.modules and module not in ("__init__", "__main__"):
                if count < len(parts):
                    if (module, parts[count]) in self.symbols:
                        new, name = self.symbols[module, parts[count]]
                        return "." + ".".join([new, name, *parts[count + 1 :]])
                    if module in self.same_api or module == "recipes":
                        return "." + ".".join(parts)
                    # what it imports is patched where it is used
                    return "." + ".".join([self._used_in(module, parts[count]), *parts[count:]])
                elif module in self.same_api:
                    return chain
                return "." + ".".join([self.modules[module], *parts[count:]])
        return chain

    def rewrite_text(self, text):
        """Dotted names and paths in text of any kind."""

        def from_import(match):
            module, names = match[2] or "", [one.strip() for one in match[3].split(",")]
            found = [self.lookup(module.lstrip("."), one.split(" as ")[0]) for one in names if one]
            if None in found or len({one[0].rpartition(".")[0] if one[1] is None else one[0] for one in found}) != 1:
                return match[0]
            if all(one[1] is None for one in found):
                package = found[0][0].rpartition(".")[0]
                new = [f"{one[0].rpartition('.')[2]}" for one in found]
                new = [
                    a if a == b.split(" as ")[-1] else f"{a} as {b.split(' as ')[-1]}" for a, b in zip(new, names)
                ]
                return f"from splitter{'.' + package if package else ''} import {', '.join(new)}"
            if any(one[1] is None for one in found):
                return match[0]
            new = [
                one.replace(one.split(" as ")[0], where[1], 1) for one, where in zip(names, found)
            ]
            return f"from splitter{'.' + found[0][0] if found[0][0] else ''} import {', '.join(new)}"

        text = re.sub(r"from (splitter)((?:\.\w+)*) import ((?:\w+(?: as \w+)?, )*\w+(?: as \w+)?)", from_import, text)
        spared = []

        def spare(match):
            spared.append(match[0])
            return f"\0{len(spared) - 1}\0"

        text = re.sub(r"from splitter(?:\.\w+)* import (?:(?:\w+(?: as \w+)?, )*\w+(?: as \w+)?)", spare, text)
        def chain(match):
            if match[2] and match[1].count(".") == 1:
                # `splitter.run(...)`: a public name
                return match[0]
            return f"splitter{self.dotted(match[1])}{match[2]}"

        text = re.sub(r"(?<![\w./-])splitter((?:\.[a-zA-Z_]\w*)+)(?![\w/-]|\.\w)(\(?)", chain, text)

        def path(match):
            module = match[1].replace("/", ".")
            if module in self.modules and module not in ("__init__", "__main__"):
                return f"splitter/{self.modules[module].replace('.', '/')}.py"
            return match[0]

        text = re.sub(r"splitter/([a-z_0-9/]+)\.py\b", path, text)
        return re.sub(r"\0(\d+)\0", lambda m: spared[int(m[1])], text)

    def rewrite_python(self, text, own=None):
        """All imports of splitter in a Python file, and what else names its modules."""
        if "splitter" not in text:
            return text
        tree = ast.parse(text)
        lines = text.splitlines(keepends=True)
        jobs = []  # (start line, end line, indent, replacement)
        renames = []  # module objects: old binding -> by attribute
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "splitter":
                jobs.append((node.lineno, node.end_lineno, *self._import_from(node, lines, own, renames)))
            elif isinstance(node, ast.Import) and any(a.name.startswith("splitter.") for a in node.names):
                new = []
                for alias in node.names:
                    name = "splitter" + self.dotted(alias.name.removeprefix("splitter")) if alias.name.startswith("splitter.") else alias.name
                    new.append(f"{name} as {alias.asname}" if alias.asname else name)
                raw = lines[node.lineno - 1]
                indent = raw[: len(raw) - len(raw.lstrip())]
                comment = _comment(lines[node.end_lineno - 1])
                jobs.append((node.lineno, node.end_lineno, indent, [f"import {', '.join(new)}{comment}"]))
        # imports out of the way, the rest of the text, imports back
        parked = {}
        for number, (start, end, indent, new) in enumerate(sorted(jobs, reverse=True)):
            mark = f"{indent}__import_{number}__\n"
            parked[mark.strip()] = (indent, new)
            lines[start - 1 : end] = [mark]
        text = self.rewrite_text("".join(lines))
        lines = text.splitlines(keepends=True)
        out = []
        for line in lines:
            found = parked.get(line.strip())
            if found:
                out += [f"{found[0]}{one}\n" for one in found[1]]
            else:
                out.append(line)
        text = "".join(out)
        for binding, module, fixed in renames:
            text = self._rename_module(text, binding, module, fixed)
        return text

    def _import_from(self, node, lines, own, renames):
        raw = lines[node.lineno - 1]
        indent = raw[: len(raw) - len(raw.lstrip())]
        comment = _comment(lines[node.end_lineno - 1])
        module = (node.module or "").removeprefix("splitter").lstrip(".")
        groups = {}
        for alias in node.names:
            if alias.name == "*":
                groups.setdefault(self.modules.get(module, module), []).append("*")
                continue
            found = self.lookup(module, alias.name)
            if found is None:
                fail(f"cannot follow: {ast.unparse(node)}")
            new, name = found
            if name is None:
                package, _, base = new.rpartition(".")
                binding = alias.asname or alias.name
                full = f"{module}.{alias.name}".lstrip(".")
                if alias.asname:
                    renames.append((binding, full, True))
                    groups.setdefault(package, []).append(base + (f" as {binding}" if binding != base else ""))
                else:
                    renames.append((binding, full, False))
                    groups.setdefault(package, []).append(base if binding == base else f"{base} as __{binding}__")
                continue
            if own is not None and new == own and name in self._defined_in(own):
                if alias.asname and alias.asname != name:
                    fail(f"{own}: imports {name} as {alias.asname} from itself now")
                continue
            shown = name
            if alias.asname:
                shown = f"{name} as {alias.asname}"
            elif name != alias.name:
                shown = f"{name} as __{alias.name}__"
                renames.append((alias.name, (None, name), False))
            groups.setdefault(new, []).append(shown)
        made = [
            f"from splitter{'.' + target if target else ''} import {', '.join(names)}{comment}"
            if not comment
            else f"from splitter{'.' + target if target else ''} import {', '.join(names)}{comment}"
            for target, names in groups.items()
        ]
        return indent, made or ["pass"]

    def _defined_in(self, target):
        return {new for (_, _), (where, new) in self.symbols.items() if where == target}

    def _used_in(self, module, name):
        """The new module of a name: where it is defined, or else where what was imported is used."""
        if (module, name) in self.symbols:
            return self.symbols[module, name][0]
        found = {piece.home for piece in self.pieces[module][2] if name in piece.uses}
        if len(found) > 1:
            print(f"LOOK AT {module}.{name}: it is used in {sorted(found)}")
        return found.pop() if len(found) == 1 else self.modules[module]

    def _rename_module(self, text, binding, module, fixed):
        """Uses of a module object, or of a symbol with a new name."""
        if isinstance(module, tuple):
            text = text.replace(f"{module[1]} as __{binding}__", module[1])
            return rename_tokens(text, binding, module[1])
        new_module = self.modules[module]
        base = new_module.rpartition(".")[2]
        tree = ast.parse(text)
        bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
            a.arg for n in ast.walk(tree) if isinstance(n, ast.arguments) for a in [*n.args, *n.kwonlyargs]
        }
        spots, extra = {}, set()
        for node in ast.walk(tree):
            where = None
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == binding:
                where = self._used_in(module, node.attr)
                spot = (node.value.lineno, node.value.col_offset)
            elif (
                isinstance(node, ast.Call)
                and len(node.args) > 1
                and isinstance(node.args[0], ast.Name)
                and node.args[0].id == binding
                and isinstance(node.args[1], ast.Constant)
            ):
                where = self._used_in(module, node.args[1].value)
                spot = (node.args[0].lineno, node.args[0].col_offset)
            if where:
                spots[spot] = where
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == binding:
                spots.setdefault((node.lineno, node.col_offset), new_module)
        names = {}
        for where in {*spots.values(), new_module}:
            name = where.rpartition(".")[2]
            keeps = where == new_module and fixed
            names[where] = binding if keeps or (name != binding and name in bound) else name
            if where != new_module:
                extra.add(where)
        if len(set(names.values())) < len(names):
            fail(f"two modules of one name: {names}")
        for spot, where in sorted(spots.items(), reverse=True):
            text = replaced_at(text, [spot], binding, names[where])
        used = {*spots.values()}
        more = ""
        package = lambda m: "splitter" + (f".{m.rpartition('.')[0]}" if "." in m else "")  # noqa: E731
        for where in sorted(extra):
            more += f"from {package(where)} import {where.rpartition('.')[2]}\n"
        own = f"{base} as __{binding}__"
        if own in text:
            if new_module in used or not spots:
                text = text.replace(own, base if names[new_module] == base else f"{base} as {binding}")
            else:
                # only others are used
                text = re.sub(rf"^from [\w.]+ import {re.escape(own)}\n", more, text, flags=re.M)
                more = ""
                text = text.replace(f"{own}, ", "").replace(f", {own}", "")
        if more:
            line = next(i for i, l in enumerate(text.splitlines()) if re.match(r"(from|import) ", l))
            parts = text.splitlines(keepends=True)
            text = "".join([*parts[:line], more, *parts[line:]])
        return text


def _comment(line):
    match = re.search(r"  (#.*)$", line.rstrip("\n"))
    return f"  {match[1]}" if match else ""
