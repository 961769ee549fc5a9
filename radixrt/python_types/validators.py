"""What functions in the validators of a type mean for its schema.

pydantic builds its own types out of functions too; those are known here by name, with the schema that says all they
check, or refused. A function that a person wrote can check anything: it is no part of the constraint, and its name
is handed on so that the person learns of it. This module does not know where in a type a function stands.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from radixrt.python_types import texts
from radixrt.python_types.unserved import Unserved, identifier

__all__ = ["deciding_function", "described", "known_schema", "unknown_function"]

_CHECKS: Final = "pydantic._internal._validators."
_IPV4: Final = {"type": "string", "format": "ipv4"}
_IPV6: Final = {"type": "string", "format": "ipv6"}

# What these functions accept, whole.
_KNOWN: Final[Mapping[str, dict[str, Any]]] = MappingProxyType(
    {
        _CHECKS + "ip_v4_address_validator": _IPV4,
        "ipaddress.IPv4Address": _IPV4,
        _CHECKS + "ip_v6_address_validator": _IPV6,
        "ipaddress.IPv6Address": _IPV6,
        "pydantic.networks.IPvAnyAddress._validate": {"anyOf": [_IPV4, _IPV6]},
        _CHECKS + "ip_v4_interface_validator": texts.whole(texts.IPV4_INTERFACE),
        "ipaddress.IPv4Interface": texts.whole(texts.IPV4_INTERFACE),
        _CHECKS + "ip_v6_interface_validator": texts.whole(texts.IPV6_INTERFACE),
        "ipaddress.IPv6Interface": texts.whole(texts.IPV6_INTERFACE),
        "pydantic.networks.IPvAnyInterface._validate": texts.whole(
            f"(?:{texts.IPV4_INTERFACE}|{texts.IPV6_INTERFACE})"
        ),
        _CHECKS + "ip_v4_network_validator": texts.whole(texts.IPV4_NETWORK),
        "ipaddress.IPv4Network": texts.whole(texts.IPV4_NETWORK),
        "pydantic.networks.EmailStr._validate": {**texts.whole(texts.EMAIL), "maxLength": 254},
        "pydantic.types.ByteSize._validate": {"type": "integer", "minimum": 0},
    }
)
_ENCODERS: Final = MappingProxyType({"Base64Encoder": texts.BASE64, "Base64UrlEncoder": texts.BASE64_URL})

# These change what was read into an object and refuse nothing that the schema below them lets through.
_HARMLESS: Final = frozenset(
    {
        "pydantic.types.SecretStr",
        "pydantic.types.SecretBytes",
        "pydantic.types.Secret.__get_pydantic_core_schema__.<locals>.<lambda>",
        "pydantic._internal._generate_schema.GenerateSchema._literal_schema.<locals>.<lambda>",
        "pydantic._internal._generate_schema.GenerateSchema._path_schema.<locals>.path_validator",
        "pydantic.networks._BaseUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
        "pydantic.networks._BaseMultiHostUrl.__get_pydantic_core_schema__.<locals>.wrap_val",
        _CHECKS + "sequence_validator",
        _CHECKS + "defaultdict_validator",
    }
)
# Limits that pydantic checks by a function say the same in the schema, under ``pydantic_js_updates``.
_LIMITS: Final = frozenset(
    _CHECKS + name
    for name in (
        "greater_than_validator",
        "greater_than_or_equal_validator",
        "less_than_validator",
        "less_than_or_equal_validator",
        "multiple_of_validator",
        "min_length_validator",
        "max_length_validator",
    )
)


def _bare(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _module(function: Any) -> str:
    return str(getattr(_bare(function), "__module__", type(function).__module__))


def _name(function: Any) -> str:
    function = _bare(function)
    function = getattr(function, "__func__", function)
    return f"{_module(function)}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def described(function: Any) -> str:
    """The name of a function as a person knows it: its class, if any, and its own."""
    return _name(function).removeprefix(f"{_module(function)}.").rpartition("<locals>.")[2]


def deciding_function(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The core schema of the function that decides what a core schema accepts from JSON, where one does."""
    while schema["type"] in ("lax-or-strict", "json-or-python"):
        schema = schema["lax_schema" if schema["type"] == "lax-or-strict" else "json_schema"]
    return schema if schema["type"].startswith("function-") else None


def known_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The JSON Schema of what one of pydantic's own functions accepts; None for any other function."""
    function = schema["function"]["function"]
    name = _name(function)
    if name == "pydantic.types.EncodedBytes.decode":
        encoder = getattr(_bare(function).__self__.encoder, "__name__", "")
        return texts.whole(_ENCODERS[encoder]) if encoder in _ENCODERS else None
    found = _KNOWN.get(name)
    return None if found is None else dict(found)


def unknown_function(schema: Mapping[str, Any]) -> str | None:
    """The name of a function in a core schema that no JSON Schema speaks for; None where the schema says it all.

    Raises ``Unserved`` with the name for those of pydantic's and annotated-types' functions that check what no
    schema can say, and that no one wrote for the type at hand.
    """
    function = schema["function"]["function"]
    name = _name(function)
    if name in _HARMLESS or _takes_value(function, schema.get("schema")):
        return None
    if name in _LIMITS and schema.get("metadata", {}).get("pydantic_js_updates"):
        return None
    if name.endswith("apply_known_metadata.<locals>.val_func"):
        raise Unserved("Predicate", _predicate(function))
    if name.startswith(("pydantic.", "pydantic_core.")):
        raise Unserved(identifier(described(function)), described(function))
    return described(function)


def _takes_value(function: Any, inner: Mapping[str, Any] | None) -> bool:
    """Whether it is what ``use_enum_values=True`` puts behind an enumeration."""
    return (
        isinstance(function, operator.attrgetter)
        and function.__reduce__()[1] == ("value",)
        and inner is not None
        and inner["type"] == "enum"
    )


def _predicate(function: Any) -> str:
    """What a function made for ``Predicate(...)`` or ``Not(...)`` asks for, from what it closes over."""
    for value in inspect.getclosurevars(function).nonlocals.values():
        wanted = getattr(value, "func", value)
        if callable(wanted):
            return f"Predicate({getattr(wanted, '__qualname__', repr(wanted))})"
    return "Predicate"
