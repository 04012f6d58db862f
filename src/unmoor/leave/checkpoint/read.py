"""Reads a checkpoint: a folder, or one file; headers and configuration only, no byte of a tensor, no line of code."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unmoor.core.errors import UsageError, WorldError
from unmoor.core.plural import plural
from unmoor.leave.checkpoint.bounded import BrokenFileError, shown
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Problem, Quantisation
from unmoor.leave.checkpoint.folder import PICKLES, ModelFolder, list_folder
from unmoor.leave.checkpoint.gguf_header import file_type_name, read_gguf
from unmoor.leave.checkpoint.hf_config import CONFIG, ConfigFiles
from unmoor.leave.checkpoint.quantisation import from_tensors, kv_scale_count, misfit, sayings
from unmoor.leave.checkpoint.safetensors_header import read_safetensors
from unmoor.leave.checkpoint.shard_index import INDEX, misplaced, missing_shards, read_index
from unmoor.leave.checkpoint.tensors import Tensor, WeightsHeader

_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.\w+)$")
_LITTLE = 1_000_000
_MOST_NAMED = 5
_OTHER_CONFIGS = ("params.json",)
"""What a model has in config.json's place where its makers do not use Hugging Face's format."""
ADAPTER_CONFIG = "adapter_config.json"
_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


def read_checkpoint(path: Path, *, where: str | None = None) -> Checkpoint:
    """What the files at `path` say of a model; what is wrong with them is in `problems`.

    Raises UsageError where there is no such folder or file, or nothing in it that belongs to a model, and WorldError
    where it may not be read.
    """
    where = where or str(path)
    try:
        if path.is_dir():
            return _folder(list_folder(path), where)
        if path.exists():
            return _file(path, where)
    except OSError as failure:
        raise WorldError(
            "the model cannot be read", where=where, seen=failure.strerror or str(failure), expected="readable files"
        ) from None
    raise UsageError(
        "there is no such model",
        where=where,
        seen="a link that leads nowhere, or in a circle" if path.is_symlink() else str(path),
        expected="a folder with config.json and weights, or a GGUF file",
        hint="a model's name on a hub is not enough: name the folder in which its files are",
    )


def _file(path: Path, where: str) -> Checkpoint:
    ending = path.suffix.lower()
    if ending == ".gguf":
        return _gguf(path, list_folder(path.parent), [path.name])
    if ending == ".safetensors":
        headers, problems = _headers([path.name], path.parent)
        return _from_safetensors(str(path), ConfigFiles(ModelFolder(path.parent, ())), headers, problems)
    if ending in PICKLES:
        return Checkpoint(
            path=str(path),
            container="pickle",
            architecture="",
            dtype="",
            quantisation=Quantisation(scheme="unknown"),
            pickles=(path.name,),
        )
    raise UsageError(
        "this is no file of weights",
        where=where,
        seen=path.name,
        expected="a .gguf or .safetensors file, or a model's folder",
        hint="name the folder in which the model's files are",
    )


def _folder(folder: ModelFolder, where: str) -> Checkpoint:
    ggufs = [name for name in folder.ending(".gguf") if not name.startswith("mmproj")]
    weights = folder.ending(".safetensors")
    if ggufs and not weights and CONFIG not in folder.names:
        return _gguf(folder.path(_one_gguf(ggufs, where)), folder, ggufs)
    if ADAPTER_CONFIG in folder.names and CONFIG not in folder.names:
        raise UsageError(
            "this is an adapter, not a model",
            where=where,
            seen=ADAPTER_CONFIG,
            expected="the folder of the model that it is for",
            hint=f"name the model, and the adapter with --adapter {where}",
        )
    if not weights and not folder.pickled_weights and CONFIG not in folder.names:
        raise UsageError(
            "there is no model in this folder",
            where=where,
            seen=_contents(folder),
            expected=f"{CONFIG} and .safetensors files, or a .gguf file",
            hint=_within(folder),
        )
    if ggufs and not weights and not folder.pickled_weights:
        return _gguf(folder.path(_one_gguf(ggufs, where)), folder, ggufs)
    files = ConfigFiles(folder)
    headers, problems = _weights(folder, weights)
    found = _from_safetensors(str(folder.root), files, headers, [*folder.problems, *problems])
    changes: dict[str, Any] = {"pickles": folder.pickles}
    if not any(name in folder.names for name in (CONFIG, *_OTHER_CONFIGS)):
        if not weights:
            changes["quantisation"] = Quantisation(scheme="unknown")
        nothing = Problem(
            file=str(folder.root),
            what=f"has no {CONFIG}",
            seen="weights alone",
            expected="the configuration, which says what model the weights are",
            fatal=True,
        )
        changes["problems"] = (*found.problems, nothing)
    if not weights:
        changes["container"] = "pickle" if folder.pickled_weights else "none"
        changes["shards"] = len(folder.pickled_weights)
        if not folder.pickled_weights and INDEX not in folder.names:
            nothing = Problem(
                file=str(folder.root), what="has no weights", seen=f"{CONFIG} alone", expected="weights", fatal=True
            )
            changes["problems"] = (*found.problems, nothing)
    return msgspec.structs.replace(found, **changes)


def _contents(folder: ModelFolder) -> str:
    if not folder.names:
        return "an empty folder"
    return f"{plural(len(folder.names), 'file')}, none of them weights or {CONFIG} at its top"


def _within(folder: ModelFolder) -> str | None:
    """Where in the folder models or adapters are, so that the user can name one; None where there are none."""
    inner = [name.rpartition("/")[0] for name in folder.names if name.endswith((f"/{CONFIG}", ".gguf"))]
    if inner:
        return f"name a folder in it: {', '.join(shown(name) for name in dict.fromkeys(inner[:_MOST_NAMED]))}"
    if any(name.endswith(f"/{ADAPTER_CONFIG}") for name in folder.names):
        return "adapters are given with --adapter, beside the model that they are for"
    return None


def _weights(folder: ModelFolder, there: list[str]) -> tuple[list[WeightsHeader], list[Problem]]:
    """The headers of the folder's files of weights, and what is wrong with them or their index."""
    if INDEX not in folder.names:
        named = [name for name in there if name.startswith("model")] or there
        headers, problems = _headers(named, folder.root)
        return headers, [*_incomplete(there), *problems]
    try:
        weight_map = read_index(folder.path(INDEX))
    except BrokenFileError as error:
        headers, problems = _headers(there, folder.root)
        return headers, [error.problem, *problems]
    wanted = [name for name in there if name in set(weight_map.values())]
    headers, problems = _headers(wanted, folder.root)
    return headers, [*missing_shards(weight_map, there), *misplaced(weight_map, headers), *problems]


