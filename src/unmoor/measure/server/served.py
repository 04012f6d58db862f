"""What a target says that it serves, asked before a load is sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmoor.core.errors import UsageError, WorldError
from unmoor.engines.wire import error_text
from unmoor.measure.client.address import address_of
from unmoor.measure.client.load import Target
from unmoor.measure.server.http_page import answer_of

_OK = 200
_TIMEOUT_S = 10.0


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def served_names(url: str) -> Sequence[str]:
    """The names of the models at `url`, by its `/v1/models`; each is a `served_name` of a Target.

    Raises UsageError for a target that is not this machine, WorldError where nobody answers so.
    """
    address = address_of(Target(url=url, served_name=""))
    path = address.path.replace("/v1/chat/completions", "/v1/models")
    status, body, why = answer_of("GET", address.host, address.port, path, timeout_s=_TIMEOUT_S)
    if status is None or body is None:
        raise _unheard(url, why, "is the engine running there? name its address, as http://127.0.0.1:8000")
    if status != _OK:
        said = error_text(body)
        hint = "--model NAME says the name, where the server lists none"
        raise _unheard(url, f"{path} answered {status}: {said}", hint)
    try:
        return [model.id for model in msgspec.json.decode(body, type=_Models).data]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _unheard(url, f"{path} gives no list of models", "--model NAME says the name") from None


def only_served_name(url: str) -> str:
    """The one model at `url`. Raises UsageError where there are several or none, and as `served_names`."""
    names = served_names(url)
    if len(names) == 1:
        return names[0]
    raise UsageError(
        "which model is to be asked?",
        where="--model",
        seen=", ".join(f"'{name}'" for name in names[:5]) + (", …" if len(names) > 5 else "") or "none listed",  # noqa: PLR2004
        expected="one name",
        hint="--model NAME",
    )


def _unheard(url: str, seen: str, hint: str) -> WorldError:
    return WorldError(
        "no OpenAI-compatible server answers", where=url, seen=seen, expected="a list of models", hint=hint
    )
