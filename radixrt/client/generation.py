"""The result of a single call.

Holds what the worker said about one gen node; turning text into a value is left to the call's output type.
"""

from __future__ import annotations

from typing import Any

from radixrt.api import FinishReason, NodeEvent, Sample, TokenLogprob, Usage
from radixrt.output_types import OutputType
from radixrt.outputs import value_of_sample

__all__ = ["Generation"]


class Generation:
    """``text``, ``ids``, ``finish_reason``, ``matched_stop`` and ``logprobs`` are those of the first sample.

    ``samples`` has all ``n``. ``usage`` counts tokens, ``prompt_logprobs`` is there if asked for, ``seed`` repeats
    the call.
    """

    def __init__(self, event: NodeEvent, output: OutputType | None, seed: int) -> None:
        self.samples: tuple[Sample, ...] = event.samples
        self.usage: Usage = event.usage
        self.prompt_logprobs: tuple[TokenLogprob, ...] | None = event.prompt_logprobs
        self.seed = seed
        self._output = output

    @property
    def text(self) -> str:
        return self.samples[0].text

    @property
    def texts(self) -> list[str]:
        return [sample.text for sample in self.samples]

    @property
    def ids(self) -> tuple[int, ...]:
        return self.samples[0].ids

    @property
    def finish_reason(self) -> FinishReason:
        return self.samples[0].finish_reason

    @property
    def matched_stop(self) -> str | int | None:
        return self.samples[0].matched_stop

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        return self.samples[0].logprobs

    @property
    def value(self) -> Any:
        """The parsed output (the text, without a constraint); with ``n > 1`` the list of all.

        Raises ``IncompleteOutput`` when a constrained output did not finish, whose ``param`` is the argument that
        constrained it, or when any output had no legal token left.
        """
        param = None if self._output is None else self._output.argument
        values = [value_of_sample(sample, self._output, param=param) for sample in self.samples]
        return values[0] if len(values) == 1 else values

    def __repr__(self) -> str:
        return f"Generation(text={self.text!r}, finish_reason={self.finish_reason.value!r})"
