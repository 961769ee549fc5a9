"""What a template from a stranger costs: a bounded amount of work, whatever it tries."""

from __future__ import annotations

import pytest

from radixrt.errors import InvalidRequest
from radixrt.text.chat_template import ChatTemplate
from radixrt.text.pieces import Message, TextPiece


def grown(start: str, step: str, end: str = "") -> str:
    """Ninety-nine steps that each make x out of x."""
    loop = "{% for i in range(99) %}{% set n.x = " + step + " %}{% endfor %}"
    return "{% set n = namespace(x=" + start + ") %}" + loop + end


def nested(iterable: str, depth: int, body: str = "") -> str:
    return f"{{% for a in {iterable} %}}" * depth + body + "{% endfor %}" * depth


def macros(count: int) -> str:
    """Macros that each call the one before twice."""
    text = "{% macro a0() %}xx{% endmacro %}"
    for number in range(1, count):
        call = f"{{{{ a{number - 1}() }}}}"
        text += f"{{% macro a{number}() %}}{call}{call}{{% endmacro %}}"
    return text + f"{{{{ a{count - 1}() }}}}"


TEMPLATES = [
    nested("range(99999)", 2),
    nested("range(99999)", 2, "{% if false %}{% endif %}"),
    "{% set x = range(99999)|list %}" + nested("x", 3),
    nested("messages[0].content", 4),
    nested("messages[0].content|list", 4),
    "{% set x = range(90000)|list %}{% for a in [1] recursive %}{{ loop(x) }}{% endfor %}",
    "{{ 'a' * 10**9 }}",
    "{{ ('a' * 99999) * 99999 }}",
    "{{ 'a' * 99999 * 99999 * 99999 }}",
    "{{ [0] * 10**9 }}",
    "{{ 10 ** 99999 }}",
    "{{ 'a'.center(10**9) }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'.zfill(10**9) }}",
    "{{ 'a' | center(10**9) }}",
    "{{ '\\t'.expandtabs(10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '{:>{}}'.format(1, 10**9) }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ 'x' | indent(10**9) }}",
    "{{ [1] | tojson(indent=10**9) }}",
    "{{ 1.5 | round(10**9) }}",
    "{{ strftime_now('%1000000000Y') }}",
    grown("'ab'", "n.x + n.x"),
    grown("'ab'", "n.x ~ n.x"),
    grown("'ab'", "[n.x, n.x]|join"),
    grown("'ab'", "''.join([n.x, n.x])"),
    grown("'ab'", "n.x.replace('a', n.x)"),
    grown("'ab'", "n.x|replace('a', n.x)"),
    grown("'ab'", "'%s%s' % (n.x, n.x)"),
    grown("'ab'", "'%s%s'|format(n.x, n.x)"),
    grown("'ab'", "'{0}{0}'.format(n.x)"),
    grown("[1, 2]", "n.x + n.x"),
    grown("10", "n.x * n.x"),
    grown("[1]", "[n.x, n.x]", "{{ n.x }}"),
    grown("(1,)", "(n.x, n.x)", "{{ n.x|string }}"),
    grown("1", "{'a': n.x, 'b': n.x}", "{{ n.x|tojson }}"),
    grown("1", "namespace(a=n.x, b=n.x)", "{{ n.x }}"),
    grown("1", "dict(a=n.x, b=n.x)", "{{ n.x ~ '' }}"),
    "{% set x = 'ab' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
    macros(60),
    "{% for i in range(99999) %}{% set x %}" + "y" * 200_000 + "{% endset %}{% endfor %}",
    "{% for i in range(99999) %}" + "y" * 200_000 + "{% endfor %}",
]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template[:60])
def test_work_is_bounded(template: str) -> None:
    chat = ChatTemplate(template, variables={}, control_spellings=lambda text: [])
    with pytest.raises(InvalidRequest) as caught:
        chat.render([Message("user", (TextPiece("x" * 2000),))])
    assert caught.value.param == "messages"
