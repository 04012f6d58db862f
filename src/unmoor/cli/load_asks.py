"""What `unmoor load` asks for: the endpoint, the form of the answers, and whose they are to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from unmoor.cli.option_group import Decorator, option_group
from unmoor.cli.path_name import PATH_NAME
from unmoor.cli.positive_number import zero_or_more
from unmoor.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from unmoor.core.errors import UsageError
    from unmoor.engines.wire import AnswerForm, Endpoint
    from unmoor.measure.adapter_mix import AdapterMix
    from unmoor.measure.load_report import Asked

_MOST_CHOICES = 128
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


ask_options: Decorator = option_group(
    "asks",
    AskOptions,
    [
        click.option("--endpoint", type=click.Choice(_ENDPOINTS), default="chat", show_default=True),
        click.option("--no-stream", is_flag=True, help="Answers in one piece: they have no time to first token."),
        click.option("--n", type=WholeNumber(1, _MOST_CHOICES), default=1, metavar="N", help="N choices each. [1]"),
        click.option("--schema", type=PATH_NAME, metavar="FILE", help="Answers are to fit this JSON schema."),
        click.option(
            "--tools", type=PATH_NAME, metavar="FILE", help="Tools to offer: a JSON list, as in chat requests."
        ),
        click.option(
            "--tool-choice",
            metavar="CHOICE",
            help="auto, none, required, or the name of the tool to call; with --tools.",
        ),
        click.option(
            "--adapters",
            metavar="NAME,...",
            help="Names to ask in turn at random, instead of --model: a=3,b=1 by weight.",
        ),
        click.option(
            "--adapters-zipf",
            type=zero_or_more,
            metavar="S",
            help="Weights fall as 1 / rank^S, in the order of --adapters.",
        ),
    ],
)


def form_of(options: AskOptions) -> AnswerForm:
    """What the answers are to be. Raises UsageError for files that are none, and for what the endpoint cannot do."""
    from unmoor.core.errors import UsageError
    from unmoor.engines.wire import AnswerForm

    if options.tools is not None and options.endpoint == "completions":
        raise _not_together("--tools", "completions", "chat or responses")
    if options.n > 1 and options.endpoint == "responses":
        raise _not_together("--n", "responses", "chat or completions")
    tools = None if options.tools is None else _tools(options.tools)
    if options.tool_choice is not None:
        names = {"auto", "none", "required", *(tools or {})}
        if tools is None or options.tool_choice not in names:
            raise UsageError(
                "no such tool to choose",
                where="--tool-choice",
                seen=options.tool_choice if tools is not None else "--tool-choice without --tools",
                expected=", ".join(sorted(names)),
                hint="--tools FILE says which tools there are",
            )
    return AnswerForm(
        stream=not options.no_stream,
        n=options.n,
        schema=None if options.schema is None else _schema(options.schema),
        tools=None if options.tools is None else _bytes(options.tools, "--tools"),
        tool_choice=options.tool_choice,
    )


def mix_of(options: AskOptions, *, model_given: bool) -> AdapterMix | None:
    """Whose answers are asked for, by weight; None where all are the model's. Raises UsageError for what is no mix."""
    from unmoor.core.errors import UsageError
    from unmoor.measure.adapter_mix import AdapterMix

    if options.adapters is None:
        if options.adapters_zipf is not None:
            raise UsageError(
                "weights of nothing",
                where="--adapters-zipf",
                seen="--adapters-zipf without --adapters",
                expected="both",
                hint="--adapters a,b,c names those that the weights are of",
            )
        return None
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
    return AdapterMix(weights=weights)


def asked_of(form: AnswerForm, mix: AdapterMix | None) -> Asked:
    """What the report says was asked."""
    import msgspec

    from unmoor.measure.load_report import Asked

    return Asked(
        stream=form.stream,
        choices=form.n,
        schema=form.schema is not None,
        tools=0 if form.tools is None else len(msgspec.json.decode(form.tools)),
        tool_choice=form.tool_choice,
        adapters={} if mix is None else mix.weights,
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


def _schema(path: Path) -> bytes:
    import msgspec

    from unmoor.core.errors import UsageError
    from unmoor.leave.schemas.files import read_schemas

    if path.is_dir():
        raise UsageError(
            "a folder is no schema",
            where=f"--schema {path}",
            seen="a folder",
            expected="one file",
            hint="name a file in it",
        )
    return msgspec.json.encode(read_schemas(path).constraints[0].content)


def _tools(path: Path) -> dict[str, object]:
    """The tools of a file by name."""
    import msgspec

    try:
        listed = msgspec.json.decode(_bytes(path, "--tools"))
        return {_name(tool): tool for tool in listed}
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
