"""Writes the options of engines' surfaces from captures of the engines' own argument parsers, without help sentences.

    scripts/build_surface_options.py vllm@0.32.0=captured.json ...

A capture is a JSON object: for each option its `flags`, `default` (as Python writes it) and `choices`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KNOWN = Path(__file__).parent.parent / "src" / "unmoor" / "engines" / "surface" / "known"


# vLLM's switches from 0.33 on: --no-enable-x, which it takes, is not shown beside --enable-x and --disable-x.
PAIRED = "EnableDisableAction"


def spellings(option: dict[str, Any]) -> list[str]:
    """What stands for the option on a command line, what the parser takes without showing it too."""
    shown: list[str] = option["flags"]
    if option["cls"] != PAIRED:
        return shown
    hidden = [f"--no-{shown[0].removeprefix('--')}"]
    return [*shown, *(flag for flag in hidden if flag not in shown)]


def kept(captured: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What a surface keeps of each option; what stands on the command line by its place alone is no option."""
    options = {}
    for name, option in captured.items():
        if option["flags"]:
            options[name] = {"flags": spellings(option), "default": str(option["default"])}
            if option["choices"] is not None:
                options[name]["choices"] = [str(choice) for choice in option["choices"]]
    return options


def main(arguments: list[str]) -> None:
    """Writes ENGINE@VERSION.options.json for each ENGINE@VERSION=CAPTURE, an option a line."""
    for argument in arguments:
        version, _, capture = argument.partition("=")
        options = kept(json.loads(Path(capture).read_text()))
        lines = (
            f"{json.dumps(name)}:{json.dumps(option, separators=(',', ':'), ensure_ascii=False)}"
            for name, option in options.items()
        )
        target = KNOWN / f"{version}.options.json"
        target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{target.name}: {len(options)} options")


if __name__ == "__main__":
    main(sys.argv[1:])
