#!/usr/bin/env python3
"""Writes cases.json: templates and what Python's Jinja2 makes of them, with the settings that chat templates are written for.

Needs jinja2 (Debian: python3-jinja2, version 3.1.2 was used). Run it in this folder.
"""
import json
from datetime import datetime
from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %} … {% endgeneration %}, which marks what the assistant says and changes no text."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise TemplateError("raised: " + message)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime(2026, 3, 7, 9, 5, 2).strftime(f)

variables = {
    "messages": [
        {"role": "system", "content": " Be brief. "},
        {"role": "user", "content": "Hi <you> & \"me\" é😀"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1, "a": [1.5, None, True]}}}]},
        {"role": "tool", "content": "{\"t\": 12}"},
    ],
    "s": "The quick  brown\tfox\njumps", "n": 7, "f": 2.5, "big": 1e20, "t": True, "nothing": None, "empty": "", "l": [3, 1, 2],
    "names": ["b", "A", "c"], "d": {"z": 1, "a": {"k": [1, 2]}, "items": "shadow"}, "bos_token": "<s>", "quote": "it's \"x\"",
    "people": [{"n": "x", "age": 3}, {"n": "y", "age": 1}, {"n": "z"}], "uni": "straße ÉÈ ǅ",
}

templates = []


def case(*sources):
    templates.extend(sources)


def out(*expressions):
    templates.extend("{{ " + e + " }}" for e in expressions)


# White space: trim_blocks, lstrip_blocks, signs, comments, raw, line ends.
case("a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}  \n  b\n  {% endif %}  \nc", "x {%- if t -%}  y  {%- endif -%} z", "x\n\n{%- if t %}\n\ny{% endif %}",
     "a  {% if t %} b{% endif %}", "  {%+ if t %}b{% endif %}", "{% if t +%}\nb{% endif %}", "a {# c #}\nb", "  {# c #}\nb", "a {#- c -#} b", "{# {{ x }} {% if %} #}z",
     "{% raw %}{{ x }} {% if %}{% endraw %}", "  {% raw -%}  {{ x }}  {%- endraw %}\n y", "{{ 'a' }}\n{{ 'b' }}\n\n", "{{- 'a' -}}\n {{- 'b' }}", "a\r\nb\rc\n", "\n{% if t %}\n{% endif %}\nx",
     "{% set x = 1 %}\n\n{{ x }}", "   {{ 'a' }}", "\t{% set x = 1 %}{{ x }}", "a\n \t{%- set x = 1 -%}\n b", "{{ '{% x %}' }}{{ \"}}\" }}", "{{ {'a': {'b': 1}}.a.b }}", "a{% if t %}{# c #}\n\nb{% endif %}",
     "{% for i in l %}\n  {{ i }}\n{% endfor %}\nend", "{% for i in l -%}\n  {{ i }}\n{%- endfor %}", "x{{ 1 }}  {% if t %}y{% endif %}", "\u00a0{% if t %}y{% endif %}")
# Literals, operators, precedence.
out("1", "1.0", "1e3", "1_000", "1.5e-7", "1e16", "123456789012345678", "0.1 + 0.2", "'a' 'b'", "'a\\n\\t\\\\\\'\\x41\\u00e9\\q'", "[1, 'a', none, true, 2.0, [], {}]", "(1,)", "()", "(1, 2)", "{'a': 1, 2: 'b'}",
    "1 + 2 * 3", "(1 + 2) * 3", "7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 / 2", "6 / 2", "2 ** 3", "2 ** -1", "2 ** 3 ** 2", "7.5 // 2", "-7.5 % 2", "'a' ~ 1 ~ none", "'a' + 'b' * 2", "1 ~ 2 + 3", "1 + 2 ~ 3", "-2 ** 2", "- 3 | abs",
    "not true", "not 0 == 1", "1 < 2 < 3", "1 < 3 < 2", "1 == 1.0", "true == 1", "'1' == 1", "none == false", "'a' < 'b'", "[1, 2] < [1, 3]", "1 in l", "'qu' in s", "'z' in d", "9 not in l", "not 9 in l", "'x' in undefined_name",
    "1 if t else 2", "1 if not t", "1 if empty else 2 if nothing else 3", "empty or 'x'", "0 and 1", "nothing or false", "t and 'y'", "l and 0 or 5", "[1, 2] + [3]", "'%' ", "3 * 'ab'", "true + 1", "[1,2] == [1,2]", "(1,2) == [1,2]", "{'a':1} == {'a':1.0}",
    "1 / 0", "'a' + 1", "1 + none", "l + 'x'", "-'a'", "'a' < 1", "undefined_name + 'x'", "'x' ~ undefined_name", "7 // 0", "n.x", "n.x.y", "99999999999 * 99999999")
