"""Causal attention of ragged rows over the paged KV pool.

The rows of a batch differ in query length and in context length, and a row's context lies in arbitrary slots.
``plan_attention`` lays this out once per forward (the layout is the same in every layer), ``attention`` then
is a few dense products. Rows of like size are padded to one block, so that decoding is one product for many
rows; long prefills are cut into blocks of queries, so that the score matrix stays small.

Padding never mixes rows: it repeats slots and tokens of the row itself. So whatever one row holds, NaN
included, stays in that row. And it makes a row's result the same bits whatever is beside it and however much
of it was cached: queries and keys are padded to whole steps, because matrix libraries take other paths for odd
sizes, and values are summed in tiles that begin at fixed positions, ascending.

Knows nothing about layers, positions beyond their order, or who owns a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["AttentionPlan", "attention", "plan_attention"]

QUERY_STEP = 4  # for every thread, as a library may hand each of them its share of the queries
MAX_QUERY_STEP = 16
KEY_STEP = 16
VALUE_TILE = 128  # short enough that no library splits the sum of one tile
MAX_QUERIES = 256  # of one piece, and fewer where the context is long
MAX_SCORES = 1 << 20  # padded (query, key) pairs of one block, per head
MAX_KEYS = 1 << 16  # padded keys of one block: what is gathered from the pool at a time


@dataclass(frozen=True)
class _Piece:
    """Queries ``first..last`` (flat token indices, half open) of one row and the slots they may see."""

    first: int
    last: int
    slots: NDArray[np.int32]

    @property
    def queries(self) -> int:
        return self.last - self.first


@dataclass(frozen=True)
class _Block:
    """B pieces padded to Q queries and L keys."""

    query_index: Tensor  # int64 [B * Q]: flat tokens, padding repeats the piece's last one
    real: Tensor | None  # int64 [n]: which of the B * Q are no padding; None: all
    key_index: Tensor  # int64 [B * kv_heads * L]: rows of a pool seen as [slots * kv_heads, D]
    hidden: Tensor | None  # bool [B, 1, 1, Q, L], True where a query must not look; None: all visible
    shape: tuple[int, int, int]  # B, Q, L


@dataclass(frozen=True)
class AttentionPlan:
    """The layout of one batch for one window size; good for every layer that has it."""

    blocks: tuple[_Block, ...]
    kv_heads: int


def plan_attention(
    query_start: NDArray[np.int64],
    context_slots: Sequence[NDArray[np.int32]],
    kv_heads: int,
    *,
    window: int | None = None,
    device: torch.device | str = "cpu",
) -> AttentionPlan:
    """Lay out R rows for ``attention``.

    Row r owns the flat tokens ``query_start[r]:query_start[r + 1]`` and sees ``context_slots[r]``, the slots
    of its cached and new tokens in position order (its last entries are those of its new tokens). A query
    sees itself and what stands before it; with ``window`` W only the W last of these.
    """
    groups: dict[tuple[int, int], list[_Piece]] = {}
    for row, slots in enumerate(context_slots):
        for piece in _pieces(int(query_start[row]), int(query_start[row + 1]), slots, window):
            size = ((piece.queries - 1).bit_length(), (len(piece.slots) - 1).bit_length())
            groups.setdefault(size, []).append(piece)
    blocks = []
    for (queries, keys), pieces in groups.items():
        step = max(1, min(MAX_SCORES >> (queries + keys), MAX_KEYS >> keys))
        for begin in range(0, len(pieces), step):
            blocks.append(_pad(pieces[begin : begin + step], kv_heads, window, device))
    return AttentionPlan(tuple(blocks), kv_heads)


def _pieces(first: int, last: int, slots: NDArray[np.int32], window: int | None) -> list[_Piece]:
    """Cut one row into blocks of queries, each with the part of the context that any of them sees."""
    pieces = []
    cached = len(slots) - (last - first)
    step = min(max(MAX_SCORES // max(len(slots), 1), 16), MAX_QUERIES)
    for begin in range(first, last, step):
        end = min(begin + step, last)
        oldest = 0 if window is None else max(0, cached + (begin - first) - window + 1)
        oldest -= oldest % VALUE_TILE
        pieces.append(_Piece(begin, end, slots[oldest : cached + (end - first)]))
    return pieces


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def _pad(pieces: list[_Piece], kv_heads: int, window: int | None, device: torch.device | str) -> _Block:
    rows = len(pieces)
    step = min(QUERY_STEP * torch.get_num_threads(), MAX_QUERY_STEP) if torch.device(device).type == "cpu" else 1
    queries = _round_up(max(piece.queries for piece in pieces), step)
    keys = _round_up(max(len(piece.slots) for piece in pieces), KEY_STEP)
    tokens = np.empty((rows, queries), np.int64)
    slots = np.empty((rows, keys), np.int64)
    for row, piece in enumerate(pieces):
        tokens[row] = np.minimum(np.arange(piece.first, piece.first + queries), piece.last - 1)
        slots[row, : len(piece.slots)] = piece.slots
        slots[row, len(piece.slots) :] = piece.slots[-1]
    # Within a piece the last query stands at the last key, so padding keys lie after every query.
    last_token = np.array([[piece.last - 1] for piece in pieces])
    real = np.flatnonzero(tokens[:, :1] + np.arange(queries) <= last_token)
    last_key = np.array([[len(piece.slots) - 1] for piece in pieces])
    at = (tokens - last_token + last_key)[:, :, None]
    key = np.arange(keys)
    hidden = key > at
    if window is not None:
        hidden |= key <= at - window
    heads = np.arange(kv_heads)[None, :, None]
    return _Block(
        torch.from_numpy(tokens.reshape(-1)).to(device),
        torch.from_numpy(real).to(device) if len(real) < rows * queries else None,
        torch.from_numpy((slots[:, None, :] * kv_heads + heads).reshape(-1)).to(device),
        torch.from_numpy(hidden[:, None, None]).to(device) if hidden.any() else None,
        (rows, queries, keys),
    )


def attention(
    query: Tensor,
    key_pool: Tensor,
    value_pool: Tensor,
    plan: AttentionPlan,
    *,
    scale: float,
    softcap: float | None = None,
) -> Tensor:
    """Return ``softmax(scale * query @ keys.T) @ values`` for every token: [T, heads, D] like ``query``.

    Pools are [slots, kv_heads, D] and contiguous, the new tokens already written. Query head h reads kv head
    ``h // (heads / kv_heads)``. ``softcap`` c bounds the scores: ``c * tanh(score / c)``. Scores and their
    softmax are computed in float32 or better.
    """
    _, heads, dim = query.shape
    kv_heads = plan.kv_heads
    wide = torch.promote_types(query.dtype, torch.float32)
    out = torch.empty_like(query)
    for block in plan.blocks:
        rows, queries, keys = block.shape
        q = query.index_select(0, block.query_index).to(wide) * scale
        q = q.view(rows, queries, kv_heads, heads // kv_heads, dim).permute(0, 2, 3, 1, 4)
        q = q.reshape(rows * kv_heads, -1, dim)
        k = key_pool.view(-1, dim).index_select(0, block.key_index).view(rows * kv_heads, keys, dim)
        v = value_pool.view(-1, dim).index_select(0, block.key_index).view(rows * kv_heads, keys, dim)
        scores = torch.bmm(q, k.to(wide).transpose(1, 2))
        if softcap is not None:
            scores = torch.tanh_(scores.div_(softcap)).mul_(softcap)
        if block.hidden is not None:
            by_query = scores.view(rows, kv_heads, heads // kv_heads, queries, keys)
            by_query.masked_fill_(block.hidden, -torch.inf)
        shares, mixed = torch.softmax(scores, dim=-1), torch.zeros_like(q)
        for tile in range(0, keys, VALUE_TILE):
            part = slice(tile, tile + VALUE_TILE)
            mixed = torch.baddbmm(mixed, shares[:, :, part], v[:, part].to(wide))
        mixed = mixed.view(rows, kv_heads, heads // kv_heads, queries, dim).permute(0, 3, 1, 2, 4)
        mixed = mixed.reshape(rows * queries, heads, dim).to(query.dtype)
        if block.real is None:
            out.index_copy_(0, block.query_index, mixed)
        else:
            out.index_copy_(0, block.query_index[block.real], mixed[block.real])
    return out
