"""A ReAct agent with two Python tools: the model picks a tool, Python runs it, the observation goes back in.

Between steps the program waits for Python, not for the model: its prefix stays in the cache but is not locked.

    python examples/react.py
"""

import operator

import radixrt as rx

HEIGHTS = {"Everest": 8849, "Kilimanjaro": 5895, "Mont Blanc": 4806, "Fuji": 3776}
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
EXAMPLE = """Answer by steps. The tools are lookup[mountain], which gives a height in metres, calculate[a op b], and
finish[answer].

Question: How much higher is Everest than Fuji?
Thought: I need the height of Everest.
Action: lookup[Everest]
Observation: 8849
Thought: I need the height of Fuji.
Action: lookup[Fuji]
Observation: 3776
Thought: Now I take the difference.
Action: calculate[8849 - 3776]
Observation: 5073
Thought: I know the answer.
Action: finish[5073]

"""
ACTION = r"lookup\[(Everest|Kilimanjaro|Mont Blanc|Fuji)\]|calculate\[\d{1,5} [-+*] \d{1,5}\]|finish\[\d{1,6}\]"


def lookup(mountain: str) -> str:
    return str(HEIGHTS[mountain])


def calculate(expression: str) -> str:
    left, sign, right = expression.split()
    return str(OPERATIONS[sign](int(left), int(right)))


TOOLS = {"lookup": lookup, "calculate": calculate}


@rx.program
def react(s, question: str, steps: int = 5):
    s += EXAMPLE + f"Question: {question}\n"
    for _ in range(steps):
        s += "Thought:" + rx.gen("thought", max_tokens=40, stop="\n") + "\n"
        s += "Action: " + rx.gen("action", regex=ACTION, max_tokens=24) + "\n"
        tool, _, argument = s["action"].rstrip("]").partition("[")
        if tool == "finish":
            return argument
        s += f"Observation: {TOOLS[tool](argument)}\n"
    return None


def main(engine: rx.Engine) -> None:
    run = react.run(question="How much higher is Kilimanjaro than Mont Blanc?", engine=engine, temperature=0)
    print(run.text[len(EXAMPLE) :])
    print("answer:", run.value)
    print(f"{run.usage.cached_tokens} of {run.usage.prompt_tokens} prompt tokens came from the cache")


if __name__ == "__main__":
    with rx.Engine("smollm2-135m") as engine:
        main(engine)
