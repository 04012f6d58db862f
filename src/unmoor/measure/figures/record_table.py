"""Records as a Parquet file, for pandas, Polars, DuckDB or Spark. Needs the `parquet` extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from unmoor.core.errors import UsageError
from unmoor.core.record import Record

if TYPE_CHECKING:
    from typing import Any

_INSTALL = "pip install 'unmoor[parquet]'"


def parquet_of(records: Sequence[Record]) -> bytes:
    """The records as a Parquet file: a column for each field of Record, null where it is None, zstd.

    Raises UsageError where the `parquet` extra is not installed.
    """
    pa, pq = _pyarrow()
    rows = [msgspec.to_builtins(record) for record in records]
    schema = pa.schema([(field.name, _kind(pa, field.type)) for field in _fields()])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    written: bytes = sink.getvalue().to_pybytes()
    return written


def check_installed() -> None:
    """Raises UsageError where the `parquet` extra is not installed: before a load, not after it."""
    _pyarrow()


def _fields() -> tuple[msgspec.inspect.Field, ...]:
    told = msgspec.inspect.type_info(Record)
    return told.fields if isinstance(told, msgspec.inspect.StructType) else ()


def _kind(pa: Any, told: msgspec.inspect.Type) -> object:  # noqa: ANN401 - a package without types
    """The column's type. A field of a type not met so far is a defect that its test finds."""
    inspect = msgspec.inspect
    if isinstance(told, inspect.UnionType):
        (told,) = (one for one in told.types if not isinstance(one, inspect.NoneType))
    if isinstance(told, inspect.VarTupleType):
        return pa.list_(_kind(pa, told.item_type))
    known = {
        inspect.IntType: pa.int64(),
        inspect.FloatType: pa.float64(),
        inspect.BoolType: pa.bool_(),
        inspect.StrType: pa.string(),
        inspect.EnumType: pa.string(),
    }
    return known[type(told)]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError(
            "Parquet needs a package that is not installed",
            where="--parquet",
            seen="no pyarrow",
            expected="the extra `parquet`",
            hint=f"{_INSTALL}, or take --records, which are JSON lines",
        ) from None
    return pa, pq
