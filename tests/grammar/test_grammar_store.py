"""Grammars on disk: read back they mean the same, and whatever stands in a file, no harm is done."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radixrt.errors import InvalidRequest, RadixrtError, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, GrammarLimits, Vocabulary, grammar_store
from radixrt.grammar.json_schema import json_schema_grammar
from radixrt.grammar.private_folder import PrivateFolder
from radixrt.grammar.rx import new_pool
from radixrt.grammar.stored_grammar import read_grammar, written_grammar
from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.machine import LeftRecursion
from radixrt.kernels.cpu.terms import NativePool

pytestmark = pytest.mark.skipif(native() is None, reason="only native grammars are kept")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{2,9}$"},
        "tags": {"type": "array", "items": {"enum": ["x", "y", 3]}, "uniqueItems": True, "maxItems": 40},
        "next": {"$ref": "#"},
        "when": {"format": "date-time"},
    },
    "required": ["name"],
}
CASES: dict[str, tuple[Callable[[Compiler], CompiledGrammar], list[str], list[str]]] = {
    "json_schema": (
        lambda compiler: compiler.json_schema(SCHEMA),
        ['{"name":"abc"}', '{"name":"ab","tags":["x",3],"next":{"name":"cd"}}'],
        ['{"name":"a"}', '{"name":"ab","name":"ab"}', '{"name":"ab","tags":["x","x"]}'],
    ),
    "regex": (
        lambda compiler: compiler.regex(r"(?<!a)b{3,700}(?=c).*\bd"),
        ["bbbc d", "b" * 700 + "c.d"],
        ["bbc d", "bbbb d"],
    ),
    "ebnf": (
        lambda compiler: compiler.ebnf('root ::= root "+" t | t\nt ::= "(" root ")" | [0-9]{1,30}'),
        ["1", "(1+22)+3"],
        ["", "+1", "(1"],
    ),
    "choices": (lambda compiler: compiler.choices(["red", "green", "é"]), ["red", "é"], ["r", "redd"]),
}


@pytest.fixture(autouse=True)
def _keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_store, "_WORTH_KEEPING", 0)


def never() -> Any:
    raise AssertionError("it was on disk")


@pytest.mark.parametrize("kind", CASES)
def test_a_grammar_from_disk_means_the_same(
    kind: str, byte_vocab: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_it, accepted, rejected = CASES[kind]
    first = compile_it(Compiler(byte_vocab, cache_dir=tmp_path))
    monkeypatch.setattr("radixrt.grammar.cfg.GrammarBuilder.build", lambda *_: never())
    second = compile_it(Compiler(byte_vocab, cache_dir=tmp_path))
    for text in accepted:
        assert first.matches(text)
        assert second.matches(text)
        rows = np.zeros((2, byte_vocab.words), np.int32)
        matchers = [first.matcher(), second.matcher()]
        for token in text.encode():
            for row, matcher in zip(rows, matchers, strict=True):
                matcher.fill_mask(row)
                assert matcher.accept(token)
            assert np.array_equal(*rows)
    assert not any(grammar.matches(text) for grammar in (first, second) for text in rejected)


def test_only_what_took_long_is_kept(
    byte_vocab: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    compiler = Compiler(byte_vocab, cache_dir=tmp_path)
    compiler.regex("abc")
    assert list((tmp_path / "grammar").iterdir()) == []
    compiler.json_schema({"properties": {f"property {i}": {"type": "integer", "minimum": i} for i in range(900)}})
    assert len(list((tmp_path / "grammar").iterdir())) == 1


def test_nothing_is_written_unless_asked(
    byte_vocab: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Compiler(byte_vocab).json_schema(SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_what_the_grammar_depends_on_is_in_its_name(byte_vocab: Vocabulary, tmp_path: Path) -> None:
    files = tmp_path / "grammar"

    def count(compiler: Compiler, **options: str) -> int:
        compiler.json_schema(SCHEMA, **options)  # type: ignore[arg-type]
        return len(list(files.iterdir()))

    assert count(Compiler(byte_vocab, cache_dir=tmp_path)) == 1
    assert count(Compiler(byte_vocab, cache_dir=tmp_path)) == 1
    assert count(Compiler(byte_vocab, cache_dir=tmp_path), whitespace="compact") == 2
    assert count(Compiler(byte_vocab, GrammarLimits(nesting=99), cache_dir=tmp_path)) == 3
    other = Vocabulary([*byte_vocab.tokens, b"more"], eos_ids=byte_vocab.eos_ids)
    assert count(Compiler(other, cache_dir=tmp_path)) == 4


def test_failures_are_not_kept(byte_vocab: Vocabulary, tmp_path: Path) -> None:
    compiler = Compiler(byte_vocab, cache_dir=tmp_path)
    for bad in ("(", r"(a)\1", "(?!)"):
        with pytest.raises(RadixrtError):
            compiler.regex(bad)
    with pytest.raises(InvalidRequest):
        compiler.choices(["a", 3])  # type: ignore[list-item]
    assert list((tmp_path / "grammar").iterdir()) == []


def test_a_damaged_file_is_written_again(byte_vocab: Vocabulary, tmp_path: Path) -> None:
    Compiler(byte_vocab, cache_dir=tmp_path).json_schema(SCHEMA)
    (file,) = (tmp_path / "grammar").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert Compiler(byte_vocab, cache_dir=tmp_path).json_schema(SCHEMA).matches('{"name":"abc"}')
    assert file.read_bytes() == whole


def test_a_file_with_another_content_under_a_right_digest_is_written_again(
    byte_vocab: Vocabulary, tmp_path: Path
) -> None:
    Compiler(byte_vocab, cache_dir=tmp_path).json_schema(SCHEMA)
    (file,) = (tmp_path / "grammar").iterdir()
    whole = file.read_bytes()
    PrivateFolder(tmp_path / "grammar").save(file.stem, b"no grammar at all" * 9)
    assert file.read_bytes() != whole
    assert Compiler(byte_vocab, cache_dir=tmp_path).json_schema(SCHEMA).matches('{"name":"abc"}')
    assert file.read_bytes() == whole


def test_a_folder_open_to_others_is_refused(byte_vocab: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "grammar").mkdir()
    (tmp_path / "grammar").chmod(0o777)
    with pytest.raises(InvalidRequest) as refused:
        Compiler(byte_vocab, cache_dir=tmp_path)
    assert refused.value.param == "cache_dir"


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Some of its 32-bit numbers changed, or parts lost, repeated or swapped."""
    words = [data[at : at + 4] for at in range(0, len(data), 4)]
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(words))
        value = rng.choice(
            [rng.randint(-20, 40), rng.getrandbits(32) - 2**31, int.from_bytes(words[at], "little") + 1]
        )
        words[at] = (value & 0xFFFFFFFF).to_bytes(4, "little")
    if rng.random() < 0.2:
        begin, end = sorted(rng.choices(range(len(words)), k=2))
        words[begin:end] = rng.choice([[], words[begin:end] * 2, words[begin:end][::-1]])
    return b"".join(words)


