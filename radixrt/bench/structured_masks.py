"""Two engines' masks compared token by token along documents, with the differences sorted and some of them judged.

Every position of every document that both engines have reached counts the tokens that only ours allows (``over``)
and those that only the peer allows (``under``), by where the text stands and what the token writes. Of each kind
some tokens are written, the text is finished under the engine that allows them, and ``jsonschema`` says whether the
result is valid: ``over`` and invalid is a fault of ours; ``under`` and valid is a writing that ours does not have,
by policy (order, spelling, blanks) or by fault. What cannot be finished within a bound is ``unfinished``; a text in
which a name of an object stands twice is ``repeated``, whatever its last value.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from radixrt.bench.structured_engines import Engine, Refused, Text
from radixrt.bench.structured_measure import document_text
from radixrt.bench.structured_vocabularies import BenchVocabulary

__all__ = ["KINDS", "MaskRecord", "compare_masks"]

KINDS: Final = ("blanks", "escapes", "string content", "end of a string", "names and strings", "numbers", "others")
_DIALECTS: Final = re.compile(r"[\ufeff\x85\x1c-\x1f]|[^\W\x00-\x7f]")
"""Blanks, digits and letters that classes of ``re`` and of ECMA-262 disagree on."""
_SAMPLES: Final = 8
_FINISH_STEPS: Final = 200
_POSITIONS: Final = 400


class MaskRecord(msgspec.Struct):
    """Differences under one schema. ``equal`` of the positions have the same mask; at ``sole`` ones the peer allows
    but the usual token of text that is certain; at ``blanks`` ones only tokens with blanks outside strings differ.
    ``over`` and ``under`` count tokens by kind, ``judged`` finished samples as ``side/kind/verdict``. ``faults``
    are texts that ours allows and that are invalid, ``examples`` tokens that differ, by side and kind.
    """

    id: str
    positions: int = 0
    equal: int = 0
    sole: int = 0
    blanks: int = 0
    over: dict[str, int] = {}
    under: dict[str, int] = {}
    judged: dict[str, int] = {}
    faults: list[str] = []
    examples: dict[str, str] = {}


def compare_masks(
    ours: Engine, theirs: Engine, bench: BenchVocabulary, rows: Iterable[dict[str, Any]]
) -> Iterator[MaskRecord]:
    """A record for each schema that both engines take."""
    kinds = _token_kinds(bench)
    for row in rows:
        try:
            begin = (ours.compile(row["schema"]), theirs.compile(row["schema"]))
        except Refused:
            continue
        record = MaskRecord(row["id"])
        judge = _Judge(row["schema"], bench, begin, record)
        for test in row["tests"]:
            _compare_along(bench.encode(document_text(test["data"])), judge, kinds)
        yield record


def _compare_along(tokens: Sequence[int], judge: _Judge, kinds: npt.NDArray[np.int8]) -> None:
    record, ours, theirs = judge.record, judge.begin[0](), judge.begin[1]()
    inside = _inside_string(judge.bench, tokens)
    for place, token in enumerate(tokens[:_POSITIONS]):
        ours.fill()
        theirs.fill()
        record.positions += 1
        differing = ours.row ^ theirs.row
        if not differing.any():
            record.equal += 1
        elif _count(theirs.row) == 1 and not (theirs.row & ~ours.row).any():
            record.sole += 1  # bytes that are certain: the peer allows their usual token alone
        else:
            apart = 0
            for side, row in (("over", differing & ours.row), ("under", differing & theirs.row)):
                ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                ids = ids[ids < kinds.shape[1]]
                apart += _count_kinds(side, ids, kinds[int(inside[place])], record)
                judge.sample(side, tokens[:place], ids, kinds[int(inside[place])])
            record.blanks += apart == 0
        if not _allows(ours.row, token) or not _allows(theirs.row, token):
            return
        ours.accept(token)
        theirs.accept(token)


def _count_kinds(side: str, ids: npt.NDArray[np.intp], kinds: npt.NDArray[np.int8], record: MaskRecord) -> int:
    """Add to the counts of a side; returns how many of the tokens are more than blanks."""
    held: dict[str, int] = getattr(record, side)
    for kind, count in enumerate(np.bincount(kinds[ids], minlength=len(KINDS))):
        if count:
            held[KINDS[kind]] = held.get(KINDS[kind], 0) + int(count)
    return int((kinds[ids] != KINDS.index("blanks")).sum())


def _count(row: npt.NDArray[np.uint32]) -> int:
    return int(np.bitwise_count(row).sum())


def _allows(row: npt.NDArray[np.uint32], token: int) -> bool:
    return bool(row[token >> 5] >> np.uint32(token & 31) & 1)


def _inside_string(bench: BenchVocabulary, tokens: Sequence[int]) -> list[bool]:
    """Before each token: whether the text so far has an open string."""
    found, inside, escaped = [], False, False
    for token in tokens:
        found.append(inside)
        for byte in bench.vocab.token_bytes(token) or b"":
            if escaped:
                escaped = False
            elif inside and byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = not inside
    return found


def _token_kinds(bench: BenchVocabulary) -> npt.NDArray[np.int8]:
    """The kind of every token outside (row 0) and inside (row 1) a string."""
    table = np.full((2, bench.vocab.size), KINDS.index("others"), np.int8)
    for token, data in enumerate(bench.vocab.tokens):
        if data:
            table[0, token] = KINDS.index(_kind_outside(data))
            table[1, token] = KINDS.index(_kind_inside(data))
    return table


def _kind_outside(data: bytes) -> str:
    if any(byte in b" \t\r\n" for byte in data.split(b'"')[0]):
        return "blanks"
    if b'"' in data:
        return "names and strings"
    return "numbers" if any(byte in b"0123456789-+.eE" for byte in data) else "others"


def _kind_inside(data: bytes) -> str:
    if b"\\" in data:
        return "escapes"
    if b'"' not in data:
        return "string content"
    return "blanks" if any(byte in b" \t\r\n" for byte in data.split(b'"')[1]) else "end of a string"


class _Judge:
    """Finishes sampled texts and has ``jsonschema`` judge them."""

    def __init__(
        self,
        schema: Any,
        bench: BenchVocabulary,
        begin: tuple[Callable[[], Text], Callable[[], Text]],
        record: MaskRecord,
    ) -> None:
        self.bench, self.begin, self.record = bench, begin, record
        self._rng = random.Random(0)
        self._seen: dict[tuple[str, int], int] = {}
        self._closing = [bench.encode(text)[0] for text in ('"', "}", "]", '"}', "0", ":", ",", " ", "a", "1", "t")]
        self._is_valid = _validator(schema)

    def sample(
        self, side: str, tokens: Sequence[int], ids: npt.NDArray[np.intp], kinds: npt.NDArray[np.int8]
    ) -> None:
        """Judge one token of each kind among ``ids``, a few times in all for a schema."""
        for kind in np.unique(kinds[ids]):
            seen = self._seen.get((side, int(kind)), 0)
            if seen >= 2 or sum(self._seen.values()) >= _SAMPLES:
                continue
            self._seen[(side, int(kind))] = seen + 1
            token = int(self._rng.choice(ids[kinds[ids] == kind].tolist()))
            self.record.examples[f"{side}/{KINDS[kind]}"] = repr(self.bench.vocab.token_bytes(token))
            text = self._finished(self.begin[0 if side == "over" else 1](), [*tokens, token])
            verdict = "unfinished" if text is None else self._is_valid(text)
            key = f"{side}/{KINDS[kind]}/{verdict}"
            self.record.judged[key] = self.record.judged.get(key, 0) + 1
            if side == "over" and verdict == "invalid" and text is not None:
                self.record.faults.append(text)

    def _finished(self, text: Text, tokens: Sequence[int]) -> str | None:
        end, written = self.bench.vocab.eos_ids[0], list(tokens)
        if not all(map(text.accept, tokens)):
            return None
        for _ in range(_FINISH_STEPS):
            text.fill()
            if _allows(text.row, end):
                data = b"".join(self.bench.vocab.token_bytes(token) or b"" for token in written)
                return data.decode("utf-8", "replace")
            allowed = [token for token in self._closing if _allows(text.row, token)]
            if not allowed or self._rng.random() < 0.1:
                allowed = np.flatnonzero(np.unpackbits(text.row.view(np.uint8), bitorder="little")).tolist()
            if not allowed:
                return None
            token = self._rng.choice(allowed)
            if not text.accept(token):
                return None
            written.append(token)
        return None


def _validator(schema: Any) -> Callable[[str], str]:
    """``valid``, ``invalid``, ``repeated``, or ``unjudged``: where there is no ``jsonschema``, it does not take the
    schema, or a pattern meets a character that ECMA-262 and ``re`` class differently.
    """
    try:
        import jsonschema
        import referencing.exceptions as unresolved
    except ImportError:
        return lambda text: "unjudged"
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    patterned = '"pattern' in json.dumps(schema)

    def judge(text: str) -> str:
        repeated: list[str] = []

        def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            held = dict(pairs)
            repeated.extend(name for name, _ in pairs[len(held) :])
            return held

        try:
            valid = validator.is_valid(json.loads(text, object_pairs_hook=members))
            if repeated:
                return "repeated"
            if not valid and patterned and _DIALECTS.search(text):
                return "unjudged"
            return "valid" if valid else "invalid"
        except (ValueError, RecursionError):
            return "invalid"
        except (jsonschema.exceptions.SchemaError, unresolved.Unresolvable, unresolved.NoSuchResource):
            return "unjudged"

    return judge
