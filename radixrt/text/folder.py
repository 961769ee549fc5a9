"""The tokenizer of a model folder as it is published: tokenizer.json and the configuration beside it.

Reads tokenizer.json, or vocab.json with merges.txt for the two classes whose cut into words is known. What an
unknown or lossy kind would need is refused by name. Nothing here encodes text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from radixrt.errors import ModelLoadError
from radixrt.formats.jsonfile import read_object, refuse_code
from radixrt.text.definition import AddedToken, TokenizerDefinition
from radixrt.text.splits import SPLITS, pre_tokenizer_spec
from radixrt.text.vocabulary import visit

__all__ = ["MAX_VOCAB", "choose_template", "definition_from_folder"]

MAX_VOCAB = 1 << 22  # ids; what a damaged file can make us allocate
_MERGES_LIMIT = 64 << 20  # bytes of merges.txt
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_LISTED = ("additional_special_tokens", "extra_special_tokens")
# Classes that come as vocab.json and merges.txt, and how they cut text.
_BYTE_LEVEL_CLASSES = {"GPT2Tokenizer": "gpt-2", "Qwen2Tokenizer": "qwen2"}
_LOSSY = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit")


def definition_from_folder(folder: Path) -> TokenizerDefinition:
    """Read the tokenizer of ``folder``. Raises ``ModelLoadError`` that names the file at fault."""
    refuse_code(folder)
    config, own = _optional(folder / "config.json"), _optional(folder / "tokenizer_config.json")
    generation = _optional(folder / "generation_config.json")
    named = {**_optional(folder / "special_tokens_map.json"), **own}
    path, spec = _read_spec(folder, own)
    source = str(path)
    vocab = _checked_vocab(spec, source)
    added = _added_tokens(spec, own, named, vocab, source)
    ids = {**vocab, **{token.content: token.id for token in added}}
    used = max(ids.values(), default=-1) + 1
    size = max(used, _model_size(config, folder))
    variables = {name: text for name in _NAMED if (text := _content(named.get(name))) is not None}
    bos = ids.get(variables.get("bos_token", ""))
    if bos is None and "bos_token" not in named:
        bos = next(iter(_ids_of(generation, config, key="bos_token_id", size=size, source=str(folder))), None)
    eos = [ids[variables["eos_token"]]] if variables.get("eos_token") in ids else []
    eos += _ids_of(generation, config, key="eos_token_id", size=size, source=str(folder))
    return TokenizerDefinition(
        source=source,
        spec={key: spec.get(key) for key in ("normalizer", "pre_tokenizer", "model", "decoder")},
        added=added,
        size=size,
        bos_id=bos,
        eos_ids=tuple(dict.fromkeys(eos)),
        prefix_ids=_prefix_ids(spec, own, bos, source),
        template=_template(folder, own),
        variables=variables,
    )


def choose_template(value: Any, source: str) -> str | None:
    """The chat template among what a file offers: a text, or a list of named ones."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(item, Mapping) for item in value):
        templates = {item.get("name"): item.get("template") for item in value}
        if len(templates) == 1 and "default" not in templates:
            templates = {"default": next(iter(templates.values()))}
        chosen = templates.get("default")
        if isinstance(chosen, str):
            return chosen
        raise ModelLoadError(f"{source}: none of the chat templates is named 'default'", param=source)
    raise ModelLoadError(f"{source}: the chat template is neither a text nor a list of named texts", param=source)


# --- files -----------------------------------------------------------------------------------------------------


