"""Cycles among the imports that happen at once."""
import ast, sys
from pathlib import Path
root = Path(sys.argv[1]) / "splitter"
def name(p):
    parts = list(p.relative_to(root.parent).with_suffix("").parts)
    if parts[-1] == "__init__": parts.pop()
    return ".".join(parts)
trees = {name(p): ast.parse(p.read_text()) for p in root.rglob("*.py")}
def walk(node):
    for c in ast.iter_child_nodes(node):
        if isinstance(c, ast.If) and "TYPE_CHECKING" in ast.unparse(c.test): continue
        if isinstance(c, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)): continue
        if isinstance(c, ast.ImportFrom) and (c.module or "").startswith("splitter"):
            for a in c.names:
                full = f"{c.module}.{a.name}"
                yield full if full in trees else c.module
        elif isinstance(c, ast.Import):
            yield from (a.name for a in c.names if a.name in trees)
        yield from walk(c)
graph = {m: {t for t in walk(t_) if t in trees and t != m} for m, t_ in trees.items()}
seen, stack, found = {}, [], []
def visit(m):
    seen[m] = 1; stack.append(m)
    for n in sorted(graph[m]):
        if seen.get(n) == 1:
            cycle = stack[stack.index(n):] + [n]
            # a package that gathers its own modules is no cycle
            if not all(x.startswith(n) or n.startswith(x) for x in cycle): found.append(cycle)
        elif n not in seen: visit(n)
    stack.pop(); seen[m] = 2
sys.setrecursionlimit(10000)
for m in sorted(graph):
    if m not in seen: visit(m)
for c in found: print("CYCLE:", " -> ".join(c))
