import ast, sys
from pathlib import Path
root = Path(sys.argv[1])/"splitter"
ORDER = "errors records text options system stores archives storage ledger inputs outputs annotations audio sinks dataset recipes worker executors verification engine forecast report tar __init__ cli __main__".split()
def name(p):
    parts = list(p.relative_to(root).with_suffix("").parts)
    if parts[-1]=="__init__" and len(parts)>1: parts.pop()
    return ".".join(parts)
mods = {name(p): ast.parse(p.read_text()) for p in root.rglob("*.py")}
def room(m): return m.split(".")[0] if m else "__init__"
def walk(node, tc=False, deep=False):
    for c in ast.iter_child_nodes(node):
        t = tc or (isinstance(c, ast.If) and "TYPE_CHECKING" in ast.unparse(c.test))
        d = deep or isinstance(c,(ast.FunctionDef,ast.AsyncFunctionDef,ast.Lambda))
        if isinstance(c, ast.ImportFrom) and (c.module or "").split(".")[0]=="splitter":
            m = c.module.removeprefix("splitter").lstrip(".")
            for a in c.names:
                full = f"{m}.{a.name}".lstrip(".")
                yield (full if full in mods else m or "__init__"), a.name, t, d
        elif isinstance(c, ast.Import):
            for a in c.names:
                if a.name.startswith("splitter"):
                    yield a.name.removeprefix("splitter").lstrip(".") or "__init__", "", t, d
        yield from walk(c, t, d)
bad={}
for m, tree in sorted(mods.items()):
    for target, nm, t, d in walk(tree):
        a, b = room(m), room(target)
        if a!=b and ORDER.index(b) > ORDER.index(a):
            bad.setdefault((a,b),[]).append(f"{m} -> {target}.{nm}" + (" TYPE" if t else " DEEP" if d else ""))
for k,v in sorted(bad.items()): print(*k, *v, sep="\n   ")
for p in sorted(root.rglob("*.py")):
    n=len(p.read_text().splitlines())
    if n>450: print(n, p.relative_to(root))
