"""An engine's surface as plain text: statements in groups, each with its source's mark, and the sources at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from unmoor.engines.surface.load import surface
from unmoor.engines.surface.surface import (
    HOW_SAID,
    Answer,
    Domain,
    Flag,
    Metric,
    Parsers,
    Route,
    Scalar,
    Spelling,
    Start,
    Support,
    Surface,
    Trait,
)
from unmoor.report.layout import heading, wrapped

_NAME = 28
_NONE = "no such thing"
_BOTH = ("chat", "completions")


class Line(NamedTuple):
    """One statement: of what, in words, and the key of its source."""

    name: str
    words: str
    source: str


def render_known(known: Mapping[str, Sequence[str]]) -> str:
    """Every engine whose surface is known, with its versions, the newest first, and the day of each."""
    lines = ["engines whose surface is known"]
    for engine, versions in known.items():
        dated = (f"{version} (as of {surface(f'{engine}@{version}').as_of})" for version in reversed(versions))
        lines.append(f"  {engine:<16}{', '.join(dated)}")
    return "\n".join(
        [*lines, "", "`unmoor engines surface ENGINE[@VERSION]` shows one; what it leaves out is unknown."]
    )


def render(shown: Surface) -> str:
    """The whole surface but for its options, 100 columns wide, without colour."""
    lines = [f"{shown.title} {shown.version}, as of {shown.as_of.isoformat()}"]
    lines += [line for caveat in shown.caveats for line in wrapped(caveat.text, "  ! ")]
    for title, statements in _groups(shown):
        if told := list(statements):
            lines += ["", heading(title), *(line for one in told for line in _told(one))]
    lines += ["", heading("Sources")]
    for key, source in shown.sources.items():
        text = f"{HOW_SAID[source.how]}: {source.what} ({source.version}, {source.seen.isoformat()})"
        lines += wrapped(text, f"  {f'[{key}]':<{_NAME}}")
    lines += ["", f"{len(shown.options):,} options of its command line, and all of the above: --json"]
    return "\n".join(lines)


def _told(line: Line) -> list[str]:
    mark = f" [{line.source}]" if line.source else ""
    return wrapped(line.words + mark, f"  {line.name:<{_NAME - 2}}  ", at_hyphens=False)


def _groups(shown: Surface) -> Iterator[tuple[str, Iterable[Line]]]:
    yield "Requests", _requests(shown)
    yield "Domains", (Line(name, _domain(one), one.source) for name, one in shown.domains.items())
    yield "Behaviour", (Line(name, _trait(one), one.source) for name, one in shown.traits.items())
    yield "Routes", (Line(name, _route(one), one.source) for name, one in shown.routes.items())
    yield "Errors", (Line(name, _answer(one), one.source) for name, one in shown.errors.items())
    yield "Metrics", (Line(name, _metric(one), one.source) for name, one in shown.metrics.items())
    if shown.start is not None:
        yield "Started by", [Line("command", _start(shown.start), shown.start.source)]
    yield "Flags", (Line(name, _flag(one), one.source) for name, one in shown.flags.items())
    yield "Flags that are gone", (Line(name, instead, "") for name, instead in shown.gone_flags.items())
    yield "Parsers", (Line(name, _parsers(one), one.source) for name, one in shown.parsers.items())
    yield "Schemas", (Line(name, _support(one), one.source) for name, one in shown.schema.items())
    yield "Adapters", (Line(name, _support(one), one.source) for name, one in shown.adapter.items())
    yield "Checkpoints", (line for scheme, rows in shown.checkpoint.items() for line in _checkpoint(scheme, rows))
    yield (
        "Quantised by",
        (
            Line(f"{method} {form}", _support(one), one.source)
            for method, forms in shown.quant_methods.items()
            for form, one in forms.items()
        ),
    )


def _requests(shown: Surface) -> Iterator[Line]:
    for endpoint, fields in shown.fields.items():
        yield Line(f"fields of {endpoint}", ", ".join(fields), "")
    yield Line("any other field", _trait(shown.unknown_fields), shown.unknown_fields.source)
    for name, one in shown.spellings.items():
        yield Line(name, _spelling(one), one.source)


def _spelling(one: Spelling) -> str:
    if one.absent:
        return _joined(_NONE, one.note)
    at = one.path if one.value is None else f"{one.path} = {_scalar(one.value)}"
    return _joined(
        at,
        one.payload and f"content at {one.payload}",
        one.also and f"also {', '.join(one.also)}",
        f"in {', '.join(one.endpoints)}" if one.endpoints != _BOTH else "",
        one.needs and f"needs {one.needs}",
        one.note,
    )


def _domain(one: Domain) -> str:
    low = "" if one.low is None else f"{_number(one.low)} {'<' if one.low_open else '<='} "
    high = "" if one.high is None else f" {'<' if one.high_open else '<='} {_number(one.high)}"
    return _joined(
        f"{low}x{high}" if low or high else "",
        one.only and f"one of {_scalars(one.only)}",
        one.also and f"also {_scalars(one.also)}",
        one.off and f"off at {_scalars(one.off)}",
        f"else {one.outside}" if low or high or one.only else "",
        one.note,
    )


def _trait(one: Trait) -> str:
    value = "no bound" if one.value is None else _scalar(one.value)
    return _joined(value, one.says.rstrip("."), one.flag and f"by {one.flag}")


def _route(one: Route) -> str:
    path = f"{one.method} {one.path}" if one.path else _NONE
    return _joined(path, one.needs and f"needs {one.needs}", one.note)


def _answer(one: Answer) -> str:
    return _joined(f"{one.status or 'no answer'}", one.body, one.note)


def _metric(one: Metric) -> str:
    return _joined(
        ", ".join(one.names) or _NONE,
        one.unit and f"in {one.unit}",
        one.formerly and f"formerly {', '.join(one.formerly)}",
        one.buckets and f"buckets to {', '.join(f'{bound:g}' for bound in one.buckets)}",
        one.needs and f"needs {one.needs}",
        one.note,
    )


def _flag(one: Flag) -> str:
    return _joined(
        ", ".join(one.names) or _NONE,
        "in the configuration file" if one.in_file else "",
        one.default and f"default {one.default}",
        one.kind if one.kind != "switch" else "",
        one.unit and f"in {one.unit}",
        one.on and f"on by {one.on}",
        one.off and f"off by {one.off}",
        one.note,
    )


def _start(one: Start) -> str:
    return _joined(
        one.command,
        one.also and f"or {', or '.join(one.also)}",
        one.images and f"images {', '.join(one.images)}",
        "the model is its first argument" if one.model_first else "",
    )


def _parsers(one: Parsers) -> str:
    return f"tools {', '.join(one.tool) or 'none'}; thinking {', '.join(one.reasoning) or 'none'}"


def _support(one: Support) -> str:
    return _joined(one.value, one.note)


def _checkpoint(scheme: str, rows: Mapping[str, Support]) -> Iterator[Line]:
    """A line for each answer, with all the hardware that has it."""
    alike: dict[Support, list[str]] = {}
    for hardware, one in rows.items():
        alike.setdefault(one, []).append(hardware)
    for at, (one, those) in enumerate(alike.items()):
        yield Line("" if at else scheme, _joined(f"{one.value} on {', '.join(those)}", one.note), one.source)


def _joined(*parts: str | tuple[object, ...]) -> str:
    return "; ".join(part for part in parts if isinstance(part, str) and part)


def _scalars(values: Sequence[Scalar]) -> str:
    return ", ".join(_scalar(value) for value in values)


def _scalar(value: Scalar) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _number(value)


def _number(value: float) -> str:
    """A bound as it is written: whole numbers without a point; those of 64 bits by their power."""
    if abs(value) >= 2**62:
        return f"{'-' if value < 0 else ''}2^63"
    return f"{value:g}"
