import ast, sys, re, collections
from pathlib import Path
root = Path(sys.argv[1])/"splitter"
RETIRED = set("again anew apart behind held kept keeper known mend passed place places said settle settled settles standing voice wanted".split())
classes = collections.defaultdict(list)
hits = collections.defaultdict(list)
for p in sorted(root.rglob("*.py")):
    m = ".".join(p.relative_to(root).with_suffix("").parts)
    for n in ast.walk(ast.parse(p.read_text())):
        if isinstance(n, ast.ClassDef): classes[n.name.lstrip("_")].append((m, n.name))
        if isinstance(n,(ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = [w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", n.name)]
            for w in set(words):
                if w in RETIRED: hits[w].append(f"{m}.{n.name}")
for k,v in sorted(classes.items()):
    if len(v)>1: print("TWO CLASSES:", k, v)
for k,v in sorted(hits.items()): print("RETIRED:", k, v)
