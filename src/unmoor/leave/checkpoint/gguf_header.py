"""Reads the header of a GGUF file, with bounds: its metadata and its tensors' names, shapes and types.

The format (github.com/ggml-org/ggml, docs/gguf.md; sizes of the types as in the package gguf 0.19.0, constants.py; seen
2026-12-01): magic, version, counts, key-value pairs, tensors' descriptions, padding, tensors. Shapes are given here
outermost first, as other containers have them; the file has them innermost first.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO

from unmoor.leave.checkpoint.bounded import broken, open_regular, refuse_no_weights, shown
from unmoor.leave.checkpoint.tensors import Tensor, WeightsHeader

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_PAIRS = 65_536
_MOST_TENSORS = 1_000_000
_MOST_ITEMS = 4_000_000
"""Items of all arrays that are read one by one: texts. The largest vocabularies with their merges have a million."""
_MOST_NAME_BYTES = 1024
_MOST_TEXT_BYTES = 16_000_000
_MOST_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32
_SHORT_TEXT = 4096
_SHORT_ARRAY = 64
"""Arrays of numbers up to this length are kept; longer ones only by their length."""

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", _BOOL: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip

# Each type of tensor: its name, how many values a block has, and how many bytes.
_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 58), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip

_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4",
    40: "Q1_0",
}  # fmt: skip

Value = int | float | bool | str | tuple[int | float | bool, ...] | None


def file_type_name(number: object) -> str:
    """The name of `general.file_type` ("Q4_K_M"); empty for a number that has none."""
    return _FILE_TYPES.get(number, "") if isinstance(number, int) else ""


def read_gguf(path: Path, name: str) -> WeightsHeader:
    """The header of the file, no byte of its tensors. Raises BrokenFileError for one that no reader should trust.

    The metadata keeps numbers, texts and short arrays of numbers; of every other array only "KEY.length", and of the
    vocabulary (`tokenizer.ggml.tokens`) the texts of the marks that the file names: "KEY.text" for `KEY_id`.
    """
    file, size = open_regular(path, name)
    with file:
        refuse_no_weights(file, size, name)
        return _Reader(file, size, name).header()


class _Reader:
    """One pass over a header. Every length is compared with what is left of the file before it is believed."""

    def __init__(self, file: BinaryIO, size: int, name: str) -> None:
        self._file, self._size, self._name = file, size, name
        self._at = 0
        self._items = 0
        self._tokens_at: int | None = None

    def header(self) -> WeightsHeader:
        """The whole header."""
        tensor_count, pair_count = self._counts()
        metadata: dict[str, object] = {}
        for _ in range(pair_count):
            key = self._text(_MOST_NAME_BYTES, "the name of a key")
            if key in metadata:
                raise broken(self._name, "names a key twice", seen=shown(key))
            metadata[key] = self._value(key, metadata)
        described = [self._description() for _ in range(tensor_count)]
        names = {tensor for tensor, *_ in described}
        if len(names) != len(described):
            raise broken(self._name, "names a tensor twice", seen=f"{len(described)} tensors, {len(names)} names")
        tensors = self._placed(described, metadata)
        self._marks(metadata)
        return WeightsHeader(file=self._name, tensors=tensors, metadata=metadata)

    def _counts(self) -> tuple[int, int]:
        magic = self._bytes(4, "the magic")
        if magic != MAGIC:
            raise broken(self._name, "is no GGUF file", seen=shown(magic), expected=shown(MAGIC))
        version = self._number("<I")
        if version not in _VERSIONS:
            swapped = int.from_bytes(int(version).to_bytes(4, "little"), "big")
            what = "is a GGUF file of a big-endian machine" if swapped in _VERSIONS else "is of an unknown GGUF version"
            raise broken(self._name, what, seen=f"version {version}", expected="version 2 or 3, little-endian")
        tensors, pairs = int(self._number("<Q")), int(self._number("<Q"))
        # A pair takes at least a length, a byte of name, a type and a byte of value; a tensor 8 + 1 + 4 + 8 + 4 + 8.
        self._bounded(pairs, 14, _MOST_PAIRS, "pairs of metadata")
        self._bounded(tensors, 33, _MOST_TENSORS, "tensors")
        return tensors, pairs

    def _bounded(self, count: int, least_bytes: int, most: int, of_what: str) -> None:
        room = min(most, (self._size - self._at) // least_bytes)
        if count > room:
            raise broken(
                self._name, f"claims more {of_what} than it can hold", seen=str(count), expected=f"at most {room}"
            )

    def _bytes(self, count: int, of_what: str) -> bytes:
        if count > self._size - self._at:
            raise broken(
                self._name,
                "is cut off, or its header lies",
                seen=f"{of_what} of {count} bytes at byte {self._at}",
                expected=f"at most {self._size - self._at}, what is left of the file",
            )
        read = self._file.read(count)
        if len(read) < count:
            raise broken(self._name, "ended while it was read", seen=f"byte {self._at + len(read)}")
        self._at += count
        return read

    def _skip(self, count: int, of_what: str) -> None:
        if count > self._size - self._at:
            self._bytes(count, of_what)
        self._file.seek(count, 1)
        self._at += count

    def _number(self, form: str) -> int | float | bool:
        number: int | float | bool = struct.unpack(form, self._bytes(struct.calcsize(form), "a number"))[0]
        return number

    def _text(self, most: int, of_what: str) -> str:
        length = int(self._number("<Q"))
        if length > most:
            raise broken(
                self._name, "has a text that is too long", seen=f"{of_what}: {length} bytes", expected=f"at most {most}"
            )
        return self._bytes(length, of_what).decode("utf-8", errors="replace")

    def _value(self, key: str, metadata: dict[str, object]) -> Value:
        kind = int(self._number("<I"))
        if kind == _STRING:
            return self._text(_MOST_TEXT_BYTES, shown(key))
        if kind == _ARRAY:
            return self._array(key, metadata)
        if kind not in _SCALARS:
            raise broken(self._name, "has a value of an unknown type", seen=f"{shown(key)}: type {kind}")
        return self._scalar(_SCALARS[kind])

    def _scalar(self, form: str) -> int | float | bool:
        if form == "<?":
            return self._bytes(1, "a truth value") != b"\0"
        return self._number(form)

    def _array(self, key: str, metadata: dict[str, object]) -> Value:
        kind, count = int(self._number("<I")), int(self._number("<Q"))
        metadata[f"{key}.length"] = count
        if kind == _STRING:
            if key == "tokenizer.ggml.tokens":
                self._tokens_at = self._at
            self._skip_texts(count, key)
            return None
        if kind not in _SCALARS:
            raise broken(
                self._name, "has an array of a type that arrays cannot have", seen=f"{shown(key)}: type {kind}"
            )
        form = _SCALARS[kind]
        if count <= _SHORT_ARRAY:
            return tuple(self._scalar(form) for _ in range(count))
        self._skip(count * struct.calcsize(form), f"the array {shown(key)}")
        return None

    def _skip_texts(self, count: int, key: str) -> None:
        self._bounded(count, 8, _MOST_ITEMS - self._items, f"texts in {shown(key)}")
        self._items += count
        self._pass_texts(count, f"a text of {shown(key)}")

    def _pass_texts(self, count: int, of_what: str) -> None:
        """Goes past `count` texts; written for a million of them."""
        read = self._file.read
        for _ in range(count):
            length = int.from_bytes(read(8), "little")
            self._at += 8
            if length > _SHORT_TEXT or length > self._size - self._at:
                self._skip(length, of_what)
            else:
                read(length)
                self._at += length
        if self._at > self._size:
            raise broken(self._name, "is cut off, or its header lies", seen=f"{of_what} beyond the file's end")

    def _description(self) -> tuple[str, tuple[int, ...], int, int]:
        """A tensor's name, its shape, its type's number and where it begins."""
        name = self._text(_MOST_NAME_BYTES, "the name of a tensor")
        dimensions = int(self._number("<I"))
        if dimensions > _MOST_DIMENSIONS:
            raise broken(
                self._name,
                "has a tensor of too many dimensions",
                seen=f"{shown(name)}: {dimensions}",
                expected=f"at most {_MOST_DIMENSIONS}",
            )
        inner_first = [int(self._number("<Q")) for _ in range(dimensions)]
        return name, tuple(reversed(inner_first)), int(self._number("<I")), int(self._number("<Q"))

    def _placed(
        self, described: list[tuple[str, tuple[int, ...], int, int]], metadata: dict[str, object]
    ) -> dict[str, Tensor]:
        """The tensors with their sizes, each inside the file and none over another."""
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise broken(self._name, "has an impossible alignment", seen=shown(alignment), expected="a power of two")
        begin = -(-self._at // alignment) * alignment
        room = max(0, self._size - begin)
        tensors: dict[str, Tensor] = {}
        end = 0
        for name, shape, number, offset in sorted(described, key=lambda one: one[3]):
            tensor = self._sized(name, shape, number)
            if offset < end:
                raise broken(
                    self._name,
                    "tensors overlap",
                    seen=f"{shown(name)} begins at byte {offset}",
                    expected=f"byte {end} or later, where the one before it ends",
                )
            end = offset + tensor.size_bytes
            if end > room:
                raise broken(
                    self._name,
                    "is cut off, or its header lies",
                    seen=f"{shown(name)} ends at byte {end} of the tensors",
                    expected=f"at most {room}, the file's own size",
                )
            tensors[name] = tensor
        return tensors

    def _sized(self, name: str, shape: tuple[int, ...], number: int) -> Tensor:
        if number not in _TYPES:
            raise broken(self._name, "has a tensor of an unknown type", seen=f"{shown(name)}: type {number}")
        dtype, block, block_bytes = _TYPES[number]
        values = math.prod(shape)
        if (shape[-1] if shape else 1) % block:
            raise broken(
                self._name,
                "a tensor's rows are no whole blocks of its type",
                seen=f"{shown(name)}: {list(shape)}",
                expected=f"rows of a multiple of {block} for {dtype}",
            )
        return Tensor(dtype, shape, values // block * block_bytes)

    def _marks(self, metadata: dict[str, object]) -> None:
        """Puts the texts of the first and the last token of a sequence beside their numbers."""
        keys = {
            key.removesuffix("_id"): number
            for key in ("tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id")
            if isinstance(number := metadata.get(key), int)
        }
        count = metadata.get("tokenizer.ggml.tokens.length")
        for key, number in keys.items():
            if self._tokens_at is not None and isinstance(count, int) and 0 <= number < count:
                metadata[f"{key}.text"] = self._token(self._tokens_at, number)

    def _token(self, at: int, number: int) -> str:
        self._file.seek(at)
        self._at = at
        self._pass_texts(number, "a token")
        return self._text(_MOST_TEXT_BYTES, "a token")
