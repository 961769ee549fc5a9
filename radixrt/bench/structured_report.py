"""What ``radixrt bench structured`` prints, and the same as one JSON value.

Percentiles are over all masks (or schemas) of a run. An engine that refuses the hard schemas is not asked for their
masks, so the engines are compared a second time on the schemas that all of them compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from radixrt.bench.structured_cases import Judged
from radixrt.bench.structured_masks import KINDS, MaskRecord
from radixrt.bench.structured_measure import BatchRecord, ForcedRecord, SchemaRecord

if TYPE_CHECKING:
    from radixrt.bench.structured import EngineRun

__all__ = ["Report", "percentiles", "summary"]

_QUIET_LOAD = 0.25


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Mean, p50, p90, p99 and maximum, rounded; zeros where there is nothing."""
    if not values:
        return {"n": 0, "mean": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0, "max": 0.0}
    held = np.asarray(values)
    cuts = np.percentile(held, (50, 90, 99))
    named = {"mean": held.mean(), "p50": cuts[0], "p90": cuts[1], "p99": cuts[2], "max": held.max()}
    return {"n": len(values), **{name: round(float(value), 2) for name, value in named.items()}}


def summary(records: Sequence[SchemaRecord]) -> dict[str, Any]:
    """Counts and percentiles over some schemas of one engine; masks and accepts in us, compiles in ms."""
    judged = [record for record in records if record.verdicts or record.refused]
    wrong = [(taken, valid) for record in records for taken, valid in record.verdicts if taken != valid]
    return {
        "schemas": len(records),
        "with_documents": sum(record.documents > 0 for record in records),
        "right": sum(bool(r.verdicts) and all(taken == valid for taken, valid in r.verdicts) for r in records),
        "refused": sum(record.refused is not None for record in records),
        "documents": sum(len(record.verdicts) for record in judged),
        "invalid_accepted": wrong.count((True, False)),
        "valid_rejected": wrong.count((False, True)),
        "compile_ms": percentiles([record.compile_us / 1e3 for record in records]),
        "mask_us": percentiles([time for record in records for time in record.masks_us]),
        "accept_us": percentiles([time for record in records for time in record.accepts_us]),
        "empty_masks": sum(record.empty_masks for record in records),
        "mask_and_accept_disagree": sum(record.disagreements for record in records),
    }


