"""Whether names in strings of tests and docs are there: setattr(module, "x"), "splitter.x.y", programs in text."""
import ast, sys, re, importlib
from pathlib import Path
root = Path(sys.argv[1]); sys.path.insert(0, str(root)); sys.path.insert(0, str(root/"tests"))
import splitter
def resolve(dotted):
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try: m = importlib.import_module(".".join(parts[:n]))
        except ImportError: continue
        for p in parts[n:]:
            if not hasattr(m, p): return False
            m = getattr(m, p)
        return True
    return False
for path in sorted([*root.glob("tests/**/*.py"), *root.glob("docs/*.py"), *root.glob("splitter/**/*.py")]):
    t = ast.parse(path.read_text(errors="surrogateescape"))
    mods = {}
    for n in ast.walk(t):
        if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("splitter"):
            for a in n.names:
                full = f"{n.module}.{a.name}"
                try: mods[a.asname or a.name] = importlib.import_module(full)
                except ImportError:
                    if not resolve(full): print(path, "IMPORT", full)
    for n in ast.walk(t):
        if isinstance(n, ast.Call) and n.args and isinstance(n.args[0], ast.Name) and n.args[0].id in mods and len(n.args)>1 and isinstance(n.args[1], ast.Constant) and isinstance(n.args[1].value, str) and getattr(n.func, "attr", "") in ("setattr","delattr"):
            if not hasattr(mods[n.args[0].id], n.args[1].value): print(path, n.lineno, "SETATTR", n.args[0].id, n.args[1].value)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in mods and not hasattr(mods[n.value.id], n.attr):
            print(path, n.lineno, "ATTR", n.value.id, n.attr)
        if isinstance(n, ast.Attribute) and re.fullmatch(r"splitter(\.\w+)+", ast.unparse(n)) and not resolve(ast.unparse(n)):
            print(path, n.lineno, "CHAIN", ast.unparse(n))
        if isinstance(n, ast.Constant) and isinstance(n.value, str):
            for m in re.finditer(r"(?<![\w./-])(splitter(?:\.[A-Za-z_]\w*)+)(?![\w(])", n.value):
                if not resolve(m[1]) and m[1].split(".")[1] not in ("txt",): print(path, n.lineno, "STRING", m[1])
            for m in re.finditer(r"from (splitter[\w.]*) import ([\w, ]+)", n.value):
                for one in m[2].split(","):
                    one = one.split(" as ")[0].strip()
                    if one and not resolve(f"{m[1]}.{one}"): print(path, n.lineno, "PROGRAM", m[0])
for path in [*root.glob("docs/*.md"), *root.glob("docs/*/*.md"), root/"README.md", root/"docs/notebook.ipynb"]:
    text = path.read_text()
    for m in re.finditer(r"from (splitter[\w.]*) import ([\w, ]+)", text):
        for one in m[2].split(","):
            one = one.split(" as ")[0].strip()
            if one and not resolve(f"{m[1]}.{one}"): print(path, "DOC", m[0])
