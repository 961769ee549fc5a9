"""Structural tags: free text with constrained parts."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import pytest

from radixrt.api import Constraint
from radixrt.errors import InvalidRequest, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import Compiler
from radixrt.grammar.free_text import FreeText
from radixrt.grammar.rx import Pool

Spec = dict[str, Any]


def const(value: str) -> Spec:
    return {"type": "const_string", "value": value}


def tag(begin: Any, content: Spec, end: Any) -> Spec:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def free(*excludes: str, **others: Any) -> Spec:
    return {"type": "any_text", "excludes": list(excludes), **others}


def triggered(triggers: list[str], tags: list[Spec], **others: Any) -> Spec:
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags, **others}


def sequence(*elements: Spec) -> Spec:
    return {"type": "sequence", "elements": list(elements)}


def around(kind: str, content: Spec, **others: Any) -> Spec:
    return {"type": kind, "content": content, **others}


INTEGER: Spec = {"type": "json_schema", "json_schema": {"type": "integer"}}
PAIR: Spec = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "null"}},
    "required": ["a"],
    "additionalProperties": False,
}
MANY: Spec = {"type": "object", "properties": {f"n{i}": True for i in range(30)}}
CALL = triggered(["<f="], [tag("<f=a>", INTEGER, "</f>"), tag("<f=b>", const("x"), ["</f>", "!"])])

CASES: list[tuple[Spec, list[str], list[str]]] = [
    (const("ab"), ["ab"], ["", "a", "abc"]),
    (INTEGER, ["1", "-5"], ["", "1.5", '"1"']),
    ({"type": "json_schema", "json_schema": '{"enum": ["a"]}', "style": "json"}, ['"a"'], ["a"]),
    ({"type": "json_schema", "json_schema": True}, ["[1]", "null"], ["x"]),
    ({"type": "regex", "pattern": "a(b|c)+"}, ["ab", "acb"], ["a"]),
    ({"type": "grammar", "grammar": 'root ::= "(" root ")" | "x"'}, ["((x))"], ["(x"]),
    (free(), ["", "any\nthing é"], []),
    (free("BAD", "no"), ["BA", "n"], ["BAD", "xBADy", "anode"]),
    (free(max_chars=2), ["", "éé"], ["abc"]),
    (sequence(), [""], ["a"]),
    (sequence(const("a"), INTEGER, const("b")), ["a1b"], ["ab", "1b"]),
    (sequence(free(), const("b")), ["b", "abb", "bxb"], ["ba"]),
    (sequence(free("bb"), const("bb")), ["bb", "abb", "babb"], ["bbb", "abbb", "bbxbb"]),
    (sequence(free("aba"), tag("aba", const("1"), "2")), ["aba12", "baba12"], ["abaaba12", "ababa12"]),
    ({"type": "or", "elements": [const("a"), const("ab")]}, ["a", "ab"], ["b"]),
    (around("optional", const("a")), ["", "a"], ["aa"]),
    (around("star", const("ab")), ["", "abab"], ["aba"]),
    (around("plus", const("ab")), ["ab", "abab"], [""]),
    (around("repeat", const("a"), min=1, max=2), ["a", "aa"], ["", "aaa"]),
    (around("repeat", const("a"), min=0, max=-1), ["", "aaaa"], ["b"]),
    (around("repeat", const("a"), min=0, max=0), [""], ["a"]),
    (tag("<t>", free(), "</t>"), ["<t></t>", "<t>a<</t>"], ["<t>", "<t>a</t></t>", "<t>a</t>b"]),
    (tag("<t>", free("</t>"), ["</t>", "</end>"]), ["<t>x</t>", "<t>y</end>"], ["<t>x", "<t>a</t>b</end>"]),
    (tag("(", free(), ["))", ")"]), ["()", "(a)"], ["(a))", "()b)"]),
    (tag("", free(), ["", "."]), ["", "a", "a."], ["a.b", ".."]),
    (tag("<", free(max_chars=3), "aa"), ["<aa", "<baa", "<bbaaa"[:5], "<bbbaa"], ["<bbbbaa", "<aaa"]),
    (tag("<", around("star", free()), ">"), ["<>", "<ab>"], ["<a>b>"]),
    (tag("<", around("plus", sequence(const("-"), free())), ">"), ["<->", "<-a-b>"], ["<>", "<a>", "<->a>"]),
    (tag("<", around("repeat", free(), min=0, max=2), ">"), ["<>", "<abc>"], ["<>a>"]),
    (tag("<", sequence(free(), const("."), free()), ">"), ["<.>", "<a.b.c>"], ["<a>.b>", "<.>a>"]),
    (tag("<", {"type": "or", "elements": [INTEGER, free()]}, ">"), ["<1>", "<x>"], ["<1>>"]),
    (tag("<", tag("[", free(), "]"), ">"), ["<[a>]>"], ["<[a]]>", "<[a]b>"]),
    (
        {"type": "json_schema", "json_schema": PAIR, "any_order": True},
        ['{"a": 1, "b": null}', '{"b": null, "a": 1}', '{"a": 2}'],
        [
            "{}",
            '{"b": null}',
            '{"a": 1, "a": 1}',
            '{"b": null, "a": 1, "b": null}',
            '{"a": null}',
            '{"a": 1, "c": 1}',
        ],
    ),
    (
        {"type": "json_schema", "json_schema": {**PAIR, "additionalProperties": True}, "any_order": True},
        ['{"c": [], "a": 1, "c": 2, "b": null}'],  # undeclared names may repeat where no tracker is
        ['{"c": [], "b": null}', '{"a": 1, "c": 2, "a": 1}'],
    ),
    (CALL, ["", "t", "a<f=a>12</f>b", "<<f=b>x!<f=a>1</f>"], ["<f=", "a<f=a>x</f>", "<f=c>", "<f=a>1</f><f=b>"]),
    ({**CALL, "at_least_one": True}, ["<f=a>1</f>", "<f=b>x! t<f=a>2</f>."], ["", "t", "t<f=a>1</f>"]),
    ({**CALL, "stop_after_first": True}, ["", "t", "t<f=a>1</f>"], ["<f=a>1</f>.", "t<f=a>1</f><f=a>1</f>"]),
    ({**CALL, "at_least_one": True, "stop_after_first": True}, ["<f=b>x</f>"], ["", "t<f=b>x!", "<f=b>x!."]),
    ({**CALL, "excludes": ["no"]}, ["n<f=a>1</f>o"], ["no", "no<f=a>1</f>", "<f=a>1</f> no"]),
    (tag("{", CALL, "}"), ["{}", "{a<f=a>1</f>b}", "{<f=b>x!}"], ["{a", "{}<f=a>1</f>}", "{a}b}"]),
    (tag("{", {**CALL, "stop_after_first": True}, "}"), ["{a}", "{a<f=a>1</f>}"], ["{<f=a>1</f>b}"]),
    (
        triggered(["ab", "b"], [tag("ab1", const("."), ""), tag("b2", const("."), "")]),
        ["ab1.", "ab2.", "cb2."],
        ["b1."],
    ),
    (triggered(["<a", "<ab"], [tag("<ab>", const("1"), "</>")]), ["<ab>1</>"], ["<ab", "<ac>1</>", "<a"]),
    (
        {
            "type": "tags_with_separator",
            "tags": [tag("<", const("1"), ">"), tag("(", free(), ")")],
            "separator": ", ",
        },
        ["", "<1>", "<1>, (a), <1>"],
        ["<1>,<1>", "<1>, ", "(a))"],
    ),
    (
        {
            "type": "tags_with_separator",
            "tags": [tag("<", const("1"), ">")],
            "separator": "",
            "at_least_one": True,
        },
        ["<1>", "<1><1>"],
        [""],
    ),
    (
        {
            "type": "tags_with_separator",
            "tags": [tag("<", const("1"), ">")],
            "separator": ",",
            "stop_after_first": True,
        },
        ["", "<1>"],
        ["<1>,<1>"],
    ),
    ({"type": "dispatch", "rules": [["@", const("X")], ["#", INTEGER]]}, ["", "a@X#1b@X"], ["@", "@Y"]),
    (
        {"type": "dispatch", "rules": [["@", const("X")]], "loop": False, "excludes": ["BLOCK"]},
        ["@X", "free@X", "free"],
        ["@Y", "BLOCK@X", "@X."],
    ),
    (tag("<", {"type": "dispatch", "rules": [["@", free()]], "loop": False}, ">"), ["<>", "<a@b>"], ["<a@>b>"]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: json.dumps(case[0])[:60])
def test_formats(case: tuple[Spec, list[str], list[str]], bytes_compiler: Compiler) -> None:
    spec, good, bad = case
    grammar = bytes_compiler.structural_tag({"type": "structural_tag", "format": spec})
    assert [text for text in good if not grammar.matches(text)] == []
    assert [text for text in bad if grammar.matches(text)] == []


STRUCTURES: Spec = {
    "type": "structural_tag",
    "structures": [
        {"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"},
        {"begin": "<f=b>", "schema": {"type": "object", "properties": {"c": {"type": "null"}}}, "end": "</f>"},
        {"begin": "[[", "schema": '{"const": true}', "end": "]]"},
    ],
    "triggers": ["<f", "[["],
}


def test_the_older_spelling(bytes_compiler: Compiler) -> None:
    for spec in (STRUCTURES, json.dumps(STRUCTURES)):
        grammar = bytes_compiler.structural_tag(spec)
        for text in ("", "text [ <", 'a<f=a>1</f> [<f=b>{"c": null}</f>[[true]]', "[[true]]]"):
            assert grammar.matches(text)
        for text in ("<f", "<f=c>", "[[false]]", "<f=a>1</f", "<f=a>[[true]]</f>"):
            assert not grammar.matches(text)


def test_as_a_constraint(bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.compile(Constraint(kind="structural_tag", source=json.dumps(STRUCTURES)))
    assert grammar is bytes_compiler.structural_tag(json.dumps(STRUCTURES))
    assert grammar.matches("a[[true]]")


@pytest.mark.parametrize(
    ("spec", "pointer", "problem"),
    [
        ({}, "its top", "neither a field 'format'"),
        ([], None, "a dict or JSON text"),
        ("[]", "its top", "expected an object, not an array"),
        ("{", None, "not JSON"),
        ({"type": "json"}, "/type", "expected 'structural_tag'"),
        ({"structures": [], "triggers": ["a"]}, "/structures", "at least one"),
        ({"structures": [{"begin": "a", "end": "b"}], "triggers": ["a"]}, "/structures/0", "'schema' is missing"),
        ({**STRUCTURES, "triggers": []}, "/triggers", "at least one"),
        ({**STRUCTURES, "triggers": ["<f"]}, "/structures/2/begin", "never be opened"),
        ({**STRUCTURES, "triggers": ["<f", "[[", "x"]}, "/triggers", "'x'"),
        ({**STRUCTURES, "triggers": ["<f", "[[", ""]}, "/triggers/2", "empty"),
        ({**STRUCTURES, "triggers": ["<f", 5]}, "/triggers/1", "not an integer"),
        ({"format": 5}, "/format", "not an integer"),
        ({"format": {}}, "/format", "'type' is missing"),
        ({"format": {"type": "const_string"}}, "/format", "'value' is missing"),
        ({"format": {"type": "const_string", "value": None}}, "/format", "'value' is missing"),
        ({"format": {"type": "const_string", "value": 5}}, "/format/value", "expected a string"),
        ({"format": {"type": "json_schema", "json_schema": 5}}, "/format/json_schema", "expected a schema"),
        ({"format": {"type": "json_schema", "json_schema": {"type": 5}}}, "/format/json_schema", "type"),
        ({"format": {"type": "json_schema", "json_schema": "{"}}, "/format/json_schema", "not JSON"),
        ({"format": {"type": "regex", "pattern": "("}}, "/format/pattern", "regular expression"),
        ({"format": {"type": "grammar", "grammar": "x"}}, "/format/grammar", "expected a rule"),
        ({"format": {"type": "or", "elements": []}}, "/format/elements", "at least one"),
        ({"format": {"type": "sequence", "elements": {}}}, "/format/elements", "expected an array"),
        ({"format": sequence(const("a"), {"type": "or"})}, "/format/elements/1", "'elements' is missing"),
        ({"format": around("repeat", const("a"), min=3, max=2)}, "/format/max", "below min"),
        ({"format": around("repeat", const("a"), min=-1, max=2)}, "/format/min", "from 0"),
        ({"format": free(max_chars=-1)}, "/format/max_chars", "from 0"),
        ({"format": free(max_chars=True)}, "/format/max_chars", "expected an integer"),
        ({"format": free("")}, "/format/excludes/0", "empty"),
        ({"format": tag("a", const("b"), [])}, "/format/end", "at least one"),
        ({"format": tag("a", const("b"), 5)}, "/format/end", "expected a string"),
        ({"format": tag({"type": "x"}, const("b"), "c")}, "/format/begin/type", "expected 'token'"),
        ({"format": triggered(["a"], [const("a")])}, "/format/tags/0/type", "expected 'tag'"),
        ({"format": triggered(["a"], [])}, "/format/tags", "at least one"),
        ({"format": triggered(["b", "ab"], [tag("ab", const("c"), "d")])}, "/format/triggers", "trigger 'b'"),
        ({"format": triggered(["abc", "b"], [tag("abc", const("c"), ""), tag("b", const(""), "")])}, None, "never"),
        ({"format": triggered(["ab"], [tag("ab", const("c"), "d")], excludes=["b"])}, None, "never be opened"),
        ({"format": triggered(["a"], [tag("a", const("b"), "c")], at_least_one=1)}, "/format/at_least_one", "true"),
        ({"format": {"type": "dispatch", "rules": [["a"]]}}, "/format/rules/0", "a pair"),
        ({"format": {"type": "dispatch", "rules": []}}, "/format/rules", "at least one"),
        ({"format": {"type": "dispatch", "rules": [["ab", const("")], ["a", const("")]]}}, "/rules/0/0", "never"),
        ({"format": {"type": "token", "token": "<none>"}}, "/format/token", "no token"),
        ({"format": {"type": "token", "token": 999}}, "/format/token", "999 is not"),
        ({"format": {"type": "token", "token": 1.5}}, "/format/token", "its id or its spelling"),
    ],
)
def test_malformed_ones_say_where(spec: Any, pointer: str | None, problem: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.structural_tag(spec)
    assert not isinstance(caught.value, UnsupportedConstraint)
    assert caught.value.param == "grammar"
    assert problem in caught.value.message
    if pointer is not None:
        assert f"{pointer}:" in caught.value.message or f"{pointer})" in caught.value.message


@pytest.mark.parametrize(
    ("spec", "keyword", "location"),
    [
        ({"format": {"type": "nothing"}}, "nothing", "/format/type"),
        ({"format": {"type": "exclude_token", "exclude_tokens": [5]}}, "exclude_token", "/format/type"),
        ({"format": {**const("a"), "odd": 1}}, "odd", "/format/odd"),
        ({"format": const("a"), "structures": []}, "structures", "/structures"),
        ({**STRUCTURES, "x/y": 1}, "x/y", "/x~1y"),
        ({"format": triggered(["a"], [{**tag("a", const("b"), "c"), "odd": 1}])}, "odd", "/format/tags/0/odd"),
        ({"format": free(max_tokens=5)}, "max_tokens", "/format/max_tokens"),
        ({"format": {**INTEGER, "style": "kimi_k3_xml"}}, "style", "/format/style"),
        ({"format": {**INTEGER, "json_schema": MANY, "any_order": True}}, "any_order", "/format/any_order"),
        ({"format": {"type": "regex", "pattern": "(a)\\1"}}, "back-reference", "/format/pattern"),
        (
            {"format": {"type": "json_schema", "json_schema": {"items": {"$ref": "https://example.com/"}}}},
            "$ref",
            "/format/json_schema/items/$ref",
        ),
        ({"format": {"type": "token", "token": 256}}, "token symbol", "/format/token"),
        ({"format": {"type": "any_tokens", "exclude_tokens": [97]}}, "token symbol", "/format/exclude_tokens/0"),
        ({"format": {"type": "any_tokens", "max_tokens": 5}}, "max_tokens", "/format/max_tokens"),
    ],
)
def test_what_is_beyond_the_engine_is_refused_by_name(
    spec: Any, keyword: str, location: str, bytes_compiler: Compiler
) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.structural_tag(spec)
    assert (caught.value.keyword, caught.value.location, caught.value.param) == (keyword, location, "grammar")


@pytest.mark.parametrize(
    "spec",
    [
        tag("a", {"type": "json_schema", "json_schema": False}, "b"),
        sequence(free("a"), const("ab"), const("x"), {"type": "regex", "pattern": "[^\\s\\S]"}),
        tag("<", free("e"), "</e>"),
    ],
)
def test_without_texts_it_is_unsatisfiable(spec: Spec, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsatisfiableConstraint):
        bytes_compiler.structural_tag({"format": spec})


@pytest.mark.parametrize("kind", ["star", "optional", "sequence", "tag"])
def test_nesting_costs_no_more_than_its_depth(kind: str, bytes_compiler: Compiler) -> None:
    spec = free()
    for _ in range(55):
        spec = {
            "star": around("star", spec),
            "optional": around("optional", spec),
            "sequence": sequence(const(""), spec),
            "tag": tag("a", spec, "b"),
        }[kind]
    assert bytes_compiler.structural_tag({"format": tag("<", spec, ">")}).matches(
        "<" + "a" * 55 * (kind == "tag") + "b" * 55 * (kind == "tag") + ">"
    )


def test_deep_nesting_is_refused(bytes_compiler: Compiler) -> None:
    spec = const("a")
    for _ in range(5_000):
        spec = around("star", spec)
    with pytest.raises(InvalidRequest) as refused:
        bytes_compiler.structural_tag({"format": spec})
    assert refused.value.param == "grammar"
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.structural_tag('{"format":' * 100_000)
    assert (caught.value.keyword, caught.value.param) == ("nesting", "grammar")


# --- against a reader of texts -----------------------------------------------------------------------------------


def first_stop(text: str, stops: list[str]) -> int | None:
    """Where the first stop to be complete ends, reading from left to right."""
    return next((end for end in range(1, len(text) + 1) if any(text[:end].endswith(stop) for stop in stops)), None)


@pytest.mark.parametrize("seed", range(80))
def test_free_text_stops_where_a_reader_does(seed: int, pool: Pool) -> None:
    rng = random.Random(seed)
    stops = sorted({"".join(rng.choice("ab") for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3))})
    text = FreeText(pool, stops)
    for size in range(7):
        for letters in itertools.product("ab", repeat=size):
            word = "".join(letters)
            end = first_stop(word, stops)
            assert pool.matches(text.rest, word.encode()) == (end is None)
            for stop in stops:
                at_end = end == len(word) and word.endswith(stop)
                assert pool.matches(text.up_to([stop]), word.encode()) == at_end
                goes_on = first_stop(word + stop, stops) == len(word + stop)
                assert pool.matches(text.before(stop), word.encode()) == goes_on
    for stop in stops:
        assert text.comes_first(stop) == (not pool.is_empty(text.up_to([stop])))


def read_like_a_server(text: str, triggers: list[str], tags: list[tuple[str, str, str]]) -> bool:
    """Whether every trigger in ``text`` opens a whole tag (begin, content, end), found by trying all of them."""
    end = first_stop(text, triggers)
    if end is None:
        return True
    for trigger in triggers:
        start = end - len(trigger)
        for parts in tags:
            whole = "".join(parts)
            opens = start >= 0 and whole.startswith(trigger) and text.startswith(whole, start)
            if opens and read_like_a_server(text[start + len(whole) :], triggers, tags):
                return True
    return False


@pytest.mark.parametrize("seed", range(40))
def test_triggered_tags_against_a_reader(seed: int, bytes_compiler: Compiler) -> None:
    rng = random.Random(seed)
    word = lambda low, high: "".join(rng.choice("ab") for _ in range(rng.randint(low, high)))  # noqa: E731
    triggers = sorted({word(1, 2) for _ in range(2)})
    tags = [(trigger + word(0, 1), word(0, 1), word(1, 1)) for trigger in triggers]
    spec = triggered(triggers, [tag(begin, const(content), end) for begin, content, end in tags])
    try:
        grammar = bytes_compiler.structural_tag({"format": spec})
    except InvalidRequest:
        return
    for size in range(9):
        for letters in itertools.product("ab", repeat=size):
            text = "".join(letters)
            assert grammar.matches(text) == read_like_a_server(text, triggers, tags)


# --- JSON in any order against a validator ---


def random_object_schema(rng: random.Random) -> Spec:
    few = rng.sample("abc", rng.randint(0, 3))
    schema: Spec = {
        "type": "object",
        "properties": {name: rng.choice([True, {"const": 1}, {"const": 2}, False]) for name in few},
        "required": rng.sample("abcd", rng.randint(0, 2)),
    }
    for keyword, values in {
        "additionalProperties": [False, False, {"const": 1}],
        "minProperties": [1, 2, 3],
        "maxProperties": [0, 1, 2],
        "propertyNames": [{"enum": ["a", "b", "c", "d"]}],
        "not": [{"required": ["a"]}, {"properties": {"b": {"const": 1}}}, {"additionalProperties": {"const": 1}}],
    }.items():
        if rng.random() < 0.4:
            schema[keyword] = rng.choice(values)
    return schema


@pytest.mark.parametrize("seed", range(40))
def test_any_order_against_a_validator(seed: int, bytes_compiler: Compiler) -> None:
    """Nothing invalid is taken, repeated names included; every order of different names is."""
    schema = random_object_schema(random.Random(seed))
    spec = {"format": {"type": "json_schema", "json_schema": schema, "any_order": True}}
    grammar = None
    try:
        grammar = bytes_compiler.structural_tag(spec)
    except UnsatisfiableConstraint:
        pass
    except UnsupportedConstraint as error:
        if "names may repeat" not in str(error):  # what repetition could feign is refused, and nothing else
            raise
        return
    validator = jsonschema.Draft202012Validator(schema)
    for size in range(4):
        for names in itertools.product("abcd", repeat=size):
            for values in itertools.product("12", repeat=size):
                text = (
                    "{" + ", ".join(f'"{name}": {value}' for name, value in zip(names, values, strict=True)) + "}"
                )
                valid = validator.is_valid(json.loads(text))
                taken = grammar is not None and grammar.matches(text)
                assert valid or not taken, text
                assert taken or not valid or len(set(names)) < size, text
