"""Whatever happened to a result file, it is read, or refused with one of our errors that names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unmoor.core.errors import UnmoorError
from unmoor.core.slo import Slo
from unmoor.measure.results.check import check_results
from unmoor.measure.results.formats import FORMATS, read_results
from unmoor.measure.results.run import records
from unmoor.report.results_text import render

SAMPLES = sorted((Path(__file__).parent / "result_samples").glob("*.json*"))
_SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.just([]), st.just({})
)


def tried(path: Path, format_name: str | None = None) -> None:
    """Reads and checks a file to its end; an error of ours has to name the file."""
    refused = None
    try:
        file = read_results(path, format_name)
        report = check_results(file, Slo(ttft_s=0.1, tpot_s=0.1, e2e_s=1.0))
    except UnmoorError as error:
        refused = str(error)
    if refused is not None:
        assert path.name in refused
        return
    assert render(report, path.name)
    assert [len(list(records(run))) for run in file.runs] == [len(run.requests) for run in file.runs]
    assert msgspec.json.decode(msgspec.json.encode(report))["format"] == report.format


@_SETTINGS
@given(st.sampled_from(SAMPLES), st.data())
def test_bytes_changed(tmp_path: Path, sample: Path, data: st.DataObject) -> None:
    content = bytearray(sample.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    size = data.draw(st.integers(0, 8))
    content[at : at + size] = data.draw(st.binary(max_size=8))
    path = tmp_path / "result"
    path.write_bytes(bytes(content[: data.draw(st.sampled_from([len(content), at + 1]))]) or b" ")
    tried(path)


def places(value: object, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document; of a list its first three."""
    found = [so_far]
    if isinstance(value, dict):
        found += [path for key, one in value.items() for path in places(one, (*so_far, key))]
    if isinstance(value, list):
        found += [path for key, one in enumerate(value[:3]) for path in places(one, (*so_far, key))]
    return found


@_SETTINGS
@given(st.sampled_from(SAMPLES), st.data())
def test_values_changed(tmp_path: Path, sample: Path, data: st.DataObject) -> None:
    document = json.loads(sample.read_text().splitlines()[0])
    *road, last = data.draw(st.sampled_from(places(document)[1:]))
    holder = document
    for key in road:
        holder = holder[key]
    if isinstance(holder, dict) and data.draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = data.draw(ODD)
    path = tmp_path / "result"
    path.write_text(json.dumps(document))
    tried(path)
    tried(path, data.draw(st.sampled_from([one.name for one in FORMATS])))
