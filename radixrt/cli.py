"""The command line: ``radixrt run | chat | models | doctor | bench | serve``.

Parses, calls the library and prints; anything worth calling from Python lives elsewhere. Engine flags come from
the one table in ``radixrt.config``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from radixrt.config import flag_table, resolve
from radixrt.errors import RadixrtError

__all__ = ["app", "main"]

DEFAULT_MODEL = "smollm2-135m"

app = typer.Typer(
    help="Run programs of many model calls over one shared prefix cache.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench_app = typer.Typer(help="Benchmarks, run by hand.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

ModelOption = Annotated[str, typer.Option("--model", "-m", help="alias, folder, .gguf file or hub id")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file of engine flags")]


def main() -> None:
    """Entry point of the ``radixrt`` command: library errors become one line and exit status 1 or 2."""
    try:
        app()
    except RadixrtError as error:
        _fail(error)


def _fail(error: RadixrtError) -> NoReturn:
    place = f" [{error.param}]" if error.param else ""
    Console(stderr=True).print(f"radixrt: {error.code}{place}: {error.message}", style="bold red", markup=False)
    raise SystemExit(2 if error.status == 400 else 1)


def _with_engine_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each engine flag; it gets those that were set in ``engine_flags``."""
    table = flag_table()

    def wrapper(**arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in table}
        given = {name: value for name, value in flags.items() if value is not None}
        command(**arguments, engine_flags=given)

    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "engine_flags"]
    extra = []
    for flag in table.values():
        kind: Any = Literal[flag.choices] if flag.choices else flag.type
        option = typer.Option(
            flag.option, help=f"{flag.description} (default {flag.default})", rich_help_panel="Engine flags"
        )
        extra.append(
            inspect.Parameter(
                flag.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
            )
        )
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + extra
    wrapper.__name__ = command.__name__  # typer's name of the command
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapper.__doc__ = command.__doc__
    return wrapper


def _open_engine(model: str, config: Path | None, flags: dict[str, Any]) -> Any:
    from radixrt.client.engine import Engine

    resolved = resolve(flags, file=config)
    return Engine(model, **{name: getattr(resolved, name) for name in resolved.__struct_fields__})


# --- run ----------------------------------------------------------------------------------------------------------


@app.command()
@_with_engine_flags
def run(
    *,
    target: Annotated[str, typer.Argument(metavar="FILE:PROGRAM", help="a file and a @program function in it")],
    arg: Annotated[
        list[str] | None, typer.Option("--arg", help="k=v for one run; v is JSON where k is no str")
    ] = None,
    rows: Annotated[Path | None, typer.Option(help="JSON lines, one object of arguments a row")] = None,
    out: Annotated[Path | None, typer.Option(help="where the rows' results go; finished rows are skipped")] = None,
    concurrency: Annotated[int, typer.Option(help="programs in flight with --rows")] = 64,
    temperature: Annotated[float | None, typer.Option(help="default of the whole program")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="default of the whole program")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the random streams")] = None,
    timeout: Annotated[float | None, typer.Option(help="seconds for each program")] = None,
    model: ModelOption = DEFAULT_MODEL,
    config: ConfigOption = None,
    engine_flags: dict[str, Any],
) -> None:
    """Run a program once (--arg) or over many rows (--rows, --out), and show what was shared."""
    from radixrt import program_files

    program = program_files.load_program(target)
    arguments = program_files.parse_arguments(program, arg or [])
    settings = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed, "timeout": timeout}
    given = {name: value for name, value in settings.items() if value is not None}
    if rows is None and out is not None:
        raise typer.BadParameter("--out goes with --rows")
    with _open_engine(model, config, engine_flags) as engine:
        if rows is None:
            program_files.run_once(program, arguments, engine, given)
        else:
            failed = program_files.run_rows(program, arguments, rows, out, engine, given, concurrency)
            if failed:
                raise typer.Exit(1)


# --- chat ---------------------------------------------------------------------------------------------------------


