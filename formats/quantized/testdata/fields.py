"""Prints the keys that packers write to, or read from, quantization configs, by kind of object: {kind: {key: where}}.

The arguments are sources as KIND=FILE:WHAT. WHAT is the name of a class, whose annotated fields and arguments of __init__ are
keys; or a name of an object whose items are assigned or read by constant keys, in square brackets; or (name) of a dictionary.
Sources are parsed, not run."""
import ast, json, sys

found = {}


def add(kind, key, where):
    found.setdefault(kind, {}).setdefault(key, where)


def of_class(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and not "ClassVar" in ast.unparse(item.annotation):
                    yield item.target.id
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    yield from (a.arg for a in item.args.args + item.args.kwonlyargs if a.arg != "self")
            return
    raise SystemExit(f"no class {name}")


def of_items(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == name and isinstance(node.slice, ast.Constant):
            yield node.slice.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == name:
            if node.func.attr in ("get", "pop") and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and ast.unparse(node.args[0]) == name:
            yield node.args[1].value


def of_dict(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and ast.unparse(node.targets[0]) == name:
            yield from (k.value for k in node.value.keys if isinstance(k, ast.Constant))


for source in sys.argv[1:]:
    kind, rest = source.split("=", 1)
    path, what = rest.rsplit(":", 1)
    tree = ast.parse(open(path, encoding="utf-8").read())
    if what.startswith("["):
        keys = list(of_items(tree, what[1:-1]))
    elif what.startswith("("):
        keys = list(of_dict(tree, what[1:-1]))
    else:
        keys = list(of_class(tree, what))
    if not keys:
        raise SystemExit(f"{path} has no {what}")
    for key in keys:
        add(kind, key, f"{path.split('/')[-1]}: {what}")
json.dump(found, sys.stdout, indent=1)
