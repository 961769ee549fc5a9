"""Folders of safetensors files: header, index, tensor values.

The header of a file is a claim about its bytes; all of it is checked against the file before a tensor is believed.
An index may name only files that lie in its own folder. Pickled checkpoints are refused: to read one is to run it.
This module does not know what a tensor is for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radixrt.errors import ModelLoadError
from radixrt.formats.dequant import bfloat16_to_float32
from radixrt.formats.jsonfile import parse_object, read_object, refuse_code
from radixrt.formats.mapped import MappedFile, TensorInfo

__all__ = ["SafetensorsFolder"]

HEADER_LIMIT = 32 << 20  # bytes
MAX_DIMS = 16
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

_DTYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "BOOL": np.dtype("u1"),
        "U8": np.dtype("u1"),
        "I8": np.dtype("i1"),
        "U16": np.dtype("<u2"),
        "I16": np.dtype("<i2"),
        "F16": np.dtype("<f2"),
        "BF16": np.dtype("<u2"),
        "U32": np.dtype("<u4"),
        "I32": np.dtype("<i4"),
        "F32": np.dtype("<f4"),
        "U64": np.dtype("<u8"),
        "I64": np.dtype("<i8"),
        "F64": np.dtype("<f8"),
    }
)


class SafetensorsFolder:
    """The weights of a model folder. Make one with :meth:`open`; it is a context manager.

    ``tensors`` maps names to ``TensorInfo``; where an index exists it decides which tensors there are.
    """

    def __init__(self, path: Path, files: list[MappedFile], tensors: dict[str, TensorInfo]) -> None:
        self.path = path
        self.tensors = tensors
        self._files = files

    @classmethod
    def open(cls, folder: Path | str) -> SafetensorsFolder:
        """Map the weight files of ``folder`` and check their headers.

        Raises ``ModelLoadError`` that names the file: nothing to read, pickled weights, code in ``auto_map``, an
        index that leaves the folder or disagrees with the files, a damaged header.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise ModelLoadError(f"{folder}: not a folder", param=str(folder))
        refuse_code(folder)
        if not (folder / SINGLE).is_file() and (folder / INDEX).is_file():
            return cls._open_indexed(folder)
        file = MappedFile(_only_file(folder))
        return cls(folder, [file], _read_header(file, 0))

    @classmethod
    def _open_indexed(cls, folder: Path) -> SafetensorsFolder:
        weight_map = _read_index(folder / INDEX)
        files: list[MappedFile] = []
        tensors: dict[str, TensorInfo] = {}
        for part, name in enumerate(sorted(set(weight_map.values()))):
            file = MappedFile(folder / name)
            files.append(file)
            tensors |= {key: info for key, info in _read_header(file, part).items() if weight_map.get(key) == name}
        for key, name in weight_map.items():
            if key not in tensors:
                raise ModelLoadError(
                    f"{folder / name}: the tensor {key[:200]!r} that {INDEX} promises is not there",
                    param=str(folder / name),
                )
        return cls(folder, files, tensors)

    def read(self, name: str) -> NDArray[Any]:
        """Return the values of a tensor in its shape: float32 for BF16 (exact), the stored type for all others.

        All but BF16 and BOOL are views of a private map where aligned; writing to them never changes the file.
        Raises ``ModelLoadError`` for an unknown name or after ``close``.
        """
        info = self._info(name)
        data = self._files[info.part].array(info.offset, info.nbytes)
        if info.type == "BF16":
            return bfloat16_to_float32(data).reshape(info.shape)
        if info.type == "BOOL":
            return np.not_equal(data, 0).reshape(info.shape)
        values: NDArray[Any] = np.require(data.view(_DTYPES[info.type]), requirements="A")
        return values.reshape(info.shape)

    def raw(self, name: str) -> NDArray[np.uint8]:
        """Return the stored bytes of a tensor, flat uint8, as a read-only view."""
        info = self._info(name)
        data = self._files[info.part].array(info.offset, info.nbytes)
        data.flags.writeable = False
        return data

    def close(self) -> None:
        """Let go of the files. Arrays already read stay valid."""
        for file in self._files:
            file.close()

    def __enter__(self) -> SafetensorsFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _info(self, name: str) -> TensorInfo:
        info = self.tensors.get(name)
        if info is None:
            raise ModelLoadError(f"{self.path}: no tensor named {name!r}", param=str(self.path))
        return info


