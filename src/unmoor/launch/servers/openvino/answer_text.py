"""Text out of tokens, piece by piece."""

from __future__ import annotations

from collections.abc import Callable


class Text:
    """Text from tokens as they come: never half a character, and nothing that a stop text may still swallow.

    The window of tokens that is decoded again starts one piece back, so that what comes before a token can change how
    it reads (as vLLM and Hugging Face's streamers do it).
    """

    def __init__(self, decode: Callable[[list[int]], str], stops: tuple[str, ...]) -> None:
        self._decode = decode
        self._stops = stops
        self._ids: list[int] = []
        self._start = self._end = 0
        self._known = ""
        self._held = ""
        self.stopped = False

    def add(self, ids: list[int], *, last: bool = False) -> str:
        """The text that has become certain with `ids`; all that is left when they are the `last`."""
        self._ids.extend(ids)
        return self._release(self._new_text(last=last), last=last)

    def _new_text(self, *, last: bool) -> str:
        text = self._decode(self._ids[self._start :])
        if len(text) <= len(self._known) or (text.endswith("\ufffd") and not last):
            return ""
        new = text[len(self._known) :]
        self._start, self._end = self._end, len(self._ids)
        self._known = self._decode(self._ids[self._start : self._end])
        return new

    def _release(self, new: str, *, last: bool) -> str:
        text = self._held + new
        found = min((at for stop in self._stops if (at := text.find(stop)) >= 0), default=None)
        if found is not None:
            self.stopped, self._held = True, ""
            return text[:found]
        keep = 0 if last else max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` could be the start of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
