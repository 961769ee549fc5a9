"""Tokenizers of model folders against the ``tokenizers`` package that reads the same files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, trainers

from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.text.definition import TokenizerDefinition
from radixrt.text.pieces import IdsPiece, Piece, TextPiece
from radixrt.text.tokenizer import Tokenizer, load_tokenizer
from radixrt.text.vocabulary import byte_alphabet

KINDS = ("gpt2", "whole_words", "space_first", "space_always", "space_normalizer", "unigram", "prefix_space")
CONTROL = [
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "<unk>",
    "<|end|>",
    "<|end|>x",
    "<mask>",
    "<think>",
    "</think>",
    "WORD",
    "<n>",
    "imend",
]
WORDS = [
    "the",
    " quick",
    " unmergeable",
    "The end",
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n\n",
    "\t",
    "123",
    "12345",
    "you'll",
    "你好",
    "，世界",
    "ü",
    "é",
    "e\u0301",
    "🎉",
    "▁",
    "<0x0A>",
    "don't",
    "x",
    ".",
    ", ",
    "A",
    "HELLO",
    "_",
    "-",
    "<",
    ">",
    "<|",
    "|>",
    "im_end",
    "im",
    "end",
]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)
marked = st.lists(st.sampled_from(WORDS + CONTROL), max_size=12).map("".join)
relaxed = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)


@pytest.fixture(scope="session")
def loaded(folders: Mapping[str, Path]) -> Mapping[str, Tokenizer]:
    return {kind: load_tokenizer(folder) for kind, folder in folders.items()}


@pytest.fixture(params=KINDS)
def pair(request: pytest.FixtureRequest, loaded: Any, backends: Any) -> tuple[Tokenizer, Backend]:
    return loaded[request.param], backends[request.param]


def literal(text: str) -> TextPiece:
    return TextPiece(text, literal=True)


@relaxed
@given(text=marked)
def test_literals_encode_as_the_model_does(pair: tuple[Tokenizer, Backend], text: str) -> None:
    tokenizer, backend = pair
    if "<|end|>" in text or "<mask>" in text:
        # Two added tokens claim the same blanks then, and the package encodes them twice.
        text = text.replace("    ", "").replace("\n\n\n", "")
    if backend.normalizer is not None:
        # The package prepends the dummy prefix to the spelling of such a token too, and then rarely finds it.
        text = text.replace("<n>", "")
    assert tokenizer.encode([literal(text)], at_start=True) == backend.encode(text, add_special_tokens=False).ids


@relaxed
@given(parts=st.lists(st.tuples(texts, st.booleans()), max_size=6))
def test_pieces_without_control_spellings_encode_as_their_concatenation(
    pair: tuple[Tokenizer, Backend], parts: list[tuple[str, bool]]
) -> None:
    tokenizer, backend = pair
    whole = "".join(text for text, _ in parts)
    if any(spelling in whole for spelling in CONTROL):
        return
    ids = tokenizer.encode([TextPiece(text, literal=flag) for text, flag in parts], at_start=True)
    assert ids == backend.encode(whole, add_special_tokens=False).ids


@relaxed
@given(text=marked, cut=st.integers(0, 40))
def test_plain_text_never_yields_a_control_token(pair: tuple[Tokenizer, Backend], text: str, cut: int) -> None:
    tokenizer, _ = pair
    control = {tokenizer.id_of(spelling) for spelling in CONTROL} - {None, tokenizer.id_of("<unk>")}
    assert control
    for start in (True, False):
        assert not control & set(tokenizer.encode_text(text, at_start=start))
    # Nor does a spelling that begins in a literal and ends in plain text, or the other way round.
    for spelling in CONTROL:
        at = cut % len(spelling)
        if at and not any(other in spelling[:at] or other in spelling[at:] for other in CONTROL):
            for flags in ((True, False), (False, True)):
                halves = [TextPiece(spelling[:at], literal=flags[0]), TextPiece(spelling[at:], literal=flags[1])]
                assert not control & set(tokenizer.encode(halves, at_start=True))


@relaxed
@given(text=texts)
def test_decoding_restores_the_text(pair: tuple[Tokenizer, Backend], text: str) -> None:
    tokenizer, _ = pair
    for start in (True, False):
        ids = tokenizer.encode_text(text, at_start=start)
        if tokenizer.id_of("<unk>") in ids or "▁" in text:
            continue
        assert tokenizer.decode(ids, at_start=start).lstrip(" ") == text.lstrip(" ")
        if not start:
            assert tokenizer.decode(ids) == text
            assert b"".join(tokenizer.token_bytes(index) or b"" for index in ids) == text.encode()


@relaxed
@given(text=texts, more=texts)
def test_no_continuation_changes_a_stable_prefix(pair: tuple[Tokenizer, Backend], text: str, more: str) -> None:
    tokenizer, _ = pair
    prose = "The fox and the dog went over there. " + text + " and so"
    for start in (True, False):
        cut = tokenizer.stable_prefix(prose, at_start=start)
        split = tokenizer.encode_text(prose[:cut], at_start=start) + tokenizer.encode_text(prose[cut:] + more)
        assert split == tokenizer.encode_text(prose + more, at_start=start)


def test_a_stable_prefix_ends_near_the_end_of_prose(pair: tuple[Tokenizer, Backend]) -> None:
    prose = "It was a bright cold day in April, and the clocks were striking thirteen"
    assert len(prose) - pair[0].stable_prefix(prose, at_start=True) <= len(" striking thirteen")


def test_stable_prefix_of_text_without_a_boundary_is_zero(pair: tuple[Tokenizer, Backend]) -> None:
    for text in ("", "a", " ", "antidisestablishmentarianism", "1" * 5000):
        assert pair[0].stable_prefix(text, at_start=True) == 0


def test_continuations_get_no_dummy_prefix(loaded: Mapping[str, Tokenizer]) -> None:
    for kind in ("space_first", "space_always", "space_normalizer", "unigram", "prefix_space"):
        tokenizer = loaded[kind]
        assert tokenizer.has_dummy_prefix
        opening, continued = tokenizer.encode_text("the", at_start=True), tokenizer.encode_text("the")
        assert tokenizer.decode(opening) == " the", kind
        assert tokenizer.decode(continued) == "the", kind
        after_ids = tokenizer.encode([IdsPiece(tuple(opening), " the"), TextPiece("the")], at_start=True)
        assert after_ids == opening + continued


def test_ids_pieces_stay_and_are_checked(loaded: Mapping[str, Tokenizer]) -> None:
    tokenizer = loaded["gpt2"]
    pieces: list[Piece] = [TextPiece("a"), IdsPiece((5, 1, 5), ""), TextPiece("b")]
    assert tokenizer.encode(pieces, at_start=True) == [
        *tokenizer.encode_text("a"),
        5,
        1,
        5,
        *tokenizer.encode_text("b"),
    ]
    for index in (-1, tokenizer.vocab_size):
        with pytest.raises(InvalidRequest) as caught:
            tokenizer.encode([IdsPiece((index,), "")], at_start=True)
        assert caught.value.param == "tokens"


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "x" * 100 + "\ud83d"])
def test_a_lone_surrogate_is_refused(pair: tuple[Tokenizer, Backend], text: str) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        pair[0].encode_text(text)
    with pytest.raises(InvalidRequest, match="surrogate"):
        pair[0].encode([literal("<s>"), TextPiece(text)], at_start=True)


def test_whitespace_swallowed_by_a_token_crosses_into_plain_text(pair: tuple[Tokenizer, Backend]) -> None:
    tokenizer, backend = pair
    ids = tokenizer.encode([literal("a<|end|>"), TextPiece("  b  "), literal("<mask>c")], at_start=True)
    assert ids == backend.encode("a<|end|>  b  <mask>c", add_special_tokens=False).ids


def test_tokens_give_the_bytes_of_what_can_be_generated(pair: tuple[Tokenizer, Backend]) -> None:
    tokenizer, _ = pair
    tokens = tokenizer.tokens()
    assert len(tokens) == tokenizer.vocab_size
    for spelling in ("<s>", "</s>", "<|im_end|>", "<|end|>"):
        index = tokenizer.id_of(spelling)
        assert index is not None
        assert tokens[index] is None
        assert index in tokenizer.special_ids
        assert tokenizer.token_text(index) == spelling
        assert tokenizer.decode([index]) == ""
        assert tokenizer.decode([index], skip_special=False) == spelling
    think = tokenizer.id_of("<think>")
    assert think is not None
    assert tokens[think] == b"<think>"


def test_heal_cuts_the_most_tokens_that_one_could_replace(pair: tuple[Tokenizer, Backend]) -> None:
    tokenizer, _ = pair
    known = [data for data in tokenizer.tokens() if data]
    generator = random.Random(5)
    for _ in range(200):
        ids = generator.choices([i for i, data in enumerate(tokenizer.tokens()) if data and len(data) < 3], k=6)
        floor = generator.randrange(7)
        expected = (0, b"")
        for count in range(1, min(4, len(ids) - floor) + 1):
            tail = b"".join(tokenizer.token_bytes(index) or b"" for index in ids[-count:])
            if any(data != tail and data.startswith(tail) for data in known):
                expected = (count, tail)
        assert tokenizer.heal(ids, floor) == expected


def test_heal_cuts_at_most_four_tokens() -> None:
    """A vocabulary where one token could replace any number of others."""
    vocab = {char: byte for byte, char in byte_alphabet().items()}
    merges = [(b"a" * n, b"a") for n in range(1, 12)]
    vocab |= {(left + right).decode(): 256 + n for n, (left, right) in enumerate(merges)}
    tokenizer = Tokenizer(
        TokenizerDefinition(
            source="many",
            spec={
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
                "model": {
                    "type": "BPE",
                    "vocab": vocab,
                    "merges": [(left.decode(), right.decode()) for left, right in merges],
                },
                "decoder": {"type": "ByteLevel"},
            },
            added=(),
            size=len(vocab),
            bos_id=None,
            eos_ids=(),
        )
    )
    for length in range(12):
        count = min(4, length)
        assert tokenizer.heal([ord("a")] * length, 0) == (count, b"a" * count)


def test_heal_never_cuts_special_tokens(loaded: Mapping[str, Tokenizer]) -> None:
    tokenizer = loaded["gpt2"]
    end = tokenizer.id_of("<|im_end|>")
    assert end is not None
    a = tokenizer.encode_text("t")
    assert tokenizer.heal([*a, end], 0) == (0, b"")
    assert tokenizer.heal([*a, end, *a], 0)[0] == 1
    assert tokenizer.heal([], 0) == (0, b"")


def test_heal_never_cuts_added_tokens_with_power(
    backends: Mapping[str, Backend], save_folder: Callable[..., Path], tmp_path: Path
) -> None:
    backend = Backend.from_str(backends["gpt2"].to_str())
    backend.add_tokens(["<t", "<t>"])
    tokenizer = load_tokenizer(save_folder(tmp_path, backend))
    index = tokenizer.id_of("<t")
    assert index is not None
    assert tokenizer.token_bytes(index) == b"<t"
    assert tokenizer.heal([index], 0) == (0, b"")


def test_stable_prefixes_where_tokens_span_words(save_folder: Callable[..., Path], tmp_path: Path) -> None:
    """Without a cut into words a token may hold several, so that a blank is no boundary by itself."""
    backend = Backend(models.BPE())
    lines = [
        "of the end",
        "in the end of the day",
        "the end of it all",
        "and so on and so forth",
        "at the same time",
    ] * 9
    alphabet = sorted(set("".join(lines)) | set("zqx.\n"))
    trainer = trainers.BpeTrainer(vocab_size=120, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(lines, trainer)
    tokenizer = load_tokenizer(save_folder(tmp_path, backend))
    assert any(data and b" " in data.strip() for data in tokenizer.tokens())
    generator = random.Random(4)
    words = ["of", "the", "end", "in", "and", "so", "on", "it", "at", "same", "zq", "x.", "forth", "day"]
    found = 0
    for _ in range(400):
        text = " ".join(generator.choices(words, k=8))[: generator.randrange(10, 40)]
        cut = tokenizer.stable_prefix(text, at_start=True)
        found += cut > 0
        for _ in range(8):
            more = generator.choice(["", " "]) + " ".join(generator.choices(words, k=3))
            split = tokenizer.encode_text(text[:cut]) + tokenizer.encode_text(text[cut:] + more)
            assert split == tokenizer.encode_text(text + more)
    assert found > 50


# --- configuration ---------------------------------------------------------------------------------------------


def test_ends_and_beginnings_come_from_all_files(
    backends: Mapping[str, Backend], save_folder: Callable[..., Path], tmp_path: Path
) -> None:
    backend = backends["gpt2"]
    ids = {text: backend.token_to_id(text) for text in CONTROL}
    folder = save_folder(
        tmp_path,
        backend,
        bos=True,
        generation_config={"eos_token_id": [ids["<|im_end|>"], ids["</s>"]]},
        config={"eos_token_id": ids["<|end|>"], "vocab_size": 2000},
    )
    tokenizer = load_tokenizer(folder)
    assert tokenizer.eos_ids == (ids["</s>"], ids["<|im_end|>"], ids["<|end|>"])
    assert tokenizer.bos_id == ids["<s>"]
    assert tokenizer.prefix_ids == (ids["<s>"],)
    assert tokenizer.vocab_size == 2000
    assert tokenizer.tokens()[1999] is None
    assert tokenizer.token_text(1999) == ""
    assert tokenizer.chat is None
    assert (
        load_tokenizer(
            save_folder(tmp_path / "b", backend, bos=True, tokenizer_config={"add_bos_token": False})
        ).prefix_ids
        == ()
    )


def test_tokens_that_only_the_configuration_declares_have_power(
    save_folder: Callable[..., Path], backends: Mapping[str, Backend], tmp_path: Path
) -> None:
    extra = {"700": {"content": "<extra>", "special": True}, "701": {"content": "<tool>", "special": False}}
    folder = save_folder(tmp_path, backends["prefix_space"], tokenizer_config={"added_tokens_decoder": extra})
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode([literal("<extra><tool>")], at_start=False) == [700, 701]
    assert not {700, 701} & set(tokenizer.encode_text("<extra><tool>"))
    assert tokenizer.tokens()[701] == b"<tool>"


def test_vocab_and_merges_alone(backends: Mapping[str, Backend], tmp_path: Path) -> None:
    backends["gpt2"].model.save(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    tokenizer = load_tokenizer(tmp_path)
    text = "The quick brown fox 12345 don't,  stop 你好"
    assert tokenizer.encode_text(text) == backends["gpt2"].encode(text).ids


@pytest.mark.parametrize("kind", ["WordPiece", "WordLevel", "Other", None])
def test_other_kinds_are_refused_by_name(kind: str | None, tmp_path: Path) -> None:
    import json

    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": kind, "vocab": {"a": 0}}}))
    with pytest.raises(ModelLoadError, match=str(kind)) as caught:
        load_tokenizer(tmp_path)
    assert caught.value.param == str(tmp_path / "tokenizer.json")


BPE: dict[str, Any] = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
DAMAGED: list[Any] = [
    {},
    {"model": None},
    {"model": []},
    {"model": {**BPE, "vocab": None}},
    {"model": {**BPE, "vocab": {"a": -1}}},
    {"model": {**BPE, "vocab": {"a": 1 << 40}}},
    {"model": {**BPE, "vocab": {"a": True}}},
    {"model": {**BPE, "merges": [["a"]]}},
    {"model": {**BPE, "merges": [["a", "b"]]}},
    {"model": {**BPE, "merges": "a b"}},
    {"model": {**BPE, "end_of_word_suffix": "</w>"}},
    {"model": {**BPE, "unk_token": 5}},
    {"model": {**BPE, "unk_token": ["a"]}},
    {"model": BPE, "pre_tokenizer": {"type": "Whitespace"}},
    {"model": BPE, "pre_tokenizer": {"type": "NoSuch"}},
    {
        "model": BPE,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False},
    },
    {
        "model": BPE,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed", "invert": False},
    },
    {"model": BPE, "normalizer": {"type": "NoSuch"}},
    {"model": BPE, "normalizer": 7},
    {"model": BPE, "added_tokens": [{"id": 3}]},
    {"model": BPE, "added_tokens": [{"id": 1 << 50, "content": "x"}]},
    {"model": BPE, "added_tokens": [5]},
    {"model": BPE, "added_tokens": 5},
    {"model": BPE, "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}]}},
    {"model": BPE, "post_processor": {"type": "RobertaProcessing"}},
    {"model": {"type": "Unigram", "vocab": [["a"]]}},
    {"model": {"type": "Unigram", "vocab": {"a": 1}}},
    {"model": {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 9}},
]


@pytest.mark.parametrize("data", DAMAGED, ids=lambda data: str(data)[:60])
def test_damage_is_a_clear_error(data: Any, tmp_path: Path) -> None:
    import json

    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["x.Y", null]}}'),
        ("config.json", '{"vocab_size": "many"}'),
        ("config.json", '{"vocab_size": -5}'),
        ("config.json", '{"eos_token_id": 99999}'),
        ("generation_config.json", '{"eos_token_id": [1, "2"]}'),
        ("tokenizer_config.json", '{"chat_template": 5}'),
        ("tokenizer_config.json", '{"additional_special_tokens": 5}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": [1]}'),
        (
            "tokenizer_config.json",
            '{"chat_template": [{"name": "a", "template": "x"}, {"name": "b", "template": "y"}]}',
        ),
        ("tokenizer_config.json", '{"chat_template": "{% for %}"}'),
        ("tokenizer_config.json", "{"),
        ("special_tokens_map.json", "[]"),
        ("chat_template.jinja", "{{ unclosed"),
        ("chat_template.jinja", "{{ ''.__class__ }}"),
    ],
)
def test_a_bad_file_beside_it_is_named(
    name: str, text: str, save_folder: Callable[..., Path], backends: Mapping[str, Backend], tmp_path: Path
) -> None:
    folder = save_folder(tmp_path, backends["gpt2"])
    (folder / name).write_text(text)
    with pytest.raises(ModelLoadError):
        load_tokenizer(folder)


def test_a_missing_tokenizer_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(ModelLoadError, match=r"tokenizer\.model"):
        load_tokenizer(tmp_path)
    with pytest.raises(ModelLoadError):
        load_tokenizer(tmp_path / "none")


def test_threads_share_a_tokenizer(loaded: Mapping[str, Tokenizer]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    tokenizer = loaded["space_first"]
    cases = [f"The quick {number} brown fox" * 20 for number in range(64)]
    expected = [tokenizer.encode_text(case) for case in cases]
    fresh = cases * 8
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.encode_text, fresh)) == expected * 8
