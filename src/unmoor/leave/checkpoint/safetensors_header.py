"""Reads the header of a safetensors file, with bounds, and checks it as the format's own library does.

The format (github.com/huggingface/safetensors, README and safetensors/src/tensor.rs, 0.8.0, seen 2026-12-01): 8 bytes
with the header's length, little-endian; the header, a JSON object that maps names to dtype, shape and offsets; then the
tensors, without holes. Stricter than the library in one respect: a name that is there twice is an error, which the
format's own page asks for and the library does not check.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from unmoor.leave.checkpoint.bounded import broken, open_regular, refuse_no_weights, repeated, shown
from unmoor.leave.checkpoint.tensors import Tensor, WeightsHeader

MOST_HEADER_BYTES = 100_000_000
"""The library's own bound (MAX_HEADER_SIZE)."""

MOST_TENSORS = 250_000
"""In one file; the largest models have about half of that in all their files. A million would take minutes."""

_LENGTH_BYTES = 8
_MOST_DIMENSIONS = 64
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "F64": 64, "I64": 64, "U64": 64, "C64": 64,
}  # fmt: skip

_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dtype: str
    shape: Annotated[tuple[_Size, ...], msgspec.Meta(max_length=_MOST_DIMENSIONS)]
    data_offsets: tuple[_Size, _Size]


_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRY = msgspec.json.Decoder(_Entry)
_METADATA = msgspec.json.Decoder(dict[str, str])


def read_safetensors(path: Path, name: str) -> WeightsHeader:
    """The header of the file, no byte of its tensors. Raises BrokenFileError for one that no reader should trust."""
    file, size = open_regular(path, name)
    with file:
        header, data_bytes = _header_bytes(file, size, name)
    entries, metadata = _entries(header, name)
    _check_bytes(entries, data_bytes, name)
    tensors = {
        tensor: Tensor(entry.dtype, entry.shape, entry.data_offsets[1] - entry.data_offsets[0])
        for tensor, entry in entries.items()
    }
    return WeightsHeader(file=name, tensors=tensors, metadata=dict(metadata))


def _header_bytes(file: BinaryIO, size: int, name: str) -> tuple[bytes, int]:
    """The header, and how many bytes follow it. The length is believed only after the file's size."""
    refuse_no_weights(file, size, name)
    if size < _LENGTH_BYTES:
        raise broken(name, "is too short for a safetensors file", seen=f"{size} bytes", expected="at least 8")
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    most = min(MOST_HEADER_BYTES, size - _LENGTH_BYTES)
    if length > most:
        bound = "the file's own size" if most < MOST_HEADER_BYTES else "the format's bound"
        raise broken(
            name,
            "its header is longer than it can be",
            seen=f"a length of {length} bytes",
            expected=f"at most {most}, {bound}",
        )
    header = file.read(length)
    if len(header) < length:
        raise broken(name, "ended while it was read", seen=f"{len(header)} bytes of header", expected=str(length))
    if not header.startswith(b"{"):
        raise broken(name, "has no JSON header", seen=shown(header[:16]), expected="a '{' after the first 8 bytes")
    return header, size - _LENGTH_BYTES - length


def _entries(header: bytes, name: str) -> tuple[dict[str, _Entry], dict[str, str]]:
    entries: dict[str, _Entry] = {}
    metadata: dict[str, str] = {}
    tensor = ""
    try:
        raw = _NAMES.decode(header)
        if len(raw) > MOST_TENSORS:
            raise broken(
                name, "has more tensors than any model", seen=str(len(raw)), expected=f"at most {MOST_TENSORS}"
            )
        for tensor, told in raw.items():
            if tensor == "__metadata__":
                metadata = _METADATA.decode(told)
            else:
                entries[tensor] = _ENTRY.decode(told)
    except RecursionError:
        raise broken(
            name, "its header is nested too deeply", expected="names of tensors, each with three keys"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        about = f" (tensor {shown(tensor)})" if tensor else ""
        raise broken(
            name,
            f"its header is not one of a safetensors file{about}",
            seen=shown(failure),
            expected="each name with dtype, shape and data_offsets",
        ) from None
    _check_names(header, name)
    return entries, metadata


def _check_names(header: bytes, name: str) -> None:
    """Refuses a name that is there twice. The header's form has been checked: it holds nothing else that grows."""

    def keys(pairs: list[tuple[str, object]]) -> None:
        names = [key for key, _ in pairs]
        if len(set(names)) != len(names):
            raise broken(name, "its header names a tensor twice", seen=shown(repeated(names)))

    try:
        json.loads(header, object_pairs_hook=keys)
    except ValueError as failure:
        raise broken(name, "its header is not JSON", seen=shown(failure)) from None


def _check_bytes(entries: dict[str, _Entry], data_bytes: int, name: str) -> None:
    """Each tensor's bytes are those of its type and shape; together they fill the file, without holes or overlaps."""
    end = 0
    for tensor, entry in sorted(entries.items(), key=lambda one: one[1].data_offsets):
        start, stop = entry.data_offsets
        _check_size(tensor, entry, name)
        if start != end:
            raise broken(
                name,
                "tensors overlap" if start < end else "there is a hole between tensors",
                seen=f"{shown(tensor)} begins at byte {start}",
                expected=f"byte {end}, where the one before it ends",
            )
        if stop > data_bytes:
            raise broken(
                name,
                "is cut off, or its header lies",
                seen=f"{shown(tensor)} ends at byte {stop} of the tensors",
                expected=f"at most {data_bytes}, the file's own size",
            )
        end = stop
    if end != data_bytes:
        raise broken(name, "has bytes that belong to no tensor", seen=str(data_bytes - end), expected="none")


def _check_size(tensor: str, entry: _Entry, name: str) -> None:
    start, stop = entry.data_offsets
    bits = _BITS.get(entry.dtype)
    if bits is None:
        raise broken(
            name, "has a tensor of a type that the format does not have", seen=f"{shown(tensor)}: {shown(entry.dtype)}"
        )
    needed = math.prod(entry.shape) * bits
    if needed % 8 or stop - start != needed // 8:
        raise broken(
            name,
            "a tensor's bytes are not those of its shape",
            seen=f"{shown(tensor)}: {stop - start} bytes",
            expected=f"{needed / 8:g} for {entry.dtype} {list(entry.shape)}",
        )
