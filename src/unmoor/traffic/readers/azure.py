"""Azure LLM inference traces: CSV with a clock time and two lengths a line; nothing is said of content.

Source: Azure/AzurePublicDataset, AzureLLMInferenceTrace (Patel et al., Splitwise, ISCA 2024). Times carry seven
decimals (0.1 us), of which six are kept; published files end their lines with CRLF and others were seen with LF. An
answer of 0 tokens is kept: a request that was cut short, or failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import FirstLine, RecordFormat
from unmoor.traffic.readers.csv_rows import Header
from unmoor.traffic.readers.lines import whole

_NAMES = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_EXPECTED = ",".join(_NAMES)


def _header() -> Header:
    return Header({name: (name,) for name in _NAMES}, needed=_NAMES, expected=_EXPECTED)


class _Reader:
    grain: Grain | None = None

    def __init__(self) -> None:
        self._header = _header()
        self._clock = Clock(name=_NAMES[0])

    @property
    def notes(self) -> Sequence[Caveat]:  # none of the clock: the format's description says that times are in UTC
        return self._header.notes

    def read(self, record: bytes) -> tuple[Entry, ...]:
        row = self._header.row(record)
        if row is None:
            return ()
        at, prompt, answer = (row[name] for name in _NAMES)
        return (
            Entry(
                at_s=self._clock.seconds(at),
                input_tokens=whole(_NAMES[1], prompt, least=1),
                output_tokens=whole(_NAMES[2], answer),
            ),
        )


def _looks_like(first: FirstLine) -> bool:
    return _header().matches(first.columns)


FORMAT = RecordFormat(name="azure", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
