"""``@program``: a Python function that calls a model, and the ways to run it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

from radixrt.arguments import fresh_seed
from radixrt.errors import InvalidRequest
from radixrt.frontend.execution import execute_here, launch, run_async, start_task
from radixrt.frontend.graph import Graph, current_dry_run, record_dry
from radixrt.frontend.live import Listener, Terms
from radixrt.frontend.mapping import Runs
from radixrt.frontend.options import MAP_OPTIONS, RUN_OPTIONS, RunOptions, Signature
from radixrt.frontend.run import Run, RunSpec, current_run
from radixrt.frontend.seeds import derived_seed
from radixrt.frontend.state import ProgramState
from radixrt.frontend.stream import ProgramStream
from radixrt.frontend.threads import Pool
from radixrt.frontend.waiting import running_loop, spawn, wait_async

__all__ = ["Program", "program"]

CONCURRENCY = 64
"""How many rows of a map are in flight, and on how many threads a run executes the programs it calls."""


class Program:
    """A program: its function, and ``run``, ``arun``, ``start``, ``map``, ``amap``, ``stream`` and ``graph``.

    Arguments of the function are passed by name or position. Beside them every way to run takes ``engine``,
    ``timeout`` (seconds), ``salt``, ``priority``, ``keep_trace`` and the sampling arguments, which become the
    defaults of the whole program (``temperature=0``, ``seed=7``). Without ``engine`` the one of the enclosing
    ``with engine:`` is taken.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        if not inspect.isfunction(function):
            raise InvalidRequest(f"@program decorates a function, not {function!r}", param="program")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidRequest(f"program {function.__name__!r} must not be a generator", param="program")
        self.function = function
        self.name = function.__name__
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = Signature(function)
        functools.update_wrapper(self, function)

    # --- inside another program ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call this program inside another one.

        With a state as first argument it becomes part of that state's branch and returns what the function
        returns. Without, it starts as a program of its own on the same engine, with the caller's defaults, and
        returns its ``Run``; it is cancelled with its caller.
        """
        if args and isinstance(args[0], ProgramState):
            if self.is_async and running_loop() is None:
                raise InvalidRequest(
                    f"{self.name} is an async program: a plain one cannot await it on its own state; "
                    f"call {self.name}(...) without the state",
                    param="program",
                )
            return self.function(args[0], **self._signature.bind(args[1:], kwargs))
        arguments = self._signature.bind(args, kwargs)
        dry = current_dry_run.get()
        if dry is not None:
            return dry.call(self.name)
        caller: Run | None = current_run.get()
        if caller is None:
            raise InvalidRequest(
                f"{self.name}(...) is called outside a program: use {self.name}.run(...), "
                "or pass a state as first argument",
                param="program",
            )
        run = Run(caller.child_spec(self.name, is_async=self.is_async))
        caller.adopt(run)
        run.begin()
        if self.is_async and running_loop() is not None:
            start_task(run, self.function, arguments)
        else:
            caller.executor.submit(run, self.function, arguments, is_async=self.is_async)
        return run

    # --- one run ---

    def run(self, *args: Any, **kwargs: Any) -> Run:
        """Run to the end and return the finished run. What the program raises comes out here.

        A plain function runs on the caller's thread. Also works where an event loop runs, as in a notebook.
        """
        run, arguments = self._prepare(args, kwargs)
        try:
            if not self.is_async:
                execute_here(run, self.function, arguments)
            elif running_loop() is None:
                asyncio.run(run_async(run, self.function, arguments))
            else:
                spawn(lambda: asyncio.run(run_async(run, self.function, arguments)), name=f"radixrt-{self.name}")
            run.wait()
        except BaseException:
            run.cancel()
            raise
        run.raise_error()
        return run

    async def arun(self, *args: Any, **kwargs: Any) -> Run:
        """``run`` for asyncio. A cancelled task cancels the run. A plain function runs on a thread of its own."""
        run, arguments = self._prepare(args, kwargs)
        if self.is_async:
            await run_async(run, self.function, arguments)
        else:
            launch(run, self.function, arguments, is_async=False)
            try:
                await wait_async(run.over)
            except asyncio.CancelledError:
                run.cancel()
                raise
        run.raise_error()
        return run

    def start(self, *args: Any, **kwargs: Any) -> Run:
        """Begin a run beside the caller and return it at once; ``run.value`` or ``await run`` waits for it."""
        run, arguments = self._prepare(args, kwargs)
        launch(run, self.function, arguments, is_async=self.is_async)
        return run

    def stream(self, *args: Any, **kwargs: Any) -> ProgramStream:
        """Iterate (``for`` or ``async for``) over the events of a run: text, ends of nodes, the end.

        The run begins with the iteration. Leaving the loop or closing the stream cancels it.
        """
        arguments, options = self._read(args, kwargs)

        def begin(listener: Listener, on_this_loop: bool) -> Run:
            run = self._make(options, listener=listener)
            launch(run, self.function, arguments, is_async=self.is_async, on_this_loop=on_this_loop)
            return run

        return ProgramStream(begin)

    # --- many runs ---

    def map(
        self,
        rows: Iterable[Mapping[str, Any]],
        /,
        *,
        concurrency: int = CONCURRENCY,
        progress: bool | None = None,
        raise_on_error: bool = False,
        **options: Any,
    ) -> Runs:
        """Run once for each row, a dict of the program's arguments, and return the ``Runs`` at once.

        At most ``concurrency`` rows are in flight; rows are pulled from the iterable as capacity frees. A row
        that fails keeps its error in ``run.error``; ``raise_on_error`` raises it from the iteration instead and
        cancels the rest. Seeds: row i gets one mixed from the map's seed and i, unless it carries a ``seed``.
        ``keep_trace=False`` keeps no finished run, so that memory stays bounded for any number of rows; the
        runs can then be iterated once. ``progress`` None shows a bar when stderr is a terminal.
        """
        return self._map(rows, concurrency, progress, raise_on_error, options, loop=None)

    def amap(
        self,
        rows: Iterable[Mapping[str, Any]],
        /,
        *,
        concurrency: int = CONCURRENCY,
        progress: bool | None = None,
        raise_on_error: bool = False,
        **options: Any,
    ) -> Runs:
        """``map`` for asyncio: ``async for run in card.amap(rows)``, or ``runs = await card.amap(rows)``.

        ``async def`` programs run on the caller's loop. A cancelled task cancels all rows.
        """
        return self._map(rows, concurrency, progress, raise_on_error, options, loop=asyncio.get_running_loop())

    def _map(
        self,
        rows: Iterable[Mapping[str, Any]],
        concurrency: int,
        progress: bool | None,
        raise_on_error: bool,
        values: Mapping[str, Any],
        *,
        loop: asyncio.AbstractEventLoop | None,
    ) -> Runs:
        where = f"{self.name}.map"
        for name in values:
            self._signature.check_option(name, (*RUN_OPTIONS, *MAP_OPTIONS), where=where)
        options = RunOptions.read(values, where=where)
        seed = fresh_seed() if options.seed is None else options.seed
        pool = Pool(concurrency, self.name, loop=loop)

        def prepare(index: int, row: Any) -> tuple[Run, dict[str, Any] | None]:
            row_seed = derived_seed(seed, "row", index)
            try:
                own_seed, arguments = self._read_row(index, row, where)
            except InvalidRequest as error:
                run = Run(self._spec(options, pool, seed=row_seed, index=index))
                run.fail(error)
                return run, None
            row_seed = row_seed if own_seed is None else own_seed
            return Run(self._spec(options, pool, seed=row_seed, index=index)), arguments

        return Runs(
            rows,
            prepare,
            self.function,
            pool,
            is_async=self.is_async,
            loop=loop,
            name=self.name,
            concurrency=concurrency,
            progress=progress,
            raise_on_error=raise_on_error,
            keep=options.keep_trace,
        )

    def _read_row(self, index: int, row: Any, where: str) -> tuple[int | None, dict[str, Any]]:
        """The seed that a row carries, and its program arguments."""
        if not isinstance(row, Mapping):
            raise InvalidRequest(
                f"{where}: row {index} must be a dict of arguments, not {type(row).__name__}", param="rows"
            )
        values = dict(row)
        seed = values.pop("seed", None)
        for name in values:
            if not isinstance(name, str):
                raise InvalidRequest(f"{where}: row {index} has an argument {name!r}", param="rows")
        try:
            return self._signature.check_seed(seed), self._signature.bind((), values, ("seed",))
        except InvalidRequest as error:
            raise InvalidRequest(f"row {index}: {error.message}", param=error.param) from None

    # --- the graph ---

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The call graph, recorded without an engine, up to the first step that depends on a generated value."""
        arguments, defaults = self._signature.split(args, kwargs, ())
        return record_dry(self.name, self.function, arguments, defaults, is_async=self.is_async)

    # --- common ---

    def _read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], RunOptions]:
        arguments, values = self._signature.split(args, kwargs, RUN_OPTIONS)
        return arguments, RunOptions.read(values, where=self.name)

    def _prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Run, dict[str, Any]]:
        arguments, options = self._read(args, kwargs)
        return self._make(options), arguments

    def _make(self, options: RunOptions, *, listener: Listener | None = None) -> Run:
        """A run by itself, with a pool for the programs that it calls."""
        pool = Pool(CONCURRENCY, self.name)
        run = Run(self._spec(options, pool, listener=listener))
        run.on_over(lambda _: pool.close())
        return run

    def _spec(
        self,
        options: RunOptions,
        pool: Pool,
        *,
        seed: int | None = None,
        index: int | None = None,
        listener: Listener | None = None,
    ) -> RunSpec:
        chosen = options.seed if seed is None else seed
        terms = Terms(
            seed=fresh_seed() if chosen is None else chosen,
            salt=options.salt,
            priority=options.priority,
            deadline=None if options.timeout is None else time.monotonic() + options.timeout,
        )
        return RunSpec(
            self.name,
            options.engine,
            options.defaults,
            terms,
            pool,
            keep_trace=options.keep_trace,
            index=index,
            listener=listener,
            is_async=self.is_async,
        )

    def __repr__(self) -> str:
        return f"<program {self.name}>"


@overload
def program(function: Callable[..., Any], /) -> Program: ...
@overload
def program() -> Callable[[Callable[..., Any]], Program]: ...
def program(function: Callable[..., Any] | None = None, /) -> Program | Callable[[Callable[..., Any]], Program]:
    """Make a program of a function whose first parameter is the state ``s``.

    Raises ``InvalidRequest`` for a parameter whose name is a sampling argument or an option of every run.
    """
    return Program if function is None else Program(function)