def _headers(names: Iterable[str], root: Path) -> tuple[list[WeightsHeader], list[Problem]]:
    headers, problems = [], []
    for name in names:
        try:
            headers.append(read_safetensors(root / name, name))
        except BrokenFileError as error:
            problems.append(error.problem)
    return headers, problems


def _incomplete(names: Iterable[str]) -> list[Problem]:
    """Files numbered "2 of 5" whose neighbours are not there; for weights without an index."""
    found: dict[tuple[str, str, str], set[int]] = {}
    for name in names:
        if told := _SHARD.match(name):
            found.setdefault((told["stem"], told["count"], told["ending"]), set()).add(int(told["number"]))
    problems = []
    for (stem, count, ending), numbers in found.items():
        absent = sorted(set(range(1, min(int(count), _LITTLE) + 1)) - numbers)
        if absent:
            are = "is" if len(absent) == 1 else "are"
            problems.append(
                Problem(
                    file=f"{stem}-*-of-{count}{ending}",
                    what=f"{len(absent)} of {int(count)} files of weights {are} missing",
                    seen=f"no {stem}-{absent[0]:05d}-of-{count}{ending}",
                    expected="all of them",
                    fatal=True,
                )
            )
    return problems


def _from_safetensors(
    path: str, files: ConfigFiles, headers: list[WeightsHeader], problems: list[Problem]
) -> Checkpoint:
    tensors = {name: tensor for header in headers for name, tensor in header.tensors.items()}
    said = sayings(files.config or {}, files.modelopt, config_file=CONFIG)
    found = said[0] if said else from_tensors(tensors)
    scales = kv_scale_count(tensors)
    if found.kv_cache:
        found = msgspec.structs.replace(found, kv_scales=scales > 0)
    templates = files.templates()
    template_from, template = next(iter(templates.items()), ("", None))
    eos_in = files.eos_in()
    name = files.says("_name_or_path")
    return Checkpoint(
        path=path,
        container="safetensors",
        name=name if isinstance(name, str) else "",
        architecture=files.architecture,
        dtype=files.dtype or _dtype(tensors),
        quantisation=found,
        **_counted(tensors),
        shards=len(headers),
        remote_code=files.remote_code(),
        chat_template=template,
        chat_template_from=template_from,
        chat_templates={name: _sha256(text.strip()) for name, text in templates.items()},
        bos_token=files.bos_token,
        bos_id=files.number("bos_token_id"),
        adds_bos=files.adds_bos,
        eos_in=eos_in,
        eos_ids=_all_ids(eos_in),
        vocab_size=files.number("vocab_size"),
        context_tokens=files.number("max_position_embeddings"),
        generation=dict(files.generation or {}),
        has_tokenizer=files.has_tokenizer,
        hashes={file: hashlib.sha256(content).hexdigest() for file, content in sorted(files.contents.items())},
        kv_scale_tensors=scales,
        ties_embeddings=_truth(files.says("tie_word_embeddings")),
        problems=(*problems, *files.problems, *_unlike(found, tensors), *_disagreeing(said)),
    )


