"""Counters and clocks of the step loop. They are only ever added to; nothing here decides anything."""

from __future__ import annotations

__all__ = ["Counters"]


class Counters:
    """Totals since the start; ``*_s`` are seconds.

    Prompt tokens are ``cached_tokens`` (matched at the first admission) or ``computed_tokens``, as in the usage
    of each sequence. ``forward_tokens`` is everything that went through the model: prompts, outputs, and what
    retraction made it compute again (``recomputed_tokens``). Of the sequences that ended in an error,
    ``internal_errors`` are our own fault; ``refused`` ran into a limit that their error names.
    """

    __slots__ = (
        "advance_s",
        "cached_tokens",
        "computed_tokens",
        "finished",
        "forced_tokens",
        "forward_s",
        "forward_tokens",
        "internal_errors",
        "masks_s",
        "no_legal_token",
        "recomputed_tokens",
        "refused",
        "retractions",
        "sample_s",
        "sampled_tokens",
        "schedule_s",
        "steps",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0.0 if name.endswith("_s") else 0)

    def as_dict(self) -> dict[str, float]:
        return {name: float(getattr(self, name)) for name in self.__slots__}

    steps: int
    finished: int
    computed_tokens: int
    forward_tokens: int
    recomputed_tokens: int
    cached_tokens: int
    forced_tokens: int
    sampled_tokens: int
    retractions: int
    no_legal_token: int
    internal_errors: int
    refused: int
    schedule_s: float
    forward_s: float
    masks_s: float
    sample_s: float
    advance_s: float
