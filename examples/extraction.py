"""Typed extraction from text files: one instruction, many files, a dataclass for each.

The instruction is the same for every file, so it is computed once for the whole map.

    python examples/extraction.py [FILE ...]
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

import radixrt as rx

LETTERS = Path(__file__).parent / "letters"
INSTRUCTION = """You read business letters and note what they are about.
Write one JSON object. "sender" is the name of the person who signed the letter. "city" is the place the letter
mentions. "amount" is the sum of money it mentions, as a whole number. "currency" is the currency of that sum.
Write nothing else."""


@dataclass
class Letter:
    sender: Annotated[str, Field(min_length=1, max_length=40)]
    city: Annotated[str, Field(min_length=1, max_length=30)]
    amount: Annotated[int, Field(ge=0, le=100_000)]
    currency: Literal["euro", "pound", "dollar"]


@rx.program
def extract(s, text: str):
    s += rx.system(INSTRUCTION)
    s += rx.user(text)
    s += rx.assistant(rx.gen("letter", schema=Letter, max_tokens=120))
    return s["letter"]


def main(engine: rx.Engine, files: list[Path] | None = None) -> None:
    paths = files or sorted(LETTERS.glob("*.txt"))
    rows = [{"text": path.read_text(encoding="utf-8")} for path in paths]
    for path, run in zip(paths, extract.map(rows, engine=engine, temperature=0), strict=True):
        letter = run.value
        print(f"{path.name}: {letter.sender}, {letter.city}, {letter.amount} {letter.currency}")
        print(f"    prompt {run.usage.prompt_tokens} tokens, {run.usage.cached_tokens} of them from the cache")


if __name__ == "__main__":
    with rx.Engine("smollm2-135m") as engine:
        main(engine, [Path(name) for name in sys.argv[1:]])