@app.command()
@_with_engine_flags
def chat(
    *,
    system: Annotated[str | None, typer.Option(help="system message")] = None,
    temperature: Annotated[float, typer.Option()] = 0.7,
    max_tokens: Annotated[int, typer.Option(help="tokens of an answer at most")] = 256,
    model: ModelOption = DEFAULT_MODEL,
    config: ConfigOption = None,
    engine_flags: dict[str, Any],
) -> None:
    """Talk to a model. Ctrl-C stops an answer, an empty line or Ctrl-D ends."""
    messages = [{"role": "system", "content": system}] if system else []
    interactive = sys.stdin.isatty()
    with _open_engine(model, config, engine_flags) as engine:
        while True:
            try:
                line = input("> " if interactive else "").strip()
            except (EOFError, KeyboardInterrupt):
                break
            if not line:
                break
            messages.append({"role": "user", "content": line})
            answer = ""
            stream = engine.stream(messages, temperature=temperature, max_tokens=max_tokens)
            try:
                for delta in stream:
                    answer += delta
                    print(delta, end="", flush=True)
            except KeyboardInterrupt:
                stream.close()
                print(" [stopped]", end="")
            print()
            messages.append({"role": "assistant", "content": answer})


# --- the rest -----------------------------------------------------------------------------------------------------


@app.command()
def models() -> None:
    """List the models that have a short name, and whether they are on this machine."""
    from radixrt.model.sources import list_models

    table = Table("name", "what it is", "here")
    for entry in list_models():
        table.add_row(entry.alias, entry.description, "yes" if entry.cached else "no: fetched when first used")
    Console().print(table)
    Console().print("A folder, a .gguf file or a hub id (organisation/name) works wherever a name does.")


@app.command()
def doctor(config: ConfigOption = None) -> None:
    """Show what radixrt finds on this machine and which settings are in force."""
    from radixrt.doctor import report

    table = Table("what", "found", show_lines=False)
    healthy = True
    for finding in report(resolve({}, file=config)):
        table.add_row(finding.what, finding.found, style=None if finding.ok else "bold red")
        healthy = healthy and finding.ok
    Console().print(table)
    if not healthy:
        raise typer.Exit(1)


@app.command()
def serve() -> None:
    """Serve programs and OpenAI-compatible calls over HTTP (not part of this version)."""
    Console(stderr=True).print("radixrt: this version has no HTTP server; use Engine in Python.", style="bold red")
    raise typer.Exit(2)


@bench_app.command("step")
@_with_engine_flags
def bench_step(
    *,
    batch: Annotated[int, typer.Option(help="sequences that decode together")] = 32,
    prompt: Annotated[int, typer.Option(help="tokens of each prompt")] = 128,
    steps: Annotated[int, typer.Option(help="decode steps to measure")] = 64,
    constrained: Annotated[bool, typer.Option(help="every row under a grammar")] = False,
    model: ModelOption = DEFAULT_MODEL,
    config: ConfigOption = None,
    engine_flags: dict[str, Any],
) -> None:
    """Where the time of a decode step goes: everything but the forward pass, beside the forward pass."""
    from radixrt.bench.step import measure

    measure(
        model, resolve(engine_flags, file=config), batch=batch, prompt=prompt, steps=steps, constrained=constrained
    )


@bench_app.command("structured")
def bench_structured(
    *,
    corpus: Annotated[Path, typer.Option(help="folder of the shared test data")],
    peers: Annotated[str, typer.Option(help="of llguidance, xgrammar, outlines-core, with commas between")] = "",
    vocab: Annotated[str, typer.Option(help="smollm2, synthetic-128k or synthetic-256k")] = "smollm2",
    schemas: Annotated[int, typer.Option(help="schemas of the sample, spread evenly (0: all)")] = 0,
    peer_schemas: Annotated[int, typer.Option(help="schemas for each peer (0: as many as ours)")] = 0,
    parts: Annotated[
        str, typer.Option(help="of sample, memory, forced, batch, masks, suite, regex, bugs (default: all)")
    ] = "",
    key_order: Annotated[str | None, typer.Option(help="of schemas, ours alone")] = None,
    patience: Annotated[float, typer.Option(help="seconds after which a silent process is ended")] = 60.0,
    clock: Annotated[str, typer.Option(help="wall, or cpu: a thread's own time, on a busy machine")] = "wall",
    json_file: Annotated[Path | None, typer.Option("--json", help="where the figures go as JSON")] = None,
) -> None:
    """Constrained decoding over the shared corpora: judged, timed, with the peers beside it."""
    import json

    from radixrt.bench.structured import PARTS, Plan, run_plan
    from radixrt.bench.structured_report import Report

    report = Report()
    plan = Plan(
        corpus,
        vocab,
        tuple(filter(None, peers.split(","))),
        tuple(filter(None, parts.split(","))) or PARTS,
        schemas,
        peer_schemas,
        patience,
        clock,
        {} if key_order is None else {"key_order": key_order},
    )
    run_plan(plan, report)
    if json_file is not None:
        json_file.write_text(json.dumps(report.data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
