from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_command_line_page_is_what_the_verbs_say() -> None:
    program = "import runpy; print(runpy.run_path('scripts/build_cli_reference.py')['page'](), end='')"
    made = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs" / "reference" / "cli.md").read_text() == made, "run: python scripts/build_cli_reference.py"
