"""What a person may call a model, and what each name leads to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

from radixrt.errors import InvalidRequest, ModelLoadError
from radixrt.model import sources
from radixrt.model.sources import ALIASES, ModelSource, list_models, resolve_model


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no hub."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def unreachable(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("cannot reach the hub.\nmore lines")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    return folder


@pytest.fixture
def tiny(publish: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ALIASES", MappingProxyType({"tiny": publish()}))


def make_folder(path: Path, **config: Any) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    return path


@pytest.mark.usefixtures("tiny")
def test_an_alias(cache: Path) -> None:
    (entry,) = list_models()
    assert entry == ("tiny", "a model for tests", False, cache / "models" / "tiny" / "tiny.gguf")
    source = resolve_model("tiny", progress=False)
    assert source == ModelSource("tiny", entry.path, "gguf")
    assert list_models()[0].cached


@pytest.mark.usefixtures("tiny")
def test_an_alias_is_shadowed_only_by_an_explicit_path(elsewhere: Path, cache: Path) -> None:
    make_folder(elsewhere / "tiny")
    assert resolve_model("tiny", progress=False).kind == "gguf"
    assert resolve_model("./tiny", progress=False) == ModelSource("./tiny", elsewhere / "tiny", "folder")


def test_a_folder(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_folder(elsewhere / "org" / "model")
    monkeypatch.setenv("HOME", str(elsewhere))
    for name in (str(path), "org/model", "./org/model", "~/org/model", "org/model/"):
        assert resolve_model(name) == ModelSource(name, path, "folder")
    assert resolve_model(path) == ModelSource(str(path), path, "folder")
    make_folder(elsewhere / "bare")
    assert resolve_model("bare").path == elsewhere / "bare"


def test_folders_that_are_no_models(elsewhere: Path) -> None:
    (elsewhere / "empty").mkdir()
    with pytest.raises(ModelLoadError, match=r"no config\.json$"):
        resolve_model("./empty")
    (elsewhere / "empty" / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelLoadError, match=r"it holds a\.gguf"):
        resolve_model("./empty")
    make_folder(elsewhere / "code", auto_map={"AutoModel": "x.Y"})
    with pytest.raises(ModelLoadError, match="auto_map"):
        resolve_model("./code")
    (make_folder(elsewhere / "broken") / "config.json").write_text("{")
    with pytest.raises(ModelLoadError, match="not valid JSON"):
        resolve_model("./broken")


@pytest.mark.parametrize("name", ["m.gguf", "sha256-0123", "m-00001-of-00002.gguf", "sp ace.gguf"])
def test_a_gguf_file_whatever_its_name(elsewhere: Path, name: str) -> None:
    (elsewhere / name).write_bytes(b"GGUF....")
    assert resolve_model(elsewhere / name) == ModelSource(str(elsewhere / name), elsewhere / name, "gguf")
    assert resolve_model("./" + name).path == elsewhere / name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch_model.bin", "convert the model to safetensors"),
        ("model.PT", "convert the model to safetensors"),
        ("model.safetensors", "path of the folder"),
        ("notes.gguf", "not a GGUF file"),
        ("empty", "not a GGUF file"),
        ("pipe", "not a GGUF file"),
    ],
)
def test_other_files_are_refused(elsewhere: Path, name: str, message: str) -> None:
    if name == "pipe":
        os.mkfifo(elsewhere / name)
    else:
        (elsewhere / name).write_bytes(b"" if name == "empty" else b"\x80\x04hello")
    with pytest.raises(ModelLoadError, match=message):
        resolve_model("./" + name)


@pytest.mark.parametrize(
    "name", ["nope", "./nope", "/no/such/folder", "org/nope.gguf", "~/nope", "a/b/c", "x" * 200]
)
def test_a_name_that_leads_nowhere_lists_the_aliases(name: str) -> None:
    with pytest.raises(ModelLoadError, match="smollm2-135m") as caught:
        resolve_model(name)
    assert caught.value.param == name


@pytest.mark.parametrize("name", ["x" * 5000, "a/" + "x" * 5000, "~no-such-user/x"], ids=["long", "deep", "user"])
def test_a_name_that_no_path_can_have(name: str) -> None:
    with pytest.raises(ModelLoadError) as caught:
        resolve_model(name)
    assert caught.value.param == "model"
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("name", ["", "  ", "a\0b", None, 7, b"bytes", ["smollm2-135m"]])
def test_what_is_not_a_name(name: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        resolve_model(name)
    assert caught.value.param == "model"


def test_a_hub_id_brings_only_harmless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = make_folder(tmp_path / "snapshot")
    (snapshot / "model.safetensors").touch()
    asked: dict[str, Any] = {}

    def download(name: str, **kwargs: Any) -> str:
        asked.update(kwargs, name=name)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve_model("org/name.v2", progress=False) == ModelSource("org/name.v2", snapshot, "folder")
    assert asked["name"] == "org/name.v2"
    assert asked["tqdm_class"](total=1, disable=False).disable
    wanted = ["config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json"]
    wanted += ["tokenizer.model", "chat_template.jinja", "merges.txt"]
    unwanted = ["pytorch_model.bin", "modeling_x.py", "model.pt", "x.pkl", "onnx/model.safetensors", "sub/evil.py"]
    allowed = filter_repo_objects(
        wanted + unwanted, allow_patterns=asked["allow_patterns"], ignore_patterns=asked["ignore_patterns"]
    )
    assert list(allowed) == wanted
    resolve_model("org/name.v2")
    assert asked["tqdm_class"] is None


def test_a_hub_repository_without_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = make_folder(tmp_path / "snapshot")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
    with pytest.raises(ModelLoadError, match="no safetensors"):
        resolve_model("org/name")


@pytest.mark.parametrize(
    "failure",
    [
        LocalEntryNotFoundError("cannot find it.\nand more"),
        httpx.ConnectError("cannot find it"),
        OSError("cannot find it"),
        ValueError("cannot find it"),
        KeyError(),
    ],
)
def test_hub_failures_are_one_kind_of_error(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise failure

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ModelLoadError, match=type(failure).__name__) as caught:
        resolve_model("org/name")
    assert caught.value.param == "org/name"
    assert caught.value.__cause__ is failure
    assert "and more" not in caught.value.message


def test_importing_loads_neither_torch_nor_the_hub() -> None:
    code = (
        "import sys, radixrt.model.sources as s; s.list_models(); "
        "sys.exit(', '.join({'torch', 'transformers', 'zmq', 'huggingface_hub'} & sys.modules.keys()) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.model
def test_the_real_alias(model_file: Path) -> None:
    entry = next(entry for entry in list_models() if entry.alias == "smollm2-135m")
    assert entry.cached
    assert entry.path == model_file
    assert model_file.stat().st_size == ALIASES["smollm2-135m"].size
