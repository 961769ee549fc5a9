"""Measuring one engine on schemas with documents: the loops that ``radixrt bench structured`` runs in a process of
its own for each engine. A record a schema comes out as soon as it is known, so that a crash costs one schema.

A document is judged as a model would write it: every one of its tokens must be allowed by the mask that the engine
filled before it, and after the last one the end token. The garbage collector runs between schemas, never inside a
measurement. Does not know why a document was judged so: see ``structured_causes``.
"""

from __future__ import annotations

import ctypes
import gc
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from radixrt.bench.structured_engines import Engine, Refused, Text
from radixrt.bench.structured_vocabularies import BenchVocabulary
from radixrt.errors import RadixrtError
from radixrt.grammar import CompiledGrammar, Compiler, Matcher, fill_masks

__all__ = [
    "CLOCKS",
    "BatchRecord",
    "ForcedRecord",
    "SchemaRecord",
    "batch_times",
    "forced_share",
    "judge_schemas",
    "rss_mib",
    "settled_rss_mib",
]


CLOCKS: Final[dict[str, Callable[[], int]]] = {"wall": time.perf_counter_ns, "cpu": time.thread_time_ns}
"""Clocks in nanoseconds by name. The CPU time of the thread says what a busy machine hides, at 0.3 us a reading."""


class SchemaRecord(msgspec.Struct):
    """One schema under one engine. Times are in microseconds; ``verdicts`` pair what was said with what is true."""

    id: str
    split: str
    compile_us: float
    refused: str | None = None
    documents: int = 0
    verdicts: list[tuple[bool, bool]] = []
    masks_us: list[float] = []
    accepts_us: list[float] = []
    empty_masks: int = 0
    disagreements: int = 0
    rss_mib: float = 0.0


class ForcedRecord(msgspec.Struct):
    """Forced tokens along the valid documents of one schema: how many of all, and how many sequences were not the
    document's own tokens (``respelled``: the same text in other tokens; ``wrong``: another text)."""

    id: str
    tokens: int = 0
    forced: int = 0
    sequences: int = 0
    respelled: int = 0
    wrong: int = 0


class BatchRecord(msgspec.Struct):
    """One call of ``fill_masks`` over a batch of different grammars, in microseconds."""

    step_us: list[float]
    again_us: list[float]
    grammars: int


def rss_mib() -> float:
    """Memory of this process that is in RAM; 0 where the system has no /proc."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0


def settled_rss_mib() -> float:
    """The same once garbage is gone and what the C allocator keeps for later is given back to the system.

    Memory that was freed and is still held would count before a measured part and be used up in it for nothing.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # other C libraries have no such call
        return rss_mib()
    return rss_mib()


def document_text(value: Any) -> str:
    """A document as it is written for every engine."""
    return json.dumps(value, ensure_ascii=False)


# --- judging and timing ---


def judge_schemas(
    engine: Engine, bench: BenchVocabulary, rows: Iterable[dict[str, Any]], clock: str = "wall"
) -> Iterator[SchemaRecord]:
    """Compile every schema, keep it, and walk all its documents; ``clock`` is one of ``CLOCKS``."""
    held = []
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for row in rows:
            record, begin = _compiled(engine, row, CLOCKS[clock])
            if begin is not None:
                held.append(begin)
                for test in row["tests"]:
                    tokens = bench.encode(document_text(test["data"]))
                    taken = _walk(begin(), tokens, bench.vocab.eos_ids[0], record, CLOCKS[clock])
                    record.verdicts.append((taken, test["valid"]))
            record.rss_mib = rss_mib()
            yield record
            gc.collect()
    finally:
        gc.enable()


def _compiled(
    engine: Engine, row: dict[str, Any], clock: Callable[[], int]
) -> tuple[SchemaRecord, Callable[[], Text] | None]:
    started = clock()
    begin, refused = None, None
    try:
        begin = engine.compile(row["schema"])
    except Refused as reason:
        refused = str(reason)
    passed = (clock() - started) / 1e3
    return SchemaRecord(row["id"], row["split"], passed, refused, len(row["tests"])), begin


