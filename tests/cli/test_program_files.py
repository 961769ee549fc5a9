"""``radixrt run``: programs from files, rows, results, resuming."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import radixrt as rx
from radixrt.cli import app
from radixrt.config import flag_table
from radixrt.errors import InvalidRequest
from radixrt.frontend.program import Program
from radixrt.program_files import load_program, parse_arguments, run_once, run_rows
from radixrt.testing.scripted_engine import scripted_engine

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
import radixrt as rx
import neighbour

@dataclass
class Point:
    x: int

@rx.program
def echo(s, text: str, count=1, flag: bool = False):
    s += text + rx.gen("word", max_tokens=count)
    if text == "bad":
        raise ValueError("a bad row")
    return {"point": Point(count), "word": s["word"], "flag": flag}

not_a_program = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("value = 1\n")
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def program(file: Path) -> Program:
    return load_program(f"{file}:echo")


@pytest.fixture
def engine() -> Iterator[rx.Engine]:
    with scripted_engine() as engine:
        yield engine


def _rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _results(path: Path) -> dict[int, dict[str, Any]]:
    return {entry["row"]: entry for entry in map(json.loads, path.read_text().splitlines())}


@pytest.mark.parametrize(
    "target", ["mine.py", "mine.py:", ":echo", "nowhere.py:echo", "{file}:nobody", "{file}:not_a_program"]
)
def test_a_target_that_is_wrong_is_refused(file: Path, target: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_program(target.format(file=file))
    assert caught.value.param == "FILE:PROGRAM"
    if "{file}" in target:
        assert "echo" in str(caught.value)


def test_arguments_are_text_or_json(program: Program) -> None:
    assert parse_arguments(program, ["text=12", "count=3", "flag=true"]) == {"text": "12", "count": 3, "flag": True}
    assert parse_arguments(program, ["text=a=b", "count=many"]) == {"text": "a=b", "count": "many"}
    for pairs in (["text"], ["nobody=1"], ["text=1", "text=2"]):
        with pytest.raises(InvalidRequest) as caught:
            parse_arguments(program, pairs)
        assert caught.value.param == "--arg"


def test_one_run_prints_outputs_value_and_table(
    program: Program, engine: rx.Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    run_once(program, {"text": "hello", "count": 2}, engine, {"temperature": 0})
    printed = capsys.readouterr().out
    assert "word: " in printed
    assert '"point": {"x": 2}' in printed
    for line in ("taken from the cache", "computed", "forced by a grammar", "decode steps", "time"):
        assert line in printed


def test_rows_are_written_and_resumed(program: Program, engine: rx.Engine, tmp_path: Path) -> None:
    rows = _rows(tmp_path / "in.jsonl", [{"text": "a"}, {"text": "bad"}, {"text": "c", "count": 3}, {"text": "d"}])
    out = tmp_path / "out.jsonl"
    settings = {"temperature": 1.0, "seed": 5}
    assert run_rows(program, {"flag": True}, rows, out, engine, settings, 2) == 1
    whole = _results(out)
    assert set(whole) == {0, 1, 2, 3}
    assert whole[1]["error"]["message"] == "a bad row"
    assert whole[2]["value"]["point"] == {"x": 3}
    assert whole[0]["value"]["flag"] is True

    # Interrupted after row 0, in the middle of a line: the rest is run again and gives what it would have given.
    first = next(line for line in out.read_text().splitlines(keepends=True) if json.loads(line)["row"] == 0)
    out.write_text(first + '{"row": 2, "val')
    before = engine.stats()["programs_opened"]
    run_rows(program, {"flag": True}, rows, out, engine, settings, 2)
    assert _results(out).keys() == whole.keys()
    assert {row: entry.get("value") for row, entry in _results(out).items()} == {
        row: entry.get("value") for row, entry in whole.items()
    }
    assert engine.stats()["programs_opened"] - before == 2  # the bad row fails before it sends anything


def test_rows_that_cannot_be_read_are_named(program: Program, engine: rx.Engine, tmp_path: Path) -> None:
    for text in ("[1]\n", "{\n", '{"text": "a"}\n"x"\n'):
        path = tmp_path / "in.jsonl"
        path.write_text(text)
        with pytest.raises(InvalidRequest) as caught:
            run_rows(program, {}, path, None, engine, {}, 2)
        assert caught.value.param == "--rows"
    with pytest.raises(InvalidRequest, match="regular file"):
        run_rows(program, {}, tmp_path, None, engine, {}, 2)
    rows = _rows(tmp_path / "good.jsonl", [{"text": "a"}])
    (tmp_path / "other.txt").write_text("not a result\n")
    with pytest.raises(InvalidRequest, match=r"other\.txt"):
        run_rows(program, {}, rows, tmp_path / "other.txt", engine, {}, 2)


def test_every_engine_flag_is_an_option_of_run_and_chat() -> None:
    for command in ("run", "chat"):
        shown = CliRunner().invoke(
            app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
        )
        assert shown.exit_code == 0
        assert [flag.option for flag in flag_table().values() if flag.option not in shown.output] == []


def test_the_other_commands_answer() -> None:
    runner = CliRunner()
    assert "smollm2-135m" in runner.invoke(app, ["models"]).output
    assert "native kernels" in runner.invoke(app, ["doctor"]).output
    assert runner.invoke(app, ["serve"]).exit_code == 2
    assert runner.invoke(app, ["run", "x.py:y", "--chunk", "many"]).exit_code == 2
    assert runner.invoke(app, ["run", "x.py:y", "--out", "z"]).exit_code != 0


@pytest.mark.parametrize(
    "result",
    ["float('nan')", r"'\ud800'", r"b'\xff'", "cycle", r"{'\ud800': 1}"],
)
def test_a_result_without_json_fails_its_row_alone(engine: rx.Engine, tmp_path: Path, result: str) -> None:
    path = tmp_path / "odd.py"
    path.write_text(
        "import radixrt as rx\ncycle = []\ncycle.append(cycle)\n"
        f"@rx.program\ndef odd(s, bad):\n    return {result} if bad else 1\n"
    )
    rows = _rows(tmp_path / "in.jsonl", [{"bad": False}, {"bad": True}, {"bad": False}])
    out = tmp_path / "out.jsonl"
    odd = load_program(f"{path}:odd")
    for _ in range(2):  # the second time the failed row alone is tried again, and still has one line
        assert run_rows(odd, {}, rows, out, engine, {}, 4) == 1
        results = _results(out)
        assert len(out.read_text().splitlines()) == 3
        assert "error" in results[1]
        assert [results[0]["value"], results[2]["value"]] == [1, 1]
    run_once(odd, {"bad": True}, engine, {})


def test_an_error_with_odd_characters_is_written(engine: rx.Engine, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text("import radixrt as rx\n@rx.program\ndef odd(s):\n    raise ValueError('\\ud800 bad')\n")
    out = tmp_path / "out.jsonl"
    assert run_rows(load_program(f"{path}:odd"), {}, _rows(tmp_path / "in.jsonl", [{}]), out, engine, {}, 4) == 1
    assert "bad" in _results(out)[0]["error"]["message"]


def test_an_output_that_cannot_be_written_is_named(program: Program, engine: rx.Engine, tmp_path: Path) -> None:
    rows = _rows(tmp_path / "in.jsonl", [{"text": "a"}])
    with pytest.raises(InvalidRequest) as caught:
        run_rows(program, {}, rows, tmp_path / "nowhere" / "out.jsonl", engine, {}, 2)
    assert caught.value.param == "--out"


def test_without_a_seed_the_one_that_was_drawn_goes_on(program: Program, engine: rx.Engine, tmp_path: Path) -> None:
    rows = _rows(tmp_path / "in.jsonl", [{"text": t, "count": 6} for t in ("a", "bad", "c", "d")])
    out = tmp_path / "out.jsonl"
    run_rows(program, {}, rows, out, engine, {}, 4)
    whole = _results(out)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(line for line in lines if json.loads(line)["row"] < 2))
    run_rows(program, {}, rows, out, engine, {}, 4)
    again = _results(out)
    for row in range(4):
        assert (again[row]["seed"], again[row].get("value")) == (whole[row]["seed"], whole[row].get("value"))


def test_a_bad_row_is_named_by_the_line_of_the_file(program: Program, engine: rx.Engine, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    for text, named in (('{"text": "a"}\n\n{\n', "line 3"), ("\n[1]\n", "line 2")):
        path.write_text(text)
        with pytest.raises(InvalidRequest, match=named):
            run_rows(program, {}, path, None, engine, {}, 2)


def test_a_program_file_may_hold_any_constraint(
    tmp_path: Path, engine: rx.Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "constrained.py"
    path.write_text(
        "import radixrt as rx\n"
        "WORD = rx.Constraint(kind='lark', source='start: \"x\" | \"y\"')\n"
        "DAY = rx.Constraint(kind='json_schema', source={'$ref': 'x:day'}, resources={'x:day': {'const': 1}})\n"
        "@rx.program\n"
        "def both(s):\n"
        "    s += 'a' + rx.gen('word', grammar=WORD) + rx.gen('day', schema=DAY)\n"
        "    return s['day']\n"
    )
    run_once(load_program(f"{path}:both"), {}, engine, {})
    shown = capsys.readouterr().out
    assert re.search(r"word: [xy]\b", shown)
    assert "value: 1" in shown
