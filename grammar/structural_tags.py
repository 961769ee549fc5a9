"""Formats with tags: a piece of text between a begin and an end, alone, in a series, or opened by triggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from radixrt.grammar.cfg import Symbol
from radixrt.grammar.free_text import FreeText
from radixrt.grammar.json_schema.values import JsonValue
from radixrt.grammar.structural_fields import Fields, checked_text, wrong
from radixrt.grammar.structural_pieces import NOTHING, Follow, Pieces

__all__ = ["OpenedTag", "TagFormats", "leading_text", "read_tags"]


class OpenedTag(NamedTuple):
    """A tag that begins with text: its begin, all that comes behind it, and where it stands."""

    begin: str
    rest: Symbol
    pointer: str


class TagFormats:
    """``tag``, ``triggered_tags``, ``tags_with_separator`` and ``dispatch``."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._builder = pieces.builder
        pieces.formats.update(
            {
                "tag": lambda fields, follow: pieces.then(self.tag(fields), follow),
                "triggered_tags": self._triggered_tags,
                "tags_with_separator": self._tags_with_separator,
                "dispatch": self._dispatch,
            }
        )

    def tag(self, fields: Fields) -> Symbol:
        """``begin content end``."""
        begin = fields.raw("begin")
        if isinstance(begin, dict):
            _, opening = self._pieces.token_of(begin, fields.at("begin"))
        else:
            opening = self._builder.literal(checked_text(begin, fields.at("begin")))
        return self._builder.seq(opening, self._rest(fields))

    def _rest(self, fields: Fields) -> Symbol:
        """``content end``."""
        end = fields.raw("end")
        content, pointer = fields.raw("content"), fields.at("content")
        if isinstance(end, dict):
            token, closing = self._pieces.token_of(end, fields.at("end"))
            return self._builder.seq(self._pieces.format(content, pointer, Follow(tokens=(token,))), closing)
        ends = fields.texts("end", empty=True) if isinstance(end, list) else [checked_text(end, fields.at("end"))]
        if not ends:
            wrong(fields.at("end"), "there must be at least one end")
        return self._pieces.format(content, pointer, Follow(tuple(ends)))

    def _tags_with_separator(self, fields: Fields, follow: Follow) -> Symbol:
        builder = self._builder
        one = builder.alt(*(self.tag(tag) for tag in read_tags(fields)))
        separator = builder.literal(fields.text("separator"))
        alone = fields.flag("stop_after_first")
        series = one if alone else builder.seq(one, builder.star(builder.seq(separator, one)))
        return self._pieces.then(series if fields.flag("at_least_one") else builder.opt(series), follow)

    def _triggered_tags(self, fields: Fields, follow: Follow) -> Symbol:
        tags = [OpenedTag(tag.text("begin"), self._rest(tag), tag.at("begin")) for tag in read_tags(fields)]
        return self.triggered(fields, tags, fields.texts("excludes", ()), follow)

    def triggered(
        self, fields: Fields, tags: Sequence[OpenedTag], excludes: Sequence[str], follow: Follow
    ) -> Symbol:
        """Tags that the ``triggers`` in free text open: each trigger those tags whose begin starts with it."""
        builder = self._builder
        triggers = list(dict.fromkeys(fields.texts("triggers")))
        if not triggers:
            wrong(fields.at("triggers"), "there must be at least one trigger")
        text = FreeText(builder.pool, (*triggers, *excludes, *follow.stops))
        live = [trigger for trigger in triggers if _can_come(text, trigger, excludes)]
        for trigger in triggers:
            builder.pool.spend(len(tags))
            if not any(tag.begin.startswith(trigger) for tag in tags):
                wrong(fields.at("triggers"), f"no tag begins with the trigger {trigger!r}")
        for tag in tags:
            if not any(map(tag.begin.startswith, live)):
                why = "no trigger begins it, or another string is complete before"
                wrong(tag.pointer, f"the tag that begins with {tag.begin!r} can never be opened: {why}")
        opened = []
        for trigger in live:
            rests = [
                builder.seq(builder.literal(tag.begin[len(trigger) :]), tag.rest)
                for tag in tags
                if tag.begin.startswith(trigger)
            ]
            opened.append(builder.seq(builder.terminal(text.up_to([trigger])), builder.alt(*rests)))
        at_once = builder.alt(*(builder.seq(builder.literal(tag.begin), tag.rest) for tag in tags))
        tail = self._pieces.free((*triggers, *excludes), follow)
        return self._pieces.series(fields, at_once, builder.alt(*opened), tail, follow)

    def _dispatch(self, fields: Fields, follow: Follow) -> Symbol:
        builder = self._builder
        rules = self._pieces.rules(fields)
        excludes = fields.texts("excludes", ())
        patterns = [checked_text(value, pointer, empty=False) for (value, pointer), _ in rules]
        text = FreeText(builder.pool, (*patterns, *excludes, *follow.stops))
        loop = fields.flag("loop", True)
        opened = []
        for pattern, ((_, pointer), (content, place)) in zip(patterns, rules, strict=True):
            if not _can_come(text, pattern, excludes):
                wrong(pointer, f"{pattern!r} can never come: another string is complete before")
            body = self._pieces.format(content, place, NOTHING if loop else follow)
            opened.append(builder.seq(builder.terminal(text.up_to([pattern])), body))
        tail = self._pieces.free((*patterns, *excludes), follow)
        one = builder.alt(*opened)
        return builder.seq(builder.star(one), tail) if loop else builder.alt(one, tail)


def read_tags(fields: Fields) -> list[Fields]:
    """The fields of ``tags``, of which there must be one; they are checked with those around them."""
    tags = []
    for item, pointer in fields.items("tags"):
        tag = fields.inner(item, pointer)
        if tag.text("type", "tag") != "tag":
            wrong(tag.at("type"), "expected 'tag'")
        tags.append(tag)
    if not tags:
        wrong(fields.at("tags"), "there must be at least one tag")
    return tags


def _can_come(text: FreeText, stop: str, excludes: Sequence[str]) -> bool:
    return text.comes_first(stop) and not any(excluded in stop for excluded in excludes)


def leading_text(value: JsonValue) -> str:
    """The text that a format begins with, whatever it goes on with; empty if it has no such text of its own."""
    kind = value.get("type") if isinstance(value, dict) else None
    name = {"const_string": "value", "tag": "begin"}.get(kind) if isinstance(kind, str) else None
    text = value.get(name) if name else None
    return text if isinstance(text, str) else ""
