"""The trace of a run as plain data: what ran, when, and what it cost. Times are seconds since the first send."""

from __future__ import annotations

from typing import Any

import msgspec

from radixrt.frontend.live import LiveRecording
from radixrt.frontend.recording import Record

__all__ = ["trace_of"]


def trace_of(program: str, seed: int, recording: LiveRecording, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything about a run that is over, ready for JSON. ``calls`` are the traces of programs it called."""
    records = [record for record in recording.records if record.event is not None]
    start = min((record.sent_at for record in records if record.sent_at is not None), default=0.0)
    end = recording.end
    return {
        "program": program,
        "seed": seed,
        "outcome": end.outcome if end is not None else "running",
        "usage": msgspec.to_builtins(recording.usage()),
        "nodes": [_node(record, start) for record in records],
        "calls": calls,
    }


def _node(record: Record, start: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "node": record.node,
        "kind": record.kind,
        "name": record.name,
        "branch": [list(step) for step in record.path],
        "source": f"{record.source.file}:{record.source.line}",
        "sent_s": _since(start, record.sent_at),
        "ended_s": _since(start, record.ended_at),
    }
    if record.event is not None and record.event.done():
        event = record.event.result()
        found["usage"] = msgspec.to_builtins(event.usage)
        found["finish_reasons"] = [str(sample.finish_reason) for sample in event.samples]
        found["error"] = msgspec.to_builtins(event.error) if event.error is not None else None
    return found


def _since(start: float, moment: float | None) -> float | None:
    return None if moment is None else round(moment - start, 6)
