"""The activities around a fork: settling tokens before it, and joining the branches after it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from radixrt.api import JoinNode, NodeEvent, Sample
from radixrt.errors import ErrorInfo
from radixrt.worker.activity import Activity, Host, Outcome
from radixrt.worker.context import Context

if TYPE_CHECKING:
    from radixrt.worker.branch import Branch, JoinMark

__all__ = ["Joining", "Settling"]


class Settling(Activity):
    """Tokenizes what the ``children`` will share, once, before they start. It cannot fail.

    Content that cannot be tokenized (a template that refuses it, a text beyond the context) is an error of the
    node that needs the tokens, and is reported there.
    """

    def __init__(self, host: Host, node: int, context: Context, children: Sequence[Branch]) -> None:
        super().__init__(host, node)
        self.children = children
        self._context = context

    def start(self) -> None:
        self.prepare(functools.partial(self._context.settled, self.host.runtime), self._settled)

    def _settled(self, context: Context) -> None:
        self.finish(Outcome(context=context))

    def fail(self, error: ErrorInfo) -> None:
        self.finish(Outcome())


class Joining(Activity):
    """Waits for the marks in the children's queues and appends the texts found there."""

    def __init__(self, host: Host, node: JoinNode, marks: Sequence[JoinMark], context: Context) -> None:
        super().__init__(host, node.node)
        self._join = node
        self._marks = marks
        self._context = context

    def start(self) -> None:
        for mark in self._marks:
            mark.listener = self._look
        self._look()

    def _look(self) -> None:
        failed = next((mark.error for mark in self._marks if mark.error is not None), None)
        if failed is not None:
            self.fail(failed)
        elif all(mark.settled for mark in self._marks):
            text = self._join.sep.join(mark.text for mark in self._marks)
            event = NodeEvent(program=self.host.name, node=self.node, samples=(Sample(text=text),))
            self.finish(Outcome(event=event, context=self._context.with_text(text), added=text))
