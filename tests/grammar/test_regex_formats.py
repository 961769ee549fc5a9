"""The formats of the specification as languages of values."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from radixrt.grammar.json_schema.formats import FORMATS, format_language
from radixrt.grammar.rx import Pool, Rx

Member = Callable[[Pool, Rx, bytes], bool]

# One line per format: what is in it, and what is not.
CASES: dict[str, tuple[list[str], list[str]]] = {
    "date": (
        ["2024-02-29", "2000-02-29", "1996-02-29", "2023-12-31", "0001-01-01", "9999-04-30"],
        ["2023-02-29", "1900-02-29", "2024-02-30", "2024-04-31", "2024-13-01", "2024-00-10", "0000-01-01",
         "24-01-01", "2024-1-01", "\u0662\u0660\u0662\u0664-01-01"],
    ),
    "time": (
        ["00:00:00Z", "23:59:59.123456789z", "12:30:00+23:59", "23:59:60Z", "23:59:60.5+00:00"],
        ["24:00:00Z", "12:60:00Z", "12:00:00", "12:00:00+24:00", "12:00:60Z", "22:59:60Z", "12:00:00.Z", "12:00Z",
         "12:00:00 Z"],
    ),
    "date-time": (
        ["2024-02-29T12:00:00Z", "1999-12-31t23:59:60z"],
        ["2023-02-29T12:00:00Z", "2024-02-29 12:00:00Z", "2024-02-29T12:00:00"],
    ),
    "duration": (
        ["P1Y2M3DT4H5M6S", "P1W", "PT0S", "P1DT1H", "P1M", "PT1H1M", "P12Y"],
        ["P", "PT", "P1Y1D", "P1W1D", "PT1H1S", "1Y", "P1S", "P1DT", "P-1D", "P1.5D"],
    ),
    "email": (
        ["a@b", "a.b+c@example.com", '"a b"@example.com', '"\\""@x', "a@[127.0.0.1]", "a@[IPv6:::1]",
         "x" * 64 + "@a"],
        ["a", "@b", "a@", ".a@b", "a.@b", "a..b@c", "a b@c", "a@-b", "a@b_c", "a@[300.0.0.1]", "x" * 65 + "@a",
         "é@b", 'a"b@c'],
    ),
    "idn-email": (
        ["é@bücher.example", "日本@例え.jp", '"é a"@x', "\x80@a", "\U0001d54f@a"],
        ["é", "é@", "a b@c", "a@-é"],
    ),
    "hostname": (
        ["a", "a-b", "a.b", "1.2", "x" * 63, ".".join(["x" * 63] * 3 + ["x" * 61]), "a-b-c"],
        ["", ".", "a.", "-a", "a-", "a..b", "a_b", "é", "x" * 64, ".".join(["x" * 63] * 4), "xn--a", "ab--c"],
    ),
    "idn-hostname": (
        ["bücher", "例え.テスト", "a。b", "l·l", "α͵β", "\u05d0\u05f3", "ぁ・", "\u0628\u0660",
         "\u0915\u094d\u200d\u0937", "x" * 63, "ABC.é", "bücher.a-b"],
        ["l·", "·l", "α͵a", "a\u05f3", "・", "a・", "\u0628\u0660\u06f0", "\u0915\u200d\u0937", "é--", "-é", "É",
         "e\u0301", "\u0301a", "ａ", "\u05d0a", "\u05d0.1\xe9", "\u302ea", "é" * 60],
    ),
    "ipv4": (
        ["0.0.0.0", "255.255.255.255", "1.20.100.249"],
        ["256.0.0.1", "01.0.0.1", "1.1.1", "1.1.1.1.1", "1.1.1.1/8", "\u0660.0.0.0"],
    ),
    "ipv6": (
        ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4",
         "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "FE80::A"],
        [":", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::", "::1.2.3",
         "1:2:3:4:5:6:7:1.2.3.4", "::1%eth0", "1:2:3:4::5:6:7:8", "g::"],
    ),
    "iri": (
        ["http://\xe9/\u65e5?\ue000#\xfc", "a:😀", "urn:é"],
        ["é", "http://\ue000/", "a:\ufffe", "a: b", "//é"],
    ),
    "iri-reference": (
        ["é", "../\u65e5?\ue000", "", "#é"],
        ["é:é", "a b", "\\"],
    ),
    "json-pointer": (
        ["", "/", "/a~0b/~1", "//", "/é"],
        ["a", "/~", "/~2", "#/a"],
    ),
    "relative-json-pointer": (
        ["0", "1/a", "10#", "120/foo", "99999"],
        ["01", "/a", "", "-1", "0##", "1a"],
    ),
    "regex": (
        ["", "^a+$", "(a|b)*?c{2,}", "[^a-z]", "\\d\\b(?=x)", "(?:((a)))", "\\x41"],
        ["(", "a**", "[", "(?<a", "\\", "*", "a)", "((((a))))", "(?=a)*"],
    ),
    "uri": (
        ["http://a", "a:", "urn:x:y", "http://u:p@h:80/p/a?q=1/?#f", "http://[::1]:8/", "file:///a", "a:b%20c",
         "mailto:a@b", "x:/"],
        ["", "a", "//a", "http://a b", "http://é", "1a:b", "a:%2", "a:b#c#d", "http://[::1", "a:[b]", "a:\\"],
    ),
    "uri-reference": (
        ["", "a", "//a/b", "?q", "#f", "./a:b", "a/b:c", "http://a"],
        ["1:b", "a b", "é", "a^", "%zz"],
    ),
    "uri-template": (
        ["", "a/{b}", "{+a,b*}", "{#x:9999}", "{%41.b}", "{?a,b}", "é", "%20", "'"],
        ["{", "}", "{}", "{a", "{a b}", "{a:0}", "{a:10000}", "{=a}", "{a*b}", "{a..b}", " ", "%2", '"', "<",
         "{!a}"],
    ),
    "uuid": (
        ["2eb8aa08-aa98-11ea-b4aa-73b441d16380", "AAAAAAAA-0000-0000-0000-000000000000"],
        ["", "2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638",
         "gggggggg-0000-0000-0000-000000000000"],
    ),
}  # fmt: skip


def test_every_format_has_a_case() -> None:
    assert set(CASES) == set(FORMATS)


@pytest.mark.parametrize("name", CASES)
def test_formats(name: str, pool: Pool, member: Member) -> None:
    language = format_language(pool, name)
    good, bad = CASES[name]
    assert [text for text in good if not member(pool, language, text.encode())] == []
    assert [text for text in bad if member(pool, language, text.encode())] == []


def random_word(pool: Pool, language: Rx, rng: random.Random, most: int) -> str | None:
    """A word of a language, along arcs drawn at random; None if the walk does not end in time."""
    word = bytearray()
    for _ in range(most):
        if pool.nullable(language) and rng.random() < 0.2:
            return word.decode()
        arcs = [(mask, target) for mask, target in pool.arcs(language) if not pool.is_empty(target)]
        if not arcs:
            return word.decode() if pool.nullable(language) else None
        mask, language = rng.choice(arcs)
        word.append(rng.choice([byte for byte in range(256) if mask >> byte & 1]))
    return word.decode() if pool.nullable(language) else None


def test_names_of_any_script_are_those_that_idna_takes(pool: Pool) -> None:
    idna = pytest.importorskip("idna")
    language = format_language(pool, "idn-hostname")
    rng, found = random.Random(4), 0
    for _ in range(40):
        word = random_word(pool, language, rng, 24)
        if word is not None:
            assert idna.encode(word), ascii(word)
            found += 1
    assert found > 10


def test_regular_expressions_compile(pool: Pool) -> None:
    language = format_language(pool, "regex")
    rng = random.Random(5)
    words = [random_word(pool, language, rng, 20) for _ in range(80)]
    for word in words:
        if word is not None:
            re.compile(word)
    assert sum(word is not None for word in words) > 20
