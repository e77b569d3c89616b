"""Prints 500 generated templates and what Jinja2 makes of them, as compact JSON, with the settings of apply_chat_template."""
import json
import random
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
    x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

variables = {
    "s": "Hello, wörld", "t": "  a b\tc \n", "u": "straße ΣΑΣ ǆ", "e": "", "n": 7, "m": -3, "f": 2.5, "yes": True, "no": False, "nothing": None,
    "l": [3, 1, 2], "w": ["b", "A", "c"], "d": {"x": 1, "y": "z", "k": [1, 2]}, "none": [],
    "ms": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " Yes. "}, {"role": "user", "content": "a\nb"}],
}
rng = random.Random(500)
pick = rng.choice

filters = ["upper", "lower", "title", "capitalize", "trim", "length", "string", "list", "first", "last", "reverse", "sort", "unique", "int",
           "float", "abs", "tojson", "join", "join(', ')", "default('d')", "default('d', true)", "replace('a', 'bb')", "indent", "indent(2, true)",
           "items | list", "dictsort", "sum", "min", "max", "round", "round(1)", "wordcount", "e", "map('upper') | list", "map(attribute='role') | join",
           "select | list", "reject('odd') | list", "selectattr('role', 'equalto', 'user') | list", "tojson(indent=2)", "batch(2) | list", "count"]
methods = ["upper()", "lower()", "title()", "strip()", "lstrip()", "rstrip('c \\n')", "split()", "split(' ')", "split(',', 1)", "rsplit(' ', 1)", "splitlines()",
           "startswith('H')", "endswith('d')", "replace('l', 'L', 1)", "find('w')", "count('l')", "isdigit()", "capitalize()", "join(w)", "casefold()",
           "items() | list", "keys() | list", "values() | list", "get('x')", "get('q', 5)", "index(1)", "swapcase()", "zfill(3)", "removeprefix('He')"]
tests = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "odd", "even", "true", "false",
         "divisibleby(2)", "eq(7)", "lt(3)", "in [1, 2, 7]", "upper", "lower", "callable", "sameas(yes)"]
names = list(variables) + ["missing"]


def atom():
    return pick(names + ["'a'", '"b\\n"', "1", "0", "2.0", "10 ** 3", "true", "none", "[1, 'x']", "(1, 2)", "{'a': 1}", "'%s'", "ms[0].role", "ms[-1]['content']",
                         "d.k[1]", "s[1:3]", "l[::-1]", "s[-1]", "d['q']", "range(3)", "loop.index"])


def expr(depth):
    if depth <= 0 or rng.random() < 0.2:
        return atom()
    kind = rng.randrange(9)
    a = expr(depth - 1)
    if kind == 0:
        return f"{a} | {pick(filters)}"
    if kind == 1:
        return f"{pick(['s', 't', 'u', 'd', 'l', a if a.isidentifier() else '(' + a + ')'])}.{pick(methods)}"
    if kind == 2:
        return f"{a} {pick(['+', '-', '*', '/', '//', '%', '~', '~', '**'])} {expr(depth - 2)}"
    if kind == 3:
        return f"{a} {pick(['==', '!=', '<', '>=', 'in', 'not in'])} {atom()}"
    if kind == 4:
        return f"{a} is {pick(['', 'not '])}{pick(tests)}"
    if kind == 5:
        return f"{a} {pick(['and', 'or'])} {expr(depth - 1)}"
    if kind == 6:
        return f"({a} if {expr(depth - 1)} else {atom()})"
    if kind == 7:
        return f"not {a}"
    return f"({a})"


def block(depth):
    kind = rng.randrange(12 if depth > 0 else 3)
    gap = lambda: pick(["", "-"])
    if kind == 0:
        return pick(["text ", "\n", "  ", "x\n  y", "{# note #}", "{#- note -#}\n", "{% raw %}{{ a }}{% endraw %}"])
    if kind in (1, 2):
        return "{{" + gap() + " " + expr(3) + " " + gap() + "}}"
    body = lambda: "".join(block(depth - 1) for _ in range(rng.randint(1, 2)))
    tag = lambda inside: "{%" + pick(["", "", "-", "+"]) + " " + inside + " " + gap() + "%}" + pick(["", "\n"])
    if kind in (3, 4):
        return tag("if " + expr(2)) + body() + (tag("elif " + expr(1)) + body() if rng.random() < 0.3 else "") + (tag("else") + body() if rng.random() < 0.5 else "") + tag("endif")
    if kind in (5, 6):
        over = pick(["l", "w", "ms", "d", "d.items()", "range(4)", "none", "s", "l | sort", "ms if yes else []"])
        cond = pick(["", "", " if loop is undefined", " if x"])
        inside = pick(["", "{{ loop.index }}{{ ',' if not loop.last }}", "{{ x }}", "{% if loop.first %}{% continue %}{% endif %}", "{% if loop.index0 == 1 %}{% break %}{% endif %}",
                       "{{ loop.previtem is defined }}", "{{ loop.cycle('a', 'b') }}"])
        return tag("for x in " + over + cond) + inside + body() + (tag("else") + "empty" if rng.random() < 0.3 else "") + tag("endfor")
    if kind == 7:
        return tag("set " + pick(["n", "v", "s"]) + " = " + expr(2)) + "{{ v }}"
    if kind == 8:
        return tag("set v" + pick(["", " | upper", " | trim"])) + body() + tag("endset") + "{{ v }}"
    if kind == 9:
        return tag("set o = namespace(a=" + atom() + ")") + tag("for x in l") + "{% set o.a = " + expr(1) + " %}" + tag("endfor") + "{{ o.a }}"
    if kind == 10:
        return tag("macro f(a, b=" + atom() + ")") + "{{ a }}{{ b }}" + body() + tag("endmacro") + "{{ f(" + expr(1) + pick(["", ", b=" + atom(), ", 1"]) + ") }}"
    return tag(pick(["filter upper", "filter trim", "with x = " + atom()])) + body() + "@"


def template():
    while True:
        source = "".join(block(2) for _ in range(rng.randint(1, 3)))
        for opened in ("filter", "with"):  # blocks whose end depends on how they began
            while "@" in source and source.rfind(opened, 0, source.find("@")) >= 0 and source.find("@") >= 0:
                at = source.find("@")
                word = "filter" if source.rfind("filter ", 0, at) > source.rfind("with x", 0, at) else "with"
                source = source[:at] + "{% end" + word + " %}" + source[at + 1:]
        try:
            env.parse(source)
        except jinja2.TemplateError:
            if rng.random() < 0.9:
                continue
        if len(source) < 500:
            return source


def render(source):
    try:
        text = env.from_string(source).render(**variables)
    except Exception:
        return None
    return text


cases = []
while len(cases) < 500:
    source = template()
    text = render(source)
    if text is None and rng.random() < 0.85:  # refusals teach less than what is rendered
        continue
    if text is not None and (len(text) > 2000 or " object at 0x" in text or "<built-in" in text or "<bound" in text or "<function" in text or "<class" in text):
        continue
    cases.append([source, text])
json.dump({"jinja2": jinja2.__version__, "variables": variables, "cases": cases}, sys.stdout, ensure_ascii=False, separators=(",", ":"))
