"""From a sample to the value that a person reads, in programs and single calls alike.

An output that did not come to its own end stays raw text: it is never repaired and never parsed. This module does
not know where the sample came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from radixrt.api import FinishReason, Sample
from radixrt.errors import IncompleteOutput
from radixrt.output_types import OutputType

__all__ = ["shortened", "value_of_sample"]

_WHY: Final[Mapping[FinishReason, str]] = MappingProxyType(
    {
        FinishReason.LENGTH: "reached max_tokens before its output was complete",
        FinishReason.NO_LEGAL_TOKEN: "had no legal token left before its output was complete",
    }
)


def value_of_sample(sample: Sample, output: OutputType | None, *, param: str | None) -> Any:
    """What the text of ``sample`` stands for: itself without an output type, else what the type's parser makes of
    it.

    Raises ``IncompleteOutput(param)`` when a constrained output did not finish, or any had no legal token left.
    What the parser raises comes through: an exception of the person's own type, which no schema can express.
    """
    incomplete = not sample.is_complete
    if incomplete and (output is not None or sample.finish_reason == FinishReason.NO_LEGAL_TOKEN):
        raise IncompleteOutput(
            f"{_WHY.get(sample.finish_reason, 'did not finish')}: {shortened(sample.text)!r}",
            text=sample.text,
            finish_reason=str(sample.finish_reason),
            param=param,
        )
    return sample.text if output is None else output.parse(sample.text)


def shortened(text: str, limit: int = 80) -> str:
    """The beginning of a text, for messages."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
