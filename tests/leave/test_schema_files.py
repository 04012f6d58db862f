"""JSON schemas in files: what is read, what is left out and told, and what is one clear error."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unmoor.core.errors import UsageError
from unmoor.leave.schemas.files import MOST_FILE_BYTES, read_schemas


def test_schemas_in_a_folder_are_read_and_unwrapped(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps({"name": "answer", "schema": {"type": "string"}}))
    (tmp_path / "within").mkdir()
    (tmp_path / "within" / "same.json").write_text(json.dumps({"type": "string"}))
    (tmp_path / "within" / "other.json").write_text(json.dumps({"type": "integer"}))
    found = read_schemas(tmp_path).constraints
    assert sorted(str(one.content) for one in found) == ["{'type': 'integer'}", "{'type': 'string'}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not JSON"), ("[1]", "no JSON schema"), ("[" * 100_000, "not JSON")],
    ids=["broken", "a list", "hostile"],
)
def test_a_file_that_is_no_schema_is_one_clear_error(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_schemas(tmp_path)
    assert caught.value.where == str(tmp_path / "bad.json")


def test_a_folder_without_schemas_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no schema is there"):
        read_schemas(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_schemas(tmp_path / "missing.json")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_not_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "one.json"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="not a regular file") as caught:
        read_schemas(tmp_path)
    assert caught.value.where == str(path)
    (tmp_path / "two.json").write_text('{"type": "string"}')
    found = read_schemas(tmp_path)
    assert [one.content for one in found.constraints] == [{"type": "string"}]
    assert found.skipped == (f"{path}: not a regular file, so it is no schema here",)


def test_files_that_are_no_schemas_do_not_end_the_others(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('{"type": "string"}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    for number in range(6):
        (tmp_path / f"list{number}.json").write_text("[]")
    found = read_schemas(tmp_path)
    assert len(found.constraints) == 1
    assert found.skipped[0] == f"{tmp_path / 'broken.json'}: not JSON, so it is no schema here"
    assert found.skipped[-1] == f"{tmp_path}: 3 more files that are no schema"


def test_a_key_that_stands_twice_is_not_taken_silently(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"properties": {"diagnosis": {}, "diagnosis": {}}}')
    with pytest.raises(UsageError, match="a key stands twice in one object") as caught:
        read_schemas(path)
    assert "diagnosis" not in str(caught.value)


def test_a_file_beyond_the_bound_is_told(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(MOST_FILE_BYTES + 1)
    with pytest.raises(UsageError, match="too large for a schema"):
        read_schemas(path)
