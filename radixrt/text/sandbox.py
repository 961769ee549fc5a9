"""Jinja for templates nobody has vouched for: sandboxed, immutable, and with counted work.

What a template sees and can call is what ``transformers`` gives its chat templates. Beyond Jinja's own sandbox
every loop step, call and produced character is charged to a ``Budget``, and the operations that make much out of
little (repetition, replacement, padding, formatting) are charged before they run. Nothing is timed. This module
does not know what is rendered.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
from jinja2.runtime import LoopContext, Undefined
from jinja2.utils import Namespace

__all__ = ["Budget", "BudgetExceeded", "TemplateEnvironment"]

MAX_NUMBER_ARGUMENT = 10_000  # widths, counts and indents that a template may ask for
_MAX_BITS = 4096
# Filters that are random, or whose output has no bound in their input; no chat template needs them.
_REMOVED_FILTERS = ("batch", "filesizeformat", "pprint", "random", "slice", "urlize", "wordwrap", "xmlattr")
_LONG_NUMBER = re.compile(r"\*|[0-9]{5}")


class BudgetExceeded(jinja2.TemplateRuntimeError):
    """The template did more work than a template may."""


class Budget:
    """What one rendering may spend: ``steps`` of work and ``chars`` of produced text."""

    def __init__(self, steps: int, chars: int) -> None:
        self.steps = steps
        self.chars = chars

    def charge(self, steps: int = 1, chars: int = 0) -> None:
        self.steps -= steps
        self.chars -= chars
        if self.steps < 0 or self.chars < 0:
            raise BudgetExceeded("the template exceeds the work a chat template may do")


class _Generation(jinja2.ext.Extension):
    """``{% generation %}`` marks the model's part for training; here its body stands as it is."""

    tags = {"generation"}  # noqa: RUF012 - the attribute is Jinja's

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Counted:
    """An iterable that charges one step and ``chars`` characters for each item."""

    def __init__(self, items: Any, budget: Budget, chars: int) -> None:
        self._items = items
        self._budget = budget
        self._chars = chars

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self._budget.charge(1, self._chars)
            yield item


