"""pydantic's core schema of a type to a JSON Schema that accepts only what the type's parser accepts.

pydantic's own ``GenerateJsonSchema`` describes; here the schema is a promise, because every text it lets through is
parsed. So scalars are narrowed (``scalars``), classes of fields are closed unless they say ``extra="allow"``,
functions are known, refused or reported (``validators``), and what has no exact schema raises
``UnsupportedConstraint`` with the path of the field. Schemas that a person states (``WithJsonSchema``,
``json_schema_extra``, ``__get_pydantic_json_schema__``) are taken at their word. This module does not know what
becomes of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, WithJsonSchema
from pydantic_core import PydanticOmit

from radixrt.errors import UnsupportedConstraint
from radixrt.python_types import validators
from radixrt.python_types.members import Member, field_path, object_of
from radixrt.python_types.scalars import SCALARS
from radixrt.python_types.unserved import Unserved, identifier
from radixrt.python_types.values import enum_values, is_distinct, key_schema, literal_values

__all__ = ["SchemaWriter"]

# The formats that the grammar asserts; what pydantic adds beside them ("path", "password") says nothing.
_FORMATS: Final = frozenset({"date", "ipv4", "ipv6"})
# Kinds of core schemas that pydantic's own methods describe exactly.
_PLAIN: Final = frozenset(
    {"any", "none", "bool", "nullable", "union", "custom-error", "lax-or-strict", "json-or-python"}
    | {"function-before", "function-after", "function-wrap", "missing-sentinel"}
    | {"model-field", "dataclass-field", "typed-dict-field", "named-tuple-field", "named-tuple"}
)


def _is_stated(schema: Mapping[str, Any]) -> bool:
    """Whether a person gave the whole JSON Schema of this part."""
    hooks = schema.get("metadata", {}).get("pydantic_js_annotation_functions", ())
    return any(isinstance(getattr(hook, "__self__", None), WithJsonSchema) for hook in hooks)


class SchemaWriter(GenerateJsonSchema):
    """One schema of one type. ``unchecked`` names the functions that may still refuse a complete text."""

    def __init__(self, *, root: str, param: str, config: Mapping[str, Any]) -> None:
        super().__init__(union_format="any_of")
        self.unchecked: list[str] = []
        self._root = root
        self._param = param
        self._steps: list[str] = []
        self._configs: list[Mapping[str, Any]] = [config]
        self._waiting: dict[str, Any] = {}
        self._begun: set[str] = set()

    # --- places -------------------------------------------------------------------------------------------

    @contextmanager
    def _at(self, step: str) -> Iterator[None]:
        self._steps.append(step)
        yield
        self._steps.pop()

    @contextmanager
    def _configured(self, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Options hold for a class that has them and for what is inside it; a class of fields starts anew."""
        self._configs.append(schema.get("config", self._configs[-1]))
        yield self._configs[-1]
        self._configs.pop()

    @property
    def place(self) -> str:
        return self._root + "".join(self._steps)

    def refusal(self, keyword: str, words: str) -> UnsupportedConstraint:
        """``keyword`` is one word that programs may compare; ``words`` are a sentence about the place."""
        return UnsupportedConstraint(
            f"{self._param}: at {self.place}, {words}", keyword=keyword, location=self.place, param=self._param
        )

    def unserved(self, keyword: str, what: str) -> UnsupportedConstraint:
        return self.refusal(keyword, f"{what} cannot be part of a constraint")

    # --- every schema -------------------------------------------------------------------------------------

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        function = validators.deciding_function(schema)
        if function is not None and not _is_stated(schema):
            # Before pydantic's own descriptions, which say less than its functions check.
            known = validators.known_schema(function)
            if known is not None:
                return known
            self._judge(function)
        found = super().generate_inner(schema)
        if found.get("type") == "string" and found.get("format") not in _FORMATS:
            found.pop("format", None)
        return found

    def build_schema_type_to_method(self) -> dict[Any, Any]:
        methods = super().build_schema_type_to_method()
        own = type(self).__dict__
        for kind in methods:
            name = f"{kind.replace('-', '_')}_schema"
            if kind in SCALARS:
                methods[kind] = self._scalar
            elif kind not in _PLAIN and name not in own:
                methods[kind] = self._unknown
        return methods

    def _unknown(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        cls = schema.get("cls")
        name = getattr(cls, "__name__", None) or str(schema["type"])
        raise self.unserved(identifier(name), name)

    def _scalar(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        try:
            return SCALARS[schema["type"]](schema, self._configs[-1])
        except Unserved as error:
            raise self.unserved(error.keyword, str(error)) from None
        except (ValueError, OverflowError) as error:
            raise self.unserved(identifier(schema["type"]), f"{schema['type']} ({error})") from None

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        """The order of fields is the order in which they are generated."""
        return value

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        raise self.unserved(identifier(schema["type"]), str(schema["type"]))

    # --- references ---------------------------------------------------------------------------------------

    def definitions_schema(self, schema: Any) -> JsonSchemaValue:
        for definition in schema["definitions"]:
            self._waiting[definition["ref"]] = definition
        return self.generate_inner(schema["schema"])

    def definition_ref_schema(self, schema: Any) -> JsonSchemaValue:
        """A definition is written where it is first met, so that its places have a path from the root."""
        name = schema["schema_ref"]
        if name not in self._begun:
            self._begun.add(name)
            self.generate_inner(self._waiting[name])
        return super().definition_ref_schema(schema)

    # --- classes of fields --------------------------------------------------------------------------------

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        cls = schema["cls"]
        if schema.get("custom_init"):
            self._report(f"{cls.__name__}.__init__", "init")
        post_init = schema.get("post_init")
        if post_init and not getattr(cls, post_init).__qualname__.endswith("init_private_attributes"):
            self._report(f"{cls.__name__}.{post_init}", "after")
        with self._configured(schema):
            return super().model_schema(schema)

    def model_fields_schema(self, schema: Any) -> JsonSchemaValue:
        return self._members(schema, schema["fields"].items(), total=True)

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        cls = schema["cls"]
        if schema.get("post_init"):
            self._report(f"{cls.__name__}.__post_init__", "after")
        with self._configured(schema):
            return super().dataclass_schema(schema)

    def dataclass_args_schema(self, schema: Any) -> JsonSchemaValue:
        fields = [(field["name"], field) for field in schema["fields"] if field.get("init", True)]
        return self._members(schema, fields, total=True)

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        with self._configured(schema):
            return self._members(schema, schema["fields"].items(), total=schema.get("total", True))

    def _members(self, schema: Mapping[str, Any], fields: Any, *, total: bool) -> JsonSchemaValue:
        config = self._configs[-1]
        members = []
        for name, field in fields:
            required = self.field_is_required(field, total)
            with self._at(f".{name}"):
                try:
                    value = self.generate_inner(field)
                except PydanticOmit:
                    if required:
                        raise self.refusal(
                            "SkipJsonSchema", "SkipJsonSchema hides a field that must be there"
                        ) from None
                    continue
            members.append(Member(field_path(name, field, config), value, required))
        extra: Any = False
        if schema.get("extra_behavior", config.get("extra_fields_behavior")) == "allow":
            with self._at(".*"):
                extra = self.generate_inner(schema["extras_schema"]) if schema.get("extras_schema") else True
        try:
            return object_of(members, extra)
        except ValueError as error:
            raise self.refusal("alias", f"alias cannot be part of a constraint: {error}") from None

    # --- unions -------------------------------------------------------------------------------------------

    def tagged_union_schema(self, schema: Any) -> JsonSchemaValue:
        """A choice must have its tag even where the field has a default: it is what the parser chooses by."""
        tag = schema["discriminator"]
        if callable(tag):
            raise self.unserved("Discriminator", f"Discriminator({validators.described(tag)})")
        paths = [[tag]] if isinstance(tag, str) else [[step] if isinstance(step, str) else step for step in tag]
        names = [path[0] for path in paths if len(path) == 1]
        choices: list[dict[str, Any]] = []
        for choice in schema["choices"].values():
            offered = self._names_of(choice)
            name = next((name for name in names if name in offered), None)
            if name is None:
                raise self.refusal(
                    "discriminator", f"the discriminator {tag!r} stands under no plain name in a choice"
                )
            found = self.generate_inner(choice)
            required = dict.fromkeys([*found.get("required", []), name])
            choices.append({**found, "required": list(required)})
        return {"anyOf": [choice for index, choice in enumerate(choices) if choice not in choices[:index]]}

    def _names_of(self, schema: Any) -> set[str]:
        """The names of the fields of a class, or those that the classes of a union share."""
        config: Mapping[str, Any] = {}
        schema = self._resolved(schema)
        while schema["type"] not in ("model-fields", "dataclass-args", "typed-dict"):
            if "choices" in schema:
                parts = schema["choices"].values() if schema["type"] == "tagged-union" else schema["choices"]
                return set.intersection(*(self._names_of(p[0] if isinstance(p, tuple) else p) for p in parts))
            if "schema" not in schema:
                return set()
            config = schema.get("config", config)
            schema = self._resolved(schema["schema"])
        fields = schema["fields"]
        named = fields.items() if isinstance(fields, dict) else ((field["name"], field) for field in fields)
        paths = [field_path(name, field, schema.get("config", config)) for name, field in named]
        return {str(path[0]) for path in paths if len(path) == 1}

    # --- containers ---------------------------------------------------------------------------------------

    def _items(self, schema: Mapping[str, Any], step: str = "[]") -> JsonSchemaValue:
        if "items_schema" not in schema:
            return {}
        with self._at(step):
            return self.generate_inner(schema["items_schema"])

    def _array(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        found: dict[str, Any] = {"type": "array", "items": self._items(schema)}
        self.update_with_validations(found, schema, self.ValidationsMapping.array)
        return found

    def list_schema(self, schema: Any) -> JsonSchemaValue:
        return self._array(schema)

    deque_schema = generator_schema = list_schema

    def set_schema(self, schema: Any) -> JsonSchemaValue:
        found = {**self._array(schema), "uniqueItems": True}
        item = self._resolved(schema.get("items_schema", {"type": "any"}))
        distinct = is_distinct(item, self._resolved)
        if distinct is None:
            raise self.refusal("set", f"a set of {item['type']} cannot be built: its items have no hash")
        if not distinct and schema.get("min_length", 0) > 1:
            raise self.refusal(
                "min_length", f"min_length of a set of {item['type']}: two texts may spell one value"
            )
        return found

    frozenset_schema = set_schema

    def tuple_schema(self, schema: Any) -> JsonSchemaValue:
        items = schema["items_schema"]
        variadic = schema.get("variadic_item_index", len(items))
        if variadic < len(items) - 1:
            raise self.refusal("tuple", "the tuple has items behind those that repeat")
        fixed = []
        for index, item in enumerate(items[:variadic]):
            with self._at(f"[{index}]"):
                fixed.append(self.generate_inner(item))
        found: dict[str, Any] = {"type": "array", "minItems": len(fixed), "items": False}
        if fixed:
            found["prefixItems"] = fixed
        if variadic < len(items):
            with self._at("[]"):
                found["items"] = self.generate_inner(items[variadic])
        for name, keyword, pick in (("min_length", "minItems", max), ("max_length", "maxItems", min)):
            if schema.get(name) is not None:
                found[keyword] = pick(schema[name], found.get(keyword, schema[name]))
        return found

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        found: dict[str, Any] = {"type": "object"}
        keys = self._resolved(schema.get("keys_schema", {"type": "any"}))
        names = self._names(keys)
        if names:
            found["propertyNames"] = names
        with self._at("{}"):
            values = schema.get("values_schema")
            found["additionalProperties"] = True if values is None else self.generate_inner(values)
        self.update_with_validations(found, schema, self.ValidationsMapping.object)
        if schema.get("min_length", 0) > 1 and not is_distinct(keys, self._resolved):
            raise self.refusal(
                "min_length", f"min_length of a dict by {keys['type']}: two keys may spell one value"
            )
        return found

    frozendict_schema = ordered_dict_schema = counter_schema = dict_schema

    def _names(self, keys: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the names of an object must be so that each is a key of this type, spelled as a string."""
        with self._at("{key}"):
            try:
                return key_schema(keys, self._resolved, self.generate_inner)
            except Unserved as error:
                raise self.unserved(error.keyword, str(error)) from None

    def _resolved(self, schema: Any) -> Any:
        while schema["type"] in ("definition-ref", "definitions"):
            if schema["type"] == "definitions":
                self._waiting.update({item["ref"]: item for item in schema["definitions"]})
                schema = schema["schema"]
            else:
                schema = self._waiting[schema["schema_ref"]]
        return schema

    # --- given values -------------------------------------------------------------------------------------

    def literal_schema(self, schema: Any) -> JsonSchemaValue:
        return self._listed(literal_values, schema["expected"])

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        return self._listed(enum_values, schema)

    def _listed(self, values: Any, given: Any) -> JsonSchemaValue:
        try:
            return {"enum": values(given)}
        except Unserved as error:
            raise self.refusal(error.keyword, f"{error} has no spelling in JSON that is read back") from None

    # --- functions ----------------------------------------------------------------------------------------

    def _report(self, name: str, mode: str) -> None:
        entry = f"{self.place}: {name} ({mode})"
        if entry not in self.unchecked:
            self.unchecked.append(entry)

    def _judge(self, schema: Mapping[str, Any]) -> None:
        try:
            name = validators.unknown_function(schema)
        except Unserved as error:
            raise self.unserved(error.keyword, str(error)) from None
        if name is not None:
            self._report(name, schema["type"].removeprefix("function-"))

    def function_plain_schema(self, schema: Any) -> JsonSchemaValue:
        stated = schema.get("json_schema_input_schema")
        if stated is None or stated["type"] == "any":
            name = validators.described(schema["function"]["function"])
            raise self.refusal(
                "PlainValidator", f"{name} decides alone what is valid; give its json_schema_input_type"
            )
        return self.generate_inner(stated)

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def chain_schema(self, schema: Any) -> JsonSchemaValue:
        steps = [self.generate_inner(step) for step in schema["steps"]]
        return {"allOf": steps}
