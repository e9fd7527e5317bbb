import ast, sys
from pathlib import Path
root = Path(sys.argv[1]) / "splitter"
for p in sorted(root.rglob("*.py")):
    t = p.read_text(); n = len(t.splitlines())
    if n > 440:
        print(n, p.relative_to(root))
        for node in ast.parse(t).body:
            name = getattr(node, "name", None) or (ast.unparse(node).split("=")[0][:30] if isinstance(node,(ast.Assign,ast.AnnAssign)) else None)
            if name and node.end_lineno-node.lineno>2: print("     ", node.end_lineno-node.lineno+1, name)