def _walk(text: Text, tokens: Sequence[int], end: int, record: SchemaRecord, clock: Callable[[], int]) -> bool:
    """Whether all ``tokens`` and then ``end`` are allowed; times go to ``record``."""
    fill, accept, row = text.fill, text.accept, text.row
    for token in tokens:
        before = clock()
        fill()
        after = clock()
        record.masks_us.append((after - before) / 1e3)
        record.empty_masks += not row.any()
        allowed = bool(row[token >> 5] >> np.uint32(token & 31) & 1)
        before = clock()
        accepted = accept(token) if allowed else False
        if allowed:
            record.accepts_us.append((clock() - before) / 1e3)
        if not accepted:
            record.disagreements += allowed
            return False
    before = clock()
    fill()
    record.masks_us.append((clock() - before) / 1e3)
    record.empty_masks += not row.any()
    return bool(row[end >> 5] >> np.uint32(end & 31) & 1)


# --- what only ours is asked ---


def forced_share(
    bench: BenchVocabulary, rows: Iterable[dict[str, Any]], options: dict[str, Any]
) -> Iterator[ForcedRecord]:
    """Write every valid document, taking forced tokens wherever there are some, and compare with its own tokens."""
    compiler = Compiler(bench.vocab, encode=bench.encode)
    for row in rows:
        record = ForcedRecord(row["id"])
        try:
            grammar = compiler.json_schema(row["schema"], **options)
        except RadixrtError:
            continue
        for test in row["tests"]:
            text = document_text(test["data"])
            if test["valid"] and grammar.matches(text):
                _write_forced(grammar, bench, bench.encode(text), record)
        yield record


def _write_forced(
    grammar: CompiledGrammar, bench: BenchVocabulary, tokens: Sequence[int], record: ForcedRecord
) -> None:
    matcher, place = grammar.matcher(), 0
    record.tokens += len(tokens)
    while place < len(tokens):
        forced = matcher.forced_tokens()
        if forced:
            record.sequences += 1
            if list(tokens[place : place + len(forced)]) != forced:
                rest = b"".join(bench.vocab.token_bytes(token) or b"" for token in tokens[place:])
                said = b"".join(bench.vocab.token_bytes(token) or b"" for token in forced)
                record.respelled += rest.startswith(said)
                record.wrong += not rest.startswith(said)
                forced = []
        for token in forced or tokens[place : place + 1]:
            if not matcher.accept(token):
                record.wrong += 1
                return
        record.forced += len(forced)
        place += max(len(forced), 1)


def batch_times(
    bench: BenchVocabulary,
    rows: Sequence[dict[str, Any]],
    options: dict[str, Any],
    *,
    batch: int = 64,
    seed: int = 0,
    clock: str = "wall",
) -> BatchRecord:
    """Masks of ``batch`` texts, each under another grammar, filled in one call a step while all are written.

    The first pass meets every state for the first time; the second one writes the same documents again.
    """
    compiler = Compiler(bench.vocab, encode=bench.encode)
    chosen: list[tuple[CompiledGrammar, list[int]]] = []
    for row in random.Random(seed).sample(list(rows), len(rows)):
        texts = [document_text(test["data"]) for test in row["tests"] if test["valid"]]
        try:
            grammar = compiler.json_schema(row["schema"], **options)
        except RadixrtError:
            continue
        texts = [text for text in texts if grammar.matches(text)]
        if texts:
            chosen.append((grammar, bench.encode(max(texts, key=len))))
        if len(chosen) == batch:
            break
    steps = min(200, max((len(tokens) for _, tokens in chosen), default=0))
    first = _write_together(bench, chosen, steps, CLOCKS[clock])
    return BatchRecord(first, _write_together(bench, chosen, steps, CLOCKS[clock]), len(chosen))


def _write_together(
    bench: BenchVocabulary,
    chosen: Sequence[tuple[CompiledGrammar, list[int]]],
    steps: int,
    clock: Callable[[], int],
) -> list[float]:
    """The time of each step's call. A text that has ended begins anew."""
    matchers: list[Matcher] = [grammar.matcher() for grammar, _ in chosen]
    places = [0] * len(chosen)
    masks = np.zeros((len(chosen), bench.vocab.words), np.int32)
    times = []
    for _ in range(steps):
        before = clock()
        fill_masks(matchers, masks)
        times.append((clock() - before) / 1e3)
        for i, (grammar, tokens) in enumerate(chosen):
            if places[i] == len(tokens):
                matchers[i], places[i] = grammar.matcher(), 0
            if not matchers[i].accept(tokens[places[i]]):
                raise RuntimeError("a token of a document that the grammar takes was not accepted")
            places[i] += 1
    return times