# Access.
out("messages[0].role", "messages[0]['content']", "messages[-1].role", "messages[9]", "messages[9].role", "d.z", "d['items']", "d.items()", "d.keys() | list", "d.values() | list", "d.get('z')", "d.get('q')", "d.get('q', 5)", "d.a.k[1]", "d.q", "d.q.r",
    "s[0]", "s[-1]", "s[4:9]", "s[::-1]", "s[:3]", "s[-3:]", "l[::2]", "l[::-1]", "l[1:]", "l[5:]", "l[:-1]", "l[2:0:-1]", "messages[1:][0].role", "undefined_name", "undefined_name.x", "undefined_name[0]", "nothing.x", "nothing[0]", "l.0", "loop", "uni[4]", "'abc'[1:2]", "l[0:none]", "s[100]")
# Methods of strings and lists.
out("' a b '.strip()", "'xxaxx'.strip('x')", "'abc'.lstrip('ab')", "'abc'.rstrip('bc')", "s.split()", "s.split(' ')", "'a,b,c'.split(',', 1)", "' a b  c '.split(none, 1)", "'a,b,c'.rsplit(',', 1)", "'a\\nb\\r\\nc\\n'.splitlines()", "'-'.join(names)", "'-'.join([1])",
    "s.replace('quick', 'slow')", "'aaa'.replace('a', 'b', 2)", "'ab'.replace('', '-')", "s.upper()", "s.lower()", "'hELLO wORLD'.title()", "'hELLO'.capitalize()", "'they\\'re'.title()", "'abc'.startswith('ab')", "'abc'.endswith(('x', 'bc'))", "'abc'.find('c')", "'éa'.find('a')", "'abc'.find('z')", "'banana'.count('an')",
    "'banana'.rfind('an')", "'12'.isdigit()", "''.isdigit()", "'ab'.isalpha()", "'a1'.isalnum()", "' \\t'.isspace()", "'AB'.isupper()", "'aB'.islower()", "'abc'.removeprefix('a')", "'abc'.removesuffix('c')", "l.index(2)", "l.count(2)", "l.append(4)", "d.pop('z')", "d.update({})", "'a'.__class__", "s.nothing", "s.nothing()", "'</think>a</think>b'.split('</think>')[-1].lstrip('\\n')", "uni.upper()", "uni.capitalize()", "'a b'.split(sep=' ')", "''.split(',')", "''.split()")
