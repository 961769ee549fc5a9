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

import msgspec

from radixrt.worker.ipc import ServerChannel
from radixrt.worker.launch import WorkerSetup
from radixrt.worker.loop import serve
from radixrt.worker.runtime import load_runtime

PARENT_GONE = 3
BAD_SETUP = 2


def main() -> int:
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
    threading.Thread(target=_die_with_parent, name="radixrt-parent", daemon=True).start()
    load = functools.partial(load_runtime, setup.model, setup.config)
    return serve(lambda: ServerChannel(setup.address), load, setup.config.heartbeat_s)


def _die_with_parent() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(PARENT_GONE)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # No clean-up on the way out: a thread that is stuck in native code must not keep the process.
    os._exit(code)
