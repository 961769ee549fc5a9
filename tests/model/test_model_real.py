"""The real model: 200 prompts against transformers' own reading of the same file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radixrt.config import EngineConfig
from radixrt.model.batch import ForwardBatch, Model
from radixrt.model.load import LoadedModel, load_model
from radixrt.model.sources import ModelSource

pytestmark = pytest.mark.model

TEXT = """The lighthouse keeper wrote one line in the log every evening, and for thirty years the line said the
same thing: lamp lit, sea calm. On the night of the storm she wrote nothing at all. In the morning the harbour was
full of boats that had found their way home by her light, and the mayor rowed out to ask her how she had kept the
lamp burning. "I read to it," she said. def area(width, height): return width * height. The capital of France is
Paris; the capital of Italy is Rome. Water boils at 100 degrees Celsius at sea level, and {"name": "Ada", "age": 36}
is a JSON object. Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. 1, 1, 2, 3, 5, 8, 13, 21, 34."""


@pytest.fixture(scope="module")
def loaded(model_file: Path) -> LoadedModel:
    loaded = load_model(
        ModelSource(name="real", path=model_file, kind="gguf"), EngineConfig(device="cpu", threads=1)
    )
    loaded.model.allocate(4096)
    return loaded


def test_it_is_what_its_file_says(loaded: LoadedModel) -> None:
    assert (loaded.architecture, loaded.parameters) == ("llama", 134_515_008)
    assert (loaded.model.vocab_size, loaded.model.context_length) == (49152, 8192)


def test_it_knows_the_capital_of_france(
    loaded: LoadedModel, model_file: Path, make_batch: Callable[..., ForwardBatch]
) -> None:
    import gguf

    spellings = gguf.GGUFReader(model_file).fields["tokenizer.ggml.tokens"].contents()
    ids = [spellings.index(word) for word in ("The", "Ġcapital", "Ġof", "ĠFrance", "Ġis")]
    logits = loaded.model.forward(make_batch([(ids, 0, range(5))]))
    assert spellings[int(logits[-1].argmax())] == "ĠParis"


@pytest.fixture(scope="module")
def reference(model_file: Path) -> Any:
    """transformers' model with the weights as transformers' own GGUF code reads and reorders them."""
    import transformers
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    fields = load_gguf_checkpoint(str(model_file))["config"]
    config = transformers.LlamaConfig(
        **{key: value for key, value in fields.items() if not key.startswith("_") and key != "model_type"}
    )
    model = transformers.LlamaForCausalLM(config)
    tensors = load_gguf_checkpoint(str(model_file), return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert not unexpected
    model.tie_weights()
    return model.eval()


@pytest.fixture(scope="module")
def prompts(model_file: Path) -> list[list[int]]:
    """A hundred prompts of random tokens and a hundred pieces of text, 1 to 24 tokens each."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model_file.parent, gguf_file=model_file.name)
    text = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    rng = np.random.default_rng(2024)
    lengths = rng.integers(1, 25, 200).tolist()
    noise = [rng.integers(0, 49152, length).tolist() for length in lengths[:100]]
    starts = [int(rng.integers(0, len(text) - length)) for length in lengths[100:]]
    pieces = [text[start : start + length] for start, length in zip(starts, lengths[100:], strict=True)]
    return noise + pieces


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_hundred_prompts_against_transformers(
    loaded: LoadedModel, reference: Any, prompts: list[list[int]], make_batch: Callable[..., ForwardBatch]
) -> None:
    """Next-token logits within 1e-3 and the same argmax, prefilled and decoded in ragged batches of ten.

    Inside the prompts float32 itself is off by more than that at a rare, ill-conditioned position (transformers'
    logits differ from float64 ones there too), so one position in a thousand may be.
    """
    assert len(prompts) == 200
    inside: list[float] = []
    for first in range(0, 200, 10):
        group = prompts[first : first + 10]
        ours, theirs = _ragged(loaded.model, group, make_batch), _reference_logits(reference, group)
        for our, their in zip(ours, theirs, strict=True):
            difference = np.abs(our - their).max(axis=1)
            assert difference[-1] < 1e-3
            assert our[-1].argmax() == their[-1].argmax()
            inside.extend(difference[:-1].tolist())
    assert np.quantile(inside, 0.999) < 1e-3
    assert max(inside) < 2e-2


def _reference_logits(reference: Any, prompts: list[list[int]]) -> list[np.ndarray]:
    """Padding on the right is after everything that is compared, so causal attention does not see it."""
    width = max(len(ids) for ids in prompts)
    padded = torch.tensor([ids + [0] * (width - len(ids)) for ids in prompts])
    with torch.inference_mode():
        logits = reference(padded, use_cache=False).logits.numpy()
    return [rows[: len(ids)] for rows, ids in zip(logits, prompts, strict=True)]


def _ragged(model: Model, prompts: list[list[int]], make_batch: Callable[..., ForwardBatch]) -> list[np.ndarray]:
    """Prefill all but the last token of every prompt in one batch, then decode the last ones in another."""
    slots = np.random.default_rng(len(prompts[0])).permutation(4096)
    ends = np.cumsum([len(ids) for ids in prompts])
    own = [slots[end - len(ids) : end] for ids, end in zip(prompts, ends, strict=True)]
    long = [at for at, ids in enumerate(prompts) if len(ids) > 1]
    head = model.forward(make_batch([(prompts[at][:-1], 0, own[at]) for at in long])).copy() if long else None
    tail = model.forward(make_batch([(ids, len(ids) - 1, own[at]) for at, ids in enumerate(prompts)]))
    results, start = [], 0
    for at, ids in enumerate(prompts):
        count = len(ids) - 1
        before = head[start : start + count] if head is not None else tail[:0]
        results.append(np.concatenate((before, tail[at : at + 1])))
        start += count
    return results