def _unlike(found: Quantisation, tensors: Mapping[str, Tensor]) -> Iterator[Problem]:
    """Where the configuration and the tensors do not say the same of quantisation."""
    seen, expected = misfit(found, tensors)
    if seen:
        what = f"says that weights are of {shown(found.method)}, and the tensors are not"
        yield Problem(file=found.said_in, what=what, seen=seen, expected=expected, fatal=True)
    elif found.said_in == "tensors":
        what = "no file says how the weights are quantised"
        yield Problem(file=CONFIG, what=what, seen=f"tensors as of {found.scheme}", expected="quantization_config")
    elif (
        found.scheme not in _QUANTISED_WHEN_LOADED and tensors and all(one.dtype in _DTYPES for one in tensors.values())
    ):
        types = ", ".join(sorted({one.dtype for one in tensors.values()}))
        what = f"says that weights are quantised ({shown(found.scheme)}), and no tensor is"
        yield Problem(file=found.said_in, what=what, seen=f"tensors of {types}", expected="quantised weights")


def _disagreeing(said: list[Quantisation]) -> Iterator[Problem]:
    """Where two files tell of different schemes: an engine that reads the other one fails, or loads nonsense."""
    if len({one.scheme for one in said}) > 1:
        yield Problem(
            file=said[0].said_in,
            what="says of quantisation what another file does not",
            seen="; ".join(f"{one.said_in}: {shown(one.scheme)}" for one in said),
            expected="one scheme",
        )


_QUANTISED_WHEN_LOADED = frozenset(("none", "bitsandbytes", "torchao", "hqq"))
"""Methods whose configuration may ask for plain weights to be quantised while they are loaded."""


def _gguf(path: Path, folder: ModelFolder, ggufs: list[str]) -> Checkpoint:
    """A GGUF file, with the other parts where it was split."""
    told = _SHARD.match(path.name)
    names = [name for name in ggufs if told and name.startswith(f"{told['stem']}-")] or [path.name]
    if told:
        names = [name for name in folder.ending(".gguf") if _SHARD.match(name) and name.startswith(f"{told['stem']}-")]
    headers, problems = [], [*_incomplete(names), *(one for one in folder.problems if path.name in one.seen)]
    for name in names:
        try:
            headers.append(read_gguf(path.parent / name, name))
        except BrokenFileError as error:
            problems.append(error.problem)
    tensors = {name: tensor for header in headers for name, tensor in header.tensors.items()}
    metadata: Mapping[str, object] = headers[0].metadata if headers else {}
    if not problems:
        problems += _unusable(path.name, metadata, tensors, len(headers))
    return _from_gguf(str(path), metadata, tensors, len(headers), problems)


