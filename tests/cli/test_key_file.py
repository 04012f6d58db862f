from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unmoor.cli.key_file import key_from
from unmoor.core.errors import UsageError


def test_without_a_file_every_key_is_fresh_and_none_is_written(tmp_path: Path) -> None:
    assert len(key_from(None)) == 32
    assert key_from(None) != key_from(None)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_made_for_its_owner_only_and_gives_the_same_key_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        key = key_from(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert key_from(path) == key
    assert path.read_text() == key.hex() + "\n"


@pytest.mark.parametrize(
    ("content", "mode", "seen"),
    [
        ("ab" * 32 + "\n", 0o640, "a file that others can use (mode 0640)"),
        ("ab" * 32 + "\n", 0o602, "a file that others can use (mode 0602)"),
        ("ab" * 31 + "\n", 0o600, "a file with something else in it"),
        ("ab" * 33, 0o600, "a file with something else in it"),
        ("AB" * 32, 0o600, "a file with something else in it"),
        ("secret é" * 8, 0o600, "a file with something else in it"),
        ("", 0o600, "a file with something else in it"),
    ],
)
def test_a_file_that_others_can_use_or_that_is_no_key_is_refused_unseen(
    tmp_path: Path, content: str, mode: int, seen: str
) -> None:
    path = tmp_path / "key"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(UsageError, match="no key to hash names with") as refused:
        key_from(path)
    assert refused.value.seen == seen
    assert "abab" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert path.read_text() == content


@pytest.mark.parametrize("name", ["no/such/folder/key", "."])
def test_a_place_where_no_key_can_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no key to hash names with"):
        key_from(tmp_path / name)


def test_a_key_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    kept = tmp_path / "key"
    code = f"from pathlib import Path; from unmoor.cli.key_file import key_from; key_from(Path({str(kept)!r}))"
    full = ["/bin/bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$0" -B -c "$1"', sys.executable, code]
    done = subprocess.run(full, capture_output=True, check=False)
    assert b"no key to hash names with" in done.stderr
    assert not kept.exists()
