"""JSON Schema in, grammar out: exactly the valid JSON texts, under the spelling policies below.

The passes, each a module: ``documents`` (places, references and their scopes), ``assertions``, ``logic`` and
``expand`` (keywords to shapes, the normal form of ``shapes``), ``unevaluated`` (what others have evaluated),
``algebra`` and ``reason`` (conjunction, emptiness), ``prepared`` (what no schema changes), ``members``,
``objects``, ``arrays``, ``numbers``, ``languages`` and ``emit`` (shapes to rules and terms). What cannot be
represented exactly is refused with a JSON pointer and the keyword; nothing is dropped silently. Nothing here knows
about tokens.

Policies, for what JSON leaves open:

* key order: declared names in the order of the text, those of conditions behind the others, then names that are
  only required, then the rest; or any order (``objects``);
* repeated names: none, the text's tracker sees to it (``objects``);
* numbers: what must be an integer has no fraction; 1.0 is an integer by value (``numbers``);
* strings: characters stand for themselves, with the mandatory and the short escapes (``languages``);
* ``const`` and ``enum``: one canonical spelling, objects in their given order (``emit``);
* blanks: bounded (``spacing``); ``additionalProperties`` absent: open, as the specification says;
* ``format``: those of the specification are asserted, others ignored or refused (``formats``);
* up to draft-07 nothing beside ``$ref`` counts; unknown keywords are ignored, as the specification says.

Refused: multiples of numbers with large prime factors in unbounded ranges, patterns that are not regular,
references to documents that are not at hand, and schemas whose alternatives or counts multiply beyond the stated
limits.
"""

from __future__ import annotations

from radixrt.grammar.json_schema.compile import json_schema_grammar, json_schema_symbol

__all__ = ["json_schema_grammar", "json_schema_symbol"]
