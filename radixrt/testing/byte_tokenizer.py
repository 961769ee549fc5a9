"""A tokenizer whose tokens are the 256 bytes, with a ChatML template: real code, no files, predictable ids."""

from __future__ import annotations

from radixrt.text.definition import AddedToken, TokenizerDefinition
from radixrt.text.tokenizer import Tokenizer
from radixrt.text.vocabulary import byte_alphabet

__all__ = ["ByteTokenizer"]

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class ByteTokenizer(Tokenizer):
    """Id i below 256 is byte i, then come the four control tokens, then padding up to 264."""

    BOS, EOS, IM_START, IM_END = range(256, 260)
    SIZE = 264

    def __init__(self, *, template: str | None = CHATML, add_bos: bool = False) -> None:
        specials = {
            "<|bos|>": self.BOS,
            "<|eos|>": self.EOS,
            "<|im_start|>": self.IM_START,
            "<|im_end|>": self.IM_END,
        }
        super().__init__(
            TokenizerDefinition(
                source="byte tokenizer",
                spec={
                    "pre_tokenizer": {
                        "type": "ByteLevel",
                        "add_prefix_space": False,
                        "trim_offsets": True,
                        "use_regex": False,
                    },
                    "model": {
                        "type": "BPE",
                        "vocab": {char: byte for byte, char in byte_alphabet().items()},
                        "merges": [],
                    },
                    "decoder": {"type": "ByteLevel"},
                },
                added=tuple(AddedToken(id=i, content=text, special=True) for text, i in specials.items()),
                size=self.SIZE,
                bos_id=self.BOS,
                eos_ids=(self.EOS, self.IM_END),
                prefix_ids=(self.BOS,) if add_bos else (),
                template=template,
                variables={"bos_token": "<|bos|>", "eos_token": "<|eos|>"},
            )
        )
