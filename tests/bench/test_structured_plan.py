"""The command around the measurements: plans, processes that die or hang, what is printed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import msgspec
import pytest
from rich.console import Console

from radixrt.bench import structured
from radixrt.bench.structured import EngineRun, Plan, run_plan
from radixrt.bench.structured_cases import Judged
from radixrt.bench.structured_child import Hello, Job, run_job, spread
from radixrt.bench.structured_masks import MaskRecord
from radixrt.bench.structured_measure import BatchRecord, ForcedRecord, SchemaRecord
from radixrt.bench.structured_report import Report, percentiles, summary
from radixrt.bench.structured_vocabularies import BenchVocabulary
from radixrt.errors import InvalidRequest

HELLO = msgspec.json.encode(Hello("radixrt", "0", "toy", 10.0))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab", "gpt"),
        ("peers", ("outlines",)),
        ("parts", ("all",)),
        ("schemas", -1),
        ("patience", 0.0),
        ("clock", "sun"),
    ],
)
def test_a_plan_names_the_field_that_cannot_be_meant(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Plan(tmp_path, **{field: value}).checked()
    assert caught.value.param == field


def test_rows_are_spread_evenly() -> None:
    rows = [{"id": i} for i in range(10)]
    assert [row["id"] for row in spread(rows, 4)] == [0, 2, 5, 7]
    assert spread(rows, 0) == spread(rows, 10) == spread(rows, 99) == rows


def test_a_crash_or_a_hang_costs_one_schema(small_corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []

    def lines(job: Job, patience: float) -> Iterator[bytes | None]:
        jobs.append(job.skip)
        yield HELLO
        if job.skip == 0:
            yield msgspec.json.encode(SchemaRecord("person", "easy", 5.0))  # then it dies
        elif job.skip == 2:
            yield None  # it says nothing
        else:
            yield msgspec.json.encode(SchemaRecord("bare", "hard", 5.0))

    monkeypatch.setattr(structured, "_lines", lines)
    run = structured._run_engine(Plan(small_corpus, patience=7.0), "radixrt", 0)
    assert jobs == [0, 2, 3]
    assert run.failures == {"order": "crash", "far": "timeout"}
    assert [record.id for record in run.records] == ["person", "order", "far", "bare"]
    assert run.records[2].compile_us == 7e6


def test_a_missing_peer_ends_its_run(small_corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hello = msgspec.json.encode(Hello("xgrammar", "", "toy", 0.0, "xgrammar is not installed"))
    monkeypatch.setattr(structured, "_lines", lambda job, patience: iter([hello]))
    run = structured._run_engine(Plan(small_corpus), "xgrammar", 0)
    assert run.records == []
    printed, report = reported()
    report.sample([run], [])
    assert "xgrammar is missing: xgrammar is not installed" in printed.getvalue()


def test_lines_end_with_the_process_or_with_patience() -> None:
    quick = "print('one'); print('two')"
    with Popen([sys.executable, "-c", quick], stdout=PIPE) as process:
        assert list(structured._timed_lines(process, 6.0)) == [b"one", b"two"]
    silent = "import time; print('one', flush=True); time.sleep(60)"
    with Popen([sys.executable, "-c", silent], stdout=PIPE) as process:
        assert list(structured._timed_lines(process, 0.5)) == [b"one", None]
        process.kill()


def test_a_job_runs_in_a_process(small_corpus: Path) -> None:
    job = Job("cases", str(small_corpus), engine="regex")
    hello, *lines = [line for line in structured._lines(job, 60.0) if line is not None]
    assert msgspec.json.decode(hello, type=Hello).vocab == "bytes"
    assert [msgspec.json.decode(line, type=Judged).key for line in lines] == ["r1", "r2", "r3"]


def test_jobs_that_need_a_vocabulary(
    small_corpus: Path, bench: BenchVocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radixrt.bench.structured_child.load_vocabulary", lambda name: bench)
    kinds = {
        "memory": float,
        "schemas": SchemaRecord,
        "forced": ForcedRecord,
        "batch": BatchRecord,
        "masks": MaskRecord,
    }
    for task, kind in kinds.items():
        hello, *records = run_job(Job(task, str(small_corpus)))
        assert isinstance(hello, Hello)
        assert records
        assert all(isinstance(record, kind) for record in records)
    _, *rest = run_job(Job("schemas", str(small_corpus), skip=3))
    assert [record.id for record in rest] == ["bare"]


# --- what is printed ---


def reported() -> tuple[io.StringIO, Report]:
    printed = io.StringIO()
    return printed, Report(Console(file=printed, width=200))


def test_percentiles() -> None:
    assert percentiles([]) == {"n": 0, "mean": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0, "max": 0.0}
    assert percentiles([float(i) for i in range(1, 102)])["p90"] == 91.0


def test_a_schema_counts_as_right_only_with_documents() -> None:
    records = [
        SchemaRecord("a", "x", 1000.0, verdicts=[(True, True), (False, False)], masks_us=[1.0, 3.0]),
        SchemaRecord("b", "x", 3000.0, verdicts=[(True, False), (False, True)]),
        SchemaRecord("c", "x", 2000.0, refused="not"),
        SchemaRecord("d", "x", 2000.0),
    ]
    found = summary(records)
    assert (found["right"], found["refused"]) == (1, 1)
    assert (found["invalid_accepted"], found["valid_rejected"]) == (1, 1)
    assert found["compile_ms"]["p50"] == found["mask_us"]["p50"] == 2.0


def test_a_busy_machine_is_warned_of() -> None:
    printed, report = reported()
    report.machine(0.0, 2)
    assert "warning" not in printed.getvalue()
    report.machine(1.5, 2)
    assert "not quiet" in printed.getvalue()


def test_engines_are_compared_on_what_all_of_them_compiled() -> None:
    hello = Hello("", "1", "toy", 1.0)
    ours = [SchemaRecord("a", "x", 1.0, None, 1, [(True, True)]), SchemaRecord("b", "x", 1.0, "not", 1)]
    theirs = [SchemaRecord("a", "x", 9.0, verdicts=[(False, True)]), SchemaRecord("b", "x", 9.0)]
    printed, report = reported()
    report.sample(
        [EngineRun("radixrt", hello, ours), EngineRun("llguidance", hello, theirs)],
        [Judged("a", "x", "right"), Judged("b", "x", "refused:not")],
    )
    assert {name: found["schemas"] for name, found in report.data["same_schemas"].items()} == {
        "radixrt": 1,
        "llguidance": 1,
    }
    assert report.data["sample_not_right"] == {"b": "refused:not"}
    assert report.data["tokens_and_bytes_disagree"] == []
    assert "refused:not: b" in printed.getvalue()


def test_the_whole_command_over_a_small_corpus(
    small_corpus: Path, bench: BenchVocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radixrt.bench.structured_child.load_vocabulary", lambda name: bench)

    def inside(job: Job, patience: float) -> Iterator[bytes]:
        return (msgspec.json.encode(record) for record in run_job(job))

    monkeypatch.setattr(structured, "_lines", inside)
    printed, report = reported()
    run_plan(Plan(small_corpus, peers=("llguidance",)), report)
    data = json.loads(json.dumps(report.data))
    assert data["sample"]["radixrt"]["right"] == 1
    assert data["regex"]["wrong"] == ["r3"]
    assert data["suite"]["required"] == {"right": 3, "cases": 4}
    assert data["bugs"]["outcomes"] == {"right": 2, "compiled": 1, "forced": 1}
    for words in (
        "sample by category",
        "compiled at once",
        "forced tokens",
        "mixed grammars",
        "masks against",
        "required tests right",
    ):
        assert words in printed.getvalue()
