"""The engine from places without a script: a Jupyter notebook and the interactive prompt."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.model, pytest.mark.slow]

CELLS = [
    "import radixrt as rx",
    "engine = rx.Engine({model!r})",
    """
@rx.program
def count(s, start: int):
    s += f"{{start}}, {{start + 1}}," + rx.gen("next", regex=r" [0-9]{{1,2}}", max_tokens=4)
    return s["next"]
""",
    "one = count.run(start=1, engine=engine, temperature=0).value",  # inside the notebook's running loop
    "two = (await count.arun(start=1, engine=engine, temperature=0)).value",
    "three = [run.value async for run in count.amap([{{'start': 1}}] * 3, engine=engine, temperature=0)]",
    "engine.close()",
    "print(one == two, set(three) == {{one}})",
]


# Jupyter's own packages warn about their ways with event loops and platform folders.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning", "ignore::FutureWarning")
def test_notebook(model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="make test-clients installs nbclient")
    nbformat = pytest.importorskip("nbformat", reason="make test-clients installs nbformat")
    pytest.importorskip("ipykernel", reason="make test-clients installs ipykernel")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell.format(model=str(model_file))) for cell in CELLS]
    )
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    (output,) = notebook.cells[-1].outputs
    assert output["text"].strip() == "True True"


def test_interactive_prompt(model_file: Path, tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect", reason="make test-clients installs pexpect")
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHON_BASIC_REPL": "1", "TERM": "dumb"}
    prompt = pexpect.spawn(
        sys.executable, ["-i", "-q"], cwd=str(tmp_path), env=environment, encoding="utf-8", timeout=120
    )
    try:
        for line in (
            "import radixrt as rx",
            f"engine = rx.Engine({str(model_file)!r})",
            "card = rx.program(lambda s: s.__iadd__('One two three' + rx.gen('word', max_tokens=3)))",
        ):
            prompt.expect_exact(">>> ")
            prompt.sendline(line)
        prompt.expect_exact(">>> ")
        prompt.sendline("len(card.run(engine=engine, temperature=0)['word']) > 0")
        prompt.expect_exact("True")
        prompt.expect_exact(">>> ")
        prompt.sendline("engine.generate('One two three', max_tokens=4000, ignore_eos=True)")
        time.sleep(2.0)  # the terminal throws away what it holds at a Ctrl-C: let it come to waiting first
        prompt.sendintr()
        prompt.expect_exact("KeyboardInterrupt")
        prompt.expect_exact(">>> ")
        prompt.sendline("engine.generate('One two three', max_tokens=2).finish_reason")
        prompt.expect_exact("length")
        prompt.expect_exact(">>> ")
        prompt.sendeof()
        prompt.expect(pexpect.EOF)
    finally:
        prompt.close()
    assert prompt.exitstatus == 0
