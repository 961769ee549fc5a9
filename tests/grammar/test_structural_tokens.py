"""Structural tags: special tokens as begins, ends and triggers."""

from __future__ import annotations

from typing import Any

import pytest

from radixrt.grammar import CompiledGrammar, Compiler, Vocabulary

Spec = dict[str, Any]


def const(value: str) -> Spec:
    return {"type": "const_string", "value": value}


def tag(begin: Any, content: Spec, end: Any) -> Spec:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


INTEGER: Spec = {"type": "json_schema", "json_schema": {"type": "integer"}}
CALLED, CALLED_END, OTHER, END = 256, 257, 258, 259


@pytest.fixture(scope="module")
def tokens_compiler() -> Compiler:
    names = {"<|call|>": CALLED, "<|/call|>": CALLED_END, "<|other|>": OTHER}
    tokens = [bytes([i]) for i in range(256)] + [None] * 4
    return Compiler(Vocabulary(tokens, [END], range(CALLED, END + 1), special_names=names))


def takes(grammar: CompiledGrammar, *pieces: str | int) -> bool:
    matcher = grammar.matcher()
    ids = [token for piece in pieces for token in (piece.encode() if isinstance(piece, str) else [piece])]
    return all(map(matcher.accept, ids)) and matcher.is_accepting


def token(name: str | int) -> Spec:
    return {"type": "token", "token": name}


TOKEN_TAGS: Spec = {
    "type": "token_triggered_tags",
    "trigger_tokens": ["<|call|>"],
    "tags": [tag(token("<|call|>"), INTEGER, token("<|/call|>"))],
    "exclude_tokens": [OTHER],
}


@pytest.mark.parametrize(
    ("spec", "good", "bad"),
    [
        (token("<|call|>"), [(CALLED,)], [("<|call|>",), ()]),
        (token(OTHER), [(OTHER,)], [(CALLED,)]),
        ({"type": "any_tokens"}, [(), ("aé", CALLED, OTHER, "b")], []),
        ({"type": "any_tokens", "exclude_tokens": ["<|call|>"]}, [("a", OTHER)], [(CALLED,), ("a", CALLED)]),
        ({"type": "any_tokens", "exclude_tokens": [END, OTHER]}, [("a", CALLED)], [(OTHER,)]),
        (
            tag(token(CALLED), {"type": "any_text"}, token(CALLED_END)),
            [(CALLED, "a", CALLED_END)],
            [(CALLED, OTHER, CALLED_END)],
        ),
        (
            tag(token(CALLED), {"type": "any_tokens"}, token(CALLED_END)),
            [(CALLED, "a", OTHER, CALLED_END), (CALLED, CALLED, CALLED_END)],
            [(CALLED, CALLED_END, CALLED_END)],
        ),
        (
            tag(
                token(CALLED),
                {"type": "sequence", "elements": [{"type": "any_tokens"}, const(".")]},
                token(CALLED_END),
            ),
            [(CALLED, "a.", CALLED_END)],
            [(CALLED, CALLED_END, ".", CALLED_END)],
        ),
        (
            TOKEN_TAGS,
            [(), ("a",), ("a", CALLED, "12", CALLED_END, "b", CALLED, "1", CALLED_END)],
            [(OTHER,), (CALLED, "x", CALLED_END), (CALLED, "1")],
        ),
        ({**TOKEN_TAGS, "at_least_one": True}, [(CALLED, "1", CALLED_END, "b")], [(), ("a", CALLED, "1", 257)]),
        ({**TOKEN_TAGS, "stop_after_first": True}, [("a", CALLED, "1", CALLED_END)], [(CALLED, "1", 257, "b")]),
        (
            {"type": "token_dispatch", "rules": [["<|call|>", const("A")], [OTHER, const("B")]]},
            [("x", CALLED, "A", OTHER, "By"), (CALLED_END,)],
            [(CALLED, "B"), (OTHER,)],
        ),
        (
            {"type": "token_dispatch", "rules": [[CALLED, const("A")]], "loop": False, "exclude_tokens": [OTHER]},
            [("x", CALLED, "A")],
            [(CALLED, "Ax"), (OTHER, CALLED, "A")],
        ),
        ({"type": "grammar", "grammar": 'root ::= <|call|> "a"'}, [(CALLED, "a")], [("a",)]),
    ],
)
def test_formats_of_tokens(spec: Spec, good: list[Any], bad: list[Any], tokens_compiler: Compiler) -> None:
    grammar = tokens_compiler.structural_tag({"format": spec})
    assert [pieces for pieces in good if not takes(grammar, *pieces)] == []
    assert [pieces for pieces in bad if takes(grammar, *pieces)] == []
