"""The environment that every page is rendered in."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jinja2


def page_environment(words: Mapping[str, Callable[..., object]]) -> jinja2.Environment:
    """Templates of this room, with `words` to call in them; what came from outside is escaped, a slip is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("unmoor.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(words)
    return environment