# Filters.
out("s | length", "messages | length", "d | length", "undefined_name | length", "n | length", "s | trim | upper", "' x '|trim", "'xax' | trim('x')", "nothing | trim", "undefined_name | default('q')", "undefined_name | d", "empty | default('q')", "empty | default('q', true)", "nothing | default('q')", "nothing | default('q', boolean=true)",
    "l | first", "l | last", "[] | first", "l | sort", "names | sort", "names | sort(case_sensitive=true)", "l | sort(reverse=true)", "people[:2] | sort(attribute='age') | map(attribute='n') | list", "l | max", "l | min", "names | max", "[] | max", "l | sum", "people[:2] | sum(attribute='age')", "[[1],[2]] | sum(start=[])",
    "names | join", "names | join(', ')", "l | join('-')", "people | join(',', attribute='n')", "names | map('upper') | list", "people | map(attribute='age', default=0) | list", "people | map(attribute='age') | list", "people | selectattr('age') | list | length", "people | selectattr('age', 'defined') | list | length", "people | selectattr('n', 'equalto', 'x') | list",
    "people | rejectattr('age', 'defined') | map(attribute='n') | list", "l | select('odd') | list", "l | reject('gt', 1) | list", "[0, 1, '', 'a'] | select | list", "l | reverse | list", "'abc' | reverse", "l | list", "'abc' | list", "d | list", "[1, 1.0, true, 2, 'A', 'a'] | unique | list",
    "'5' | int", "'x' | int", "'x' | int(-1)", "'5.9' | int", "5.9 | int", "'2.5' | float", "'x' | float", "'ff' | int(0, 16)", "2.567 | round(2)", "2.5 | round", "3.5 | round", "2.1 | round(method='ceil')", "2.9 | round(0, 'floor')", "-3 | abs", "'a' | string", "5 | string", "[1] | string", "l | tojson", "quote | tojson", "uni | tojson",
    "'<a href=\"x\">&\\'' | escape", "'<b>' | e", "'<b>' | safe", "'hELLO' | capitalize", "'hello world' | title", "'a\\nb\\n\\nc' | indent", "'a\\nb' | indent(2)", "'a\\nb' | indent(2, true)", "'a\\n\\nb' | indent(2, blank=true)", "'a b c' | wordcount", "'aXbX' | replace('X', '-')", "'aXbX' | replace('X', '-', 1)", "d | items | list", "{'b': 1, 'a': 2} | dictsort", "{'b': 1, 'a': 2} | dictsort(by='value')",
    "messages[0] | attr('role')", "messages[2] | tojson", "messages[2] | tojson(indent=2)", "{} | tojson(indent=2)", "[] | tojson(indent=4)", "[1, [2, {}]] | tojson(indent=1)", "{'b': 1, 'a': 2} | tojson(sort_keys=true)", "d | tojson(separators=(',', ':'))", "[1e20, 0.1, 1e-7, 3.0, -0.0] | tojson", "'\\u0001\\u007f\\u2028' | tojson", "'é😀' | tojson(ensure_ascii=true)", "none | tojson", "undefined_name | tojson", "{1: 2, true: 3, none: 4} | tojson", "s | nofilter", "nothing | string", "s | upper | lower | length")
# Tests.
out("s is string", "n is number", "n is string", "t is number", "t is boolean", "nothing is none", "undefined_name is defined", "undefined_name is undefined", "n is defined", "d is mapping", "l is mapping", "l is iterable", "s is iterable", "n is iterable", "l is sequence", "d is sequence", "n is odd", "n is even", "n is divisibleby 7", "n is divisibleby(2)", "t is true", "1 is true", "f is float", "n is integer", "t is integer",
    "n is eq 7", "n is not eq 7", "n is in [7]", "n is not in [7]", "1 is lessthan 2", "n is sameas 7", "'a' is lower", "'A' is upper", "not n is defined", "n is defined and s is defined", "1 if n is defined else 2", "messages[0].x is defined", "messages[0].x is not defined", "n is nosuch", "raise_exception is callable", "n is gt 3", "(n is ge 3) and true")
