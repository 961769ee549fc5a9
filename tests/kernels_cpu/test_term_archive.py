"""Archives of terms: the same languages in another pool, and nothing but a refusal from damaged ones."""

from __future__ import annotations

import random
import struct

import pytest

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.regex import regex_term
from radixrt.kernels.cpu.term_archive import archived_terms, restored_terms
from radixrt.kernels.cpu.terms import NativePool

PATTERNS = [
    "",
    "a",
    "(?:ab|cd)*e{3,900}",
    r"(?<=a)b|\bc+\b",
    r"(?=.*x)(?!.*y)[a-zé]{2,70}",
    r"[^a]*(?<!bc)d$",
    r"(?:(?:a?b){1,4000}|\w+@\w+){2,}",
]
ALPHABET = "abcdexyé @1"


def pool(amount: int = 10**7) -> NativePool:
    return NativePool(amount, "test")


def words_of(*words: int) -> bytes:
    return struct.pack(f"={len(words)}i", *words)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_term_means_the_same_in_another_pool(pattern: str) -> None:
    rng = random.Random(pattern)
    first, second = pool(), pool()
    second.literal(b"something that shifts the ids of what comes later")
    term = regex_term(first, pattern)
    records, numbers = archived_terms(first, [term])
    twin = restored_terms(second, records)[numbers[0]]
    texts = [
        "",
        *("".join(rng.choices(ALPHABET, k=rng.randint(1, 9))) for _ in range(300)),
        "e" * 3,
        "ab" + "e" * 900,
    ]
    for text in map(str.encode, texts):
        assert first.matches(term, text) == second.matches(twin, text), text
    assert first.fingerprint(term) == second.fingerprint(twin)


def test_many_terms_share_their_parts_and_keep_their_order() -> None:
    source = pool()
    terms = [source.literal(f"name {i}".encode()) for i in range(50)] + [0, 1]
    records, numbers = archived_terms(source, terms)
    target = pool()
    restored = restored_terms(target, records)
    assert [target.matches(restored[n], f"name {i}".encode()) for i, n in enumerate(numbers[:50])] == [True] * 50
    assert list(numbers[50:]) == [0, 1]
    assert archived_terms(target, [restored[n] for n in numbers])[0] == records


@pytest.mark.parametrize(
    "records",
    [
        b"abc",
        words_of(3),
        words_of(3, 2, 0),
        words_of(3, 2, 2, 2),  # of itself
        words_of(3, 2, -1, 0),
        words_of(3, 1, 0),
        words_of(0, 0),
        words_of(1, 0),
        words_of(11, 1, 0),
        words_of(-1, 1, 0),
        words_of(2, 7, *[1] * 7),
        words_of(4, 0),
        words_of(4, -5, 0, 0),
        words_of(4, 2**31 - 1, 0, 0),
        words_of(7, 5, 1, -1, -1, 0, 0),  # a negative count
        words_of(7, 5, 1, 5, 0, 1, 0),  # from 5 to 1
        words_of(9, 2, -1, 0),
    ],
)
def test_what_is_no_archive_is_refused(records: bytes) -> None:
    with pytest.raises(ValueError, match=r"argument|words"):
        restored_terms(pool(), records)


def test_random_damage_makes_terms_or_a_refusal() -> None:
    """Whatever a damaged archive makes is a term like any other: it can be asked about, for fuel."""
    rng = random.Random(7)
    for pattern in PATTERNS:
        source = pool()
        records, _ = archived_terms(source, [regex_term(source, pattern)])
        for _ in range(400):
            words = list(struct.unpack(f"={len(records) // 4}i", records))
            for _ in range(rng.randint(1, 4)):
                if words:
                    at = rng.randrange(len(words))
                    words[at] = rng.choice(
                        [rng.randint(-3, 12), rng.getrandbits(31), -rng.getrandbits(31), words[at] + 1]
                    )
            if rng.random() < 0.2:
                del words[rng.randrange(len(words) + 1) :]
            target = pool(200_000)
            try:
                restored = restored_terms(target, words_of(*words))
                for term in restored[-5:]:
                    if not target.is_sensitive(term):
                        target.is_empty(term)
                        target.arcs(term)
                        target.matches(term, b"abcde")
                        target.byte_classes([term])
                    target.fingerprint(term)
            except (ValueError, UnsupportedConstraint):
                continue


def test_reading_costs_fuel() -> None:
    source = pool()
    records, _ = archived_terms(source, [source.literal(b"x" * 5000)])
    with pytest.raises(UnsupportedConstraint) as refused:
        restored_terms(pool(2_000), records)
    assert refused.value.keyword == "test"
