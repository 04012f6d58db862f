"""Reads the index of weights in several files, and compares it with the files that are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from unmoor.leave.checkpoint.bounded import broken, read_whole, shown
from unmoor.leave.checkpoint.checkpoint import Problem
from unmoor.leave.checkpoint.tensors import WeightsHeader

INDEX = "model.safetensors.index.json"
_MOST_INDEX_BYTES = 100_000_000
_MOST_NAMED = 5


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]


_DECODER = msgspec.json.Decoder(_Index)


def read_index(path: Path, name: str = INDEX) -> dict[str, str]:
    """Each tensor's file. Raises BrokenFileError for an index that is none, or that names a file elsewhere."""
    content = read_whole(path, name, most=_MOST_INDEX_BYTES)
    try:
        weight_map = _DECODER.decode(content).weight_map
    except RecursionError:
        raise broken(name, "is nested too deeply", expected="weight_map: each tensor's file") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        raise broken(
            name, "is not an index of weights", seen=shown(failure), expected="weight_map: each tensor's file"
        ) from None
    if not weight_map:
        raise broken(name, "names no tensor", seen="an empty weight_map", expected="weight_map: each tensor's file")
    for file in set(weight_map.values()):
        if "/" in file or "\\" in file or "\0" in file or file in {"", ".", ".."}:
            raise broken(name, "names a file outside its folder", seen=shown(file), expected="a name in this folder")
    return weight_map


def missing_shards(weight_map: Mapping[str, str], there: Iterable[str], name: str = INDEX) -> list[Problem]:
    """One problem that names the files which the index wants and which are not there; none where all are."""
    wanted = sorted(set(weight_map.values()))
    missing = [file for file in wanted if file not in set(there)]
    if not missing:
        return []
    are = "is" if len(missing) == 1 else "are"
    return [
        Problem(
            file=name,
            what=f"{len(missing)} of {len(wanted)} files of weights {are} missing",
            seen=f"no {_named(missing)}",
            expected=f"all {len(wanted)} files that the index names",
            fatal=True,
        )
    ]


def misplaced(weight_map: Mapping[str, str], headers: Iterable[WeightsHeader], name: str = INDEX) -> list[Problem]:
    """Tensors that are not in the file in which the index has them, of the files that could be read."""
    read = {header.file: header for header in headers}
    where = {tensor: header.file for header in read.values() for tensor in header.tensors}
    absent = [one for one, file in weight_map.items() if file in read and one not in read[file].tensors]
    gone = [tensor for tensor in absent if tensor not in where]
    wrong = [tensor for tensor in absent if tensor in where]
    problems = []
    unnamed = [tensor for tensor in where if tensor not in weight_map]
    if gone:
        problems.append(Problem(file=name, what=f"{_count(gone)} in no file", seen=_named(gone), fatal=True))
    if wrong:
        first = wrong[0]
        problems.append(
            Problem(
                file=name,
                what=f"{_count(wrong)} in another file than the index says",
                seen=f"{shown(first)} in {shown(where[first])}",
                expected=shown(weight_map[first]),
                fatal=True,
            )
        )
    if unnamed:
        problems.append(Problem(file=name, what=f"{_count(unnamed)} not in the index", seen=_named(unnamed)))
    return problems


def _count(names: list[str]) -> str:
    return "1 tensor is" if len(names) == 1 else f"{len(names)} tensors are"


def _named(names: list[str]) -> str:
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(shown(one) for one in names[:_MOST_NAMED]) + more