# Statements.
case("{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if n < 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if undefined_name %}a{% else %}c{% endif %}", "{% for i in l %}{{ loop.index }}/{{ loop.length }}:{{ i }}{% if not loop.last %},{% endif %}{% endfor %}",
     "{% for i in [] %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'abc' %}{{ loop.revindex }}{{ c }}{% endfor %}", "{% for i in range(3) %}{{ loop.previtem }}{{ i }}{{ loop.nextitem }};{% endfor %}", "{% for i in range(10) if i is odd %}{{ i }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }} {% endfor %}",
     "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(2) %}{% for j in range(2) %}{{ loop.index }}{% if j %}{% break %}{% endif %}{% endfor %}{{ loop.index }}{% endfor %}", "{% for i in range(4) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1,1,2,2,1] %}{{ loop.changed(i) }} {% endfor %}",
     "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}", "{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}", "{% set x | upper | trim %} ab {% endset %}[{{ x }}]", "{% if true %}{% set x = 5 %}{% endif %}{{ x }}", "{% set x = 5 if false %}{{ x is defined }}",
     "{% set d2 = dict(a=1, b=2) %}{{ d2 }}", "{% set n.x = 1 %}", "{% set messages = messages[1:] %}{{ messages | length }}", "{% macro m(a, b=2) %}{{ a }}-{{ b }}-{{ varargs }}-{{ kwargs }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, 3, 4, c=5) }} {{ m(b=1, a=9) }} {{ m() }}", "{% macro m(x) %}{{ x }}{{ n }}{{ caller() }}{% endmacro %}{% call m('q') %}inner {{ n }}{% endcall %}",
     "{% macro m() %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) m() %}<{{ i }}>{% endcall %}", "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{% set q = 2 %}{{ m() }}", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% filter upper %}abc {{ n }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}",
     "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x }}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}", "{% generation %}a{{ n }}{% endgeneration %}", "{% for item in [1, [2, [3]]] recursive %}{% if item is iterable %}({{ loop(item) }}){{ loop.depth }}{% else %}{{ item }}{% endif %}{% endfor %}", "{{ raise_exception('no ' ~ n) }}", "{{ strftime_now('%d %b %Y') }} {{ strftime_now('%A %B %-d, %H:%M:%S %p %j %y %%') }}", "{% for i in n %}{% endfor %}",
     "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{{ range(3) | list }}{{ range(1, 4) | list }}{{ range(5, 0, -2) | list }}", "{{ namespace(a=1).a }}", "{{ messages | map(attribute='role') | list }}", "{% if 'tool_calls' in messages[2] and messages[2].tool_calls %}y{% endif %}", "{{ messages[2].tool_calls[0].function.arguments | tojson }}", "{% set x = [] %}{% set x = x + [1] %}{% set x = x + ['b'] %}{{ x }}",
     "{{ quote }}{{ [quote] }}{{ ['a\\nb\\\\', '\\x01é'] }}", "{{ f }} {{ big }} {{ 3.0 }} {{ 1e-5 }} {{ 123456.789 }} {{ -0.0 }} {{ 1e22 }}", "{% set x = namespace() %}{% set x.y = [1] %}{{ x.y }}", "{{ bos_token + 'a' if messages[0].role == 'system' else 'b' }}", "{% for m in messages if m.role != 'system' %}{{ m.role }}{% if loop.first %}!{% endif %}{% endfor %}", "{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}", "{% set i = namespace(x=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set i.x = loop.index0 %}{% endif %}{% endfor %}{{ i.x }}",
     "{%- set ns = namespace(found=false) -%}{%- for m in messages -%}{%- if m['role'] == 'user' -%}{%- set ns.found = true -%}{%- break -%}{%- endif -%}{%- endfor -%}{{ ns.found }}", "{{ (messages | selectattr('role', 'equalto', 'user') | list | first).content }}", "{{ messages | selectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | join('+') }}", "{{ 'a' if }}", "{% if %}{% endif %}", "{% for %}{% endfor %}", "{{ }}", "{{ 1 2 }}", "{% endif %}", "{% if t %}", "{{ 'a }}", "{{ (1 }}", "{# x", "{% set = 1 %}", "{% set true = 1 %}", "{{ a.b. }}", "{% break %}", "{{ f(a=1, 2) }}",
     "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% from 'x' import y %}", "{{ ''.__class__.__mro__ }}", "{{ self }}", "{{ messages.__class__ }}", "{{ cycler }}", "{% set x = 1, 2 %}{{ x }}", "{{ 1, 2 }}", "{% if 1, 2 %}y{% endif %}", "{{ 'a'|upper() }}", "{{ 'abc'|upper|lower() ~ 'x' }}", "{{ [1,2,3][1] }}", "{{ {'a': 1}['a'] }}", "{{ 'x'.upper().lower() }}", "{{ not none and true }}", "{{ none is none and 1 }}", "{{ 1 is defined or 2 }}", "{{ messages[0]['role']|upper ~ ':' }}", "{{ (1, 2)[0] }}", "{{ [] or {} or () or 'last' }}", "{{ -n }}{{ +n }}{{ --n }}")

cases = []
for source in templates:
    entry = {"template": source}
    try:
        entry["output"] = env.from_string(source).render(**variables)
    except Exception as e:  # whatever goes wrong: the template must be refused
        entry["error"] = type(e).__name__ + ": " + str(e)
    cases.append(entry)
with open("cases.json", "w") as f:
    json.dump({"variables": variables, "cases": cases}, f, ensure_ascii=False, indent=1)
    f.write("\n")
print(len(cases), "cases,", sum("error" in c for c in cases), "of them refused")
