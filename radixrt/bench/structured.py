"""``radixrt bench structured``: constrained decoding, judged and timed, with the peers beside it.

Each engine runs in a process of its own, one after another and in one thread, over the same tokens with the same
judge (``structured_measure.py``). A process that says nothing about a schema for ``patience`` seconds is ended, one
that dies is replaced, and the schema counts as a time-out or a crash. What is printed is made in
``structured_report.py``.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from radixrt.bench.structured_cases import CORPORA, Judged, read_rows
from radixrt.bench.structured_child import Hello, Job, spread
from radixrt.bench.structured_engines import PEERS
from radixrt.bench.structured_masks import MaskRecord
from radixrt.bench.structured_measure import CLOCKS, BatchRecord, ForcedRecord, SchemaRecord
from radixrt.bench.structured_report import Report
from radixrt.bench.structured_vocabularies import VOCABULARIES
from radixrt.errors import InvalidRequest

__all__ = ["PARTS", "EngineRun", "Plan", "run_plan"]

PARTS: Final = ("sample", "memory", "forced", "batch", "masks", "suite", "regex", "bugs")
"""What there is to measure: the sample's schemas; the memory of all of them compiled; forced tokens along
their documents; batches of mixed grammars; masks against llguidance; the official suite; regular expressions; the
cases after public bug reports."""


@dataclass(frozen=True)
class Plan:
    """What to run. ``schemas`` and ``peer_schemas``: how many of the sample's, spread evenly (0: all)."""

    corpus: Path
    vocab: str = "smollm2"
    peers: tuple[str, ...] = ()
    parts: tuple[str, ...] = PARTS
    schemas: int = 0
    peer_schemas: int = 0
    patience: float = 60.0
    clock: str = "wall"
    options: dict[str, str] = field(default_factory=dict)

    def checked(self) -> Plan:
        """Itself; ``InvalidRequest`` naming the first field that cannot be meant."""
        for name, given, known in (
            ("vocab", (self.vocab,), VOCABULARIES),
            ("peers", self.peers, PEERS),
            ("parts", self.parts, PARTS),
            ("clock", (self.clock,), tuple(CLOCKS)),
        ):
            for value in given:
                if value not in known:
                    raise InvalidRequest(f"{name}: no {value!r}; there are {', '.join(known)}", param=name)
        for name in ("schemas", "peer_schemas"):
            if getattr(self, name) < 0:
                raise InvalidRequest(f"{name} must not be negative", param=name)
        if self.patience <= 0:
            raise InvalidRequest("patience must be positive", param="patience")
        return self


@dataclass
class EngineRun:
    """One engine over the sample: its records, and how its processes ended other than well."""

    name: str
    hello: Hello | None = None
    records: list[SchemaRecord] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def run_plan(plan: Plan, report: Report) -> None:
    """Measure, and hand each part to ``report`` as it is done."""
    plan.checked()
    report.machine(os.getloadavg()[0], os.cpu_count() or 1, plan.clock)
    if "sample" in plan.parts:
        runs = [_run_engine(plan, "radixrt", plan.schemas)]
        runs += [_run_engine(plan, peer, plan.peer_schemas or plan.schemas) for peer in plan.peers]
        outcomes = _records(plan, Job("cases", str(plan.corpus), engine="sample"), Judged)
        report.sample(runs, outcomes)
    if "memory" in plan.parts:
        report.memory(*_memory(plan))
    if "forced" in plan.parts:
        report.forced(_records(plan, Job("forced", str(plan.corpus), schemas=plan.schemas), ForcedRecord))
    if "batch" in plan.parts:
        report.batch(_records(plan, Job("batch", str(plan.corpus)), BatchRecord)[0])
    if "masks" in plan.parts:
        job = Job("masks", str(plan.corpus), engine="llguidance", schemas=plan.peer_schemas or plan.schemas)
        report.masks(_records(plan, job, MaskRecord))
    for part, corpora in (("suite", ("suite", "suite-optional")), ("regex", ("regex",)), ("bugs", ("bugs",))):
        for corpus in corpora if part in plan.parts else ():
            report.cases(corpus, _records(plan, Job("cases", str(plan.corpus), engine=corpus), Judged))


# --- processes ---


def _run_engine(plan: Plan, engine: str, schemas: int) -> EngineRun:
    """All schemas of the sample under one engine, whatever happens to its processes."""
    run = EngineRun(engine)
    rows = spread(read_rows(plan.corpus, CORPORA["sample"]), schemas)
    done = 0
    while done < len(rows):
        job = Job("schemas", str(plan.corpus), engine, plan.vocab, schemas, done, plan.options, plan.clock)
        ended = "crash"
        for line in _lines(job, plan.patience):
            if line is None:
                ended = "timeout"
            elif b'"missing":' in line:
                run.hello = run.hello or msgspec.json.decode(line, type=Hello)
                if run.hello.missing:
                    return run
            else:
                run.records.append(msgspec.json.decode(line, type=SchemaRecord))
                done += 1
        if done < len(rows):
            if run.hello is None:
                raise InvalidRequest(f"the process of {engine} ended before its first schema", param="peers")
            row = rows[done]
            run.failures[row["id"]] = ended
            spent = plan.patience * 1e6 if ended == "timeout" else 0.0
            run.records.append(SchemaRecord(row["id"], row["split"], spent, ended, len(row["tests"])))
            done += 1
    return run


def _memory(plan: Plan) -> tuple[float, float]:
    """Memory of our process before the first schema and with all of them compiled."""
    job = Job("memory", str(plan.corpus), "radixrt", plan.vocab, plan.schemas, options=plan.options)
    hello, line = [held or b"" for held in _lines(job, 10 * plan.patience)]
    return msgspec.json.decode(hello, type=Hello).rss_mib, msgspec.json.decode(line, type=float)


def _records(plan: Plan, job: Job, kind: type[Any]) -> list[Any]:
    """The records of a job that must not fail; empty where its peer is missing."""
    job.vocab, job.options, job.clock = plan.vocab, plan.options, plan.clock
    lines = []
    for line in _lines(job, 10 * plan.patience):
        if line is None:
            raise InvalidRequest(f"{job.task}: nothing within {10 * plan.patience:.0f} s", param="patience")
        lines.append(line)
    if not lines:
        raise RuntimeError(f"the process for {job.task} of {job.engine} ended without a word")
    return [msgspec.json.decode(line, type=kind) for line in lines[1:]]


def _lines(job: Job, patience: float) -> Iterator[bytes | None]:
    """The lines that a process for ``job`` writes; None, and the end, after ``patience`` seconds without one.

    Opening an engine and reading a vocabulary may take longer than a schema, so the first line has ten times that.
    """
    command = [sys.executable, "-m", "radixrt.bench.structured_child", msgspec.json.encode(job).decode()]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        try:
            yield from _timed_lines(process, patience)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def _timed_lines(process: subprocess.Popen[bytes], patience: float) -> Iterator[bytes | None]:
    if process.stdout is None:
        raise RuntimeError("the process has no standard output")
    pipe, held, limit = process.stdout.fileno(), b"", 10 * patience
    deadline = time.monotonic() + limit
    while True:
        ready, _, _ = select.select([pipe], [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            yield None
            return
        piece = os.read(pipe, 1 << 20)
        if not piece:
            return
        held += piece
        *lines, held = held.split(b"\n")
        for line in lines:
            yield line
            deadline = time.monotonic() + patience
