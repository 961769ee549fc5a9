"""JSON Schema in, grammar out: exactly the valid JSON texts, under the spelling policies below.

The passes, each a module: ``documents`` (places and references), ``assertions`` and ``expand`` (keywords to
shapes, the normal form of ``shapes``), ``algebra`` and ``reason`` (conjunction, emptiness), ``members``,
``objects``, ``arrays``, ``numbers``, ``languages`` and ``emit`` (shapes to rules and terms). What cannot be
represented exactly is refused with a JSON pointer and the keyword; nothing is dropped silently. Nothing here knows
about tokens.

Policies, for what JSON leaves open:

* key order: declared names in the order of the text, then names that are only required, then others (``objects``);
* repeated names: never a declared name; others may repeat where nothing depends on it, the last one counts
  (``objects``);
* numbers: what must be an integer has no fraction; 1.0 is an integer by value (``numbers``);
* strings: characters stand for themselves, with the mandatory and the short escapes (``languages``);
* ``const`` and ``enum``: one canonical spelling, objects in their given order (``emit``);
* blanks: bounded (``spacing``); ``additionalProperties`` absent: open, as the specification says;
* ``format``: those of the specification are asserted, others ignored or refused (``formats``);
* up to draft-07 nothing beside ``$ref`` counts; unknown keywords are ignored, as the specification says.

Refused: a number of members that only names differing from each other could reach (``minProperties`` well above
the required ones where other names are open), ``uniqueItems`` over more than a few listed values, a ``$dynamicRef``
with several possible targets, negated ``unevaluated*``, multiples of large numbers in unbounded ranges, patterns
that are not regular, and schemas whose alternatives multiply beyond the stated limits.
"""

from __future__ import annotations

from radixrt.grammar.json_schema.compile import json_schema_grammar, json_schema_symbol

__all__ = ["json_schema_grammar", "json_schema_symbol"]
