"""What a sample's text becomes: one rule for programs and single calls."""

from __future__ import annotations

import pydantic
import pytest

from radixrt.api import FinishReason, Sample
from radixrt.errors import IncompleteOutput
from radixrt.output_types import output_type
from radixrt.outputs import value_of_sample

ENDS = [reason for reason in FinishReason if reason not in (FinishReason.STOP, FinishReason.TOOL_CALLS)]


def sample(text: str, reason: FinishReason) -> Sample:
    return Sample(text=text, ids=(), finish_reason=reason)


def test_a_complete_text_is_parsed_and_a_free_one_is_itself() -> None:
    assert value_of_sample(sample("[1]", FinishReason.STOP), output_type(schema=list[int]), param="x") == [1]
    assert value_of_sample(sample("[1]", FinishReason.LENGTH), None, param="x") == "[1]"


@pytest.mark.parametrize("reason", ENDS)
def test_an_incomplete_constrained_text_is_never_parsed(reason: FinishReason) -> None:
    with pytest.raises(IncompleteOutput) as caught:
        value_of_sample(sample("[1]", reason), output_type(schema=list[int]), param="x")
    assert caught.value.text == "[1]"
    assert caught.value.finish_reason == str(reason)
    assert caught.value.param == "x"


def test_a_text_without_a_legal_token_left_is_incomplete_even_when_free() -> None:
    with pytest.raises(IncompleteOutput, match="no legal token"):
        value_of_sample(sample("a", FinishReason.NO_LEGAL_TOKEN), None, param=None)


def test_the_errors_of_a_parser_come_through() -> None:
    with pytest.raises(pydantic.ValidationError):
        value_of_sample(sample("[1]", FinishReason.STOP), output_type(schema=list[str]), param="x")
