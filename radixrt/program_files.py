"""Programs from files, rows from files, results to files: the part of ``radixrt run`` that is not a command line.

An output file holds one JSON object a row: ``row`` (its number in the input, from 0), then ``value``, ``outputs``
(the text of every named node), ``usage`` and ``seed``, or ``error``. Rows that stand in it without an error are not
run again, so an interrupted run is resumed by the same command; a row that failed is tried again and its old line
is taken out.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
import pydantic_core
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from radixrt.api import Usage
from radixrt.arguments import fresh_seed
from radixrt.client.protocol import EngineProtocol
from radixrt.errors import InvalidRequest, RadixrtError
from radixrt.frontend.program import Program
from radixrt.frontend.run import Run
from radixrt.frontend.seeds import derived_seed

__all__ = ["load_program", "parse_arguments", "run_once", "run_rows"]


def load_program(target: str) -> Program:
    """Import ``FILE:PROGRAM``. Raises ``InvalidRequest`` where the file or the program is not there."""
    name, colon, attribute = target.rpartition(":")
    path = Path(name)
    if not colon or not name or not attribute:
        raise InvalidRequest(f"{target!r} is not of the form FILE:PROGRAM", param="FILE:PROGRAM")
    if not path.is_file():
        raise InvalidRequest(f"there is no file {path}", param="FILE:PROGRAM")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{path} is not a Python file", param="FILE:PROGRAM")
    module = importlib.util.module_from_spec(spec)
    # What the file defines looks itself up there (dataclasses, pydantic), and it may import its neighbours.
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    found = getattr(module, attribute, None)
    if not isinstance(found, Program):
        programs = sorted(key for key, value in vars(module).items() if isinstance(value, Program))
        raise InvalidRequest(
            f"{path} has no @program called {attribute!r}; it has: {', '.join(programs) or 'none'}",
            param="FILE:PROGRAM",
        )
    return found


def parse_arguments(program: Program, pairs: list[str]) -> dict[str, Any]:
    """Turn ``k=v`` words into arguments: text for a parameter annotated ``str``, else JSON (or text if it is none).

    Raises ``InvalidRequest`` for a word without ``=``, an unknown or a repeated name.
    """
    parameters = list(inspect.signature(program.function).parameters.values())[1:]
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidRequest(f"--arg {pair!r} is not of the form k=v", param="--arg")
        if name in arguments:
            raise InvalidRequest(f"--arg {name} is given twice", param="--arg")
        if name not in annotations:
            raise InvalidRequest(
                f"program {program.name!r} has no argument {name!r}; it has: {', '.join(annotations) or 'none'}",
                param="--arg",
            )
        arguments[name] = text if annotations[name] in (str, "str") else _json_or_text(text)
    return arguments


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def run_once(
    program: Program, arguments: Mapping[str, Any], engine: EngineProtocol, settings: Mapping[str, Any]
) -> None:
    """Run, print the value and every named output, and the table of what was computed and what was shared."""
    started = time.monotonic()
    run = program.run(**arguments, engine=engine, **settings)
    seconds = time.monotonic() - started
    console = Console()
    for name, texts in _outputs(run).items():
        for text in texts:
            console.print(f"[bold]{name}[/bold]: ", end="")
            console.print(text, markup=False, highlight=False)
    console.print("[bold]value[/bold]: ", end="")
    console.print(_shown(run.value), markup=False, highlight=False)
    console.print(usage_table(run.usage, seconds, programs=1))


def run_rows(
    program: Program,
    common: Mapping[str, Any],
    rows: Path,
    out: Path | None,
    engine: EngineProtocol,
    settings: Mapping[str, Any],
    concurrency: int,
) -> int:
    """Run every row of a JSON-lines file that ``out`` does not hold yet; return how many failed."""
    if not rows.is_file():
        raise InvalidRequest(f"{rows} is not a regular file (it is read twice)", param="--rows")
    done, earlier_seed = _finished_rows(out) if out is not None else (set(), None)
    total = sum(1 for _ in _read_rows(rows))
    # Without a seed the one that an earlier run drew goes on, so that what is repeated comes out as it did.
    seeds = (settings.get("seed"), earlier_seed, fresh_seed())
    seed = next(value for value in seeds if value is not None)
    todo = ((index, row) for index, row in _read_rows(rows) if index not in done)
    started, failed, finished, usage = time.monotonic(), 0, 0, Usage()
    numbers: list[int] = []  # the input row of each row of the map

    def prepared() -> Iterator[dict[str, Any]]:
        for index, row in todo:
            numbers.append(index)
            # The seed belongs to the row's number in the file, so a resumed run repeats what it would have done.
            yield {"seed": derived_seed(seed, "row", index), **common, **row}

    stream = _opened(out) if out is not None else sys.stdout
    options = {name: value for name, value in settings.items() if name != "seed"}
    with tqdm(total=total, initial=len(done), unit="row", file=sys.stderr, disable=None) as bar:
        try:
            runs = program.map(
                prepared(), engine=engine, concurrency=concurrency, keep_trace=False, progress=False, **options
            )
            for run in runs.as_completed():
                failed += not _write(stream, numbers[run.index or 0], run, seed)
                finished += 1
                usage = usage + run.usage
                bar.update()
        except KeyboardInterrupt:
            if out is not None:
                tqdm.write(
                    f"interrupted: {finished} rows done; the same command goes on from here", file=sys.stderr
                )
            raise
        finally:
            if out is not None:
                stream.close()
    console = Console(stderr=out is None)
    console.print(usage_table(usage, time.monotonic() - started, programs=finished))
    if done:
        console.print(f"{len(done)} rows were already in {out}")
    if failed:
        where = f"their errors are in {out}; the same command tries them again" if out is not None else "see above"
        console.print(f"{failed} {'row' if failed == 1 else 'rows'} failed: {where}", style="bold red")
    return failed


def _opened(path: Path) -> IO[str]:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"cannot write results to {path}: {error}", param="--out") from error


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows and their numbers; blank lines are none. Errors name the line of the file, from 1."""
    index = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for place, text in enumerate(lines, 1):
                if not text.strip():
                    continue
                try:
                    row = json.loads(text)
                except json.JSONDecodeError as error:
                    raise InvalidRequest(
                        f"line {place} of {path}, column {error.colno}: {error.msg}", param="--rows"
                    ) from error
                if not isinstance(row, dict):
                    raise InvalidRequest(f"line {place} of {path} is not a JSON object", param="--rows")
                yield index, row
                index += 1
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read the rows of {path}: {error}", param="--rows") from error


