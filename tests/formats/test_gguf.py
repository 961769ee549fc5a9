"""GGUF files that honest tools write are read back exactly, whole or split, in both versions."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from radixrt.errors import ModelLoadError
from radixrt.formats.gguf import GGUFFile

VALUES: dict[str, tuple[gguf.GGUFValueType, Any]] = {
    "a.u8": (gguf.GGUFValueType.UINT8, 255),
    "a.i8": (gguf.GGUFValueType.INT8, -128),
    "a.u16": (gguf.GGUFValueType.UINT16, 65535),
    "a.i16": (gguf.GGUFValueType.INT16, -32768),
    "a.u32": (gguf.GGUFValueType.UINT32, 2**32 - 1),
    "a.i32": (gguf.GGUFValueType.INT32, -(2**31)),
    "a.f32": (gguf.GGUFValueType.FLOAT32, 0.5),
    "a.bool": (gguf.GGUFValueType.BOOL, True),
    "a.string": (gguf.GGUFValueType.STRING, "héllo\n\0 😀"),
    "a.u64": (gguf.GGUFValueType.UINT64, 2**64 - 1),
    "a.i64": (gguf.GGUFValueType.INT64, -(2**63)),
    "a.f64": (gguf.GGUFValueType.FLOAT64, 1e300),
}


def tensors() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {f"t{i}": rng.standard_normal((i + 1, 2, 5)).astype(np.float32) for i in range(7)}


def write_model(path: Path, **split: Any) -> None:
    writer = gguf.GGUFWriter(path, "llama", **split)
    for key, (kind, value) in VALUES.items():
        writer.add_key_value(key, value, kind)
    writer.add_array("a.strings", ["x", "", "yy"])
    writer.add_array("a.ints", [1, -2, 3])
    writer.add_array("a.bools", [True, False])
    for name, value in tensors().items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_model(file: GGUFFile) -> None:
    for key, (_, value) in VALUES.items():
        assert file.metadata[key] == value
        assert type(file.metadata[key]) is type(value)
    assert file.metadata["a.strings"] == ["x", "", "yy"]
    assert file.metadata["a.ints"] == [1, -2, 3]
    assert file.metadata["a.bools"] == [True, False]
    for name, value in tensors().items():
        assert file.tensors[name].shape == value.shape
        assert np.array_equal(file.read(name), value)
    assert list(file.tensors) == list(tensors())


def test_every_metadata_type_and_every_tensor_of_the_reference_writer(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf")
    with GGUFFile.open(tmp_path / "m.gguf") as file:
        check_model(file)


def test_version_2_is_read_like_version_3(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf")
    data = bytearray((tmp_path / "m.gguf").read_bytes())
    data[4:8] = struct.pack("<I", 2)
    (tmp_path / "m.gguf").write_bytes(data)
    check_model(GGUFFile.open(tmp_path / "m.gguf"))


@pytest.mark.parametrize("opened", [0, 1, 3])
def test_any_part_of_a_split_file_opens_all_of_it(tmp_path: Path, opened: int) -> None:
    write_model(tmp_path / "m.gguf", split_max_tensors=2)
    found = sorted(tmp_path.glob("*.gguf"))
    assert len(found) == 4
    file = GGUFFile.open(found[opened])
    check_model(file)
    assert {info.part for info in file.tensors.values()} == {0, 1, 2, 3}


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf", split_max_tensors=2)
    (tmp_path / "m-00003-of-00004.gguf").unlink()
    with pytest.raises(ModelLoadError, match=r"m-00003-of-00004\.gguf"):
        GGUFFile.open(tmp_path / "m-00001-of-00004.gguf")


def test_parts_in_the_wrong_place_or_from_another_model_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf", split_max_tensors=2)
    first, second = tmp_path / "m-00001-of-00004.gguf", tmp_path / "m-00002-of-00004.gguf"
    kept = second.read_bytes()
    shutil.copy(tmp_path / "m-00003-of-00004.gguf", second)
    with pytest.raises(ModelLoadError, match=r"m-00002-of-00004\.gguf.*split\.no"):
        GGUFFile.open(first)
    second.write_bytes(kept.replace(b"t2", b"t9", 1).replace(b"t3", b"t0", 1))
    with pytest.raises(ModelLoadError, match="'t0' is in another part"):
        GGUFFile.open(first)


def test_a_part_that_lost_its_name_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf", split_max_tensors=2)
    shutil.copy(tmp_path / "m-00001-of-00004.gguf", tmp_path / "renamed.gguf")
    with pytest.raises(ModelLoadError, match="one of 4 parts"):
        GGUFFile.open(tmp_path / "renamed.gguf")


def test_too_few_tensors_over_all_parts_are_noticed(parts: Any, tmp_path: Path) -> None:
    def part(number: int) -> bytes:
        pairs = [("split.no", 2, struct.pack("<H", number)), ("split.count", 2, struct.pack("<H", 2))]
        pairs.append(("split.tensors.count", 5, struct.pack("<i", 5)))
        data: bytes = parts.file(
            entries=[parts.entry(*pair) for pair in pairs],
            rows=[parts.tensor_row(f"t{number}", [1], 0, 0)],
            data=bytes(4),
        )
        return data

    for number in range(2):
        (tmp_path / f"m-0000{number + 1}-of-00002.gguf").write_bytes(part(number))
    with pytest.raises(ModelLoadError, match=r"2 tensors, but split\.tensors\.count is 5"):
        GGUFFile.open(tmp_path / "m-00002-of-00002.gguf")


def test_float32_is_not_copied_and_outlives_the_file(tmp_path: Path) -> None:
    write_model(tmp_path / "m.gguf")
    before = (tmp_path / "m.gguf").read_bytes()
    file = GGUFFile.open(tmp_path / "m.gguf")
    first, again = file.read("t3"), file.read("t3")
    assert np.shares_memory(first, again)
    file.close()
    assert np.array_equal(first, tensors()["t3"])
    first[...] = 0  # the map is private: the file never changes
    assert (tmp_path / "m.gguf").read_bytes() == before
    with pytest.raises(ModelLoadError, match="closed"):
        file.read("t3")


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_alignment(parts: Any, write: Any, alignment: int) -> None:
    values = np.arange(6, dtype="<f4")
    data = parts.file(
        entries=[parts.entry("general.alignment", 4, struct.pack("<I", alignment)), parts.entry("x", 0, b"\1")],
        rows=[parts.tensor_row("t", [3, 2], 0, 0)],
        data=values.tobytes(),
        alignment=alignment,
    )
    read = GGUFFile.open(write(data)).read("t")
    assert read.shape == (2, 3)
    assert np.array_equal(read.reshape(-1), values)


def test_data_at_odd_addresses(parts: Any, write: Any) -> None:
    for length in range(1, 9):
        alignment = parts.entry("general.alignment", 4, struct.pack("<I", 1))
        row = parts.tensor_row("t" * length, [2], 0, 0)
        data = parts.file(entries=[alignment], rows=[row], data=struct.pack("<2f", 1.5, -2), alignment=1)
        read = GGUFFile.open(write(data)).read("t" * length)
        assert read.flags.aligned
        assert read.tolist() == [1.5, -2]


def test_nested_arrays_and_scalars_without_dimensions(parts: Any, write: Any) -> None:
    inner = struct.pack("<IQ2i", 5, 2, 7, -7)
    data = parts.file(
        entries=[
            parts.entry("n", 9, struct.pack("<IQ", 9, 2) + inner + struct.pack("<IQ", 8, 1) + parts.string("s"))
        ],
        rows=[parts.tensor_row("t", [], 0, 0)],
        data=struct.pack("<f", 2.5),
    )
    file = GGUFFile.open(write(data))
    assert file.metadata["n"] == [[7, -7], ["s"]]
    assert file.read("t").shape == ()
    assert file.read("t") == 2.5


def test_raw_gives_the_stored_blocks(parts: Any, write: Any) -> None:
    blocks = bytes(range(40))
    data = parts.file(rows=[parts.tensor_row("t", [32, 2], 3, 0)], data=blocks)
    raw = GGUFFile.open(write(data)).raw("t")
    assert raw.shape == (2, 20)
    assert raw.tobytes() == blocks
    assert not raw.flags.writeable


def test_an_unknown_tensor_is_named(parts: Any, write: Any) -> None:
    with pytest.raises(ModelLoadError, match="'nope'"):
        GGUFFile.open(write(parts.file())).read("nope")


@pytest.mark.model
def test_the_real_model(model_file: Path) -> None:
    reference = {tensor.name: tensor for tensor in gguf.GGUFReader(model_file).tensors}
    with GGUFFile.open(model_file) as file:
        assert file.metadata["general.architecture"] == "llama"
        assert len(file.metadata["tokenizer.ggml.tokens"]) == 49152
        assert file.tensors.keys() == reference.keys()
        assert sum(int(np.prod(info.shape)) for info in file.tensors.values()) == 134515008
        for name in ("blk.0.attn_norm.weight", "blk.7.attn_k.weight", "blk.29.ffn_down.weight"):
            expected = gguf.dequantize(reference[name].data, reference[name].tensor_type)
            assert np.array_equal(file.read(name), expected)
