"""Safetensors folders: what the reference library writes is read exactly, everything false is refused by name."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from radixrt.errors import ModelLoadError
from radixrt.formats import jsonfile
from radixrt.formats import safetensors as module
from radixrt.formats.safetensors import SafetensorsFolder

NATIVE = ["bool", "u1", "i1", "<u2", "<i2", "<f2", "<u4", "<i4", "<f4", "<u8", "<i8", "<f8"]


def header(entries: dict[str, Any] | str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = (
        entries
        if isinstance(entries, bytes)
        else (entries if isinstance(entries, str) else json.dumps(entries)).encode()
    )
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def put(folder: Path, data: bytes) -> Path:
    (folder / "model.safetensors").write_bytes(data)
    return folder


def test_every_dtype_of_the_reference_writer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = {kind: (rng.standard_normal((3, 5)) * 40).astype(kind) for kind in NATIVE if not kind.startswith("<u")}
    values |= {kind: rng.integers(0, 200, (2, 1, 4)).astype(kind) for kind in NATIVE if kind.startswith("<u")}
    values |= {"scalar": np.array(1.5, "<f4"), "empty": np.zeros((0, 7), "<f2")}
    safetensors.numpy.save_file(values, tmp_path / "model.safetensors", metadata={"format": "np"})
    with SafetensorsFolder.open(tmp_path) as folder:
        assert folder.tensors.keys() == values.keys()
        for name, value in values.items():
            found = folder.read(name)
            assert found.dtype == value.dtype
            assert found.flags.aligned
            assert np.array_equal(found, value)
            assert folder.tensors[name].shape == value.shape
            assert folder.raw(name).tobytes() == value.tobytes()


def test_bfloat16_becomes_float32_exactly(tmp_path: Path) -> None:
    bits = np.arange(1 << 16, dtype="<u2")
    put(tmp_path, header({"b": tensor("BF16", [256, 256], [0, 1 << 17])}, bits.tobytes()))
    found = SafetensorsFolder.open(tmp_path).read("b")
    assert found.dtype == np.float32
    assert np.array_equal(found.view(np.uint32).reshape(-1), bits.astype(np.uint32) << 16)


def test_data_at_odd_addresses(tmp_path: Path) -> None:
    # Nothing obliges a writer to pad its header.
    for pad in range(9):
        text = json.dumps({"x": tensor("F64", [2], [0, 16])}) + " " * pad
        put(tmp_path, header(text, struct.pack("<2d", 1.5, -2.0)))
        found = SafetensorsFolder.open(tmp_path).read("x")
        assert found.flags.aligned
        assert found.tolist() == [1.5, -2.0]


GOOD = tensor()
WRONG_HEADERS: dict[str, tuple[bytes, str]] = {
    "no bytes": (b"", "empty"),
    "seven bytes": (bytes(7), "too few"),
    "length beyond": (header("{}", length=99), "exceeds the file"),
    "length 2**63": (header("{}", length=2**63), "exceeds the file"),
    "length 2**64-1": (header("{}", length=2**64 - 1), "exceeds the file"),
    "length zero": (header(""), "not valid JSON"),
    "not json": (header("{]"), "not valid JSON"),
    "not utf-8": (header(b'{"\xff": 1}'), "not valid JSON"),
    "nan": (header('{"x": NaN}'), "not valid JSON"),
    "array": (header("[]"), "not a JSON object"),
    "deep": (header("[" * 100_000), "not valid JSON"),
    "deep objects": (header('{"a":' * 100_000), "not valid JSON"),
    "long number": (header('{"a":' + "9" * 10_000 + "}"), "not valid JSON"),
    "duplicate": (header('{"x": 1, "x": 2}'), "'x' is repeated"),
    "duplicate inside": (header('{"x": {"dtype": "F32", "dtype": "F16"}}'), "'dtype' is repeated"),
    "metadata numbers": (header({"__metadata__": {"a": 1}}), "__metadata__"),
    "metadata list": (header({"__metadata__": []}), "__metadata__"),
    "entry is a list": (header({"x": []}), "'x' is not described"),
    "entry lacks a key": (header({"x": {"dtype": "F32", "shape": []}}), "'x' is not described"),
    "entry has one more": (header({"x": tensor(more=1)}, bytes(4)), "'x' is not described"),
    "f8": (header({"x": tensor("F8_E4M3", [4])}, bytes(4)), "F8_E4M3"),
    "dtype number": (header({"x": tensor(3)}, bytes(4)), "'x' is stored as"),
    "dtype list": (header({"x": tensor(["F32"])}, bytes(4)), "'x' is stored as"),
    "shape negative": (header({"x": tensor(shape=[-1, -1])}, bytes(4)), "shape"),
    "shape float": (header({"x": tensor(shape=[1.0])}, bytes(4)), "shape"),
    "shape bool": (header({"x": tensor(shape=[True])}, bytes(4)), "shape"),
    "shape text": (header({"x": tensor(shape="1")}, bytes(4)), "shape"),
    "shape long": (header({"x": tensor(shape=[1] * 17)}, bytes(4)), "shape"),
    "shape overflows": (header({"x": tensor(shape=[2**32, 2**32])}, bytes(4)), "too large"),
    "shape overflows to zero": (header({"x": tensor(shape=[2**62, 2**62, 0], offsets=[0, 0])}), "too large"),
    "shape huge": (header({"x": tensor(shape=[int("9" * 4000)] * 16)}, bytes(4)), "too large"),
    "shape too big": (header({"x": tensor(shape=[2])}, bytes(4)), "shape and dtype take 8 bytes"),
    "offsets one": (header({"x": tensor(offsets=[4])}, bytes(4)), "data_offsets"),
    "offsets back": (header({"x": tensor(offsets=[4, 0])}, bytes(4)), "data_offsets"),
    "offsets negative": (header({"x": tensor(offsets=[-4, 0])}, bytes(4)), "data_offsets"),
    "offsets beyond": (header({"x": tensor(shape=[2], offsets=[0, 8])}, bytes(4)), "data_offsets"),
    "offsets 2**63": (header({"x": tensor(offsets=[2**63, 2**63 + 4])}, bytes(4)), "data_offsets"),
    "overlap": (header({"x": tensor(), "y": tensor()}, bytes(4)), "overlaps"),
    "half overlap": (header({"x": tensor(), "y": tensor("F16", [1], [2, 4])}, bytes(4)), "overlaps"),
    "gap": (header({"x": tensor(offsets=[4, 8])}, bytes(8)), "gap"),
    "more data": (header({"x": tensor()}, bytes(5)), "the file at"),
}


@pytest.mark.parametrize("case", WRONG_HEADERS)
def test_wrong_headers_are_refused_by_name_and_cost_nothing(tmp_path: Path, case: str) -> None:
    data, message = WRONG_HEADERS[case]
    put(tmp_path, data)
    tracemalloc.start()
    try:
        with pytest.raises(ModelLoadError, match=message) as caught:
            SafetensorsFolder.open(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < len(data) * 40 + (1 << 20)
    finally:
        tracemalloc.stop()
    assert caught.value.param == str(tmp_path / "model.safetensors")


def test_a_long_header_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEADER_LIMIT", 50)
    put(tmp_path, header({"x": tensor()}, bytes(4)))
    with pytest.raises(ModelLoadError, match="at most 50"):
        SafetensorsFolder.open(tmp_path)


def test_truncation_and_random_damage_are_refused(tmp_path: Path) -> None:
    whole = header({"x": tensor("F16", [2, 3], [0, 12]), "y": tensor("BF16", [2], [12, 16])}, bytes(range(16)))
    for length in range(len(whole)):
        with pytest.raises(ModelLoadError):
            SafetensorsFolder.open(put(tmp_path, whole[:length]))
    rng = random.Random(0)
    for _ in range(800):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(len(whole) - 16)] = rng.choice((0, 0xFF, 0x22, 0x7B, rng.randrange(256)))
        try:
            folder = SafetensorsFolder.open(put(tmp_path, bytes(data)))
        except ModelLoadError:
            continue
        for name in folder.tensors:
            folder.read(name)


def write_sharded(folder: Path) -> dict[str, Any]:
    for number in (1, 2):
        data = {f"t{number}": np.full(3, number, "<f4")}
        safetensors.numpy.save_file(data, folder / f"model-0000{number}-of-00002.safetensors")
    return {f"t{number}": f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}


def write_index(folder: Path, weight_map: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_an_index_joins_its_files(tmp_path: Path) -> None:
    write_index(tmp_path, write_sharded(tmp_path))
    with SafetensorsFolder.open(tmp_path) as folder:
        assert folder.read("t1").tolist() == [1, 1, 1]
        assert folder.read("t2").tolist() == [2, 2, 2]
    with pytest.raises(ModelLoadError, match="closed"):
        folder.read("t1")


def test_a_file_may_be_a_symlink_as_in_the_hubs_cache(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    weight_map = write_sharded(blobs)
    for name in weight_map.values():
        (snapshot / name).symlink_to(Path("../../blobs") / name)
    write_index(snapshot, weight_map)
    assert SafetensorsFolder.open(snapshot).read("t2").tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "name",
    [
        "../secret.safetensors",
        "/etc/secret.safetensors",
        "sub/x.safetensors",
        "./x.safetensors",
        "..\\x.safetensors",
        "c:x.safetensors",
        "..",
        "",
        "x\0.safetensors",
        "x\n.safetensors",
        "pytorch_model.bin",
        "x" * 300 + ".safetensors",
        7,
        None,
        ["x.safetensors"],
    ],
)
def test_an_index_cannot_leave_its_folder(tmp_path: Path, name: Any) -> None:
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    for place in (tmp_path / "secret.safetensors", inner / "sub" / "x.safetensors", inner / "x.safetensors"):
        safetensors.numpy.save_file({"t": np.zeros(1)}, place)
    write_index(inner, {"t": name})
    with pytest.raises(ModelLoadError, match=r"weight_map\['t'\]"):
        SafetensorsFolder.open(inner)


def test_an_index_that_disagrees_with_its_files(tmp_path: Path) -> None:
    weight_map = write_sharded(tmp_path)
    for wrong, message in [
        ({"t3": weight_map["t1"]}, "'t3' that"),
        ({"t2": weight_map["t1"]}, "'t2' that"),
        ({"t1": "gone.safetensors"}, r"gone\.safetensors"),
        ({"t1": "\ud800.safetensors"}, "missing"),
        ({}, "weight_map"),
        ([], "weight_map"),
        (None, "weight_map"),
    ]:
        write_index(tmp_path, wrong)
        with pytest.raises(ModelLoadError, match=message):
            SafetensorsFolder.open(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    with pytest.raises(ModelLoadError, match=r"2 safetensors files but no model\.safetensors\.index\.json"):
        SafetensorsFolder.open(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "model.ckpt", "model.pkl"])
def test_pickled_weights_are_refused_with_the_way_out(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04.")
    with pytest.raises(ModelLoadError, match=r"convert the model to safetensors") as caught:
        SafetensorsFolder.open(tmp_path)
    assert name in caught.value.message


def test_other_folders(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no safetensors file"):
        SafetensorsFolder.open(tmp_path)
    with pytest.raises(ModelLoadError, match="not a folder"):
        SafetensorsFolder.open(tmp_path / "gone")
    safetensors.numpy.save_file({"t": np.ones(2)}, tmp_path / "only.safetensors")
    with pytest.raises(ModelLoadError, match="'u'"):
        SafetensorsFolder.open(tmp_path).read("u")
    assert SafetensorsFolder.open(tmp_path).read("t").tolist() == [1, 1]


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_in_auto_map_is_never_imported(tmp_path: Path, name: str) -> None:
    put(tmp_path, header({"x": tensor()}, bytes(4)))
    (tmp_path / "evil_module.py").write_text("raise SystemExit")
    (tmp_path / name).write_text(json.dumps({"auto_map": {"AutoModel": "evil_module.Model"}}))
    with pytest.raises(ModelLoadError, match="auto_map") as caught:
        SafetensorsFolder.open(tmp_path)
    assert caught.value.param == str(tmp_path / name)
    assert "evil_module" not in sys.modules


def test_configurations_may_say_infinity(tmp_path: Path) -> None:
    put(tmp_path, header({"x": tensor()}, bytes(4)))
    (tmp_path / "config.json").write_text('{"limit": [0.0, Infinity]}')
    assert SafetensorsFolder.open(tmp_path).read("x").tolist() == [0]


def test_json_files_are_bounded_and_regular(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonfile, "FILE_LIMIT", 10)
    (tmp_path / "big.json").write_text('{"a": "0123456789"}')
    os.mkfifo(tmp_path / "pipe.json")
    for name, message in [("big", "larger than"), ("pipe", "regular"), ("gone", "cannot be read")]:
        with pytest.raises(ModelLoadError, match=message):
            jsonfile.read_object(tmp_path / f"{name}.json")
