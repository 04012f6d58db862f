"""Readers: a log or trace of anyone's into Traffic, streaming. One file per format, one line each in the registry."""

from __future__ import annotations

from unmoor.traffic.readers.contract import Cutter, LogFile, RecordFormat, Watch
from unmoor.traffic.readers.formats import FORMATS
from unmoor.traffic.readers.read import read_traffic
from unmoor.traffic.readers.records import Source

__all__ = ["FORMATS", "Cutter", "LogFile", "RecordFormat", "Source", "Watch", "read_traffic"]
