"""The process in which ``radixrt bench structured`` runs one engine.

    python -m radixrt.bench.structured_child JOB

JOB is a ``Job`` as JSON. Records come out on standard output, one JSON text a line, as soon as each is known; what
a library prints goes to standard error. One process an engine makes memory comparable, and a crash or a hang the
matter of one schema: the caller (``structured.py``) starts another process behind it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from radixrt.bench.structured_cases import CORPORA, judge, read_rows
from radixrt.bench.structured_causes import byte_vocabulary
from radixrt.bench.structured_engines import Engine, Missing, Refused, open_engine
from radixrt.bench.structured_masks import compare_masks
from radixrt.bench.structured_measure import batch_times, forced_share, judge_schemas, settled_rss_mib
from radixrt.bench.structured_vocabularies import load_vocabulary
from radixrt.grammar import Compiler

__all__ = ["Hello", "Job", "main", "run_job", "spread"]


class Job(msgspec.Struct):
    """What a process is to do. ``schemas`` is how many of the sample's to take, spread evenly (0: all); ``skip`` of
    them are done already. ``options`` are those of ``Compiler.json_schema``; ``clock`` is one of ``CLOCKS``."""

    task: str
    corpus: str
    engine: str = "radixrt"
    vocab: str = "smollm2"
    schemas: int = 0
    skip: int = 0
    options: dict[str, str] = {}
    clock: str = "wall"


class Hello(msgspec.Struct):
    """The first record: which engine and vocabulary there are, and the memory held before the first schema."""

    engine: str
    version: str
    vocab: str
    rss_mib: float
    missing: str | None = None


def spread(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """``count`` rows at even distances; all where ``count`` is 0 or more than there are."""
    if not 0 < count < len(rows):
        return rows
    return [rows[i * len(rows) // count] for i in range(count)]


def run_job(job: Job) -> Iterator[Any]:
    """The records of a job, ``Hello`` first."""
    folder = Path(job.corpus)
    if job.task == "cases":
        yield Hello("radixrt", "", "bytes", settled_rss_mib())
        compiler = Compiler(byte_vocabulary())
        yield from judge(job.engine, folder, compiler, job.options)  # here ``engine`` names the corpus
        return
    rows = spread(read_rows(folder, CORPORA["sample"]), job.schemas)[job.skip :]
    bench = load_vocabulary(job.vocab)
    try:
        engine = open_engine(job.engine, bench, job.options)
    except Missing as missing:
        yield Hello(job.engine, "", bench.note, 0.0, str(missing))
        return
    yield Hello(engine.name, engine.version, bench.note, settled_rss_mib())
    tasks: dict[str, Callable[[], Iterator[Any]]] = {
        "schemas": lambda: judge_schemas(engine, bench, rows, job.clock),
        "memory": lambda: iter((_compiled_alone(engine, rows),)),
        "forced": lambda: forced_share(bench, rows, job.options),
        "batch": lambda: iter((batch_times(bench, rows, job.options, clock=job.clock),)),
        "masks": lambda: compare_masks(open_engine("radixrt", bench, job.options), engine, bench, rows),
    }
    yield from tasks[job.task]()


def _compiled_alone(engine: Engine, rows: list[dict[str, Any]]) -> float:
    """The memory of this process in MiB once all schemas are compiled, before any text is written."""
    held = []
    for row in rows:
        try:
            held.append(engine.compile(row["schema"]))
        except Refused:  # the sample's own part lists these
            continue
    after = settled_rss_mib()
    held.clear()
    return after


def main() -> None:
    """Entry point of the process."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # records alone on standard output, whatever a library prints
    for record in run_job(job):
        out.write(msgspec.json.encode(record) + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
