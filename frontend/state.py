"""``s``: what a program appends to, forks and reads from.

Every verb records a node and returns at once; reading sends what is recorded and waits for the one value that is
read. Rules about roles and the ends of branches are checked here, at the line that breaks them. What recording
and reading mean is up to the ``Recording`` behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Self

from radixrt.api import ForkNode, GenNode, JoinNode, Node, RoleNode, SelectNode, TextNode, TokensNode
from radixrt.arguments import check_text, sampling_params
from radixrt.errors import Cancelled, InvalidRequest, UnknownName
from radixrt.frontend.branches import Branches, fork_keys
from radixrt.frontend.content import Entry, RoleMark, messages, plain_text
from radixrt.frontend.expressions import (
    Expression,
    Gen,
    Role,
    Select,
    Series,
    Text,
    Tokens,
    as_expression,
    check_role,
)
from radixrt.frontend.recording import BranchPath, Record, Recording
from radixrt.frontend.results import text_of, value_of

__all__ = ["Branch", "ProgramState"]

_JOINED = "the branch was joined"


class ProgramState:
    """One branch of a running program. ``s += ...`` appends; ``s[name]`` reads."""

    def __init__(
        self,
        recording: Recording,
        defaults: Mapping[str, Any],
        *,
        branch: int = 0,
        parent: ProgramState | None = None,
        path: BranchPath = (),
    ) -> None:
        self._recording = recording
        self._defaults = defaults
        self._branch = branch
        self._parent = parent
        self._path = path
        self._forks = 0
        self._closed: str | None = None  # why nothing may be appended any more
        self._cancelled = False
        self._content: list[Entry] = []
        self._own: dict[str, Record] = {}
        # As they stood at the fork; what the parent does later is not seen here.
        self._content_before = len(parent._content) if parent is not None else 0
        self._inherited: Mapping[str, Record] = parent._visible() if parent is not None else MappingProxyType({})
        self._role: str | None = parent._role if parent is not None else None
        self._mode: Literal["raw", "chat"] | None = parent._mode if parent is not None else None
        self._role_is_inherited = self._role is not None

    # --- appending ---

    def __iadd__(self, value: Expression | str) -> Self:
        self._append(as_expression(value))
        return self

    def __add__(self, value: Expression | str) -> Self:
        raise InvalidRequest("a program state is appended to with s += ..., not with s + ...", param="text")

    def _append(self, expression: Expression) -> None:
        match expression:
            case Text(text):
                self._append_text(text)
            case Tokens(tokens):
                self._require_content("tokens")
                self._record(lambda node: TokensNode(node=node, branch=self._branch, tokens=tokens))
            case Gen():
                self._append_gen(expression)
            case Select(name, choices, method):
                self._require_content(f"select {name!r}")
                self._append_output(
                    name,
                    self._record(
                        lambda node: SelectNode(
                            node=node, branch=self._branch, name=name, choices=choices, method=method
                        ),
                        name=name,
                        answered=True,
                    ),
                )
            case Role(role, items):
                self._open_role(role)
                for item in items:
                    self._append(item)
                self._close_role()
            case Series(items):
                for item in items:
                    self._append(item)
            case _:
                raise InvalidRequest(f"cannot append {expression!r}", param="text")

    def _append_text(self, text: str) -> None:
        if not text:
            return
        self._require_content("text")
        self._record(lambda node: TextNode(node=node, branch=self._branch, text=text))
        self._content.append(text)

    def _append_gen(self, gen: Gen) -> None:
        self._require_content(f"gen {gen.name!r}")
        params = sampling_params({**self._defaults, **gen.own}, where=f"gen {gen.name!r}")
        constraint = gen.output.constraint if gen.output is not None else None
        record = self._record(
            lambda node: GenNode(
                node=node, branch=self._branch, name=gen.name, params=params, constraint=constraint, heal=gen.heal
            ),
            name=gen.name,
            output=gen.output,
            many=params.n > 1,
            answered=True,
        )
        if params.n > 1:
            self._own[gen.name] = record
            self._closed = f"gen {gen.name!r} has n={params.n}, which ends its branch"
        else:
            self._append_output(gen.name, record)

    def _append_output(self, name: str, record: Record) -> None:
        self._own[name] = record
        self._content.append(record)

    def _record(self, make: Callable[[int], Node], **about: Any) -> Record:
        self._check_open()
        return self._recording.record(make, self._path, **about)

    def _is_cancelled(self) -> bool:
        state: ProgramState | None = self
        while state is not None and not state._cancelled:
            state = state._parent
        return state is not None

    def _check_open(self) -> None:
        if self._is_cancelled():
            raise Cancelled("the branch was cancelled")
        if self._closed is not None:
            raise InvalidRequest(f"nothing can be added here: {self._closed}", param="program")

    # --- roles ---

    def role(self, role: str) -> _Message:
        """``with s.role("tool"):`` puts what is appended inside into one message of that role."""
        check_role(role)
        return _Message(self, role)

    def system(self) -> _Message:
        """``with s.system():`` opens a system message."""
        return _Message(self, "system")

    def user(self) -> _Message:
        """``with s.user():`` opens a user message."""
        return _Message(self, "user")

    def assistant(self) -> _Message:
        """``with s.assistant():`` opens an assistant message."""
        return _Message(self, "assistant")

    def _open_role(self, role: str) -> None:
        self._check_open()
        if self._mode == "raw":
            raise InvalidRequest(
                f"a message of role {role!r} after plain text: a branch is either text or messages", param="role"
            )
        if self._role is not None:
            if not self._role_is_inherited:
                raise InvalidRequest(
                    f"a message of role {role!r} inside the open message of role {self._role!r}", param="role"
                )
            self._close_role()  # the message that was open at the fork ends where the branch begins the next
        self._record(self._role_node(role))
        self._mode, self._role = "chat", role
        self._content.append(RoleMark(role))

    def _close_role(self) -> None:
        if self._closed is None:  # a gen with n above 1 ends its branch inside the message
            self._record(self._role_node(None))
        self._role, self._role_is_inherited = None, False
        self._content.append(RoleMark(None))

    def _role_node(self, role: str | None) -> Callable[[int], Node]:
        return lambda node: RoleNode(node=node, branch=self._branch, role=role)

    def _require_content(self, what: str) -> None:
        """Text and generation stand inside a message, or in a branch that has no messages at all."""
        self._check_open()
        if self._mode is None:
            self._mode = "raw"
        elif self._mode == "chat" and self._role is None:
            raise InvalidRequest(
                f"{what} outside a message in a branch that has messages; put it into user(...), "
                "assistant(...) or `with s.assistant():`",
                param="role",
            )

    # --- fork and join ---

    def fork(self, n_or_keys: int | Iterable[Any]) -> Branches:
        """Branches that share everything so far: ``n`` of them, or one for each key.

        ``f.index`` counts from 0; ``f.key`` is the key, or the index where a number was given.
        """
        keys = fork_keys(n_or_keys)
        self._check_open()
        children = self._recording.new_branches(len(keys))
        ordinal, self._forks = self._forks, self._forks + 1
        self._record(lambda node: ForkNode(node=node, branch=self._branch, children=tuple(children)))
        return Branches(
            Branch(self, child, (*self._path, (ordinal, index)), index, key)
            for index, (child, key) in enumerate(zip(children, keys, strict=True))
        )

    def join(self, branches: Branches | Iterable[Branch], sep: str = "") -> None:
        """Append the texts that the branches added, with ``sep`` between, when they have ended.

        Does not wait here. The branches must be forks of this one; they end with the join.
        """
        if not isinstance(sep, str):
            raise InvalidRequest("sep must be a string", param="sep")
        check_text(sep, param="sep")
        joined = list(branches) if isinstance(branches, Iterable) else []
        if not joined or len(set(map(id, joined))) < len(joined):
            raise InvalidRequest("join takes the branches of a fork, each once", param="branches")
        for branch in joined:
            if not isinstance(branch, Branch) or branch._parent is not self:
                raise InvalidRequest("join takes branches that were forked from this very state", param="branches")
            if branch._closed == _JOINED:
                raise InvalidRequest(f"the branch {branch.key!r} has been joined already", param="branches")
        self._require_content("a join")
        children = tuple(branch._branch for branch in joined)
        record = self._record(
            lambda node: JoinNode(node=node, branch=self._branch, children=children, sep=sep), answered=True
        )
        self._content.append(record)
        for branch in joined:
            branch._closed = branch._closed or _JOINED

    # --- reading ---

    def __getitem__(self, name: str) -> Any:
        """The latest value called ``name`` in this branch or, before the fork, in those above it.

        Waits for that value alone. Raises the node's error, or ``IncompleteOutput``.
        """
        record = self._find(name)
        return value_of(record, self._recording.result(record))

    async def read(self, name: str) -> Any:
        """``s[name]`` for ``async def`` programs: waits without blocking the event loop."""
        record = self._find(name)
        return value_of(record, await self._recording.wait(record))

    async def wait(self) -> None:
        """Wait for everything in this branch so far; then ``s[name]``, ``s.text()`` and ``s.messages`` are there.

        Errors stay with the values: only reading raises them.
        """
        written = [entry for entry in self._entries() if isinstance(entry, Record)]
        for record in (*self._visible().values(), *written):
            await self._recording.wait(record)

    def __contains__(self, name: object) -> bool:
        """Whether a gen or select of this name has been written here. Does not wait."""
        return name in self._own or name in self._inherited

    def text(self) -> str:
        """The content of this branch from the start of the program. Waits for what it holds.

        Tokens that were appended by id or spelling are not text and are left out.
        """
        return plain_text(self._entries(), self._text_of)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages of this branch from the start of the program. Waits for what they hold."""
        return messages(self._entries(), self._text_of)

    def _text_of(self, record: Record) -> str:
        return text_of(record, self._recording.result(record))

    def _find(self, name: str) -> Record:
        record = self._own.get(name) or self._inherited.get(name)
        if record is None:
            known = ", ".join(repr(other) for other in self._visible()) or "none yet"
            raise UnknownName(f"nothing is called {name!r} here; the names are: {known}", param=str(name))
        return record

    def _visible(self) -> Mapping[str, Record]:
        return MappingProxyType({**self._inherited, **self._own})

    def _entries(self) -> list[Entry]:
        chain: list[list[Entry]] = [self._content]
        state = self
        while state._parent is not None:
            chain.append(state._parent._content[: state._content_before])
            state = state._parent
        return [entry for content in reversed(chain) for entry in content]

    # --- the rest ---

    def send(self) -> None:
        """Let everything recorded so far begin now, as reading a value would, without waiting."""
        self._recording.send()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {list(self._visible())}>"


class Branch(ProgramState):
    """A branch of a fork: the same verbs as ``s``, and where it stands among its siblings."""

    def __init__(self, parent: ProgramState, branch: int, path: BranchPath, index: int, key: Any) -> None:
        super().__init__(parent._recording, parent._defaults, branch=branch, parent=parent, path=path)
        self.index = index
        self.key = key

    def cancel(self) -> None:
        """Cancel this branch and those forked from it. Others go on."""
        self._cancelled = True
        self._recording.cancel_branch(self._branch)


class _Message:
    """``with s.user():``. A class and not a generator, so that the line of the ``with`` is the program's."""

    def __init__(self, state: ProgramState, role: str) -> None:
        self._state = state
        self._role = role

    def __enter__(self) -> ProgramState:
        self._state._open_role(self._role)
        return self._state

    def __exit__(self, *exc_info: object) -> None:
        # After an error too, if the program goes on; what has ended needs no end of message.
        if self._state._recording.is_open and not self._state._is_cancelled():
            self._state._close_role()
