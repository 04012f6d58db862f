"""The shipped gateway log is what its script makes."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "examples" / "gateway-log"


def test_the_example_log_is_what_its_script_makes(tmp_path: Path) -> None:
    made = tmp_path / "made.jsonl.gz"
    subprocess.run([sys.executable, str(FOLDER / "make.py"), str(made)], check=True)
    shipped = (FOLDER / "requests.jsonl.gz").read_bytes()
    assert gzip.decompress(made.read_bytes()) == gzip.decompress(shipped)
