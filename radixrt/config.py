"""Engine configuration: one table of flags, resolved once into a frozen object.

``EngineConfig`` is the single source of truth. A field becomes the keyword ``Engine(max_running=)``, the flag
``--max-running``, the variable ``RADIXRT_MAX_RUNNING`` and the key ``max_running`` of a configuration file
(TOML). Later sources win in the order: default, file, environment, argument. A bad value names where it came
from. This module does not know what the values do; ``docs/flags.md`` says what each costs and gains.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from radixrt.errors import InvalidRequest

__all__ = ["EngineConfig", "FlagInfo", "flag_table", "resolve"]

ENV_PREFIX = "RADIXRT_"


def _flag(text: str, *, ge: float | None = None, le: float | None = None) -> msgspec.Meta:
    return msgspec.Meta(description=text, ge=ge, le=le)


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All engine flags. Zero means "choose for me" where the description says so."""

    device: Annotated[Literal["auto", "cpu", "cuda"], _flag("where the model runs")] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "float64"],
        _flag("type of the weights and activations; auto is float32 on a CPU, the checkpoint's type on a GPU"),
    ] = "auto"
    quantization: Annotated[Literal["none"], _flag("weight quantization at load")] = "none"
    kv_dtype: Annotated[Literal["auto"], _flag("type of the KV cache; auto follows dtype")] = "auto"
    max_running: Annotated[int, _flag("sequences in one batch at most", ge=1, le=2**20)] = 64
    max_total_tokens: Annotated[int, _flag("slots of the KV pool; 0 sizes it from free memory", ge=0, le=2**40)] = 0
    max_queued: Annotated[int, _flag("programs that may wait; more is overload", ge=1, le=2**31)] = 4096
    chunk: Annotated[int, _flag("tokens of prefill in one step at most", ge=1, le=2**31)] = 512
    page_size: Annotated[int, _flag("tokens in one page of the KV pool", ge=1, le=2**16)] = 1
    policy: Annotated[
        Literal["fcfs", "random", "lpm", "dfs"], _flag("order in which waiting sequences are admitted")
    ] = "lpm"
    radix: Annotated[
        Literal["on", "off", "table", "force-miss"],
        _flag("prefix cache: radix tree, none, whole-prompt matches only, or a tree that never hits"),
    ] = "on"
    eviction: Annotated[
        Literal["uses-lru", "lru"],
        _flag("order of eviction: known future uses then recency, or recency alone"),
    ] = "uses-lru"
    forced_tokens: Annotated[
        Literal["on", "off"], _flag("append tokens that a grammar determines without a decode step each")
    ] = "on"
    frontend_hint: Annotated[
        Literal["on", "off"], _flag("let programs tell the cache how often a prefix will still be used")
    ] = "on"
    frontend_parallelism: Annotated[
        Literal["on", "off"], _flag("run the branches of one program at the same time")
    ] = "on"
    threads: Annotated[int, _flag("CPU threads of the model; 0 takes the CPU quota", ge=0, le=1024)] = 0
    cuda_graphs: Annotated[Literal["off"], _flag("capture decode steps as CUDA graphs")] = "off"
    overlap: Annotated[Literal["off"], _flag("schedule the next step while the device computes")] = "off"
    deterministic: Annotated[Literal["off"], _flag("batch-invariant kernels on a GPU")] = "off"
    force_retract_every: Annotated[
        int, _flag("ablation and test: retract the youngest sequence every K steps; 0 never", ge=0, le=2**31)
    ] = 0
    random_seed: Annotated[int, _flag("seed of --policy random", ge=0, le=2**63 - 1)] = 0
    heartbeat_s: Annotated[float, _flag("seconds between the worker's heartbeats", ge=0.01, le=60)] = 1.0
    worker: Annotated[
        Literal["process", "thread"], _flag("run the worker as its own process or as a thread of this one")
    ] = "process"


class FlagInfo(msgspec.Struct, frozen=True):
    """One row of the flag table: enough to build a command line option."""

    name: str
    description: str
    default: Any
    type: type[int] | type[float] | type[str]
    choices: tuple[str, ...] | None

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.name.upper()


def flag_table() -> dict[str, FlagInfo]:
    """Return name -> ``FlagInfo`` for every field of ``EngineConfig``, in declaration order."""
    table = {}
    info = msgspec.inspect.type_info(EngineConfig)
    if not isinstance(info, msgspec.inspect.StructType):
        raise TypeError("EngineConfig must be a struct")
    for field in info.fields:
        inner, description = field.type, ""
        if isinstance(inner, msgspec.inspect.Metadata):
            description = str((inner.extra_json_schema or {}).get("description", ""))
            inner = inner.type
        choices = tuple(str(v) for v in inner.values) if isinstance(inner, msgspec.inspect.LiteralType) else None
        kind: type[int] | type[float] | type[str] = str
        if isinstance(inner, msgspec.inspect.IntType):
            kind = int
        elif isinstance(inner, msgspec.inspect.FloatType):
            kind = float
        table[field.name] = FlagInfo(field.name, description, field.default, kind, choices)
    return table


def resolve(
    arguments: Mapping[str, Any] | None = None,
    *,
    file: Path | str | None = None,
    environ: Mapping[str, str] | None = None,
) -> EngineConfig:
    """Merge file, environment and ``arguments`` (None values are absent) into one config.

    Raises ``InvalidRequest`` whose ``param`` names the argument, variable or file key that is wrong.
    """
    table = flag_table()
    values: dict[str, Any] = {}
    if file is not None:
        for name, value in _read_file(Path(file)).items():
            values[name] = _checked(table, name, value, f"{name} in {file}")
    env = os.environ if environ is None else environ
    for name, flag in table.items():
        if flag.variable in env:
            values[name] = _checked(table, name, _parse(flag, env[flag.variable]), flag.variable)
    for name, value in (arguments or {}).items():
        if value is not None:
            values[name] = _checked(table, name, value, name)
    return EngineConfig(**values)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest(f"cannot read the configuration file {path}: {error}", param="config") from error


def _parse(flag: FlagInfo, text: str) -> Any:
    """Turn the text of an environment variable into the flag's type, or leave it for the check to refuse."""
    try:
        return flag.type(text)
    except ValueError:
        return text


def _checked(table: Mapping[str, FlagInfo], name: str, value: Any, origin: str) -> Any:
    flag = table.get(name)
    if flag is None:
        raise InvalidRequest(f"unknown option {name!r}", param=origin)
    if isinstance(value, bool) and set(flag.choices or ()) == {"on", "off"}:
        value = "on" if value else "off"
    if flag.choices is not None and value not in flag.choices:
        raise InvalidRequest(f"{origin}: {value!r} is not one of {', '.join(flag.choices)}", param=origin)
    try:
        return getattr(msgspec.convert({name: value}, EngineConfig), name)
    except msgspec.ValidationError as error:
        what = str(error).partition(" - at ")[0].replace("Expected", "expected")
        raise InvalidRequest(f"{origin}: {what}, not {value!r}", param=origin) from error
