"""Run a module as ``python -m`` does, and end with the parent: ``python -m radixrt.model.tethered pip download``.

Standard input is the tether. When it closes, because the parent let go of it or because the parent is no more
(killed, too: the system closes its files), this process and all that it has started are killed at once. So it has
to be started in a session of its own. It does not know what it runs.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading

__all__ = ["main"]


def main() -> None:
    # A plain read of the file: a thread inside sys.stdin when the interpreter ends would keep it from ending.
    threading.Thread(target=_end_with_parent, name="radixrt-tether", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
