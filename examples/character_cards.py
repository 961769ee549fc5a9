"""Character cards with branches: one typed card, then two ratings that share everything above them.

radixrt run examples/character_cards.py:card --arg name=Hermione
python examples/character_cards.py
"""

from pydantic import BaseModel, Field

import radixrt as rx


class Card(BaseModel):
    name: str = Field(max_length=40)
    house: str = Field(max_length=40)
    age: int = Field(ge=1, le=120)


@rx.program
def card(s, name: str):
    s += rx.system("You write character cards.")
    s += rx.user(f"Describe {name} as a JSON card with name, house and age.")
    s += rx.assistant(rx.gen("card", schema=Card, max_tokens=160))
    for f in s.fork(["courage", "wit"]):  # both branches share all of the above, computed once, and run together
        f += rx.user(f"Rate the {f.key} of this character from 1 to 5.")
        f += rx.assistant(rx.select("score", ["1", "2", "3", "4", "5"]))
    return s["card"]


def main(engine: rx.Engine) -> None:
    names = ["Hermione", "Ron", "Luna", "Draco"]
    runs = card.map([{"name": name} for name in names], engine=engine, temperature=0.7, seed=7)
    for name, run in zip(names, runs, strict=True):
        print(f"{name}: {run.value}  courage {run['score'][0]}, wit {run['score'][1]}")


if __name__ == "__main__":
    with rx.Engine("smollm2-135m") as engine:
        main(engine)