def _only_file(folder: Path) -> Path:
    """The one weight file of a folder without an index."""
    if (folder / SINGLE).is_file():
        return folder / SINGLE
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelLoadError(f"{folder}: {len(found)} safetensors files but no {INDEX}", param=str(folder / INDEX))
    pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
    if pickled:
        raise ModelLoadError(
            f"{folder}: the weights are pickled ({', '.join(pickled[:4])}). Reading a pickle runs code, so they "
            "are refused: convert the model to safetensors (save_pretrained of transformers writes them)",
            param=str(folder / pickled[0]),
        )
    raise ModelLoadError(f"{folder}: no safetensors file in this folder", param=str(folder))


def _read_index(path: Path) -> dict[str, str]:
    """Return tensor name -> file name. Every file name is a plain one and exists beside the index."""
    weight_map = read_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelLoadError(f"{path}: 'weight_map' is not an object with entries", param=str(path))
    for key, name in weight_map.items():
        if not _is_plain_name(name):
            raise ModelLoadError(
                f"{path}: weight_map[{key[:200]!r}] is {str(name)[:200]!r}, not the plain name of a "
                "safetensors file in this folder",
                param=str(path),
            )
    missing = sorted(name for name in set(weight_map.values()) if not (path.parent / name).is_file())
    if missing:
        raise ModelLoadError(f"{path}: files are missing: {', '.join(map(repr, missing[:8]))}", param=str(path))
    return weight_map


def _is_plain_name(name: object) -> bool:
    # The file itself may be a symlink (the hub's cache consists of them); its name may not lead elsewhere.
    return (
        isinstance(name, str)
        and name.endswith(".safetensors")
        and len(name) <= 255
        and PurePosixPath(name).name == name
        and not any(char in "\\:" or char < " " for char in name)
    )


def _read_header(file: MappedFile, part: int) -> dict[str, TensorInfo]:
    """Check the header of one file and return its tensors with absolute offsets."""
    if file.size < 8:
        raise file.error(f"{file.size} bytes are too few for a safetensors header")
    length: int = struct.unpack_from("<Q", file.bytes)[0]
    if length > file.size - 8:
        raise file.error(f"byte 0: a header of {length} bytes exceeds the file ({file.size} bytes)")
    if length > HEADER_LIMIT:
        raise file.error(f"byte 0: a header of {length} bytes; at most {HEADER_LIMIT} are read")
    header = parse_object(file.bytes[8 : 8 + length], file.path, "the header")
    start = 8 + length
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise file.error("the header's __metadata__ is not a map of strings")
    tensors = {name: _read_entry(file, name, entry, start, part) for name, entry in header.items()}
    # The format leaves no gaps: together the tensors cover the data exactly once.
    end = start
    for info in sorted(tensors.values(), key=lambda info: (info.offset, info.nbytes)):
        if info.offset != end:
            how = "overlaps the one before it" if info.offset < end else "leaves a gap before it"
            raise file.error(f"tensor {info.name[:200]!r} {how}")
        end += info.nbytes
    if end != file.size:
        raise file.error(f"the tensors end at byte {end}, the file at {file.size}")
    return tensors


def _read_entry(file: MappedFile, name: str, entry: object, start: int, part: int) -> TensorInfo:
    what = f"tensor {name[:200]!r}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise file.error(f"{what} is not described by dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise file.error(f"{what} is stored as {str(dtype)[:40]!r}, which cannot be read")
    if not _are_sizes(shape) or len(shape) > MAX_DIMS:
        raise file.error(f"{what}: the shape is not a list of at most {MAX_DIMS} sizes")
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= file.size - start:
        raise file.error(
            f"{what}: data_offsets are not a range inside the file's {file.size - start} bytes of data"
        )
    item = _DTYPES[dtype].itemsize
    if math.prod(max(size, 1) for size in shape) * item >= 1 << 63:
        raise file.error(f"{what}: the shape is too large for any machine")
    nbytes = math.prod(shape) * item
    if nbytes != offsets[1] - offsets[0]:
        raise file.error(f"{what}: shape and dtype take {nbytes} bytes, data_offsets {offsets[1] - offsets[0]}")
    return TensorInfo(name, tuple(shape), dtype, start + offsets[0], nbytes, part)


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
