"""The shared corpora judged case by case, for the benchmark's tables and for the ratchets of the tests.

A case is one document of one schema, one text of one pattern, or one whole bug report; its outcome is one word:

``right``                as the corpus says
``accepted``             something invalid was taken: never to happen
``refused:KEYWORD``      the constraint was not compiled, and the keyword says why
``key_order``, ``spelling``, ``key_order+spelling``   a valid document whose writing is not the grammar's
``format_asserted``      a valid document of a schema that means ``format`` as a remark, while here it is asserted
``format_narrow``        a valid document whose ``format`` is only served in part
``rejected``             a valid document was not taken and none of these is the cause

Keys name cases by file and a short hash of their descriptions, so that no text of the corpora is repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from radixrt.bench.structured_causes import cause_of_refusal
from radixrt.errors import InvalidRequest, UnsatisfiableConstraint
from radixrt.grammar import CompiledGrammar, Compiler

__all__ = ["CORPORA", "Judged", "judge", "read_rows", "regressions", "schema_outcome"]


class Judged(NamedTuple):
    """One case: a key that names it, the group it is reported under, its outcome."""

    key: str
    group: str
    outcome: str


CORPORA: Final = {
    "sample": "jsonschemabench_sample.jsonl",
    "suite": "json_schema_test_suite.jsonl",
    "suite-optional": "json_schema_test_suite_optional.jsonl",
    "regex": "regex_cases.jsonl",
    "bugs": "grammar_bug_cases.jsonl",
}
"""Corpora by the name that they are judged and reported under; files of the folder of shared test data."""

_REMOTES: Final = "json_schema_test_suite_remotes.json"


def read_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a corpus; ``InvalidRequest`` (param ``corpus``) where its file is not in ``folder``."""
    try:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidRequest(f"no corpus file {name} in {folder}: {error.strerror}", param="corpus") from error
    return [json.loads(line) for line in lines if line]


def judge(
    corpus: str, folder: Path, compiler: Compiler, options: Mapping[str, Any] | None = None
) -> Iterator[Judged]:
    """Every case of a corpus. ``compiler`` is one over ``byte_vocabulary()``; ``options`` are those of its method
    ``json_schema`` and go to the schemas of the sample and the suites."""
    rows = read_rows(folder, CORPORA[corpus])
    given = dict(options or {})
    if corpus == "sample":
        yield from _sample(rows, compiler, given)
    elif corpus == "regex":
        yield from (Judged(row["id"], "regex", _regex_outcome(row, compiler)) for row in rows)
    elif corpus == "bugs":
        yield from (Judged(row["id"], row["kind"], _bug_outcome(row, compiler)) for row in rows)
    else:
        remotes = json.loads((folder / _REMOTES).read_text(encoding="utf-8"))
        yield from _suite(rows, compiler, {**given, "resources": remotes})


# --- schemas with documents ---


def schema_outcome(outcomes: Iterable[str]) -> str:
    """The outcome of a schema from those of its documents: the worst one."""
    ranked = sorted(outcomes, key=_badness, reverse=True)
    return ranked[0] if ranked else "compiled"


def _badness(outcome: str) -> int:
    order = (
        "right",
        "format_asserted",
        "format_narrow",
        "spelling",
        "key_order",
        "key_order+spelling",
        "refused",
        "rejected",
    )
    head = outcome.split(":")[0]
    return order.index(head) if head in order else len(order)


def _sample(rows: list[dict[str, Any]], compiler: Compiler, options: dict[str, Any]) -> Iterator[Judged]:
    for row in rows:
        subject = _Subject(compiler, row["schema"], options)
        if isinstance(subject.grammar, str):
            yield Judged(row["id"], row["split"], subject.grammar)
            continue
        outcomes = [subject.outcome(test["data"], test["valid"]) for test in row["tests"]]
        yield Judged(row["id"], row["split"], schema_outcome(outcomes))


def _suite(rows: list[dict[str, Any]], compiler: Compiler, options: dict[str, Any]) -> Iterator[Judged]:
    for group in rows:
        schema, file = group["schema"], group["file"]
        subject = _Subject(compiler, schema, options)
        loose = _Subject(compiler, _without_formats(schema), options)
        for test in group["tests"]:
            outcome = subject.outcome(test["data"], test["valid"])
            if outcome == "rejected" and loose.outcome(test["data"], True) == "right":
                outcome = "format_narrow" if file.startswith("optional/") else "format_asserted"
            digest = _digest(group["description"], test["description"])
            yield Judged(f"{file.removesuffix('.json')}/{digest}", file, outcome)


