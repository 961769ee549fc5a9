"""Writes the ratchets that ``tests/grammar_json/ratchets`` holds: one expected outcome for each case of a corpus.

    python -m radixrt.bench.structured_ratchet --corpus FOLDER tests/grammar_json/ratchets

A test fails where a case is worse than its ratchet says and tells where it is better. Run this to tighten; look at
the difference before you commit it. A file maps outcomes to the keys of cases, so it holds no text of a corpus.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from radixrt.bench.structured_cases import CORPORA, Judged, judge
from radixrt.bench.structured_causes import byte_vocabulary
from radixrt.grammar import Compiler

__all__ = ["main", "read_ratchet", "write_ratchet"]


def read_ratchet(path: Path) -> dict[str, str]:
    """The expected outcome by key."""
    held: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return {key: outcome for outcome, keys in held.items() for key in keys}


def write_ratchet(path: Path, cases: Iterable[Judged]) -> dict[str, int]:
    """Write the outcomes of all ``cases``; returns how many there are of each."""
    held: dict[str, list[str]] = {}
    for case in cases:
        held.setdefault(case.outcome, []).append(case.key)
    ordered = {outcome: sorted(held[outcome]) for outcome in sorted(held)}
    path.write_text(json.dumps(ordered, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    return {outcome: len(keys) for outcome, keys in ordered.items()}


def main(arguments: list[str] | None = None) -> None:
    """The command above."""
    parser = argparse.ArgumentParser(description="Write the expected outcome of every case of the shared corpora.")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of the shared test data")
    parser.add_argument("--only", choices=sorted(CORPORA), action="append", help="default: all")
    parser.add_argument("folder", type=Path, help="where the files go")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    for corpus in given.only or CORPORA:
        compiler = Compiler(byte_vocabulary())
        counts = write_ratchet(given.folder / f"{corpus}.json", judge(corpus, given.corpus, compiler))
        print(corpus, counts)


if __name__ == "__main__":
    main()
