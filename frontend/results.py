"""From the terminal event of a node to what a person reads: its value, its text, its error.

Knows nothing about when events arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from radixrt.api import FinishReason, NodeEvent, Sample, TokenLogprob, Usage
from radixrt.errors import Cancelled, IncompleteOutput, RadixrtError, UnknownName
from radixrt.frontend.notes import note
from radixrt.frontend.recording import Record, located
from radixrt.outputs import shortened, value_of_sample

__all__ = ["NodeResult", "Nodes", "text_of", "value_of"]


def value_of(record: Record, event: NodeEvent) -> Any:
    """The value of a gen or select: parsed when it has a type, a list when ``n`` is above 1.

    Raises the node's error, or ``IncompleteOutput`` when a constrained output did not finish.
    """
    if record.value:
        return record.value[0]
    _raise_error(record, event)
    values = [_sample_value(record, sample) for sample in event.samples]
    value: Any = values if record.many else values[0]
    record.value.append(value)
    return value


def text_of(record: Record, event: NodeEvent) -> str:
    """The text that the node added to its branch, complete or not. Raises the node's error."""
    _raise_error(record, event)
    return event.samples[0].text


def _raise_error(record: Record, event: NodeEvent) -> None:
    if event.error is not None:
        raise located(event.error, record)
    if not event.samples:
        raise located(RadixrtError("the engine sent no result").to_info(), record)
    for sample in event.samples:
        if sample.finish_reason == FinishReason.CANCELLED:
            raise located(Cancelled("it was cancelled").to_info(), record)
        if sample.finish_reason == FinishReason.ERROR:
            raise located(RadixrtError("generation failed").to_info(), record)


def _sample_value(record: Record, sample: Sample) -> Any:
    try:
        return value_of_sample(sample, record.output, param=record.name)
    except IncompleteOutput as error:
        raise located(error.to_info(), record) from None
    except Exception as error:  # a validator of the person's own type, which no schema can express
        note(error, "text", f"{record.label} at {record.source} wrote {shortened(sample.text)!r}")
        raise


@dataclass(frozen=True, slots=True)
class NodeResult:
    """Everything about one gen or select, readable without raising.

    ``text``, ``ids``, ``finish_reason`` and ``logprobs`` are those of the first of ``samples``; a node that
    failed has none and its ``error`` is set. ``branch`` is () for the root, else one (fork, index) pair for
    each fork on the way. ``choice`` and ``scores`` belong to a select.
    """

    name: str
    kind: str
    branch: tuple[tuple[int, int], ...]
    source: str
    samples: tuple[Sample, ...]
    usage: Usage
    error: RadixrtError | None
    choice: int | None
    scores: tuple[float, ...] | None
    prompt_logprobs: tuple[TokenLogprob, ...] | None
    record: Record
    event: NodeEvent

    @classmethod
    def of(cls, record: Record, event: NodeEvent) -> NodeResult:
        return cls(
            name=record.name or "",
            kind=record.kind,
            branch=record.path,
            source=f"{record.source.file}:{record.source.line}",
            samples=event.samples,
            usage=event.usage,
            error=located(event.error, record) if event.error is not None else None,
            choice=event.choice,
            scores=event.scores,
            prompt_logprobs=event.prompt_logprobs,
            record=record,
            event=event,
        )

    @property
    def text(self) -> str:
        return self.samples[0].text if self.samples else ""

    @property
    def ids(self) -> tuple[int, ...]:
        return self.samples[0].ids if self.samples else ()

    @property
    def finish_reason(self) -> FinishReason:
        if self.samples:
            return self.samples[0].finish_reason
        return FinishReason.CANCELLED if isinstance(self.error, Cancelled) else FinishReason.ERROR

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        return self.samples[0].logprobs if self.samples else None

    @property
    def value(self) -> Any:
        """The value as ``s[name]`` gives it; raises as it does."""
        return value_of(self.record, self.event)

    def __repr__(self) -> str:
        state = f"error={self.error.code}" if self.error else f"{self.finish_reason} {shortened(self.text)!r}"
        return f"<{self.kind} {self.name!r} {state}>"


class Nodes(Sequence[NodeResult]):
    """The outputs of a run in the order the program wrote them; a name gives the latest node of that name."""

    def __init__(self, results: Sequence[NodeResult]) -> None:
        self._results = tuple(results)

    @overload
    def __getitem__(self, place: int | str) -> NodeResult: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[NodeResult]: ...
    def __getitem__(self, place: int | str | slice) -> NodeResult | Sequence[NodeResult]:
        if isinstance(place, str):
            found = self.named(place)
            if not found:
                raise UnknownName(f"no node is called {place!r}", param=place)
            return found[-1]
        return self._results[place]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[NodeResult]:
        return iter(self._results)

    def named(self, name: str) -> list[NodeResult]:
        """All nodes of this name."""
        return [result for result in self._results if result.name == name]

    def __repr__(self) -> str:
        return f"Nodes({list(self._results)!r})"