class _Subject:
    """A schema whose documents are judged; compiled when the first of them is, in any order where that is asked."""

    def __init__(self, compiler: Compiler, schema: Any, options: dict[str, Any]) -> None:
        self._compiler, self._schema, self._options = compiler, schema, options

    @cached_property
    def grammar(self) -> CompiledGrammar | str:
        """The grammar, or how the schema was refused; ``unsatisfiable`` takes nothing and is no refusal."""
        return _compiled(self._compiler, self._schema, self._options)

    @cached_property
    def _any_order(self) -> CompiledGrammar | None:
        found = _compiled(self._compiler, self._schema, {**self._options, "key_order": "any"})
        return None if isinstance(found, str) else found

    def outcome(self, value: Any, valid: bool) -> str:
        """How a document is judged."""
        grammar = self.grammar
        if isinstance(grammar, str):
            if grammar != "unsatisfiable":
                return grammar
            return "rejected" if valid else "right"
        taken = grammar.matches(json.dumps(value, ensure_ascii=False))
        if taken == valid:
            return "right"
        return "accepted" if taken else cause_of_refusal(grammar, self._any_order, self._schema, value)


def _compiled(compiler: Compiler, schema: Any, options: dict[str, Any]) -> CompiledGrammar | str:
    try:
        return compiler.json_schema(schema, **options)
    except UnsatisfiableConstraint:
        return "unsatisfiable"
    except InvalidRequest as error:
        return f"refused:{getattr(error, 'keyword', None) or 'malformed'}"


def _without_formats(schema: Any) -> Any:
    """``schema`` without the keyword ``format``; without properties of that name too, which does no harm here."""
    result: list[Any] = [schema]
    todo: list[tuple[Any, int | str]] = [(result, 0)]
    while todo:
        holder, place = todo.pop()
        value = holder[place]
        if isinstance(value, dict):
            holder[place] = value = {key: item for key, item in value.items() if key != "format"}
            todo += [(value, key) for key in value]
        elif isinstance(value, list):
            holder[place] = value = list(value)
            todo += [(value, index) for index in range(len(value))]
    return result[0]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


# --- patterns and bug reports ---


def _regex_outcome(row: dict[str, Any], compiler: Compiler) -> str:
    grammar = _by_kind(compiler, "regex", row["pattern"])
    return _texts_outcome(grammar, row["full_match"], row["no_full_match"])


def _texts_outcome(grammar: CompiledGrammar | str, good: Iterable[str], bad: Iterable[str]) -> str:
    if isinstance(grammar, str):
        return grammar
    if any(grammar.matches(text) for text in bad):
        return "accepted"
    return "right" if all(grammar.matches(text) for text in good) else "rejected"


def _bug_outcome(case: dict[str, Any], compiler: Compiler) -> str:
    grammar = _by_kind(compiler, case["kind"], case["grammar"])
    expected = case["expect"]
    if isinstance(grammar, str):
        return "right" if "compile_error" in expected else grammar
    if expected == "compile_error":
        return "compiled"
    outcome = _texts_outcome(grammar, case["accept"], case["reject"])
    if outcome == "right" and "stress" in case:
        (opening, closing), count = case["stress"]["repeat"], case["stress"]["n"]
        deep = opening * count + closing * count
        outcome = _texts_outcome(grammar, [deep], [deep[: -len(closing)], deep + closing])
    for text, forced in case.get("jump_forward", ()):
        if outcome == "right" and _forced_text(grammar, text) != forced.encode():
            outcome = "forced"
    return outcome


def _forced_text(grammar: CompiledGrammar, text: str) -> bytes | None:
    """The bytes that must follow ``text``; None where it is no beginning."""
    matcher = grammar.matcher()
    if not all(map(matcher.accept, text.encode())):
        return None
    return bytes(matcher.forced_tokens())


def _by_kind(compiler: Compiler, kind: str, source: Any) -> CompiledGrammar | str:
    if kind == "json_schema":
        return _compiled(compiler, source, {})
    try:
        return compiler.regex(source) if kind == "regex" else compiler.ebnf(source)
    except UnsatisfiableConstraint:
        return "refused:unsatisfiable"
    except InvalidRequest as error:
        return f"refused:{getattr(error, 'keyword', None) or 'malformed'}"


# --- ratchets ---


def regressions(expected: dict[str, str], found: dict[str, str]) -> tuple[list[str], list[str]]:
    """What got worse than ``expected``, and what got better or merely other; both as ``key: was -> is``.

    Worse: right before and not now, taken though invalid, rejected without a cause that is named, or gone. A case
    that is not expected yet must not be ``accepted`` or ``rejected``.
    """
    worse: list[str] = []
    other: list[str] = []
    for key in sorted(expected.keys() | found.keys()):
        was, now = expected.get(key, "new"), found.get(key, "gone")
        if was == now:
            continue
        bad = was == "right" or now in ("accepted", "rejected", "gone", "forced")
        (worse if bad else other).append(f"{key}: {was} -> {now}")
    return worse, other
