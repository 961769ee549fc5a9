"""Following a text: rollback, copies, failure, healing, forced tokens."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from radixrt.errors import InvalidRequest
from radixrt.grammar import CompiledGrammar, Compiler, GrammarLimits, Matcher, Vocabulary, fill_masks

Allowed = Callable[[Matcher], set[int]]
BruteForce = Callable[[CompiledGrammar, Matcher], set[int]]


class GreedyTokenizer:
    """Longest match from the left: a canonical tokenization that looks ahead, as real ones do."""

    def __init__(self, words: list[bytes]) -> None:
        self.tokens = [bytes([i]) for i in range(256)] + words
        self.ids = {token: i for i, token in reversed(list(enumerate(self.tokens)))}
        self.vocab = Vocabulary([*self.tokens, None], [len(self.tokens)])

    def encode(self, text: str) -> list[int]:
        data, ids = text.encode(), []
        while data:
            best = max(n for n in range(1, min(len(data), 20) + 1) if data[:n] in self.ids)
            ids.append(self.ids[data[:best]])
            data = data[best:]
        return ids


ORDER = GreedyTokenizer(
    [b'{"', b'":', b"order", b"orderId", b"Id", b"Name", b'{"order', b'"}', b"1}", b"der", b'd"', b"ab"]
)


def run(matcher: Matcher, data: bytes) -> Matcher:
    for byte in data:
        assert matcher.accept(byte)
    return matcher


def test_rollback_goes_back_any_number_of_tokens_across_the_end(
    toy_vocab: Vocabulary, allowed_ids: Allowed
) -> None:
    grammar = Compiler(toy_vocab).regex("(?:ab|a1){2,3}")
    matcher = grammar.matcher()
    history = [(allowed_ids(matcher), matcher.is_accepting)]
    end = toy_vocab.eos_ids[0]
    for token in [*b"aba1", end, end]:
        assert matcher.accept(token)
        history.append((allowed_ids(matcher), matcher.is_accepting))
    rng = random.Random(0)
    for _ in range(30):
        back = rng.randint(0, len(history) - 1)
        matcher.rollback(back)
        del history[len(history) - back :]
        assert (allowed_ids(matcher), matcher.is_accepting) == history[-1]
        while len(history) < 5:
            assert matcher.accept(b"aba1"[len(history) - 1])
            history.append((allowed_ids(matcher), matcher.is_accepting))
    for count in (-1, 100):
        with pytest.raises(InvalidRequest):
            matcher.rollback(count)


def test_drafts_that_are_rolled_back_leave_no_trace(toy_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    grammar = Compiler(toy_vocab).ebnf('root ::= "{" (root | "a")* "}"')
    kept: list[int] = []
    matcher = grammar.matcher()
    rng = random.Random(4)
    for _ in range(12):
        draft = 0
        for _ in range(rng.randint(1, 5)):
            options = sorted(allowed_ids(matcher) - set(toy_vocab.eos_ids))
            if not options:
                break
            token = rng.choice(options)
            assert matcher.accept(token)
            kept.append(token)
            draft += 1
        back = rng.randint(0, draft)
        matcher.rollback(back)
        del kept[len(kept) - back :]
        fresh = grammar.matcher()
        assert all(map(fresh.accept, kept))
        assert allowed_ids(fresh) == allowed_ids(matcher)


def test_copies_are_independent(bytes_compiler: Compiler) -> None:
    matcher = run(bytes_compiler.regex("ab*c").matcher(), b"ab")
    twin = matcher.copy()
    run(twin, b"c")
    assert twin.is_complete
    assert not matcher.is_accepting
    twin.rollback(3)
    run(twin, b"ac")
    run(matcher, b"bbbc")
    assert matcher.is_complete


def test_a_refused_token_changes_nothing(bytes_compiler: Compiler, allowed_ids: Allowed) -> None:
    matcher = run(bytes_compiler.regex("abc").matcher(), b"a")
    before = allowed_ids(matcher)
    assert not matcher.accept(ord("c"))
    assert not matcher.accept(256)
    assert allowed_ids(matcher) == before == {ord("b")}
    matcher.rollback(1)
    run(matcher, b"abc")


def test_complete_means_that_nothing_but_the_end_follows(bytes_compiler: Compiler) -> None:
    for pattern, text, accepting, complete in [
        ("ab?", b"a", True, False),
        ("ab?", b"ab", True, True),
        ("a*", b"", True, False),
        ("abc", b"ab", False, False),
        ("", b"", True, True),
        (r"a(?!.)|ab", b"a", True, False),
        (r"a\b.?(?<!a.)", b"a", True, True),
    ]:
        matcher = run(bytes_compiler.regex(pattern).matcher(), text)
        assert (matcher.is_accepting, matcher.is_complete) == (accepting, complete), pattern


def test_after_the_end_only_end_tokens_are_allowed(bytes_compiler: Compiler, allowed_ids: Allowed) -> None:
    matcher = run(bytes_compiler.regex("a*").matcher(), b"a")
    assert matcher.accept(256)
    assert allowed_ids(matcher) == {256}
    assert matcher.is_accepting
    assert matcher.is_complete
    assert not matcher.accept(ord("a"))
    assert matcher.forced_tokens() == []


def test_an_error_inside_fails_the_matcher_and_nothing_else(byte_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    grammar = Compiler(byte_vocab, GrammarLimits(step_fuel=400)).regex(r"[a-z]*|(?=.*a.{12})(?=.*b.{13}).*")
    matcher = grammar.matcher()
    for _ in range(200):
        if not matcher.accept(ord("a")):
            break
    assert matcher.failed
    assert "step_fuel" in str(matcher.error)
    assert allowed_ids(matcher) == set()
    assert not matcher.accept(ord("a"))
    assert not matcher.is_accepting
    assert not matcher.is_complete
    assert matcher.forced_tokens() == []
    assert matcher.copy().failed
    assert not grammar.matcher().failed
    assert Compiler(byte_vocab).regex("a").matches("a")


# --- token healing ---


def test_healing_demands_the_cut_bytes_first(
    toy_vocab: Vocabulary, allowed_ids: Allowed, brute_force: BruteForce
) -> None:
    grammar = Compiler(toy_vocab).regex("[ab1]{0,3}😀")
    for prefix in (b"a", b'{"', "é😀".encode(), b"zzz", b"\xf0\x9f"):
        matcher = grammar.matcher(prefix=prefix)
        for position in range(len(prefix)):
            allowed = allowed_ids(matcher)
            assert allowed == brute_force(grammar, matcher)
            for token in allowed:
                piece = toy_vocab.tokens[token] or b""
                rest = prefix[position:]
                assert rest.startswith(piece) or piece.startswith(rest)
            assert not matcher.is_accepting
            assert matcher.forced_tokens() == []
            assert matcher.accept(prefix[position])
        assert allowed_ids(matcher) == allowed_ids(grammar.matcher())
        matcher.rollback(len(prefix))
        assert not matcher.accept(ord("x"))


def test_a_token_may_span_the_cut_and_the_constraint(allowed_ids: Allowed) -> None:
    vocab = Vocabulary([b"a", b"b", b"ab", b"abb", b"abc", None], [5])
    matcher = Compiler(vocab).regex("b+").matcher(prefix=b"a")
    assert allowed_ids(matcher) == {0, 2, 3}
    assert matcher.accept(3)
    assert matcher.is_accepting


def test_a_prefix_is_spelled_in_its_usual_tokens_or_gone_beyond(allowed_ids: Allowed) -> None:
    #                    0     1     2      3       4      5     6
    vocab = Vocabulary([b"a", b"b", b"ab", b"abb", b"abc", b"c", b"cb", None], [7])
    matcher = Compiler(vocab).regex("b+").matcher(prefix=b"abc", prefix_ids=[2, 5])
    assert allowed_ids(matcher) == {2}  # not "a" and "abc", which spell it as well
    assert not matcher.accept(0)
    assert not matcher.accept(4)
    assert matcher.copy().accept(2)
    assert matcher.accept(2)
    assert allowed_ids(matcher) == {5, 6}
    twin = matcher.copy()
    assert twin.accept(6)
    assert twin.is_accepting
    assert matcher.accept(5)
    assert allowed_ids(matcher) == {1}
    matcher.rollback(1)
    assert allowed_ids(matcher) == {5, 6}
    with pytest.raises(InvalidRequest, match="prefix_ids"):
        Compiler(vocab).regex("b+").matcher(prefix=b"abc", prefix_ids=[2, 1])


def test_a_healed_text_without_a_constraint_is_free_once_the_prefix_is_read(
    toy_vocab: Vocabulary, allowed_ids: Allowed, brute_force: BruteForce
) -> None:
    grammar = Compiler(toy_vocab, encode=lambda text: list(text.encode())).any_text()
    end = toy_vocab.eos_ids[0]
    everything = set(range(toy_vocab.size))
    matcher = grammar.matcher(prefix=b"ab")
    assert allowed_ids(matcher) == brute_force(grammar, matcher)
    assert allowed_ids(matcher) == {
        i for i, t in enumerate(toy_vocab.tokens) if t and (t.startswith(b"ab") or b"ab".startswith(t))
    }
    assert not matcher.is_accepting
    assert not matcher.accept(end)
    assert matcher.accept(ord("a"))
    assert matcher.accept(ord("b"))
    # What is no text, what ends the text and what stands for nothing is all as allowed as without a matcher.
    specials = [*toy_vocab.special_ids, end, toy_vocab.size - 1]
    for token in [0xFF, *specials, ord("x"), end, 0xC3, ord("y")]:
        assert allowed_ids(matcher) == brute_force(grammar, matcher) == everything
        assert matcher.is_accepting
        assert not matcher.is_complete
        assert matcher.forced_tokens() == []
        assert matcher.copy().accept(end)
        assert matcher.accept(token)
    for token in (-1, toy_vocab.size):
        assert not matcher.accept(token)
    masks = np.zeros((2, toy_vocab.words), np.int32)
    fill_masks([matcher, None], masks)
    assert masks[0].tolist() == masks[1].tolist()
    matcher.rollback(len(specials) + 6)  # back into the prefix
    assert allowed_ids(matcher) == brute_force(grammar, matcher) != everything
    assert not matcher.failed


def test_a_token_may_go_beyond_the_prefix_of_a_free_text_in_any_way() -> None:
    # Bytes that no text holds are for the engine itself: such a token is allowed only once the prefix is read.
    vocab = Vocabulary([b"a", b"a\xff", b"ab", b"b", None], [4])
    for token, is_possible in enumerate([True, False, True, False, False]):
        matcher = Compiler(vocab).any_text().matcher(prefix=b"a", prefix_ids=[0])
        assert matcher.accept(token) == matcher.is_accepting == is_possible


# --- forced tokens ---


def test_forced_tokens_leave_the_last_one_open_where_a_longer_one_may_come() -> None:
    compiler = Compiler(ORDER.vocab, encode=ORDER.encode)
    matcher = compiler.regex(r'\{"order(?:Id|Name)":1\}').matcher()
    forced = [ORDER.tokens[i] for i in matcher.forced_tokens()]
    assert forced == []  # {"order could be {" + orderId
    assert matcher.accept(ORDER.ids[b'{"order'])
    assert matcher.accept(ORDER.ids[b"Id"])
    assert [ORDER.tokens[i] for i in matcher.forced_tokens()] == [b'":', b"1}"]


def test_forcing_stops_where_the_text_may_end(bytes_compiler: Compiler) -> None:
    matcher = run(bytes_compiler.regex("[-+]?[0-9]+[ ]*").matcher(), b"12 ")
    assert matcher.forced_tokens() == []
    assert run(bytes_compiler.regex("ab(?:cd)?").matcher(), b"").forced_tokens() == [97, 98]
    assert run(bytes_compiler.regex("ab(?:cd)?").matcher(), b"abc").forced_tokens() == [100]


@pytest.mark.parametrize("encode", [None, ORDER.encode])
@pytest.mark.parametrize("seed", range(12))
def test_forced_tokens_are_allowed_and_the_only_way(seed: int, encode: Callable[[str], list[int]] | None) -> None:
    """Whatever is forced: each token is accepted, and every random text that gets there begins with these bytes."""
    rng = random.Random(seed)
    compiler = Compiler(ORDER.vocab, encode=encode)
    grammar = compiler.regex(r'(?:\{"order(?:Id)?":"(?:ab|abc|é1)+"\} ?){1,2}')
    matcher = grammar.matcher()
    for _ in range(40):
        forced = matcher.forced_tokens()
        data = b"".join(ORDER.tokens[i] for i in forced)
        assert ORDER.vocab.size not in forced
        for _ in range(3):
            other, text = matcher.copy(), b""
            while len(text) < len(data):
                token = rng.choice([i for i in range(ORDER.vocab.size) if other.copy().accept(i)])
                assert token != ORDER.vocab.size - 1
                assert other.accept(token)
                text += ORDER.tokens[token]
            assert text.startswith(data)
        assert all(map(matcher.accept, forced))
        options = [i for i in range(ORDER.vocab.size) if matcher.copy().accept(i)]
        token = rng.choice(options)
        assert matcher.accept(token)
        if token == ORDER.vocab.size - 1:
            break


@pytest.mark.parametrize("seed", range(30))
def test_forced_tokens_are_those_of_the_finished_text(seed: int) -> None:
    """A text followed token by token in its canonical form never meets a forced token that is not its next one."""
    rng = random.Random(seed)
    grammar = Compiler(ORDER.vocab, encode=ORDER.encode).regex(
        r'\[(?:\{"order(?:Id|Name|)":"(?:ab|abc|der|é1)+"(?:,"d":1)?\})+\]'
    )
    text = "["
    for _ in range(rng.randint(1, 3)):
        text += '{"order' + rng.choice(["Id", "Name", ""]) + '":"'
        text += "".join(rng.choice(["ab", "abc", "der", "é1"]) for _ in range(rng.randint(1, 4)))
        text += '"' + rng.choice(["", ',"d":1']) + "}"
    text += "]"
    assert grammar.matches(text)
    ids = ORDER.encode(text)
    matcher = grammar.matcher()
    forced_total = 0
    for position, token in enumerate(ids):
        forced = matcher.forced_tokens()
        assert forced == ids[position : position + len(forced)]
        forced_total += bool(forced)
        assert matcher.accept(token)
    assert forced_total


def test_after_tokens_that_are_not_canonical_nothing_is_forced() -> None:
    """What comes next in the finished text cannot be told from a tokenization that is already another one."""
    grammar = Compiler(ORDER.vocab, encode=ORDER.encode).regex('ababder"}')
    canonical, other = grammar.matcher(), grammar.matcher()
    assert canonical.accept(ORDER.ids[b"ab"])
    assert [ORDER.tokens[i] for i in canonical.forced_tokens()] == [b"ab", b"der", b'"}']
    assert other.accept(ORDER.ids[b"a"])
    assert other.forced_tokens() == []


def test_encoders_that_answer_nonsense_force_nothing() -> None:
    for encode in (
        lambda text: [],
        lambda text: [10**9],
        lambda text: [0, 1, 2],
        lambda text: [ORDER.vocab.size - 1],
    ):
        matcher = Compiler(ORDER.vocab, encode=encode).regex("abcdef").matcher()
        assert matcher.forced_tokens() == []
        assert not matcher.failed

    def broken(text: str) -> list[int]:
        raise RuntimeError("no tokenizer")

    matcher = Compiler(ORDER.vocab, encode=broken).regex("abcdef").matcher()
    assert matcher.forced_tokens() == []
    assert matcher.failed


@pytest.mark.parametrize(
    ("end_ids", "prefix"), [([-1], b""), ([10**9], b""), (["a"], b""), ([True], b""), (None, "a")]
)
def test_arguments_of_a_matcher_are_checked(end_ids: object, prefix: object, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.regex("a").matcher(end_ids=end_ids, prefix=prefix)  # type: ignore[arg-type]
    assert caught.value.param in ("end_ids", "prefix")


@pytest.mark.parametrize("token", [None, 1.0, "a", [1], b"a", True, -1, 10**30])
def test_what_is_no_token_changes_nothing(token: object) -> None:
    matcher = Compiler(Vocabulary([b"a", b"b", None], [2])).regex("a*").matcher()
    assert not matcher.accept(token)  # type: ignore[arg-type]
    assert not matcher.failed
    assert matcher.accept(0)
