"""Grammars and tags made to cost: served or refused in words, by counted work, whatever their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, Matcher

Make = Callable[[Compiler], CompiledGrammar]
X = {"type": "const_string", "value": "x"}
ANY = {"type": "any_text"}


def tag(begin: str, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def triggered(triggers: list[str], begins: list[str]) -> dict[str, Any]:
    return {
        "format": {
            "type": "triggered_tags",
            "triggers": triggers,
            "tags": [tag(begin, X, "</>") for begin in begins],
        }
    }


def doubled(times: int) -> dict[str, Any]:
    spec: dict[str, Any] = ANY
    for _ in range(times):
        spec = {"type": "or", "elements": [spec, spec]}
    return {"format": spec}


def ebnf(text: str) -> Make:
    return lambda compiler: compiler.ebnf(text)


def lark(text: str) -> Make:
    return lambda compiler: compiler.lark(text)


def tags(spec: Any) -> Make:
    return lambda compiler: compiler.structural_tag(spec)


def chain(head: str, link: str, count: int, last: str) -> str:
    return "\n".join([head, *(link.format(i, i + 1) for i in range(count)), last])


SERVED = {
    "1 trigger, 2000 tags": tags(triggered(["<f"], [f"<f{i}>" for i in range(2_000)])),
    "50 triggers": tags(triggered([f"<{i}>" for i in range(50)], [f"<{i}>" for i in range(50)])),
    "2000 exclusions": tags({"format": {**ANY, "excludes": [f"word{i}" for i in range(2_000)]}}),
    "500 ends": tags({"format": tag("<", ANY, [f"</{i}>" for i in range(500)])}),
    "endless bounds": tags(
        {"format": {"type": "repeat", "min": 10**9, "max": 2 * 10**9, "content": tag("<", ANY, ">")}}
    ),
    "endless characters": tags({"format": tag("<", {**ANY, "max_chars": 2**31 - 1}, ">")}),
    "rules doubling": ebnf(chain("root ::= r0", "r{0} ::= r{1} r{1}", 60, 'r60 ::= "a"')),
    "rules doubling or not": ebnf(chain("root ::= r0", 'r{0} ::= r{1} r{1} | "b"', 60, 'r60 ::= "a"')),
    "counts of counts": ebnf('root ::= ("a"{0,1000} "b"?){0,1000}'),
    "stars of stars": ebnf('root ::= (("a"*)*)* (("a"?)+)+ "b"'),
    "ambiguity": lark('start: e\ne: e e | e e e | "a" |'),
    "ambiguity with ignored text": lark('start: e\ne: e e | "a" |\n%ignore /a*/'),
    "templates doubling": lark("start: " + "d{" * 25 + '"a"' + "}" * 25 + "\nd{x}: x x"),
    "counted rules": lark('start: a{1,100000}\na: "a" b{1,1000}\nb: "b" a | "c"'),
    "complements of complements": lark("start: A\nA: " + "~(" * 3_000 + '"a"' + ")" * 3_000),
    "a window before a lazy end": lark('start: a "x"\na[lazy]: /.*a.{24}/s "b"'),
    "an ignored text of each kind": lark("\n".join(f'%ignore "{i}"' for i in range(1_000)) + '\nstart: "a"+'),
    "all substrings": lark('start: %regex {"substring_chars": "' + "ab" * 1_000 + '"}'),
}
REFUSED = {
    "1000 triggers": tags(triggered([f"<{i}>" for i in range(1_000)], [f"<{i}>" for i in range(1_000)])),
    "a trigger of 100000": tags(triggered(["a" * 100_000], ["a" * 100_001])),
    "formats doubling": tags(doubled(16)),
    "formats doubling for ever": tags(doubled(60)),
    "20000 formats": tags({"format": {"type": "sequence", "elements": [X] * 20_000}}),
    "terminals doubling": lark(chain("start: A0", "A{0}: A{1} A{1}", 40, 'A40: "a"')),
    "2000 conjuncts": lark("start: A\nA: " + " & ".join(f"/.*w{i}.*/" for i in range(2000))),
    "a schema nested 50000 deep": lark("start: %json " + '{"items":' * 50_000 + "true" + "}" * 50_000),
    "400000 words": lark('start: "a"\n' + 'b: "c" ' * 400_000),
}


@pytest.mark.parametrize("make", SERVED.values(), ids=SERVED)
def test_served(
    make: Callable[[Compiler], CompiledGrammar],
    bytes_compiler: Compiler,
    allowed_ids: Callable[[Matcher], set[int]],
) -> None:
    matcher = make(bytes_compiler).matcher()
    for step in range(12):
        allowed = sorted(allowed_ids(matcher))
        assert allowed
        assert matcher.accept(allowed[(7 * step) % len(allowed)])
        if matcher.is_complete:
            break
    assert not matcher.failed


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_refused(make: Make, bytes_compiler: Compiler) -> None:
    for _ in range(2):  # the second time out of the cache
        with pytest.raises(InvalidRequest) as caught:
            make(bytes_compiler)
        assert caught.value.param == "grammar"
        assert not isinstance(caught.value, UnsupportedConstraint) or caught.value.keyword
