"""What text is made of before it is tokenized: runs of text and runs of ids, and messages made of them.

Data only. The difference between a control token and text that merely spells it is carried here, by
``TextPiece.literal``, and nowhere else.
"""

from __future__ import annotations

import msgspec

__all__ = ["IdsPiece", "Message", "Piece", "TextPiece"]


class TextPiece(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """A run of text. ``literal`` marks text of the chat template: the only text that can spell control tokens."""

    text: str
    literal: bool = False


class IdsPiece(msgspec.Struct, frozen=True, tag="ids"):
    """Tokens that are fixed already (generated, or named by id) and the text they stand for."""

    ids: tuple[int, ...]
    text: str


Piece = TextPiece | IdsPiece


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: str
    content: tuple[Piece, ...]
