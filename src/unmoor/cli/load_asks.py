"""What `unmoor load` asks for: the endpoint, the form of the answers, and whose they are to be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from unmoor.cli.option_group import Decorator, option_group
from unmoor.cli.path_name import PATH_NAME
from unmoor.cli.plain_text import plain_text
from unmoor.cli.positive_number import zero_or_more
from unmoor.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from unmoor.core.errors import UsageError
    from unmoor.engines.wire import AnswerForm, Endpoint
    from unmoor.measure.ask_mix import AskMix
    from unmoor.measure.figures.load_report import Asked

_MOST_CHOICES = 128
_STEEPEST = 10.0
"""Beyond it the second of two adapters is asked less than once in a thousand requests."""
_MOST_FILE_BYTES = 1 << 20
_ENDPOINTS: tuple[Endpoint, ...] = ("chat", "completions", "responses")


class AskOptions(NamedTuple):
    """What was asked for on the command line; None is a default."""

    endpoint: Endpoint
    no_stream: bool
    n: int
    schema: Path | None
    tools: Path | None
    tool_choice: str | None
    adapters: str | None
    adapters_zipf: float | None
    tokenizer: Path | None


ask_options: Decorator = option_group(
    "asks",
    AskOptions,
    [
        click.option("--endpoint", type=click.Choice(_ENDPOINTS), default="chat", show_default=True),
        click.option("--no-stream", is_flag=True, help="Answers in one piece: they have no time to first token."),
        click.option("--n", type=WholeNumber(1, _MOST_CHOICES), default=1, metavar="N", help="N choices each. [1]"),
        click.option(
            "--schema",
            type=PATH_NAME,
            metavar="PATH",
            help="Answers are to fit this JSON schema; of a folder, one of those in it.",
        ),
        click.option(
            "--tools", type=PATH_NAME, metavar="FILE", help="Tools to offer: a JSON list, as in chat requests."
        ),
        click.option(
            "--tool-choice",
            type=plain_text,
            metavar="CHOICE",
            help="auto, none, required, or the name of the tool to call; with --tools.",
        ),
        click.option(
            "--adapters",
            type=plain_text,
            metavar="NAME,...",
            help="Names to ask, drawn at random, instead of --model: a=3,b=1 by weight.",
        ),
        click.option(
            "--adapters-zipf",
            type=click.FloatRange(0, _STEEPEST),
            metavar="S",
            help="Weights fall as 1 / rank^S, in the order of --adapters.",
        ),
        click.option(
            "--tokenizer",
            type=PATH_NAME,
            metavar="DIR",
            help="Counts answers that the server does not count: the model's tokenizer.json.",
        ),
    ],
)


def forms_of(options: AskOptions) -> tuple[AnswerForm, ...]:
    """What the answers are to be, a form for each schema. Raises UsageError for what cannot be asked, or is no file."""
    from unmoor.engines.wire import AnswerForm

    if options.tools is not None and options.endpoint == "completions":
        raise _not_together("--tools", "completions", "chat or responses")
    if options.n > 1 and options.endpoint == "responses":
        raise _not_together("--n", "responses", "chat or completions")
    tools = None if options.tools is None else _bytes(options.tools, "--tools")
    _check_choice(options.tool_choice, None if options.tools is None else _names(options.tools))
    return tuple(
        AnswerForm(
            stream=not options.no_stream, n=options.n, schema=schema, tools=tools, tool_choice=options.tool_choice
        )
        for schema in ([None] if options.schema is None else _schemas(options.schema))
    )


def mix_of(options: AskOptions, forms: Sequence[AnswerForm], *, model_given: bool) -> AskMix:
    """What requests differ in: whom they ask, by weight, and which form. Raises UsageError for what is no mix."""
    from unmoor.core.errors import UsageError
    from unmoor.measure.ask_mix import AskMix

    several = tuple(forms) if len(forms) > 1 else ()
    if options.adapters is None:
        if options.adapters_zipf is not None:
            raise UsageError(
                "weights of nothing",
                where="--adapters-zipf",
                seen="--adapters-zipf without --adapters",
                expected="both",
                hint="--adapters a,b,c names those that the weights are of",
            )
        return AskMix(forms=several)
    if model_given:
        raise UsageError(
            "two ways to say who is asked",
            where="--adapters",
            seen="--adapters beside --model",
            expected="one of them",
            hint="the base model may be one of the names of --adapters",
        )
    weights = _weights(options.adapters, by_rank=options.adapters_zipf is not None)
    if options.adapters_zipf is not None:
        weights = {name: rank**-options.adapters_zipf for rank, name in enumerate(weights, start=1)}
    return AskMix(weights=weights, forms=several)


def asked_of(forms: Sequence[AnswerForm], mix: AskMix) -> Asked:
    """What the report says was asked."""
    import msgspec

    from unmoor.measure.figures.load_report import Asked

    form = forms[0]
    return Asked(
        stream=form.stream,
        choices=form.n,
        schemas=sum(one.schema is not None for one in forms),
        tools=0 if form.tools is None else len(msgspec.json.decode(form.tools)),
        tool_choice=form.tool_choice,
        adapters=mix.weights,
    )


def _weights(written: str, *, by_rank: bool) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in written.split(","):
        name, is_weighed, weight = part.strip().rpartition("=") if "=" in part else (part.strip(), "", "1")
        try:
            number = zero_or_more(weight)
        except click.BadParameter:
            raise _no_mix(part) from None
        if not name or name in found or not number or (is_weighed and by_rank):
            raise _no_mix(part)
        found[name] = number
    return found


def _no_mix(part: str) -> UsageError:
    from unmoor.core.errors import UsageError

    return UsageError(
        "no mix of names",
        where="--adapters",
        seen=part,
        expected="names parted by commas, each once, with a weight above 0 or without: a=3,b=1",
        hint="with --adapters-zipf their order alone gives the weights",
    )


def _not_together(option: str, endpoint: str, others: str) -> UsageError:
    from unmoor.core.errors import UsageError

    return UsageError(
        f"the {endpoint} endpoint does not know it",
        where=option,
        seen=f"{option} with --endpoint {endpoint}",
        expected=f"--endpoint {others}",
        hint=f"leave {option} out, or ask another endpoint",
    )


def _check_choice(choice: str | None, tools: Sequence[str] | None) -> None:
    from unmoor.core.errors import UsageError

    names = {"auto", "none", "required", *(tools or ())}
    if choice is not None and (tools is None or choice not in names):
        raise UsageError(
            "no such tool to choose",
            where="--tool-choice",
            seen=choice if tools is not None else "--tool-choice without --tools",
            expected=", ".join(sorted(names)),
            hint="--tools FILE says which tools there are",
        )


def _schemas(path: Path) -> list[bytes]:
    """The schema of a file, or those of a folder."""
    import msgspec

    from unmoor.core.errors import UsageError
    from unmoor.leave.schemas.files import read_schemas

    read = read_schemas(path)
    if read.skipped:
        raise UsageError(
            "not all are schemas",
            where=f"--schema {path}",
            seen=read.skipped[0],
            expected="a JSON schema in each file that ends in .json",
            hint="take the others out of the folder",
        )
    return [msgspec.json.encode(one.content) for one in read.constraints]


def _names(path: Path) -> list[str]:
    """The names of the tools of a file."""
    import msgspec

    try:
        listed = msgspec.json.decode(_bytes(path, "--tools"))
        return [_name(tool) for tool in listed]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, KeyError):
        from unmoor.core.errors import UsageError

        raise UsageError(
            "not tools",
            where=f"--tools {path}",
            seen="JSON of another shape, or none",
            expected='[{"type": "function", "function": {"name": ..., "parameters": {...}}}, ...]',
            hint="as `tools` of a chat completion request; the responses endpoint gets them in its own words",
        ) from None


def _name(tool: dict[str, dict[str, object]]) -> str:
    name = tool["function"]["name"]
    if not isinstance(name, str):
        raise TypeError(name)
    return name


def _bytes(path: Path, option: str) -> bytes:
    from unmoor.core.errors import UsageError

    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "it cannot be read",
            where=f"{option} {path}",
            seen=error.strerror,
            expected="a JSON file",
            hint="check its name",
        ) from None
    if len(raw) > _MOST_FILE_BYTES:
        raise UsageError(
            "too large",
            where=f"{option} {path}",
            seen="more than 1 MiB",
            expected="at most 1 MiB",
            hint="offer fewer tools",
        )
    return raw
