"""An engine over a folder as the hub has them: config, safetensors, tokenizer; no GGUF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

import radixrt as rx

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["a small text with small words, twice: a small text"] * 4, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "bos_token": "<|im_start|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=448,  # wider than the tokenizer: the padding must never be sampled
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        bos_token_id=tokenizer.token_to_id("<|im_start|>"),
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_programs_run_on_it(folder: Path) -> None:
    @rx.program
    def talk(s: rx.ProgramState) -> list[str]:
        s += rx.user("Say one.")
        branches = s.fork(3)
        for branch in branches:
            branch += rx.assistant(rx.gen("x", type=Literal["one", "two"], max_tokens=16))
        return branches["x"]

    with rx.Engine(str(folder)) as engine:
        assert engine.model.vocab_size == 448
        run = talk.run(engine=engine, seed=1)
        assert set(run.value) <= {"one", "two"}
        free = engine.generate("a small", max_tokens=64, temperature=5.0, ignore_eos=True, seed=3)
        assert max(free.ids) < 400
        assert free.text == engine.detokenize(free.ids)


def test_a_folder_that_asks_for_code_is_refused(folder: Path) -> None:
    config = folder / "config.json"
    text = config.read_text()
    try:
        config.write_text(json.dumps({**json.loads(text), "auto_map": {"AutoModel": "evil.Model"}}))
        (folder / "evil.py").write_text("raise SystemExit('imported')")
        with pytest.raises(rx.ModelLoadError, match="auto_map"):
            rx.Engine(str(folder))
    finally:
        config.write_text(text)
