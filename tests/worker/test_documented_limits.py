"""The limits that the page on program messages promises are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from radixrt import api
from radixrt.worker import interpreter, io, ipc, select

PAGE = Path(__file__).parents[2] / "docs" / "program_messages.md"
UNITS = {"": 1, "MiB": 2**20}


def test_the_documented_limits_hold() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Limits")[2].partition("## ")[0]
    rows = dict(re.findall(r"^\| ([a-z][^|]*) \| ([^|]*) \|", table, re.MULTILINE))
    found = {}
    for what, value in rows.items():
        match = re.match(r"([\d,]+) ?([A-Za-z]*)", value)
        if match:
            found[what] = int(match[1].replace(",", "")) * UNITS[match[2]]
    assert found == {
        "nodes in one program": api.MAX_NODES,
        "branches in one program": api.MAX_BRANCHES,
        "choices of one select": select.MAX_CHOICES,
        "samples of one gen": api.MAX_SAMPLES,
        "characters of a program's id, of a salt": interpreter.MAX_NAME_CHARS,
        "characters of a text to tokenize": interpreter.MAX_TOKENIZE_CHARS,
        "programs open at the same time": interpreter.MAX_PROGRAMS,
        "priority, from its negative": interpreter.MAX_PRIORITY,
        "sequences at work, before more are held back": interpreter.MAX_SEQUENCES,
        "bytes of one message": ipc.MAX_MESSAGE_BYTES,
        "bytes waiting for one client": io.MAX_QUEUED_BYTES,
    }
