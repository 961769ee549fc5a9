"""Schema documents: where each schema stands, and what a reference to it means.

Loading walks every position where a schema may stand, checks the kind of each known keyword, and files
identifiers and anchors. The spellings of draft-04 to 2020-12 are told apart here (``Schema.draft``); what a
keyword asserts is not known here.

What ``$dynamicRef`` means depends on the resources an evaluation came through. All that can ever matter of them is
which resource with a certain dynamic anchor was the first, so a place counts as one ``Schema`` per *scope*: the
first resources, by anchor. There are few scopes, and only one where no document has dynamic anchors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urljoin

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.json_schema.keywords import (
    ANNOTATIONS,
    KEYWORDS,
    SUBSCHEMA,
    SUBSCHEMA_LIST,
    SUBSCHEMA_MAP,
    check_keyword,
)
from radixrt.grammar.json_schema.schema import Schema, Scope
from radixrt.grammar.json_schema.values import JsonValue, from_python, parse_json

__all__ = ["Library", "Schema"]

LATEST: Final = 2020
MAX_REFERENCE_CHAIN: Final = 10_000
MAX_SCOPES: Final = 1_000  # resources times scopes they are entered in
_APPLICATORS: Final = SUBSCHEMA | SUBSCHEMA_LIST | SUBSCHEMA_MAP
_WITH_PARTS: Final = _APPLICATORS | {"$dynamicRef", "$recursiveRef"}
_IDENTIFIERS: Final = frozenset(("$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"))
_ONLY_REFERENCE: Final = ANNOTATIONS | {"$ref"}
_DRAFT: Final = re.compile(r"https?://json-schema\.org/draft[-/]0?([0-9]+)(?:-[0-9]{2})?/.*")
_DRAFTS: Final = (4, 6, 7, 2019, LATEST)
_ROOT: Final = ""  # stands for ``$recursiveAnchor`` among the names of dynamic anchors


class Library:
    """All documents of one compilation: the main schema and the resources it may refer to.

    Args:
        schema: a JSON Schema: a dict, a bool, or JSON text (whose key order is kept).
        resources: further documents by absolute URI; read only when something refers to one.
    """

    def __init__(self, schema: JsonValue, resources: Mapping[str, object] | None = None) -> None:
        self.formats: set[str] = set()
        """The values of ``format`` in the documents read so far."""
        self._unread = {uri.rstrip("#"): document for uri, document in (resources or {}).items()}
        self._schemas: dict[int, Schema] = {}  # by id of the dict; the documents below keep those alive
        self._documents: list[JsonValue] = []
        self._resources: dict[str, Schema] = {}
        self._anchors: dict[tuple[str, str], Schema] = {}
        self._dynamic: dict[str, dict[str, Schema]] = {}  # by base URI, then by anchor
        self._scopes: dict[tuple[str, Scope], Scope] = {}  # what entering a resource makes of a scope
        self._entered: dict[tuple[Schema, Scope], Schema] = {}
        self._alike: dict[str, Schema] = {}
        self._meant: dict[Schema, Schema] = {}
        self._resolved: dict[tuple[str, str, str, Scope], Schema] = {}
        self.true = Schema(None, True, "", "", LATEST)
        self.false = Schema(None, False, "", "", LATEST)
        self.main = self._enter(self._read(schema, "", ""), ())

    # --- places ---------------------------------------------------------------------------------------------

    def asserts(self, keyword: str) -> bool:
        """Whether some schema may have this keyword with the value true; of unread documents, any object."""
        if any(schema.keywords and schema.keywords.get(keyword) is True for schema in self._schemas.values()):
            return True
        todo: list[object] = list(self._unread.values())
        while todo:
            part = todo.pop()
            if isinstance(part, str) and keyword in part:  # a document may be JSON text
                return True
            if isinstance(part, Mapping):
                if part.get(keyword) is True:
                    return True
                todo.extend(part.values())
            elif isinstance(part, list):
                todo.extend(part)
        return False

    @property
    def size(self) -> int:
        """How many schemas the documents read so far hold."""
        return len(self._schemas)

    def at(self, value: JsonValue, parent: Schema) -> Schema:
        """The schema that stands where ``value``, a part of ``parent``, was found."""
        if isinstance(value, bool):
            return self.true if value else self.false
        if isinstance(value, Schema):  # in a derived one
            return value
        return self._enter(self._schemas[id(value)], parent.scope)

    def _enter(self, place: Schema, scope: Scope) -> Schema:
        """The place as an evaluation with this scope sees it."""
        if not self._dynamic:
            return place
        scope = self._scope_in(place.base, scope)
        if not scope or place.keywords is None:
            return place
        known = self._entered.get((place, scope))
        if known is None:
            known = Schema(place.keywords, place.value, place.pointer, place.base, place.draft, scope)
            self._entered[place, scope] = known
        return known

    def _scope_in(self, base: str, scope: Scope) -> Scope:
        known = self._scopes.get((base, scope))
        if known is None:
            if len(self._scopes) >= MAX_SCOPES:
                place = next(iter(next(iter(self._dynamic.values())).values()))
                why = f"dynamic anchors are reached in more than {MAX_SCOPES} ways"
                raise place.refuse("$dynamicAnchor", why, "$recursiveAnchor")
            first = dict(scope)
            anchors = self._dynamic.get(base, {})
            if _ROOT not in anchors:
                first.pop(_ROOT, None)  # a resource without $recursiveAnchor ends the chain of those with it
            for name, place in anchors.items():
                first.setdefault(name, place)
            known = self._scopes[base, scope] = tuple(sorted(first.items(), key=lambda item: item[0]))
        return known

    def part(self, pointer: str, keywords: Mapping[str, JsonValue]) -> Schema:
        """The schema at a JSON pointer of the main one, with other values of some keywords that hold no schemas.

        Raises ``InvalidRequest`` if no schema is there.
        """
        place = self.main if not pointer else self._pointed(self.main, pointer)
        if place is None:
            raise InvalidRequest(f"the document has no schema at {pointer}", param="schema")
        place = self._enter(place, self.main.scope)
        own = place.keywords
        if own is None or all(name in own and own[name] == value for name, value in keywords.items()):
            return place
        changed = {**own, **keywords}
        return Schema(changed, True, place.pointer, place.base, place.draft, place.scope, place.written)

    def meant(self, schema: Schema) -> Schema:
        """The schema itself, or what it refers to if a reference is all it consists of."""
        known = self._meant.get(schema)
        if known is None:
            known = self._meant[schema] = self._followed(schema)
        return known

    def _followed(self, schema: Schema) -> Schema:
        start = schema
        for _ in range(MAX_REFERENCE_CHAIN):
            keywords = schema.keywords
            if keywords is None:
                return schema
            if "$ref" not in keywords:
                return self._first_like(schema, keywords)
            if schema.draft > 7 and not keywords.keys() <= _ONLY_REFERENCE:
                return schema
            schema = self.resolve(schema, "$ref")
        raise start.refuse("$ref", "it refers to itself for the same value")

    def _first_like(self, schema: Schema, keywords: dict[str, JsonValue]) -> Schema:
        """The first schema with the same text, for one without subschemas: large documents repeat a few."""
        if any(isinstance(value, dict) or keyword in _WITH_PARTS for keyword, value in keywords.items()):
            return schema
        text = repr([item for item in keywords.items() if item[0] not in ANNOTATIONS])
        return self._alike.setdefault(text, schema)

    def derived(self, keywords: dict[str, JsonValue], origin: Schema) -> Schema:
        """A schema that no document spells out, blamed on ``origin``; its parts are ``Schema`` objects."""
        return Schema(keywords, True, origin.pointer, origin.base, LATEST, origin.scope, origin.written)

    # --- references -----------------------------------------------------------------------------------------

    def resolve(self, origin: Schema, keyword: str) -> Schema:
        """The schema that ``$ref``, ``$dynamicRef`` or ``$recursiveRef`` of ``origin`` means.

        Raises:
            UnsupportedConstraint: the target is in no document at hand.
            InvalidRequest: a pointer or anchor that does not exist.
        """
        keywords = origin.keywords or {}
        reference: str = keywords[keyword]
        key = (origin.base, keyword, reference, origin.scope)
        known = self._resolved.get(key)
        if known is None:
            known = self._resolved[key] = self._resolve(origin, keyword, reference)
        return known

    def _resolve(self, origin: Schema, keyword: str, reference: str) -> Schema:
        uri, _, fragment = reference.partition("#")
        target = self._join(origin.base, uri) if uri else origin.base
        place = self._find(target, unquote(fragment), origin, keyword, reference)
        anchor = {"$dynamicRef": fragment, "$recursiveRef": _ROOT}.get(keyword)
        if anchor is not None and self._dynamic.get(place.base, {}).get(anchor) is place:
            place = dict(origin.scope).get(anchor, place)
        return self._enter(place, origin.scope)

    def _find(self, uri: str, fragment: str, origin: Schema, keyword: str, reference: str) -> Schema:
        root = self._resource(uri)
        if root is None:
            raise origin.refuse(keyword, f"{reference!r} is in none of the given resources")
        if not fragment:
            return root
        if not fragment.startswith("/"):
            anchored = self._anchors.get((uri, fragment))
            if anchored is None:
                raise origin.reject(keyword, f"no schema has the anchor of {reference!r}")
            return anchored
        place = self._pointed(root, fragment)
        if place is None and root.draft <= 7 and root is not self.main:
            # Generators of older schemas write an "id" that is no base: the pointer is meant from the top.
            place = self._pointed(self.main, fragment)
        if place is None:
            raise origin.reject(keyword, f"{reference!r} points to no schema")
        return place

    def _pointed(self, root: Schema, fragment: str) -> Schema | None:
        value: JsonValue = root.keywords
        base, draft = root.base, root.draft
        for part in fragment[1:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]{0,8}", name) and int(name) < len(value):
                value = value[int(name)]
            else:
                return None
            if isinstance(value, dict) and id(value) in self._schemas:
                base, draft = self._schemas[id(value)].base, self._schemas[id(value)].draft
        if isinstance(value, bool):
            return self.true if value else self.false
        if not isinstance(value, dict):
            return None
        if id(value) not in self._schemas:  # a place that no keyword of the specification makes a schema
            self._walk(value, root.pointer + fragment, base, draft)
        return self._schemas[id(value)]

    @staticmethod
    def _join(base: str, uri: str) -> str:
        try:
            return urljoin(base, uri)
        except ValueError as error:
            raise InvalidRequest(f"the schema has the malformed URI {uri!r}: {error}", param="schema") from None

    def _resource(self, uri: str) -> Schema | None:
        if uri not in self._resources and uri in self._unread:
            self._read(self._unread.pop(uri), uri, uri)
        if uri not in self._resources:
            self._read_all()  # it may be an embedded resource of one that nobody has asked for yet
        return self._resources.get(uri)

    def _read_all(self) -> None:
        while self._unread:
            uri, document = self._unread.popitem()
            self._read(document, uri, uri)

    # --- loading --------------------------------------------------------------------------------------------

    def _read(self, document: object, uri: str, pointer: str) -> Schema:
        try:
            value = parse_json(document) if isinstance(document, str) else from_python(document)
        except UnsupportedConstraint as error:
            error.location = pointer + (error.location or "")
            raise
        if isinstance(value, bool):
            schema = self.true if value else self.false
        elif isinstance(value, dict):
            self._documents.append(value)
            schema = self._walk(value, pointer, uri, LATEST)
        else:
            raise InvalidRequest(
                f"a JSON Schema must be an object or a boolean, not {type(document).__name__}", param="schema"
            )
        self._resources.setdefault(uri, schema)
        return schema

    def _walk(self, top: dict[str, JsonValue], pointer: str, base: str, draft: int) -> Schema:
        todo = [(top, pointer, base, draft)]
        while todo:
            keywords, pointer, base, draft = todo.pop()
            if "$schema" in keywords:
                draft = _draft_of(keywords["$schema"], pointer)
            for keyword, value in keywords.items():
                if keyword in KEYWORDS:
                    check_keyword(keyword, value, pointer)
            if "format" in keywords:
                self.formats.add(keywords["format"])
            schema = Schema(keywords, True, pointer, base, draft)
            if keywords is top:
                self._resources.setdefault(base, schema)
            if not keywords.keys().isdisjoint(_IDENTIFIERS):
                self._file(schema)
            self._schemas[id(keywords)] = schema
            if not keywords.keys().isdisjoint(_APPLICATORS):
                todo.extend((*place, schema.base, draft) for place in _subschemas(keywords, pointer))
        return self._schemas[id(top)]

    def _file(self, schema: Schema) -> None:
        """Note the identifiers of a schema; an ``$id`` gives it a new base."""
        keywords = schema.keywords or {}
        identifier = keywords.get("id" if schema.draft <= 4 else "$id")
        if schema.draft <= 7 and "$ref" in keywords:
            identifier = None  # up to draft-07 nothing beside $ref counts
        if isinstance(identifier, str):
            uri, _, fragment = identifier.partition("#")
            if uri:
                schema.base = self._join(schema.base, uri)
                self._resources.setdefault(schema.base, schema)
            if fragment and schema.draft <= 7:
                self._anchors.setdefault((schema.base, fragment), schema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = keywords.get(keyword)
            if isinstance(anchor, str):
                self._anchors.setdefault((schema.base, anchor), schema)
        if "$dynamicAnchor" in keywords:
            self._dynamic.setdefault(schema.base, {}).setdefault(keywords["$dynamicAnchor"], schema)
        if keywords.get("$recursiveAnchor") is True and self._resources.get(schema.base) is schema:
            self._dynamic.setdefault(schema.base, {})[_ROOT] = schema


def _draft_of(meta: JsonValue, pointer: str) -> int:
    """The draft a ``$schema`` names; a metaschema that is not the specification's own is taken for the latest."""
    if not isinstance(meta, str):
        raise InvalidRequest(
            f"the schema is wrong at {pointer}/$schema: '$schema' must be a string", param="schema"
        )
    match = _DRAFT.fullmatch(meta)
    if match is None:
        return LATEST
    draft = int(match[1][:9])  # a longer number is none of them either
    if draft not in _DRAFTS:
        raise UnsupportedConstraint(
            f"draft {match[1][:9]} is not supported: drafts 4, 6, 7, 2019-09 and 2020-12 are",
            keyword="$schema",
            location=f"{pointer}/$schema",
            param="schema",
        )
    return draft


def _subschemas(keywords: dict[str, JsonValue], pointer: str) -> Iterator[tuple[dict[str, JsonValue], str]]:
    """Every object directly below these keywords where a schema stands, with its pointer."""
    for keyword, value in keywords.items():
        if keyword in SUBSCHEMA and isinstance(value, dict):
            yield value, f"{pointer}/{keyword}"
        elif keyword in SUBSCHEMA_LIST and isinstance(value, list):
            for index, part in enumerate(value):
                if isinstance(part, dict):
                    yield part, f"{pointer}/{keyword}/{index}"
        elif keyword in SUBSCHEMA_MAP and isinstance(value, dict):
            for name, part in value.items():
                if isinstance(part, dict):
                    yield part, f"{pointer}/{keyword}/{name.replace('~', '~0').replace('/', '~1')}"
