"""How byte-level BPE vocabularies cut text into words before merging: one row per kind.

A vocabulary's merges were learned within such words, so the cut belongs to the model. The kinds carry the names
that GGUF files use (``tokenizer.ggml.pre``). Steps apply in order, each within the parts the last one made.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

__all__ = ["SPLITS", "SplitKind", "pre_tokenizer_spec"]


class SplitKind(msgspec.Struct, frozen=True):
    """``patterns`` are the regular expressions whose matches become parts of their own.

    ``whole_words`` looks a word up before merging it; ``bos`` says whether prompts start with BOS where the file
    does not say; ``nfc`` normalizes text first.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    bos: bool = False
    nfc: bool = False


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_SYMBOLS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
_WORD = r"|[^\r\n\p{L}\p{N}]?\p{L}+"
_LLAMA3 = _CONTRACTION + _WORD + r"|\p{N}{1,3}" + _SYMBOLS + _SPACES
_QWEN2 = _CONTRACTION + _WORD + r"|\p{N}" + _SYMBOLS + _SPACES
_QWEN35 = _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _SPACES
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_SYMBOLS_SLASH = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*"


def _cased(contraction: str, digits: str) -> str:
    """Words that end where lower case turns to upper, the contraction kept with its word."""
    return (
        f"{_LEAD}{_UPPER}*{_LOWER}+{contraction}|{_LEAD}{_UPPER}+{_LOWER}*{contraction}"
        f"|{digits}{_SYMBOLS_SLASH}{_SPACES}"
    )


_GPT4O = _cased(_CONTRACTION + "?", r"\p{N}{1,3}")
_TEKKEN = _cased("", r"\p{N}")
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + _SPACES
)
# Letters of the bicameral scripts, as the first DeepSeek tokenizer lists them. Escaped: what NFC would change.
_BICAMERAL = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌ"
    "ῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_CJK = "[一-龥ࠀ-一가-퟿]+"
_KANA_HAN = "[一-龥぀-ゟ゠-ヿ]+"
_FINNISH = r" ?[^(\s|.,!?…。，、।۔،)]+"

_gpt2 = SplitKind((_GPT2,))
_digits_apart = SplitKind((r"\p{N}", _GPT2))
_llama3 = SplitKind((_LLAMA3,), whole_words=True, bos=True)
_llama3_plain = SplitKind((_LLAMA3,))
_qwen2 = SplitKind((_QWEN2,), nfc=True)
_qwen2_plain = SplitKind((_QWEN2,))
_gpt4o = SplitKind((_GPT4O,))
_finnish = SplitKind((_FINNISH,))
_deepseek3 = SplitKind((r"\p{N}{1,3}", _KANA_HAN, _DEEPSEEK3))

SPLITS: Mapping[str, SplitKind] = MappingProxyType(
    {
        "default": SplitKind((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
        "gpt-2": _gpt2,
        "phi-2": _gpt2,
        "gigachat": _gpt2,
        "a.x-4.0": _gpt2,
        "mellum": _gpt2,
        "modern-bert": _gpt2,
        "mpt": _gpt2,
        "olmo": _gpt2,
        "jais": _gpt2,
        "trillion": _gpt2,
        "granite-docling": _gpt2,
        "exaone4": _gpt2,
        "smollm": _digits_apart,
        "starcoder": _digits_apart,
        "refact": _digits_apart,
        "codeshell": _digits_apart,
        "command-r": _digits_apart,
        "exaone": _digits_apart,
        "minerva-7b": _digits_apart,
        "mellum2": _digits_apart,
        "llama3": _llama3,
        "llama-v3": _llama3,
        "llama-bpe": _llama3,
        "falcon3": _llama3,
        "falcon-h1": _llama3,
        "pixtral": _llama3,
        "midm-2.0": _llama3,
        "lfm2": _llama3,
        "dbrx": _llama3_plain,
        "smaug-bpe": _llama3_plain,
        "glm4": _llama3_plain,
        "chatglm-bpe": _llama3_plain,
        "qwen2": _qwen2,
        "deepseek-r1-qwen": _qwen2_plain,
        "megrez": _qwen2_plain,
        "stablelm2": _qwen2_plain,
        "kormo": _qwen2_plain,
        "hunyuan": _qwen2_plain,
        "solar-open": _qwen2_plain,
        "grok-2": _qwen2_plain,
        "qwen35": SplitKind((_QWEN35,), nfc=True),
        "gpt-4o": _gpt4o,
        "llama4": _gpt4o,
        "kanana2": _gpt4o,
        "minimax-m2": _gpt4o,
        "tekken": SplitKind((_TEKKEN,), whole_words=True, bos=True),
        "deepseek-llm": SplitKind(
            (r"[\r\n]", rf"\s?[{_BICAMERAL}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", _CJK, r"\p{N}+")
        ),
        "deepseek-coder": SplitKind((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
        "deepseek-v3": _deepseek3,
        "hunyuan-dense": _deepseek3,
        "falcon": SplitKind((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]")),
        "bloom": _finnish,
        "gpt3-finnish": _finnish,
        "poro-chat": _finnish,
        "viking": SplitKind((_FINNISH, r"\p{N}")),
        "tiny_aya": SplitKind((r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O)),
    }
)


def pre_tokenizer_spec(kind: SplitKind) -> dict[str, Any]:
    """The kind as a pre-tokenizer of the ``tokenizers`` package, bytes spelled in the byte-level alphabet."""
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in kind.patterns
    ]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    return {"type": "Sequence", "pretokenizers": steps}
