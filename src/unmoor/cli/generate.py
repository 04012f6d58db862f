"""`unmoor generate`: reproducible traffic from a description."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("generate")
@click.argument("description", type=click.Path(path_type=Path))
@click.option("-o", "--output", metavar="OUT", type=click.Path(path_type=Path), help="Where to write; else to stdout.")
@click.option("--force", is_flag=True, help="Replace OUT though it holds something else.")
@click.option("--json", "as_json", is_flag=True, help="Say as one JSON object what was written; needs -o.")
def command(description: Path, output: Path | None, *, force: bool, as_json: bool) -> None:
    """Make the traffic that DESCRIPTION (TOML) describes: the same bytes for the same description, anywhere."""
    import hashlib

    import msgspec

    from unmoor.cli.plan_files import read_text
    from unmoor.core.errors import PlanError, UsageError
    from unmoor.core.plan_text import read_description
    from unmoor.traffic.synthesis import synthesise, to_jsonl

    if as_json and output is None:
        raise UsageError(
            "nowhere to write the traffic",
            where="--json",
            seen="--json without -o",
            expected="-o OUT beside --json",
            hint="without --json the traffic itself goes to standard output",
        )
    hint = "examples/agents/traffic.toml is one"
    text = read_text(description, error=PlanError, expected="a description in TOML", hint=hint)
    described = read_description(text, where=str(description))
    workload = synthesise(described)
    content = to_jsonl(workload, made_by={"verb": "unmoor generate", "description": msgspec.to_builtins(described)})
    if output is None:
        click.echo(content, nl=False)
        return
    written = _write(output, content, force=force)
    report = {
        "path": str(output),
        "written": written,
        "requests": len(workload.requests),
        "bytes": len(content),
        "fingerprint": hashlib.sha256(content).hexdigest(),
    }
    said = f"{output}: {report['requests']} requests, {'written' if written else 'unchanged'}"
    click.echo(msgspec.json.encode(report) if as_json else said)


def _write(path: Path, content: bytes, *, force: bool) -> bool:
    """Whether `path` was written: not when it holds `content` already. A file is whole or not there at all."""
    import os
    import secrets

    from unmoor.core.errors import UsageError

    hint = "-o names another file; --force replaces this one"
    if path.exists() and not path.is_file():  # a device or a folder is never replaced, whoever may
        raise UsageError(
            "is no file", where=str(path), seen="a folder or a device", expected="a file, or no file yet", hint=hint
        )
    try:
        if path.exists() and path.read_bytes() == content:
            return False
        if path.exists() and not force:
            raise UsageError(
                "will not be overwritten", where=str(path), seen="other content", expected="no file yet", hint=hint
            )
        target = path.resolve(strict=path.is_symlink())  # a link stays a link: what it names is written
        part = target.with_name(f".unmoor-{secrets.token_hex(8)}.part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(content)
        part.replace(target)
    except OSError as failure:
        seen = failure.strerror or type(failure).__name__
        raise UsageError(
            "cannot be written", where=str(path), seen=seen, expected="a file in a folder that exists", hint=hint
        ) from None
    return True