class TemplateEnvironment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The environment of chat templates. Rendering happens inside :meth:`spending`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
            finalize=self._finalize,
            # Constants are not folded: folding would run filters outside of any rendering.
            optimized=False,
        )
        self._local = threading.local()
        for name in _REMOVED_FILTERS:
            del self.filters[name]
        for name, function in list(self.filters.items()):
            if name in _CHECKED_FILTERS:
                self.filters[name] = _checked_filter(self, name, function)
        self.filters["tojson"] = self._to_json
        self.filters["string"] = self._string_filter
        self.filters["replace"] = self._replace_filter
        self.filters["trim"] = _trim
        self.filters["join"] = self._join_filter
        del self.globals["lipsum"]
        self.globals["range"] = self._range
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    # --- budget ------------------------------------------------------------------------------------------------

    @contextmanager
    def spending(self, budget: Budget) -> Iterator[None]:
        """Charge the work of this thread to ``budget``."""
        before = getattr(self._local, "budget", None)
        self._local.budget = budget
        try:
            yield
        finally:
            self._local.budget = before

    @property
    def budget(self) -> Budget:
        budget: Budget | None = getattr(self._local, "budget", None)
        if budget is None:
            raise BudgetExceeded("templates are rendered inside of a budget")
        return budget

    def _parse(self, source: str, name: str | None, filename: str | None) -> jinja2.nodes.Template:
        template = super()._parse(source, name, filename)
        _refuse_private_names(template)
        return _charged(template)

    def _finalize(self, value: Any) -> Any:
        self._weigh(value)
        return value

    def _weigh(self, value: Any) -> None:
        """Charge what it takes to walk or to write out a value, shared parts each time they are met."""
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                self.budget.charge(1, len(item))
                continue
            self.budget.charge()
            if isinstance(item, Mapping):
                pending.extend(item.values())
                pending.extend(item.keys())
            elif isinstance(item, (list, tuple, set)):
                pending.extend(item)
            elif isinstance(item, Namespace):
                pending.extend(vars(item).values())

    def weighed(self, value: Any) -> Any:
        """Every list, tuple and dictionary that a template writes goes through here."""
        self._weigh(value)
        return value

    def count_items(self, items: Any, chars: int = 0) -> Any:
        """Every loop's iterable goes through here; ``chars`` is the literal text in the loop's body."""
        return items if isinstance(items, Undefined) else _Counted(items, self.budget, chars)

    def concatenate(self, *parts: Any) -> str:
        """What ``~`` does."""
        self._weigh(parts)
        texts = [part if isinstance(part, str) else str(part) for part in parts]
        whole: str = ""
        for text in texts:
            whole = whole + text
        return whole

    def _range(self, *args: int) -> range:
        numbers = jinja2.sandbox.safe_range(*args)
        self.budget.charge(1 + len(numbers))
        return numbers

    # --- what can make much of little ----------------------------------------------------------------------------

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            for value, times in ((left, right), (right, left)):
                if hasattr(value, "__len__") and isinstance(times, int):
                    self.budget.charge(1, len(value) * max(times, 0))
            if isinstance(left, int) and isinstance(right, int):
                _check_bits(left.bit_length() + right.bit_length())
        elif operator == "**":
            if isinstance(left, int) and isinstance(right, int):
                _check_bits(left.bit_length() * right)
        elif operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            self.budget.charge(1, len(left) + len(right))
        elif operator == "%" and isinstance(left, str):
            self.charge_format(left, left.count("%"), right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        __self.budget.charge()
        if isinstance(__obj, LoopContext) and args:
            args = (__self.count_items(args[0]), *args[1:])
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, (str, bytes)):
            __self._check_growth(str(getattr(__obj, "__name__", "")), owner, args, kwargs)
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, (str, list)):
            __self.budget.charge(0, len(result))
        return result

    def _check_growth(self, name: str, owner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Charge the size of what a method of a text is about to return, where it can exceed its input."""
        if name == "replace" and len(args) >= 2:
            self._charge_replace(owner, args[0], args[1])
        elif name == "join" and args:
            self._charge_join(owner, args[0])
        elif name == "translate":
            raise BudgetExceeded("the template uses 'translate', which is not available")
        elif name in ("center", "ljust", "rjust", "zfill", "expandtabs"):
            _check_numbers((*args, *kwargs.values()))
            if name == "expandtabs":
                size = next((value for value in (*args, *kwargs.values()) if isinstance(value, int)), 8)
                self.budget.charge(1, owner.count("\t") * max(size, 0))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Jinja's safe ``str.format``, charged."""
        formatter = super().wrap_str_format(value)
        if formatter is None:
            return None
        safe, text = formatter, value.__self__

        def charged(*args: Any, **kwargs: Any) -> str:
            self.charge_format(text, text.count("{"), (args, kwargs))
            return safe(*args, **kwargs)

        return functools.update_wrapper(charged, formatter)

    def charge_format(self, text: str, fields: int, values: Any) -> None:
        """Charge for ``fields`` places that may each hold all the values."""
        if _LONG_NUMBER.search(text):
            raise BudgetExceeded("the template formats with too large a width")
        before = self.budget.chars
        self._weigh(values)
        self.budget.charge(fields, fields * (before - self.budget.chars) + len(text))
        leaves = values if isinstance(values, tuple) else (values,)
        _check_numbers(
            tuple(leaf for value in leaves for leaf in (value if isinstance(value, tuple) else (value,)))
        )

    def _charge_replace(self, text: Any, old: Any, new: Any) -> None:
        if isinstance(text, str) and isinstance(old, str) and isinstance(new, str):
            self.budget.charge(1, len(text) + text.count(old) * len(new))

    def _charge_join(self, separator: Any, items: Any) -> None:
        if hasattr(items, "__len__"):
            total = (
                sum(len(item) for item in items if isinstance(item, str))
                if not isinstance(items, str)
                else len(items)
            )
            self.budget.charge(len(items), len(items) * len(separator) + total)

    def _replace_filter(self, value: Any, old: Any, new: Any, count: int | None = None) -> str:
        self._weigh(value)
        text = value if isinstance(value, str) else str(value)
        self._charge_replace(text, old, new)
        return text.replace(str(old), new if isinstance(new, str) else str(new), -1 if count is None else count)

    def _join_filter(self, value: Any, d: Any = "", attribute: str | int | None = None) -> str:
        if attribute is not None:
            value = [self.getitem(item, attribute) for item in value]
        items = list(value)
        self._weigh(items)
        items = [item if isinstance(item, str) else str(item) for item in items]
        self._charge_join(str(d), items)
        whole = ""
        for at, item in enumerate(items):
            whole = item if at == 0 else whole + d + item
        return whole

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        if isinstance(indent, int):
            _check_numbers((indent,))
        self._weigh((value, separators))
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def _string_filter(self, value: Any) -> str:
        self._weigh(value)
        return value if isinstance(value, str) else str(value)


# --- changes to the template's tree ------------------------------------------------------------------------------


def _charged(template: jinja2.nodes.Template) -> jinja2.nodes.Template:
    """Let every loop, every ``~`` and every container written out go through the counting functions."""
    for loop in template.find_all(jinja2.nodes.For):
        literal = sum(len(data.data) for data in loop.find_all(jinja2.nodes.TemplateData))
        size = jinja2.nodes.Const(literal, lineno=loop.lineno)
        loop.iter = _call("count_items", [loop.iter, size], loop.lineno)
    for node in list(template.find_all(jinja2.nodes.Node)):
        for field, value in node.iter_fields():
            if isinstance(value, list):
                value[:] = map(_charged_expression, value)
            else:
                setattr(node, field, _charged_expression(value))
    return template


def _charged_expression(value: Any) -> Any:
    if isinstance(value, jinja2.nodes.Concat):
        return _call("concatenate", value.nodes, value.lineno)
    if isinstance(value, (jinja2.nodes.List, jinja2.nodes.Dict)) or (
        isinstance(value, jinja2.nodes.Tuple) and value.ctx == "load"
    ):
        return _call("weighed", [value], value.lineno)
    return value


def _call(method: str, args: list[Any], lineno: int) -> jinja2.nodes.Call:
    """A call of a method of the environment, which no template can rebind."""
    function = jinja2.nodes.EnvironmentAttribute(method, lineno=lineno)
    return jinja2.nodes.Call(function, args, [], None, None, lineno=lineno)


def _refuse_private_names(template: jinja2.nodes.Template) -> None:
    for node in template.find_all((jinja2.nodes.Getattr, jinja2.nodes.Getitem, jinja2.nodes.Filter)):
        name: Any = None
        if isinstance(node, jinja2.nodes.Getattr):
            name = node.attr
        elif isinstance(node, jinja2.nodes.Getitem):
            name = getattr(node.arg, "value", None)
        elif isinstance(node, jinja2.nodes.Filter) and node.name == "attr" and node.args:
            name = getattr(node.args[0], "value", None)
        if isinstance(name, str) and name.startswith("__"):
            raise jinja2.TemplateSyntaxError(f"access to {name!r} is not allowed", node.lineno)


# --- functions and filters ----------------------------------------------------------------------------------------

_CHECKED_FILTERS = ("center", "format", "indent", "round", "truncate")


def _checked_filter(
    environment: TemplateEnvironment, name: str, function: Callable[..., Any]
) -> Callable[..., Any]:
    def checked(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        _check_numbers(values)
        environment.weighed(values)
        texts = [value for value in values if isinstance(value, str)]
        if name == "format" and texts:
            environment.charge_format(texts[0], texts[0].count("%"), values)
        if name == "indent" and len(texts) > 1:
            environment.budget.charge(1, texts[0].count("\n") * sum(map(len, texts[1:])))
        result = function(*args, **kwargs)
        if isinstance(result, str):
            environment.budget.charge(1, len(result))
        return result

    # How Jinja passes its own first argument is written on the function.
    passed = getattr(function, "jinja_pass_arg", None)
    if passed is not None:
        checked.jinja_pass_arg = passed  # type: ignore[attr-defined]
    return checked


def _check_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise BudgetExceeded("the template computes too large a number")


def _check_numbers(values: tuple[Any, ...]) -> None:
    if any(isinstance(value, int) and abs(value) > MAX_NUMBER_ARGUMENT for value in values):
        raise BudgetExceeded(f"the template asks for a size above {MAX_NUMBER_ARGUMENT}")


def _trim(value: Any, chars: str | None = None) -> str:
    return (value if isinstance(value, str) else str(value)).strip(chars)


def _raise_exception(message: Any) -> None:
    raise jinja2.TemplateError(str(message))


def _strftime_now(format: str) -> str:
    if _LONG_NUMBER.search(format):
        raise BudgetExceeded("the template formats with too large a width")
    return datetime.datetime.now().strftime(format)
