"""Programs in, call graph out: verbs, recording, execution.

Talks to an engine through ``radixrt.client.protocol`` alone; knows nothing of tokens, schedulers or models.
"""

from radixrt.frontend.branches import Branches
from radixrt.frontend.expressions import assistant, gen, role, select, system, tokens, user
from radixrt.frontend.graph import Graph
from radixrt.frontend.mapping import Runs
from radixrt.frontend.program import Program, program
from radixrt.frontend.results import NodeResult, Nodes
from radixrt.frontend.run import Run
from radixrt.frontend.state import Branch, ProgramState
from radixrt.frontend.stream import NodeDone, ProgramStream, RunDone, TextDelta

__all__ = [
    "Branch",
    "Branches",
    "Graph",
    "NodeDone",
    "NodeResult",
    "Nodes",
    "Program",
    "ProgramState",
    "ProgramStream",
    "Run",
    "RunDone",
    "Runs",
    "TextDelta",
    "assistant",
    "gen",
    "program",
    "role",
    "select",
    "system",
    "tokens",
    "user",
]