def _unusable(name: str, metadata: Mapping[str, object], tensors: Mapping[str, Tensor], read: int) -> Iterator[Problem]:
    """What keeps every engine from a GGUF model whose header can be read: parts, tensors or the architecture lack.

    `split.count` as gguf-split writes it (github.com/ggml-org/llama.cpp, tools/gguf-split, seen 2026-12-01).
    """
    parts = _whole(metadata.get("split.count")) or 1
    if parts > read:
        yield Problem(
            file=name,
            what=f"{parts - read} of {parts} files of weights {'is' if parts - read == 1 else 'are'} missing",
            seen=f"split.count: {parts}, and {plural(read, 'file')}",
            expected="all of them, in one folder",
            fatal=True,
        )
    elif not tensors:
        yield Problem(file=name, what="has no tensors", seen="metadata alone", expected="weights", fatal=True)
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture.isascii() or not architecture.isprintable():
        yield Problem(
            file=name,
            what="does not say what architecture it is",
            seen=f"general.architecture: {shown(architecture)}",
            expected="a name in ASCII, such as llama",
            fatal=True,
        )


def _from_gguf(
    path: str, metadata: Mapping[str, object], tensors: Mapping[str, Tensor], shards: int, problems: list[Problem]
) -> Checkpoint:
    architecture = _text(metadata.get("general.architecture"))
    file_type = file_type_name(metadata.get("general.file_type"))
    ends = {key: (number,) for key in _GGUF_ENDS if (number := _whole(metadata.get(key))) is not None}
    template = metadata.get("tokenizer.chat_template")
    plain = file_type in _PLAIN or (bool(tensors) and all(tensor.dtype in _PLAIN for tensor in tensors.values()))
    return Checkpoint(
        path=path,
        container="gguf",
        name=_text(metadata.get("general.name")),
        architecture=architecture,
        dtype=_dtype(tensors) if plain else "",
        quantisation=Quantisation(scheme="gguf", method=file_type, said_in=Path(path).name),
        **_counted(tensors),
        shards=shards,
        chat_template=template if isinstance(template, str) else None,
        chat_template_from=Path(path).name if isinstance(template, str) else "",
        bos_token=_text(metadata.get("tokenizer.ggml.bos_token.text")) or None,
        bos_id=_whole(metadata.get("tokenizer.ggml.bos_token_id")),
        adds_bos=_truth(metadata.get("tokenizer.ggml.add_bos_token")),
        eos_in=ends,
        eos_ids=_all_ids(ends),
        vocab_size=_whole(metadata.get("tokenizer.ggml.tokens.length")),
        context_tokens=_whole(metadata.get(f"{architecture}.context_length")),
        has_tokenizer="tokenizer.ggml.model" in metadata,
        file_type=file_type,
        problems=tuple(problems),
    )


_GGUF_ENDS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
_PLAIN = ("F32", "F16", "BF16")


def _one_gguf(names: list[str], where: str) -> str:
    """The one model in the folder: a file, or the first part of a split one. Raises UsageError for several."""
    first = [name for name in names if not (told := _SHARD.match(name)) or int(told["number"]) == 1]
    if len(first) > 1:
        raise UsageError(
            "there are several models in this folder",
            where=where,
            seen=", ".join(first[:5]),
            expected="one",
            hint="name one of the files",
        )
    return first[0] if first else names[0]


def _counted(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {
        "tensors": dict(sorted(Counter(tensor.dtype for tensor in tensors.values()).items())),
        "weight_bytes": sum(tensor.size_bytes for tensor in tensors.values()),
        "shape_of": {name: tensor.shape for name, tensor in tensors.items()},
    }


def _dtype(tensors: Mapping[str, Tensor]) -> str:
    """The type of most bytes among those of 16 and more bits; empty where there are none."""
    taken: Counter[str] = Counter()
    for tensor in tensors.values():
        if tensor.dtype in _DTYPES:
            taken[_DTYPES[tensor.dtype]] += tensor.size_bytes
    return taken.most_common(1)[0][0] if taken else ""


def _all_ids(eos_in: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({number for ids in eos_in.values() for number in ids}))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
