"""Names of files and folders as people write them on a command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class PathName(click.Path):
    """A path, which need not be there. An empty name, as a variable that is not set leaves it, is none.

    An option's `type`. Without this it would be the folder that the verb is called in.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ANN401 - click's
        """The path. Raises BadParameter for an empty name."""
        if value == "":
            self.fail("an empty name; a variable that is not set leaves one", param, ctx)
        return Path(os.fsdecode(super().convert(value, param, ctx)))


PATH_NAME = PathName()
