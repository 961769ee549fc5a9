"""JSON Schema in, grammar out.

Passes, each a module: ``documents`` (places and references), ``assertions`` and ``expand`` (keywords to shapes,
the normal form), ``reason`` (questions about shapes), ``members``, ``objects``, ``arrays``, ``numbers``,
``languages`` and ``emit`` (shapes to rules and terms). What cannot be represented exactly is refused with a
JSON pointer and the keyword; nothing is dropped silently.
"""

from __future__ import annotations

from radixrt.grammar.json_schema.compile import json_schema_grammar

__all__ = ["json_schema_grammar"]
