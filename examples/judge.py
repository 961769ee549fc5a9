"""LLM judge by branch, solve and merge: several views of one essay at once, then a verdict over all of them.

python examples/judge.py
"""

import radixrt as rx

DIMENSIONS = ["clarity", "evidence", "originality"]
ESSAY = """Cities should plant more trees. A street with trees is up to five degrees cooler on a hot afternoon,
its gutters carry less water after a storm, and people who live on it walk more. Trees cost little next to a new
drain or an air conditioner, and unlike those they grow more useful with each year. The usual objection is that
roots break pavements. They do, when a tree of the wrong kind stands in a pit of the wrong size; the answer is a
better pit, not a bare street."""


@rx.program
def judge(s, essay: str):
    s += rx.system("You are a careful judge of short essays. You answer in one or two sentences.")
    s += rx.user(f"Read this essay.\n\n{essay}\n\nYou will be asked about it.")
    s += rx.assistant("I have read the essay.")
    views = s.fork(DIMENSIONS)
    for view in views:
        view += rx.user(f"Judge its {view.key}.")
        view += rx.assistant(rx.gen("opinion", max_tokens=48, stop="\n"))
        view += rx.user(f"Give a mark for {view.key} from 1 to 5.")
        view += rx.assistant(rx.select("mark", ["1", "2", "3", "4", "5"]))
    notes = "\n".join(f"{v.key}: {v['opinion']} ({v['mark']} of 5)" for v in views)
    s += rx.user(f"These are the judges' notes.\n{notes}\nSay in one sentence whether to print the essay.")
    s += rx.assistant(rx.gen("verdict", max_tokens=48, stop="\n"))
    return {"marks": dict(zip(DIMENSIONS, views["mark"], strict=True)), "verdict": s["verdict"]}


def main(engine: rx.Engine) -> None:
    run = judge.run(essay=ESSAY, engine=engine, temperature=0)
    for name, mark in run.value["marks"].items():
        print(f"{name}: {mark} of 5")
    print("verdict:", run.value["verdict"])
    print(f"{run.usage.cached_tokens} of {run.usage.prompt_tokens} prompt tokens came from the cache")


if __name__ == "__main__":
    with rx.Engine("smollm2-135m") as engine:
        main(engine)
