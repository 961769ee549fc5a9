"""Bad input is an error of the right class that names its argument, and the engine serves the next call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import radixrt as rx

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def engine(model_file: Path) -> Iterator[rx.Engine]:
    with rx.Engine(str(model_file), worker="thread", max_total_tokens=4096) as engine:
        yield engine


CASES: list[tuple[str, dict[str, Any], type[rx.RadixrtError], str | None]] = [
    ("hello", {"max_tokens": -1}, rx.InvalidRequest, "max_tokens"),
    ("hello", {"temperature": -0.1}, rx.InvalidRequest, "temperature"),
    ("hello", {"temperature": float("nan")}, rx.InvalidRequest, "temperature"),
    ("hello", {"temperature": "hot"}, rx.InvalidRequest, "temperature"),
    ("hello", {"top_p": 0.0}, rx.InvalidRequest, "top_p"),
    ("hello", {"top_p": 1.5}, rx.InvalidRequest, "top_p"),
    ("hello", {"n": 0}, rx.InvalidRequest, "n"),
    ("hello", {"stop": [""]}, rx.InvalidRequest, "stop"),
    ("hello", {"stop": 7}, rx.InvalidRequest, "stop"),
    ("hello", {"seed": -3}, rx.InvalidRequest, "seed"),
    ("hello", {"logit_bias": {1: 1000.0}}, rx.InvalidRequest, "logit_bias"),
    ("hello", {"min_tokens": 9, "max_tokens": 3}, rx.InvalidRequest, "min_tokens"),
    ("hello", {"max_token": 5}, rx.InvalidRequest, "max_token"),
    ("hello", {"regex": "[a-z", "max_tokens": 5}, rx.InvalidRequest, None),
    ("hello", {"regex": r"(a)\1", "max_tokens": 5}, rx.UnsupportedConstraint, None),
    ("hello", {"regex": "a", "choices": ["a", "b"]}, rx.InvalidRequest, None),
    ("hello", {"choices": []}, rx.InvalidRequest, "choices"),
    ("hello", {"choices": ["a", "a"]}, rx.InvalidRequest, "choices"),
    ("hello", {"choices": ["a", ""]}, rx.InvalidRequest, "choices"),
    ("hello", {"grammar": "root ::= missing"}, rx.InvalidRequest, None),
    ("hello", {"schema": {"type": "strng"}}, rx.InvalidRequest, None),
    ("hello", {"schema": {"type": "integer", "minimum": 5, "maximum": 4}}, rx.UnsatisfiableConstraint, None),
    ("hello", {"schema": {"type": "integer", "multipleOf": 1000003}}, rx.UnsupportedConstraint, None),
    ("hello " * 5000, {"max_tokens": 5}, rx.ContextLengthExceeded, "prompt"),
    ("hello", {"max_tokens": 100_000}, rx.ContextLengthExceeded, "max_tokens"),
    ("hello \ud800", {"max_tokens": 5}, rx.InvalidRequest, None),
    ([{"role": "user"}], {"max_tokens": 5}, rx.InvalidRequest, None),
    ([{"role": "nobody", "content": "x"}], {"max_tokens": 5, "timeout": -1}, rx.InvalidRequest, None),
    ([], {"max_tokens": 5}, rx.InvalidRequest, None),
    ([999_999_999], {"max_tokens": 5}, rx.InvalidRequest, None),
    (7, {"max_tokens": 5}, rx.InvalidRequest, "prompt"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{str(case[0])[:12]}-{str(case[1])[:40]}")
def test_refused_by_name(
    engine: rx.Engine, case: tuple[Any, dict[str, Any], type[rx.RadixrtError], str | None]
) -> None:
    prompt, arguments, error, param = case
    with pytest.raises(error) as caught:
        engine.generate(prompt, **arguments)
    if param is not None:
        assert caught.value.param == param
    assert engine.generate("One two", max_tokens=2, temperature=0).text


def test_both_numbers_are_in_the_error(engine: rx.Engine) -> None:
    with pytest.raises(rx.ContextLengthExceeded) as caught:
        engine.generate("hello " * 5000, max_tokens=5)
    assert caught.value.needed > caught.value.limit > 0
    assert str(caught.value.limit) in str(caught.value)
    assert str(caught.value.needed) in str(caught.value)


def test_a_choice_that_is_too_long_is_what_is_named(engine: rx.Engine) -> None:
    @rx.program
    def pick(s: rx.ProgramState) -> None:
        s += "It is" + rx.select("x", [" short", " long" * 5000])

    with pytest.raises(rx.ContextLengthExceeded) as caught:
        _ = pick.run(engine=engine)["x"]
    assert caught.value.param == "choices"


def test_unknown_engine_flags_and_values_are_named(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(rx.InvalidRequest, match="max_runing"):
        rx.Engine(str(model_file), max_runing=3)
    with pytest.raises(rx.InvalidRequest, match="radix"):
        rx.Engine(str(model_file), radix="maybe")
    monkeypatch.setenv("RADIXRT_CHUNK", "many")
    with pytest.raises(rx.InvalidRequest, match="RADIXRT_CHUNK"):
        rx.Engine(str(model_file))


def test_models_that_cannot_be_loaded(tmp_path: Path) -> None:
    for name in ("no-such-alias", str(tmp_path), str(tmp_path / "none.gguf")):
        with pytest.raises(rx.ModelLoadError):
            rx.Engine(name)
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + b"\xff" * 60)
    with pytest.raises(rx.ModelLoadError):
        rx.Engine(str(tmp_path / "bad.gguf"))
