"""Prompts for different models share no cache, so that they are told apart by their model where a log names several."""

from __future__ import annotations

import hashlib

from unmoor.core.evidence import Caveat

SEVERAL_MODELS = "several_models"
_SYMBOL_BYTES = 8


class ModelsApart:
    """One number for each model, to be mixed into the chained symbols of the prompts that ask for it.

    The first model named has 0, so that the prompts of a log of one model are left as they are. So has a request that
    names none: a server then answers with the model it has.
    """

    def __init__(self) -> None:
        self._first: str | None = None

    def salt_of(self, model: str | None) -> int:
        """The number (uint64) of a model's prompts; 64 bits of the name's BLAKE2b but for the first model's."""
        if model is None or model == self._first:
            return 0
        if self._first is None:
            self._first = model
            return 0
        return _hashed(model)


def several_models(models: int, *, apart: bool = True) -> tuple[Caveat, ...]:
    """The doubt about a log of requests for so many models; none for one or no model.

    `apart` is whether equal prompts for different models were told apart when the log was read.
    """
    if models < 2:  # noqa: PLR2004 - one model is what a cache serves
        return ()
    shared = "a prefix is shared within one model only" if apart else "what prompts share was not told apart by model"
    text = (
        f"Requests ask for {models:,} models, which share no cache: {shared}. Figures are sums over the models, and "
        "each model needs replicas of its own: profile each model's requests in a log of their own."
    )
    return (Caveat(code=SEVERAL_MODELS, text=text),)


def _hashed(model: str) -> int:
    name = model.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(name, digest_size=_SYMBOL_BYTES, person=b"model").digest()
    return int.from_bytes(digest, "little")
