"""The branches of a program as its messages name them: who is whose child, and which node belongs where.

Checks every node at the door, so that what runs later can rely on it. Runs nothing.
"""

from __future__ import annotations

from radixrt.api import MAX_BRANCHES, MAX_NODES, ForkNode, JoinNode, Node
from radixrt.errors import ErrorInfo, InvalidRequest
from radixrt.worker.branch import Branch, JoinMark

__all__ = ["BranchTree"]


class BranchTree:
    """``branches`` by id; 0 is the root, which exists from the start."""

    def __init__(self) -> None:
        root = Branch(0, (), None)
        root.started = True
        self.branches: dict[int, Branch] = {0: root}
        self._nodes: set[int] = set()
        self._closed_unborn: dict[int, ErrorInfo] = {}

    def admit(self, node: Node) -> list[Branch]:
        """Queue ``node`` in its branch; return the branches that have something new in their queue.

        Children exist from here on, so that nodes may be queued for them before the fork is reached. Raises
        ``InvalidRequest`` for a node that does not belong.
        """
        branch = self.branches.get(node.branch)
        if branch is None:
            raise InvalidRequest(f"node {node.node} is for the unknown branch {node.branch}", param="branch")
        if node.node in self._nodes:
            raise InvalidRequest(f"the node id {node.node} is used twice", param="node")
        if len(self._nodes) >= MAX_NODES:
            raise InvalidRequest(f"a program has at most {MAX_NODES} nodes", param="nodes")
        touched = [branch]
        if isinstance(node, ForkNode):
            self._admit_children(branch, node)
        elif isinstance(node, JoinNode):
            touched += self._admit_join(branch, node)
        self._nodes.add(node.node)
        branch.queue.append(node)
        return touched

    def _admit_children(self, branch: Branch, node: ForkNode) -> None:
        if not node.children:
            raise InvalidRequest(f"fork node {node.node} has no children", param="children")
        if len(self.branches) + len(node.children) > MAX_BRANCHES:
            raise InvalidRequest(f"a program has at most {MAX_BRANCHES} branches", param="children")
        for index, child in enumerate(node.children):
            if child in self.branches:
                raise InvalidRequest(f"the branch id {child} is used twice", param="children")
            born = Branch(child, (*branch.path, branch.forks, index), branch)
            born.error = born.error_for_children = branch.error_for_children or self._closed_unborn.get(child)
            self.branches[child] = born
            branch.children.append(born)
        branch.forks += 1

    def _admit_join(self, branch: Branch, node: JoinNode) -> list[Branch]:
        """Mark in each child's queue where its text is taken: here, whatever the child is sent later."""
        if not node.children or len(set(node.children)) != len(node.children):
            raise InvalidRequest(f"join node {node.node} needs children, each once", param="children")
        for child in node.children:
            known = self.branches.get(child)
            if known is None or known.parent is not branch:
                raise InvalidRequest(
                    f"join node {node.node}: {child} is not a branch forked from branch {branch.id}",
                    param="children",
                )
        marks = branch.joins[node.node] = [JoinMark() for _ in node.children]
        for child, mark in zip(node.children, marks, strict=True):
            self.branches[child].queue.append(mark)
        return [self.branches[child] for child in node.children]

    def close(self, branch_id: int, error: ErrorInfo) -> list[Branch]:
        """End a branch and all forked from it, now or later, with ``error``; return those that exist.

        A branch that does not exist yet is closed when it is born: its cancellation may overtake its fork.
        """
        if branch_id not in self.branches:
            if len(self._closed_unborn) < MAX_BRANCHES:
                self._closed_unborn[branch_id] = error
            return []
        closed = [self.branches[branch_id]]
        for branch in closed:
            branch.error = branch.error or error
            branch.error_for_children = branch.error_for_children or error
            closed.extend(branch.children)
        return closed
