"""Multi-turn chat: every turn continues the same branch, so only the new message is computed.

python examples/chat.py
"""

import radixrt as rx

TURNS = [
    "My name is Ada and I keep bees. Say hello.",
    "What do bees make?",
    "What is my name?",
]


@rx.program
def chat(s, turns: list[str]):
    s += rx.system("You are a friendly assistant. You answer in one short sentence.")
    for turn in turns:
        s += rx.user(turn)
        s += rx.assistant(rx.gen("answer", max_tokens=40))


def main(engine: rx.Engine) -> None:
    run = chat.run(turns=TURNS, engine=engine, temperature=0)
    for message in run.messages[1:]:
        print(f"{message['role']}: {message['content']}")
    for node in run.nodes:
        print(f"    turn: {node.usage.cached_tokens} tokens from the cache, {node.usage.computed_tokens} computed")


if __name__ == "__main__":
    with rx.Engine("smollm2-135m") as engine:
        main(engine)
