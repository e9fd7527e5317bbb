import ast, sys, re, collections
from pathlib import Path
root = Path(sys.argv[1])/"splitter"
R = {"again","anew","apart","behind","held","kept","keeper","known","mend","passed","place","places","said","settle","settled","settles","standing","voice","wanted","told","asked","heard","hushed"}
W = lambda n: {w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", n)}
out = collections.defaultdict(lambda: collections.Counter())
var = collections.defaultdict(lambda: collections.Counter())
for p in sorted(root.rglob("*.py")):
    m = ".".join(p.relative_to(root).with_suffix("").parts)
    t = ast.parse(p.read_text())
    for c in ast.walk(t):
        if isinstance(c, ast.ClassDef):
            for n in ast.walk(c):
                name=None
                if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id=="self" and isinstance(n.ctx, ast.Store): name=n.attr
                elif isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n in c.body: name=n.target.id
                if name and W(name)&R: out[f"{m}.{c.name}"][name]+=1
    for n in ast.walk(t):
        if isinstance(n, ast.arg) and W(n.arg)&R: var[m][n.arg]+=1
        elif isinstance(n, ast.Name) and W(n.id)&R: var[m][n.id]+=1
for k,v in out.items(): print(k, dict(v))
print()
for k,v in var.items(): print(k, dict(v))
