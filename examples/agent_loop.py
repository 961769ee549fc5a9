"""The engine as a library inside a plain agent loop: no program, just calls with typed answers.

python examples/agent_loop.py
"""

from typing import Literal

from pydantic import BaseModel, Field

import radixrt as rx

SYSTEM = """You control a lamp and a heater in one room. Each turn you read the state of the room and answer with
one JSON object: "device" is "lamp", "heater" or "none", and "value" is "on" or "off". Choose "none" when nothing
has to change."""


class Command(BaseModel):
    device: Literal["lamp", "heater", "none"]
    value: Literal["on", "off"]
    reason: str = Field(max_length=60)


def agent(engine: rx.Engine, turns: int) -> list[Command]:
    room = {"lamp": "off", "heater": "off", "temperature": 14, "light": "dark"}
    messages = [{"role": "system", "content": SYSTEM}]
    commands = []
    for _ in range(turns):
        messages.append({"role": "user", "content": f"State of the room: {room}"})
        answer = engine.generate(messages, schema=Command, max_tokens=80, temperature=0)
        command = answer.value
        commands.append(command)
        if command.device != "none":
            room[command.device] = command.value
        room["light"] = "bright" if room["lamp"] == "on" else "dark"
        room["temperature"] += 3 if room["heater"] == "on" else 0
        messages.append({"role": "assistant", "content": answer.text})
        print(f"{command.device} {command.value}: {command.reason}")
        print(f"    {answer.usage.cached_tokens} tokens from the cache")
    return commands


def main(engine: rx.Engine) -> None:
    agent(engine, turns=3)


if __name__ == "__main__":
    with rx.Engine("smollm2-135m") as engine:
        main(engine)
