"""Tree of thought on questions in the style of GSM8K: plans, solutions for each plan, a vote over the answers.

python examples/tree_of_thought.py [QUESTIONS.jsonl]      # a file of {"question": ...}, for instance GSM8K's own
"""

import json
import sys
from collections import Counter
from pathlib import Path

import radixrt as rx

QUESTIONS = [
    "A baker sells 12 loaves in the morning and twice as many in the afternoon. How many loaves is that in all?",
    "Nora has 50 marbles. She gives 8 to each of her 4 friends. How many does she keep?",
]


@rx.program
def solve(s, question: str, plans: int = 2, solutions: int = 2):
    s += f"Question: {question}\n"
    answers = []
    by_plan = s.fork(plans)
    for plan in by_plan:
        plan += "Plan in one sentence:" + rx.gen("plan", max_tokens=32, stop="\n") + "\nSolution:"
    for plan in by_plan:
        attempts = plan.fork(solutions)
        for attempt in attempts:
            attempt += rx.gen("work", max_tokens=64, stop=["\n\n", "Question:"])
            attempt += "\nThe answer as a number:" + rx.gen("answer", regex=r" -?\d{1,6}", max_tokens=12)
        answers.append(attempts)
    votes = Counter(answer.strip() for attempts in answers for answer in attempts["answer"])
    return votes.most_common()


def main(engine: rx.Engine, questions: list[str] | None = None) -> None:
    rows = [{"question": question} for question in questions or QUESTIONS]
    for row, run in zip(rows, solve.map(rows, engine=engine, temperature=0.8, seed=3), strict=True):
        print(row["question"])
        print("    votes:", ", ".join(f"{answer} ({count})" for answer, count in run.value))
        print(f"    {run.usage.cached_tokens} of {run.usage.prompt_tokens} prompt tokens came from the cache")


if __name__ == "__main__":
    asked = None
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
        asked = [json.loads(line)["question"] for line in lines][:8]
    with rx.Engine("smollm2-135m") as engine:
        main(engine, asked)