class Report:
    """Prints part by part and keeps everything in ``data``."""

    def __init__(self, console: Console | None = None) -> None:
        self.data: dict[str, Any] = {"bench": "structured"}
        self._console = console or Console()

    def machine(self, load: float, cores: int, clock: str = "wall") -> None:
        """How busy the machine is before anything is measured."""
        self.data["load"] = load
        self.data["clock"] = clock
        self._say(f"load average {load:.2f} on {cores} cores, one thread an engine, {clock} time")
        if load > _QUIET_LOAD:
            self._say("warning: the machine is not quiet; times are too high and tails are not to be trusted")

    # --- the sample ---

    def sample(self, runs: Sequence[EngineRun], outcomes: Sequence[Judged]) -> None:
        """All engines over the schemas that each was given, then over those that all of them compiled."""
        present = [run for run in runs if run.hello is not None and not run.hello.missing]
        for run in runs:
            if run not in present:
                self._say(f"{run.name} is missing: {run.hello.missing if run.hello else 'it did not start'}")
        if present and present[0].hello:
            self._say(f"vocabulary: {present[0].hello.vocab}")
        self.data["sample"] = {run.name: self._engine(run) for run in present}
        self._columns("all schemas each engine was given", self.data["sample"])
        if len(present) > 1:
            self.data["same_schemas"] = shared = _on_shared(present)
            self._columns("only schemas that every engine compiled", shared)
        if present and present[0].name == "radixrt":
            self._by_split(present[0].records, outcomes)

    def _engine(self, run: EngineRun) -> dict[str, Any]:
        found = summary(run.records)
        start = run.hello.rss_mib if run.hello else 0.0
        compiled = [record.rss_mib for record in run.records if record.rss_mib]
        found["memory_with_rows_mib"] = round(max(compiled, default=start) - start, 1)
        found["failures"] = run.failures
        found["refusals"] = dict(Counter(r.refused for r in run.records if r.refused).most_common())
        found["version"] = run.hello.version if run.hello else ""
        for reason, count in list(found["refusals"].items())[:8]:
            self._say(f"  {run.name} refused {count}: {reason}")
        return found

    def _columns(self, title: str, engines: dict[str, dict[str, Any]]) -> None:
        table = Table(title, *engines)
        counts = (
            "schemas",
            "with_documents",
            "right",
            "refused",
            "documents",
            "invalid_accepted",
            "valid_rejected",
        )
        for name in (*counts, "empty_masks", "mask_and_accept_disagree", "memory_with_rows_mib"):
            if all(name in found for found in engines.values()):
                table.add_row(name.replace("_", " "), *(str(found[name]) for found in engines.values()))
        for name in ("mask_us", "accept_us", "compile_ms"):
            for cut in ("mean", "p50", "p90", "p99", "max"):
                label = f"{name.replace('_', ' ')} {cut}"
                table.add_row(label, *(f"{found[name][cut]:,.2f}" for found in engines.values()))
        self._console.print(table)

    def _by_split(self, records: Sequence[SchemaRecord], outcomes: Sequence[Judged]) -> None:
        """Each category's outcomes, why included, and every schema that is not right by name."""
        wanted = {record.id for record in records if record.documents}
        chosen = [case for case in outcomes if case.key in wanted]
        self._groups("sample by category, schemas with documents", chosen)
        by_token = {r.id: all(taken == valid for taken, valid in r.verdicts) for r in records if r.verdicts}
        differing = [c.key for c in chosen if c.key in by_token and by_token[c.key] != (c.outcome == "right")]
        self.data["sample_not_right"] = {c.key: c.outcome for c in chosen if c.outcome != "right"}
        self.data["tokens_and_bytes_disagree"] = differing
        for key, outcome in sorted(self.data["sample_not_right"].items(), key=lambda item: (item[1], item[0])):
            self._say(f"  {outcome}: {key}")
        if differing:
            self._say(f"judged otherwise by tokens than by bytes: {', '.join(differing)}")

    # --- the rest ---

    def forced(self, records: Sequence[ForcedRecord]) -> None:
        """The share of tokens that needed no model, and sequences that were not the document's own tokens."""
        total = {
            name: sum(getattr(record, name) for record in records)
            for name in ("tokens", "forced", "sequences", "respelled", "wrong")
        }
        share = total["forced"] / max(total["tokens"], 1)
        self.data["forced"] = {**total, "share": round(share, 4)}
        self._say(
            f"forced tokens: {total['forced']} of {total['tokens']} ({share:.1%}) in {total['sequences']} "
            f"sequences; {total['respelled']} not canonical, {total['wrong']} another text"
        )

    def memory(self, before: float, after: float) -> None:
        """What all schemas hold together when they are compiled and no text has been written yet."""
        self.data["compiled_memory_mib"] = round(after - before, 1)
        self._say(f"memory of all schemas compiled at once: {after - before:.0f} MiB")

    def batch(self, record: BatchRecord) -> None:
        """One call of ``fill_masks`` for a batch of different grammars."""
        first, again = percentiles(record.step_us), percentiles(record.again_us)
        self.data["batch"] = {"grammars": record.grammars, "first_us": first, "again_us": again}
        for name, found in (("states met for the first time", first), ("the same documents again", again)):
            cuts = ", ".join(f"{cut} {found[cut]:,.0f}" for cut in ("mean", "p50", "p90", "p99", "max"))
            self._say(f"one call for {record.grammars} mixed grammars, {name}: us {cuts}")

    def masks(self, records: Sequence[MaskRecord]) -> None:
        """Where our masks and llguidance's differ along the documents."""
        if not records:
            self._say("masks were not compared: llguidance is missing or took no schema")
            return
        positions = sum(record.positions for record in records)
        equal = sum(record.equal for record in records)
        sole = sum(record.sole for record in records)
        blanks = sum(record.blanks for record in records)
        self._say(
            f"masks against llguidance at {positions} positions of {len(records)} schemas: {equal} equal, {sole} "
            f"where it allows but the usual token of certain text, {blanks} that differ in blanks outside strings "
            f"alone, {positions - equal - sole - blanks} in more"
        )
        over, under, judged = (_added(getattr(r, name) for r in records) for name in ("over", "under", "judged"))
        finished = "finished: valid / invalid / repeated name"
        table = Table("tokens by kind", "only ours", finished, "only llguidance", finished)
        for kind in KINDS:
            cells = []
            for side, held in (("over", over), ("under", under)):
                verdicts = (judged.get(f"{side}/{kind}/{name}", 0) for name in ("valid", "invalid", "repeated"))
                cells += [f"{held.get(kind, 0):,}", " / ".join(map(str, verdicts))]
            table.add_row(kind, *cells)
        self._console.print(table)
        faults = {record.id: record.faults for record in records if record.faults}
        for name, texts in faults.items():
            self._say(f"  taken and invalid by jsonschema: {name}: {texts[0][:200]}")
        self.data["masks"] = {
            "positions": positions,
            "equal": equal,
            "sole": sole,
            "blanks": blanks,
            "examples": {record.id: record.examples for record in records if record.examples},
            "over": over,
            "under": under,
            "judged": judged,
            "faults": faults,
        }

    def cases(self, corpus: str, cases: Sequence[Judged]) -> None:
        """A corpus case by case: outcomes by group, and of the suite what is required apart."""
        self._groups(corpus, cases)
        required = [case for case in cases if not case.group.startswith("optional/")]
        right = sum(case.outcome == "right" for case in required)
        if corpus == "suite":
            self._say(f"required tests right: {right} of {len(required)} ({right / max(len(required), 1):.1%})")
        wrong = [case.key for case in cases if case.outcome in ("accepted", "rejected", "forced")]
        if wrong:
            self._say(f"  wrong: {', '.join(wrong)}")
        outcomes = Counter(case.outcome for case in cases)
        self.data[corpus] = {"cases": len(cases), "outcomes": dict(outcomes), "wrong": wrong}
        if corpus == "suite":
            self.data[corpus]["required"] = {"right": right, "cases": len(required)}

    def _groups(self, title: str, cases: Sequence[Judged]) -> None:
        groups: dict[str, Counter[str]] = {}
        for case in cases:
            groups.setdefault(case.group, Counter())[case.outcome] += 1
        table = Table(title, "cases", "right", "otherwise")
        whole = sum(groups.values(), Counter[str]())
        for group, found in [*sorted(groups.items()), ("all", whole)]:
            total, right = sum(found.values()), found["right"]
            others = ", ".join(f"{count} {outcome}" for outcome, count in found.most_common() if outcome != "right")
            table.add_row(group, str(total), f"{right} ({right / max(total, 1):.1%})", others)
        self._console.print(table)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _on_shared(runs: Collection[EngineRun]) -> dict[str, dict[str, Any]]:
    """The summaries over the schemas that every run compiled."""
    compiled = [{record.id for record in run.records if record.refused is None} for run in runs]
    shared = set.intersection(*compiled)
    return {run.name: summary([record for record in run.records if record.id in shared]) for run in runs}


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for held in counts:
        total.update(held)
    return dict(total)
