"""The compiler's cache, its limits, its dispatch, and what importing it costs."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from radixrt.api import Constraint
from radixrt.errors import InvalidRequest, RadixrtError, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, GrammarLimits, Vocabulary
from radixrt.grammar import compiler as compiler_module


def test_the_same_constraint_is_compiled_once(bytes_compiler: Compiler) -> None:
    first = bytes_compiler.regex("a+")
    assert bytes_compiler.regex("a+") is first
    assert bytes_compiler.compile(Constraint(kind="regex", source="a+")) is first
    assert bytes_compiler.ebnf('root ::= "a"') is not bytes_compiler.regex('root ::= "a"')
    assert bytes_compiler.choices(["a", "b"]) is not bytes_compiler.choices(["b", "a"])


def test_threads_that_ask_at_once_share_one_compilation(
    byte_vocab: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, calls, gate = Compiler(byte_vocab), [], threading.Event()
    original = compiler_module.regex_term

    def slow(*args: Any) -> int:
        calls.append(args)
        gate.wait(10)
        return original(*args)

    monkeypatch.setattr(compiler_module, "regex_term", slow)
    results: list[CompiledGrammar | RadixrtError] = []

    def ask(pattern: str) -> None:
        try:
            results.append(compiler.regex(pattern))
        except RadixrtError as error:
            results.append(error)

    for pattern in ("a+b", "(a)\\1"):
        gate.clear()
        calls.clear()
        results.clear()
        threads = [threading.Thread(target=ask, args=(pattern,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        gate.set()
        for thread in threads:
            thread.join()
        assert len(calls) == 1
        assert len({id(r) if isinstance(r, CompiledGrammar) else str(r) for r in results}) == 1
        assert len(results) == 6


def test_failures_are_remembered_whole(byte_vocab: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(byte_vocab)
    with pytest.raises(UnsupportedConstraint) as first:
        compiler.regex(r"(a)\1")
    monkeypatch.setattr(compiler_module, "regex_term", lambda *args: pytest.fail("compiled again"))
    with pytest.raises(UnsupportedConstraint) as second:
        compiler.regex(r"(a)\1")
    assert second.value is not first.value
    assert second.value.to_info() == first.value.to_info()
    assert second.value.location == "3"


def test_a_bug_is_raised_and_not_remembered(byte_vocab: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(byte_vocab)
    with monkeypatch.context() as patch:
        patch.setattr(compiler_module, "regex_term", lambda *args: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            compiler.regex("a")
    assert compiler.regex("a").matches("a")


def test_good_requests_survive_bad_ones(bytes_compiler: Compiler) -> None:
    assert bytes_compiler.regex("a").matches("a")
    for bad in ("[", "(?!)", r"(a)\1", "(" * 5000):
        with pytest.raises(InvalidRequest):
            bytes_compiler.regex(bad)
    assert bytes_compiler.regex("b").matches("b")
    assert bytes_compiler.regex("a").matches("a")


def test_the_cache_is_bounded_in_entries(byte_vocab: Vocabulary) -> None:
    compiler = Compiler(byte_vocab, max_entries=3)
    kept = compiler.regex("a{1}")
    for i in range(2, 6):
        compiler.regex(f"a{{{i}}}")
        assert compiler.regex("a{1}") is kept
    assert len(compiler._cache) == 3
    with pytest.raises(InvalidRequest):
        compiler.regex("[")
    assert len(compiler._cache) == 3


def test_the_cache_is_bounded_in_bytes(byte_vocab: Vocabulary) -> None:
    compiler = Compiler(byte_vocab, max_bytes=200_000)
    for i in range(30):
        compiler.regex(f"[a-z]+{i}")
    assert 0 < compiler._cache.nbytes <= 200_000
    assert len(compiler._cache) < 30


def test_any_text_is_any_valid_text(bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.any_text()
    assert all(map(grammar.matches, ["", "a\n\0é😀"]))
    assert not grammar.matches(b"\xff")


@pytest.mark.parametrize(
    ("kind", "param", "sources"),
    [
        ("regex", "regex", [r"[^\s\S]", "(", "(?!)", "a++a", r"(a)\1", "a" * 10**7]),
        ("ebnf", "grammar", ["root ::= root", "root ::= (", "", 'root ::= "a" root', "a ::= b", "x" * 10**7]),
        ("lark", "grammar", ["start: start", "start: (", "", "start: a", "start: /(/", "%declare X", "x" * 10**7]),
        ("structural_tag", "grammar", ["{}", "{", "[]", '{"format":{"type":"or"}}', '{"x":1}', "x" * 10**7]),
        (
            "json_schema",
            "schema",
            ["false", "{", '{"type":1}', '{"not":{}}', '{"multipleOf":1000003}', '"x"', ""],
        ),
    ],
)
def test_errors_name_the_argument_that_gave_the_constraint(
    kind: Any, param: str, sources: list[str], bytes_compiler: Compiler
) -> None:
    for source in sources:
        for _ in range(2):  # the second one comes out of the cache
            with pytest.raises(InvalidRequest) as caught:
                bytes_compiler.compile(Constraint(kind=kind, source=source))
            assert caught.value.param == param, source[:20]


def test_errors_in_choices_name_them(bytes_compiler: Compiler) -> None:
    small = Compiler(bytes_compiler.vocab, GrammarLimits(compile_fuel=10))
    for compiler, choices in [(bytes_compiler, ()), (bytes_compiler, ("a", "a")), (small, ("a" * 100, "b" * 100))]:
        with pytest.raises(InvalidRequest) as caught:
            compiler.compile(Constraint(kind="choices", choices=choices))
        assert caught.value.param == "choices"


def test_dispatch(bytes_compiler: Compiler) -> None:
    assert bytes_compiler.compile(Constraint(kind="choices", choices=("x", "y"))).matches("y")
    assert bytes_compiler.compile(Constraint(kind="ebnf", source='root ::= "x"')).matches("x")
    assert bytes_compiler.compile(Constraint(kind="lark", source='start: "x"')).matches("x")
    tag = '{"format": {"type": "const_string", "value": "x"}}'
    assert bytes_compiler.compile(Constraint(kind="structural_tag", source=tag)).matches("x")
    with pytest.raises(UnsatisfiableConstraint):
        bytes_compiler.compile(Constraint(kind="regex", source="(?!)"))


@pytest.mark.parametrize(
    ("constraint", "param"),
    [
        (Constraint(kind="regex", source="a", whitespace="compact"), "whitespace"),
        (Constraint(kind="ebnf", source='root ::= "a"', key_order="schema"), "key_order"),
        (Constraint(kind="choices", choices=("a",), unknown_format="ignore"), "unknown_format"),
        (Constraint(kind="choices", choices=("a",), source="a"), "source"),
        (Constraint(kind="regex", source="a", choices=("a",)), "choices"),
        (Constraint(kind="choices"), "choices"),
        (Constraint(kind="ebnf"), "grammar"),
        (Constraint(kind="json_schema", source=""), None),
    ],
)
def test_what_does_not_belong_is_refused_and_never_ignored(
    constraint: Constraint, param: str | None, bytes_compiler: Compiler
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.compile(constraint)
    if param:
        assert caught.value.param == param


def test_limits_are_checked() -> None:
    with pytest.raises(InvalidRequest) as caught:
        Compiler(Vocabulary([b"a"], [0]), GrammarLimits(step_fuel=0))
    assert caught.value.param == "step_fuel"


def test_long_sources_are_refused(byte_vocab: Vocabulary) -> None:
    compiler = Compiler(byte_vocab, GrammarLimits(source_chars=20))
    for compile_ in (compiler.regex, compiler.ebnf):
        with pytest.raises(UnsupportedConstraint) as caught:
            compile_("a" * 21)
        assert caught.value.keyword == "source_chars"


def test_one_grammar_serves_many_threads(toy_vocab: Vocabulary) -> None:
    """Matchers of one grammar run in parallel while its tables grow under them."""
    import random

    import numpy as np

    grammar = Compiler(toy_vocab).ebnf('root ::= "{" (root | [ab1]{0,9} ":" [^1]*){0,5} "}"')
    reference = Compiler(toy_vocab).ebnf('root ::= "{" (root | [ab1]{0,9} ":" [^1]*){0,5} "}"')
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        matcher, other = grammar.matcher(), reference.matcher()
        row, expected = np.zeros((2, toy_vocab.words), np.int32)
        for _ in range(25):
            matcher.fill_mask(row)
            other.fill_mask(expected)
            if not np.array_equal(row, expected):
                failures.append("masks differ")
            ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            token = int(rng.choice(ids))
            if not (matcher.accept(token) and other.accept(token)):
                failures.append("an allowed token was refused")
            if token in toy_vocab.eos_ids:
                break

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_importing_the_grammar_engine_loads_no_heavy_library() -> None:
    code = (
        "import sys, radixrt.grammar; from radixrt.grammar import *; "
        "Compiler(Vocabulary([b'a', None], [1])).regex('a+'); "
        "print([m for m in ('torch', 'transformers', 'tokenizers', 'zmq') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "allOf": [{"pattern": f"a.{{{n}}}b"} for n in range(20, 40)]},
        {"type": ["string", "null"], "allOf": [{"pattern": f"{chr(97 + n)}.*{n}"} for n in range(26)]},
    ],
)
def test_what_has_no_first_mask_is_refused_when_it_is_compiled(
    schema: dict[str, object],
) -> None:
    rng = random.Random(1)
    long_tokens = [bytes(rng.choices(b"abcdefghij0123456789", k=12)) for _ in range(4000)]
    vocab = Vocabulary([*(bytes((byte,)) for byte in range(256)), *long_tokens, None], [4256])
    limits = GrammarLimits(compile_fuel=150_000, step_fuel=20_000)
    with pytest.raises(UnsupportedConstraint) as caught:
        Compiler(vocab, limits).json_schema(schema)
    assert caught.value.keyword == "compile_fuel"


def test_what_compiles_has_a_first_mask_though_a_mask_has_less_fuel(byte_vocab: Vocabulary) -> None:
    grammar = Compiler(byte_vocab, GrammarLimits(step_fuel=1)).regex("[a-z]?" * 200)
    matcher, row = grammar.matcher(), np.zeros(byte_vocab.words, np.int32)
    matcher.fill_mask(row)
    assert row.any()
    assert matcher.error is None
