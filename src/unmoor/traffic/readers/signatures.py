"""What a file is by how it begins, where that is no log: tables, archives, pictures, databases, arrays of numbers."""

from __future__ import annotations

from unmoor.core.errors import TrafficError

EXPECTED = "text in UTF-8, or such text packed by gzip or zstd"

_EXPORT = "export it as JSON lines or CSV"
_NO_LOG = "name the file that holds the requests"
_PICKLE = ("a Python pickle, which would run what is in it", _EXPORT)
_SIGNATURES: dict[bytes, tuple[str, str]] = {
    b"PAR1": ("a Parquet file", _EXPORT),
    b"ARROW1": ("an Arrow file", _EXPORT),
    b"Obj\x01": ("an Avro file", _EXPORT),
    b"\x89HDF": ("an HDF5 file", _EXPORT),
    b"SQLite format 3": ("a database", _EXPORT),
    **{b"\x80" + bytes([protocol]): _PICKLE for protocol in range(2, 6)},
    b"PK\x03\x04": ("a zip archive", "unzip -p FILE | unmoor profile -"),
    b"BZh": ("a bzip2 archive", "bzip2 -dc FILE | unmoor profile -"),
    b"\xfd7zXZ": ("an xz archive", "xz -dc FILE | unmoor profile -"),
    b"\x04\x22\x4d\x18": ("an lz4 archive", "lz4 -dc FILE | unmoor profile -"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z x -so FILE | unmoor profile -"),
    b"Rar!\x1a\x07": ("a rar archive", "unrar p -inul FILE | unmoor profile -"),
    b"\xff\xfe": ("UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | unmoor profile - reads it"),
    b"\xfe\xff": ("UTF-16", "iconv -f UTF-16 -t UTF-8 FILE | unmoor profile - reads it"),
    b"\x93NUMPY": ("a NumPy array", _NO_LOG),
    b"\x89PNG": ("a picture", _NO_LOG),
    b"\xff\xd8\xff": ("a picture", _NO_LOG),
    b"GIF8": ("a picture", _NO_LOG),
    b"%PDF-": ("a PDF", _NO_LOG),
    b"GGUF": ("a model's weights", _NO_LOG),
    b"\x7fELF": ("a program", _NO_LOG),
}
_TAR, _TAR_AT = b"ustar", 257
_LOOKED_AT = 1024


class NotALogError(TrafficError):
    """A file that is clearly no log; of a folder it is left out and named. `seen` is what it is."""


def refuse_no_log(name: str, head: bytes) -> None:
    """Raises NotALogError for a file whose content, unpacked, begins like something else, or like no text.

    Zeros at the very start are let pass: a log that was cut back while it was written begins with them.
    """
    found = next((kind for mark, kind in _SIGNATURES.items() if head.startswith(mark)), None)
    if found is None and head[_TAR_AT:].startswith(_TAR):
        found = ("a tar archive", "tar -xOf FILE | unmoor profile - reads the files in it")
    if found is None and b"\0" in head.lstrip(b"\0")[:_LOOKED_AT]:
        found = ("binary content", _NO_LOG)
    if found is not None:
        raise NotALogError("not a log", where=name, seen=found[0], expected=EXPECTED, hint=found[1])