@pytest.mark.parametrize("seed", range(40))
def test_hostile_content_is_refused_or_some_grammar(seed: int, byte_vocab: Vocabulary) -> None:
    """Nothing in a file makes native code do anything but what some grammar makes it do, for fuel."""
    rng = random.Random(seed)
    limits = GrammarLimits(compile_fuel=200_000, step_fuel=50_000)
    grammar = json_schema_grammar(SCHEMA)
    data = written_grammar(grammar)
    assert data is not None
    run = 0
    for _ in range(40):
        pool = new_pool(limits.compile_fuel, "compile_fuel")
        assert isinstance(pool, NativePool)
        hostile = damaged(rng, data)
        try:
            found = read_grammar(hostile, pool)
            matcher = Compiler(byte_vocab, limits)._compiled(("regex",), lambda found=found: found, False).matcher()
        except (ValueError, RadixrtError, LeftRecursion):
            continue
        run += 1
        row = np.zeros(byte_vocab.words, np.int32)
        for token in b'{"name":"ab","tags":["x"]}':
            matcher.fill_mask(row)
            if not matcher.accept(token):
                break
    assert run or seed  # some of all this is run


def test_what_is_written_can_be_read_only_whole(byte_vocab: Vocabulary) -> None:
    data = written_grammar(json_schema_grammar({"enum": ["a", "b"]}))
    assert data is not None
    for size in range(0, len(data), 5):
        pool = new_pool(10**6, "compile_fuel")
        assert isinstance(pool, NativePool)
        with pytest.raises((ValueError, UnsupportedConstraint)):
            read_grammar(data[:size], pool)
