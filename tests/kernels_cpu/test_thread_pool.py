"""The native thread pool: every task once, any number of threads, callers at once, a fork."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import numpy as np
import numpy.typing as npt
import pytest

from radixrt.kernels.cpu import native
from radixrt.kernels.cpu.thread_pool import ThreadPool

I32 = npt.NDArray[np.int32]


def trace(pool: ThreadPool, tasks: int, *, pauses: int = 0, nested: int = 0) -> tuple[I32, I32]:
    """How often each task ran, and as which worker; every ``nested``-th runs a loop inside."""
    library = native()
    assert library is not None
    call = library.radixrt_threads_trace
    pointer, wide = ctypes.c_void_p, ctypes.c_int64
    call.argtypes, call.restype = (pointer, wide, wide, wide, pointer, pointer), ctypes.c_int32
    runs, workers = np.zeros(tasks + 1, np.int32), np.full(tasks + 1, -1, np.int32)
    assert call(pool.require(), tasks, pauses, nested, runs.ctypes.data, workers.ctypes.data) == 1
    assert (runs[tasks], workers[tasks]) == (0, -1)
    return runs[:tasks], workers[:tasks]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_task_runs_once_on_a_worker_of_the_pool(threads: int) -> None:
    pool = ThreadPool(threads)
    for round_ in range(200):
        tasks = round_ * 5 % 67
        runs, workers = trace(pool, tasks, pauses=round_ % 3 * 10)
        assert (runs == 1).all()
        assert ((workers >= 0) & (workers < threads)).all()


def test_sleeping_threads_wake_up_and_take_part() -> None:
    pool = ThreadPool(2)
    for _ in range(50):
        threading.Event().wait(0.002)  # far longer than a worker spins
        _, workers = trace(pool, 40, pauses=20_000)
        if set(workers.tolist()) == {0, 1}:
            return
    pytest.fail("the second thread never took a task")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_loop_inside_a_task_runs_in_place(threads: int) -> None:
    runs, _ = trace(ThreadPool(threads), 30, nested=2)
    assert (runs == 1).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_callers_of_one_pool_take_turns(threads: int) -> None:
    pool, wrong = ThreadPool(threads), []

    def call(tasks: int) -> None:
        for _ in range(100):
            runs, _ = trace(pool, tasks, pauses=5)
            if not (runs == 1).all():
                wrong.append(tasks)

    callers = [threading.Thread(target=call, args=(tasks,)) for tasks in (3, 8, 21)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_pools_come_and_go() -> None:
    for threads in (1, 2, 4) * 20:
        assert trace(ThreadPool(threads), 3)[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_a_bad_number_of_threads_is_refused(threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        ThreadPool(threads)


FORK = """
import os
from radixrt.kernels.cpu.thread_pool import ThreadPool

several, single = ThreadPool(3), ThreadPool(1)
child = os.fork()
if child == 0:
    single.require()
    code = 1
    try:
        several.require()
    except RuntimeError as error:
        code = 0 if "fork" in str(error) else 2
    fresh = ThreadPool(2)
    fresh.require()
    del several, single, fresh
    os._exit(code)
several.require()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_is_refused_and_can_make_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["0"]