def _optional(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _read_spec(folder: Path, own: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    path = folder / "tokenizer.json"
    if path.is_file():
        return path, read_object(path)
    name = str(own.get("tokenizer_class", "")).removesuffix("Fast")
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    if vocab.is_file() and merges.is_file() and name in _BYTE_LEVEL_CLASSES:
        kind = SPLITS[_BYTE_LEVEL_CLASSES[name]]
        return vocab, {
            "normalizer": {"type": "NFC"} if kind.nfc else None,
            "pre_tokenizer": pre_tokenizer_spec(kind),
            "model": {"type": "BPE", "vocab": read_object(vocab), "merges": _read_merges(merges)},
            "decoder": {"type": "ByteLevel"},
        }
    others = [name for name in ("tokenizer.model", "vocab.json", "vocab.txt") if (folder / name).is_file()]
    there = f"; {', '.join(others)} alone cannot be read exactly" if others else ""
    raise ModelLoadError(f"{path}: the file is missing{there}", param=str(path))


def _read_merges(path: Path) -> list[list[str]]:
    try:
        with open(path, "rb") as file:
            data = file.read(_MERGES_LIMIT + 1)
        lines = data.decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelLoadError(f"{path}: cannot be read: {error}", param=str(path)) from error
    if len(data) > _MERGES_LIMIT:
        raise ModelLoadError(f"{path}: larger than {_MERGES_LIMIT} bytes", param=str(path))
    merges = []
    for number, line in enumerate(lines, start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.rstrip("\r").split(" ")
        if len(pair) != 2:
            raise ModelLoadError(f"{path}: line {number} is not a pair", param=str(path))
        merges.append(pair)
    return merges


def _template(folder: Path, own: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelLoadError(f"{path}: cannot be read: {error}", param=str(path)) from error
    return choose_template(own.get("chat_template"), str(folder / "tokenizer_config.json"))


# --- checks ----------------------------------------------------------------------------------------------------


def _checked_vocab(spec: Mapping[str, Any], source: str) -> dict[str, int]:
    """The spellings of the model's vocabulary, after refusing what could not be encoded or decoded exactly."""

    def refuse(what: str) -> ModelLoadError:
        return ModelLoadError(f"{source}: {what}", param=source)

    model = spec.get("model")
    if not isinstance(model, dict):
        raise refuse("there is no model")
    kind = model.setdefault("type", "BPE" if "merges" in model else None)
    if kind not in ("BPE", "Unigram"):
        raise refuse(f"tokenizers of type {kind!r} are not supported; BPE and Unigram are")
    for option in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise refuse(f"the option {option!r} is not supported: it loses where the spaces were")
    for part in visit(spec.get("pre_tokenizer")):
        if part.get("type") in _LOSSY or part.get("behavior") == "Removed":
            raise refuse(f"the pre-tokenizer {part.get('type')!r} drops text and is not supported")
    vocab = model.get("vocab")
    if kind == "Unigram":
        if not isinstance(vocab, list) or not all(_is_piece(entry) for entry in vocab):
            raise refuse("the vocabulary is not a list of pieces and scores")
        found = {piece: index for index, (piece, _) in enumerate(vocab)}
    else:
        if not isinstance(vocab, dict) or not all(_is_id(index) for index in vocab.values()):
            raise refuse(f"the vocabulary does not map tokens to ids below {MAX_VOCAB}")
        if not isinstance(model.get("merges"), list):
            raise refuse("the merges are missing")
        if not all(_is_merge(merge) for merge in model["merges"]):
            raise refuse("a merge is not a pair of tokens")
        unknown = model.get("unk_token")
        if unknown is not None and not (isinstance(unknown, str) and unknown in vocab):
            raise refuse(f"the unknown token {unknown!r} is not in the vocabulary")
        found = vocab
    if len(found) > MAX_VOCAB:
        raise refuse(f"more than {MAX_VOCAB} tokens")
    return found


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_VOCAB


def _is_piece(entry: Any) -> bool:
    return (
        isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and type(entry[1]) in (int, float)
    )


def _is_merge(merge: Any) -> bool:
    if isinstance(merge, str):
        return merge.count(" ") == 1
    return isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge)


def _content(value: Any) -> str | None:
    """The spelling of a token that a configuration names, as text or as an object."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _added_tokens(
    spec: Mapping[str, Any],
    own: Mapping[str, Any],
    named: Mapping[str, Any],
    vocab: Mapping[str, int],
    source: str,
) -> tuple[AddedToken, ...]:
    """The added tokens of tokenizer.json, then those that only the configuration declares or names."""
    found: dict[str, AddedToken] = {}
    declared = own.get("added_tokens_decoder") or {}
    entries: list[Any] = spec.get("added_tokens") or []
    if not isinstance(entries, list):
        raise ModelLoadError(f"{source}: the added tokens are not a list", param=source)
    if not isinstance(declared, Mapping):
        raise ModelLoadError(f"{source}: added_tokens_decoder is not an object", param=source)
    if declared:
        entries = entries + [
            {**entry, "id": int(key)}
            for key, entry in declared.items()
            if isinstance(entry, Mapping) and key.isdecimal()
        ]
    special = dict.fromkeys(_named_specials(named, source))
    for entry in entries:
        if not isinstance(entry, Mapping) or not _is_id(entry.get("id")) or _content(entry) is None:
            raise ModelLoadError(f"{source}: an added token lacks its id or its content", param=source)
        content = entry["content"]
        is_special = bool(entry.get("special")) or content in special
        flags = {key: bool(entry.get(key)) for key in ("lstrip", "rstrip", "single_word", "normalized")}
        if content not in found:
            found[content] = AddedToken(id=entry["id"], content=content, special=is_special, **flags)
    for content in special:
        if content not in found and content in vocab:
            found[content] = AddedToken(id=vocab[content], content=content, special=True)
    return tuple(found.values())


def _named_specials(named: Mapping[str, Any], source: str) -> Iterable[str]:
    for key in _NAMED:
        if (content := _content(named.get(key))) is not None:
            yield content
    for key in _LISTED:
        listed = named.get(key) or ()
        if not isinstance(listed, (list, tuple, Mapping)):
            raise ModelLoadError(f"{source}: {key} is not a list of tokens", param=source)
        for item in listed.values() if isinstance(listed, Mapping) else listed:
            if (content := _content(item)) is not None:
                yield content


def _model_size(config: Mapping[str, Any], folder: Path) -> int:
    text_config = config.get("text_config")
    for part in (config, text_config if isinstance(text_config, Mapping) else {}):
        size = part.get("vocab_size")
        if size is not None:
            if not _is_id(size):
                raise ModelLoadError(
                    f"{folder / 'config.json'}: vocab_size is {size!r}", param=str(folder / "config.json")
                )
            return int(size)
    return 0


def _ids_of(*configs: Mapping[str, Any], key: str, size: int, source: str) -> list[int]:
    """The ids that ``key`` gives in any of the configurations: one or a list."""
    found: list[int] = []
    for config in configs:
        value = config.get(key)
        for index in value if isinstance(value, list) else [value]:
            if index is None:
                continue
            if not _is_id(index) or index >= size:
                raise ModelLoadError(
                    f"{source}: {key} is {index!r}, outside the vocabulary of {size}", param=source
                )
            found.append(index)
    return found


def _prefix_ids(spec: Mapping[str, Any], own: Mapping[str, Any], bos: int | None, source: str) -> tuple[int, ...]:
    """What the tokenizer itself puts before a text."""
    if isinstance(own.get("add_bos_token"), bool):
        return (bos,) if own["add_bos_token"] and bos is not None else ()
    prefix: list[int] = []
    try:
        for part in visit(spec.get("post_processor")):
            if part.get("type") == "TemplateProcessing":
                prefix += _template_prefix(part)
            elif part.get("type") in ("RobertaProcessing", "BertProcessing"):
                prefix.append(part["cls"][1])
    except (LookupError, TypeError) as error:
        raise ModelLoadError(f"{source}: the post-processor is damaged at {error}", param=source) from error
    if not all(_is_id(index) for index in prefix):
        raise ModelLoadError(f"{source}: the post-processor adds ids that are none", param=source)
    return tuple(prefix)


def _template_prefix(part: Mapping[str, Any]) -> list[int]:
    prefix: list[int] = []
    for item in part["single"]:
        if "Sequence" in item:
            break
        prefix += part["special_tokens"][item["SpecialToken"]["id"]]["ids"]
    return prefix