def _finished_rows(path: Path) -> tuple[set[int], int | None]:
    """The rows that stand in an output file without an error, and the seed of the run that wrote it.

    Everything else in the file is taken out.
    """
    if not path.exists():
        return set(), None
    seed: int | None = None
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1  # a line that was cut off ends the file
    done: dict[int, bytes] = {}
    for line in data[:whole].splitlines(keepends=True):
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
            row, error = entry["row"], entry.get("error")
        except (msgspec.DecodeError, KeyError) as problem:
            raise InvalidRequest(
                f"{path} holds a line that is no result of a run: {problem}", param="--out"
            ) from problem
        seed = entry.get("map_seed", seed)
        if error is None:
            done[row] = line
    kept = b"".join(done.values())
    if kept != data:
        aside = path.with_name(path.name + ".new")
        aside.write_bytes(kept)
        aside.replace(path)
    return set(done), seed


def _write(stream: IO[str], index: int, run: Run, map_seed: int) -> bool:
    """Write the line of a row; False when the row failed, also by a result that JSON cannot hold."""
    entry: dict[str, Any] = {"row": index, "seed": run.seed, "map_seed": map_seed}
    entry["usage"] = msgspec.to_builtins(run.usage)
    error = run.error
    try:
        entry["outputs"] = _outputs(run)
        if error is None:
            entry["value"] = _jsonable(run.value)
            line = _line(entry)
    except (ValueError, RecursionError) as problem:  # what has no JSON: cycles, lone surrogates, odd bytes, NaN
        entry.pop("value", None)
        entry.pop("outputs", None)
        error = InvalidRequest(f"the row's result has no JSON form: {problem}", param="value")
    if error is not None:
        code = error.code if isinstance(error, RadixrtError) else type(error).__name__
        message = str(error).encode("utf-8", "backslashreplace").decode()
        entry["error"] = {"code": code, "message": message}
        line = _line(entry)
    stream.write(line)
    stream.flush()
    return error is None


def _line(entry: dict[str, Any]) -> str:
    line = json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n"
    line.encode()
    return line


def _outputs(run: Run) -> dict[str, list[str]]:
    outputs: dict[str, list[str]] = {}
    for node in run.nodes:
        if node.name and node.samples:
            outputs.setdefault(node.name, []).extend(sample.text for sample in node.samples)
    return outputs


def _jsonable(value: Any) -> Any:
    return pydantic_core.to_jsonable_python(value, fallback=str)


def _shown(value: Any) -> str:
    """The value as JSON, or as Python shows it where it has no JSON form."""
    try:
        return json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return repr(value)


def usage_table(usage: Usage, seconds: float, *, programs: int) -> Table:
    """The short table at the end of a run: where every prompt token came from, and what was generated."""
    table = Table("what", "amount", "")
    share = usage.cached_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0
    table.add_row("programs", str(programs), "")
    table.add_row("prompt tokens", str(usage.prompt_tokens), "as if every call were alone")
    table.add_row("  taken from the cache", str(usage.cached_tokens), f"{share:.0%}")
    table.add_row("  computed", str(usage.computed_tokens), "")
    table.add_row("generated tokens", str(usage.completion_tokens), "")
    table.add_row("  forced by a grammar", str(usage.forced_tokens), "without a decode step")
    table.add_row("decode steps", str(usage.decode_steps), "")
    table.add_row("time", f"{seconds:.2f} s", f"{usage.completion_tokens / max(seconds, 1e-9):.1f} tokens/s")
    return table
