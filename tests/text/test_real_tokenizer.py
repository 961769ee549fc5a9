"""The tokenizer of the real model."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from radixrt.text.pieces import IdsPiece, Message, TextPiece
from radixrt.text.tokenizer import Tokenizer, load_tokenizer

pytestmark = pytest.mark.model

PROSE = (
    "It was the best of times, it was the worst of times; it was the age of wisdom... It wasn't 1859 any more!\n\n"
    "def area(r):\n    return 3.14159 * r ** 2  # πr²\n\n"
    "Grüße, 你好，世界。Привет 🎉👩‍🚀 \tand\u00a0so on.   The end"
)


@pytest.fixture(scope="module")
def tokenizer(model_file: Path) -> Tokenizer:
    return load_tokenizer(model_file)


def random_text(generator: random.Random) -> str:
    return "".join(
        PROSE[at : at + generator.randrange(1, 12)]
        for at in generator.choices(range(len(PROSE)), k=generator.randrange(12))
    )


def test_what_the_file_says(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 49152
    assert tokenizer.bos_id == 1
    assert tokenizer.prefix_ids == ()
    assert tokenizer.eos_ids == (2, 0)
    assert tokenizer.special_ids == frozenset(range(17))
    assert tokenizer.id_of("<|im_start|>") == 1
    assert not tokenizer.has_dummy_prefix
    tokens = tokenizer.tokens()
    assert [index for index, data in enumerate(tokens) if data is None] == list(range(17))
    # Of the 256 bytes the vocabulary lacks only such as occur in no UTF-8 text, or never occurred.
    assert len({data for data in tokens if data is not None and len(data) == 1}) > 200


def test_round_trips_and_stable_prefixes(tokenizer: Tokenizer) -> None:
    generator = random.Random(11)
    for _ in range(300):
        text, more = random_text(generator), random_text(generator)
        ids = tokenizer.encode_text(text)
        assert tokenizer.decode(ids) == text
        assert b"".join(tokenizer.token_bytes(index) or b"" for index in ids) == text.encode()
        cut = tokenizer.stable_prefix(text, at_start=True)
        assert tokenizer.encode_text(text[:cut]) + tokenizer.encode_text(
            text[cut:] + more
        ) == tokenizer.encode_text(text + more)


def test_healing_backs_off_from_an_address(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_text('The link is <a href="http:')
    count, data = tokenizer.heal(ids, 0)
    assert count >= 1
    assert b'The link is <a href="http:'.endswith(data)
    assert any(token and token != data and token.startswith(data) for token in tokenizer.tokens())


def test_a_conversation(tokenizer: Tokenizer) -> None:
    assert tokenizer.chat is not None
    user = Message("user", (TextPiece("Say <|im_end|> please"),))
    pieces = tokenizer.chat.render([user], open_role="assistant")
    ids = tokenizer.encode(pieces, at_start=True)
    assert [index for index in ids if index in tokenizer.special_ids] == [1, 2, 1, 2, 1]
    assert tokenizer.decode(ids, skip_special=False) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nSay <|im_end|> please<|im_end|>\n<|im_start|>assistant\n"
    )
    answer = IdsPiece(tuple(tokenizer.encode_text("No.")), "No.")
    longer = tokenizer.encode(tokenizer.chat.render([user, Message("assistant", (answer,))]), at_start=True)
    assert longer == [*ids, *answer.ids, 2, *tokenizer.encode_text("\n")]


@pytest.mark.slow
def test_equal_to_transformers(tokenizer: Tokenizer, model_file: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(model_file, folder / "model.gguf")
    theirs: Any = AutoTokenizer.from_pretrained(str(folder), gguf_file="model.gguf")
    # Their reader does not know this file's cut into words, in which every digit stands alone.
    generator = random.Random(2)
    for _ in range(200):
        text = "".join(char for char in random_text(generator) if not char.isnumeric())
        assert tokenizer.encode_text(text) == theirs(text, add_special_tokens=False)["input_ids"]
    conversation = [
        {"role": "user", "content": "Hello, who are you?"},
        {"role": "assistant", "content": " A model.\n"},
    ]
    messages = [Message(message["role"], (TextPiece(message["content"]),)) for message in conversation]
    expected = theirs.apply_chat_template(conversation, tokenize=True, return_dict=False)
    assert tokenizer.chat is not None
    assert tokenizer.encode(tokenizer.chat.render(messages), at_start=True) == expected
