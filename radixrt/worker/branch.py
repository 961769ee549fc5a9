"""One branch of a program: its content, its queue of nodes, and where it stands in the tree of branches.

State and its small rules (text or chat, what a role may follow); ``program`` decides what runs when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from radixrt.api import Node
from radixrt.errors import ErrorInfo, InvalidRequest
from radixrt.text.pieces import IdsPiece, Piece, TextPiece
from radixrt.worker.activity import Activity
from radixrt.worker.context import ChatContext, Context, RawContext
from radixrt.worker.runtime import Runtime

__all__ = ["Branch", "JoinMark"]


class JoinMark:
    """Stands in a child's queue where a join takes the child's text. ``settle`` is called once."""

    def __init__(self) -> None:
        self.text = ""
        self.error: ErrorInfo | None = None
        self.settled = False
        self.listener: Callable[[], None] | None = None

    def settle(self, text: str, error: ErrorInfo | None) -> None:
        self.text, self.error, self.settled = text, error, True
        if self.listener is not None:
            self.listener()


class Branch:
    """``path`` addresses the branch by fork ordinals and child indexes: (fork, child, fork, child, ...).

    ``error`` ends the branch: nodes still to come get it. ``error_for_children`` is set when branches forked
    from here are cancelled with it. ``added`` is the text since the fork, one list per message (one in all for
    plain text). ``hint`` are the ids whose future use the cache was told of.
    """

    def __init__(self, branch_id: int, path: tuple[int, ...], parent: Branch | None) -> None:
        self.id = branch_id
        self.path = path
        self.parent = parent
        self.children: list[Branch] = []
        self._context: Context = RawContext()
        # Pieces not yet in the context: many short texts in a row are put there together.
        self._loose: list[Piece] = []
        self.queue: deque[Node | JoinMark] = deque()
        self.joins: dict[int, list[JoinMark]] = {}
        self.activity: Activity | None = None
        self.error: ErrorInfo | None = None
        self.error_for_children: ErrorInfo | None = None
        self.started = False
        self.in_turns = False
        self.forks = 0
        self.outputs = 0
        self.added: list[list[str]] = [[]]
        self.hint: list[int] | None = None

    @property
    def context(self) -> Context:
        """All that the branch says so far."""
        if self._loose:
            self._context = self._context.with_pieces(self._loose)
            self._loose.clear()
        return self._context

    @context.setter
    def context(self, context: Context) -> None:
        self._context = context

    def start_from(self, parent: Branch) -> None:
        self.context = parent.context
        self.error = self.error or parent.error
        self.started = True

    @property
    def has_unsettled(self) -> bool:
        """Whether there is content that children would each have to tokenize."""
        if isinstance(self.context, RawContext):
            return bool(self.context.pending)
        return True

    def text(self) -> str:
        """What was added since the fork; the contents of messages are separated by a newline."""
        return "\n".join("".join(parts) for parts in self.added)

    def append_text(self, text: str) -> None:
        self._check_can_append("text")
        if text:
            self._loose.append(TextPiece(text))
            self.added[-1].append(text)

    def append_tokens(self, tokens: Sequence[int | str], runtime: Runtime) -> None:
        """Raises ``InvalidRequest`` for an id or a spelling that is not in the vocabulary."""
        self._check_can_append("tokens")
        ids = tuple(_token_id(token, runtime) for token in tokens)
        if ids:
            text = runtime.tokenizer.decode(ids, skip_special=False)
            self._loose.append(IdsPiece(ids=ids, text=text))
            self.added[-1].append(text)

    def _check_can_append(self, param: str) -> None:
        if isinstance(self._context, ChatContext) and self._context.open_role is None:
            raise InvalidRequest(
                f"{param} outside a role: this branch is a chat, all its content stands in messages", param=param
            )

    def set_role(self, role: str | None, runtime: Runtime) -> None:
        """Open a message, or close the open one with None."""
        context = self.context
        if role is None:
            if isinstance(context, RawContext):
                raise InvalidRequest("there is no open role to close", param="role")
            self.context = context.closed()
            return
        if not role:
            raise InvalidRequest("the role must not be empty", param="role")
        if runtime.tokenizer.chat is None:
            raise InvalidRequest("this model has no chat template, so roles cannot be used", param="role")
        if isinstance(context, RawContext):
            if context.ids.length or context.pending:
                raise InvalidRequest(
                    f"role {role!r} after plain text: a branch is either plain text or a chat, not both",
                    param="role",
                )
            context = ChatContext()
        if context.open_role is not None:
            raise InvalidRequest(f"role {role!r} inside the open role {context.open_role!r}", param="role")
        self.context = context.opened(role)
        if self.added[-1]:
            self.added.append([])

    def check_can_join(self) -> None:
        if isinstance(self.context, ChatContext) and self.context.open_role is None:
            raise InvalidRequest(
                "join outside a role: this branch is a chat, join inside a message", param="children"
            )


def _token_id(token: int | str, runtime: Runtime) -> int:
    if isinstance(token, str):
        found = runtime.tokenizer.id_of(token)
        if found is None:
            raise InvalidRequest(f"{token!r} is not a token of this model", param="tokens")
        return found
    if not 0 <= token < runtime.tokenizer.vocab_size:
        raise InvalidRequest(
            f"token id {token} is outside the vocabulary of {runtime.tokenizer.vocab_size}", param="tokens"
        )
    return token
