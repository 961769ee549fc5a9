"""The worker process: ``python -m radixrt.worker``, started by the engine, never by hand.

The first line of standard input says what to load and where to listen. The end of standard input means that the
parent has ended, and so does this process, whatever it is doing. Ctrl-C is the parent's business.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

import msgspec

from radixrt.config import EngineConfig
from radixrt.worker.ipc import ServerChannel, remove_socket
from radixrt.worker.launch import WorkerSetup
from radixrt.worker.loop import serve
from radixrt.worker.runtime import Runtime, load_runtime

PARENT_GONE = 3
BAD_SETUP = 2


def main(load: Callable[[str, EngineConfig], Runtime] = load_runtime) -> int:
    """Run a worker whose runtime comes from ``load``; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent watches our standard output close when we end. What a library prints goes to standard error.
    life_line = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(life_line, False)
    logging.basicConfig(level=logging.WARNING, format="radixrt worker: %(levelname)s %(name)s: %(message)s")
    try:
        setup = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerSetup)
    except msgspec.DecodeError as error:
        print(f"radixrt.worker is started by the engine, not by hand ({error})", file=sys.stderr)
        return BAD_SETUP
    threading.Thread(target=_die_with_parent, args=(setup.address,), name="radixrt-parent", daemon=True).start()
    load_it = functools.partial(load, setup.model, setup.config)
    return serve(lambda: ServerChannel(setup.address), load_it, setup.config.heartbeat_s)


def leave(code: int) -> NoReturn:
    """End the process without clean-up: a thread that is stuck in native code must not keep it."""
    sys.stderr.flush()
    os._exit(code)


def _die_with_parent(address: str) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    remove_socket(address)  # a parent that was killed could not
    os._exit(PARENT_GONE)


if __name__ == "__main__":
    leave(main())
