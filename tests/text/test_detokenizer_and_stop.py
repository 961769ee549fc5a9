"""Streams of ids and of text: nothing early, nothing twice, nothing lost."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixrt.errors import InvalidRequest
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.text.detokenizer import Detokenizer
from radixrt.text.stop import StopFilter
from radixrt.text.tokenizer import load_tokenizer

TOKENIZER = ByteTokenizer()
quick = settings(max_examples=300, deadline=None, derandomize=True)
ids = st.lists(st.one_of(st.integers(0, 263), st.sampled_from(list("é你🎉a".encode()))), max_size=40)


class TestDetokenizer:
    @quick
    @given(ids=ids, skip=st.booleans(), seed=st.integers(0, 10**6))
    def test_pushes_and_flush_are_the_whole(self, ids: list[int], skip: bool, seed: int) -> None:
        generator = random.Random(seed)
        detokenizer = Detokenizer(TOKENIZER, skip_special=skip)
        got, at = "", 0
        while at < len(ids):
            size = generator.randrange(6)
            got += detokenizer.push(ids[at : at + size])
            at += size
        assert got + detokenizer.flush() == TOKENIZER.decode(ids, skip_special=skip)

    @quick
    @given(text=st.text(max_size=20))
    def test_only_whole_characters_come_out(self, text: str) -> None:
        detokenizer = Detokenizer(TOKENIZER)
        got = ""
        for byte in text.encode("utf-8"):
            got += detokenizer.push([byte])
            assert text.startswith(got)
        assert got == text
        assert detokenizer.flush() == ""

    @pytest.mark.parametrize(
        ("data", "pushed", "flushed"),
        [
            (b"\xf0\x9f\x8e", "", "\ufffd"),
            (b"a\xc3", "a", "\ufffd"),
            (b"\xff\xfea", "\ufffd\ufffda", ""),
            (b"\xe4a", "\ufffda", ""),
            (b"", "", ""),
        ],
    )
    def test_broken_ends(self, data: bytes, pushed: str, flushed: str) -> None:
        detokenizer = Detokenizer(TOKENIZER)
        assert "".join(detokenizer.push([byte]) for byte in data) == pushed
        assert detokenizer.flush() == flushed

    def test_the_dummy_prefix_is_dropped_at_the_start_alone(self, folders: dict[str, object]) -> None:
        tokenizer = load_tokenizer(folders["space_first"])  # type: ignore[arg-type]
        ids = tokenizer.encode_text("the the", at_start=True)
        opening, continuing = Detokenizer(tokenizer, at_start=True), Detokenizer(tokenizer)
        assert "".join(opening.push([index]) for index in ids) + opening.flush() == "the the"
        assert "".join(continuing.push([index]) for index in ids) + continuing.flush() == " the the"

    def test_ids_outside_the_vocabulary_add_nothing(self) -> None:
        assert Detokenizer(TOKENIZER).push([-1, 10**9, 263, 65]) == "A"


def first_stop(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The definition: the stop that is complete first, the longest of those; what stands before it."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end - len(stop)], stop
    return text, None


letters = st.text(alphabet="aab", max_size=30)
stop_lists = st.lists(st.text(alphabet="aab", min_size=1, max_size=5), max_size=4)


class TestStopFilter:
    @quick
    @given(text=letters, stops=stop_lists, seed=st.integers(0, 10**6))
    def test_any_cut_finds_the_same_stop_and_shows_the_same_text(
        self, text: str, stops: list[str], seed: int
    ) -> None:
        generator = random.Random(seed)
        shown_expected, stop_expected = first_stop(text, stops)
        stream, shown, at, matched = StopFilter(stops), "", 0, None
        while at < len(text) and matched is None:
            size = generator.randrange(1, 5)
            safe, matched = stream.push(text[at : at + size])
            shown += safe
            at += size
            # Shown at once: all but the longest end that some stop string begins with. Never part of the match.
            assert shown_expected.startswith(shown)
            if matched is None:
                seen = text[:at]
                held = max(
                    (n for n in range(6) for stop in stops if len(stop) > n and seen.endswith(stop[:n])), default=0
                )
                assert shown == seen[: len(seen) - held]
        assert matched == stop_expected
        assert shown + stream.flush() == shown_expected

    def test_what_follows_a_match_is_dropped(self) -> None:
        stream = StopFilter(["STOP"])
        assert stream.push("a STOP b") == ("a ", "STOP")
        assert stream.push("c") == ("", "STOP")
        assert stream.flush() == ""
        assert stream.matched == "STOP"

    def test_no_stops_hold_nothing(self) -> None:
        stream = StopFilter([])
        assert stream.push("abc") == ("abc", None)
        assert stream.flush() == ""

    def test_an_empty_stop_is_refused(self) -> None:
        with pytest.raises(InvalidRequest) as caught:
            StopFilter(["a", ""])
        assert caught.value.param == "stop"

    def test_many_long_stops_take_linear_time(self) -> None:
        stream = StopFilter(["a" * 1000 + chr(0x100 + n) for n in range(64)])
        shown = "".join(stream.push("a" * 100)[0] for _ in range(200))
        assert len(shown) == 20_000 - 1000
