"""What writing programs costs at import: nothing of the engine's weight."""

from __future__ import annotations

import subprocess
import sys


def test_the_verbs_load_no_engine() -> None:
    code = (
        "import sys, radixrt as rx\n"
        "rx.program, rx.gen, rx.select, rx.system, rx.user, rx.assistant, rx.role, rx.tokens\n"
        "rx.Run, rx.Runs, rx.ProgramState, rx.Branch, rx.Branches, rx.Program\n"
        "heavy = {'torch', 'zmq', 'transformers', 'pydantic', 'tqdm', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
