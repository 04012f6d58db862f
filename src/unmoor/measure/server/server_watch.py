"""The server's own metrics beside a load: read before it, during it by a process of its own, and after it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from time import monotonic_ns
from types import TracebackType
from typing import Self

import msgspec

from unmoor.core.errors import WorldError
from unmoor.engines.contract import Engine
from unmoor.measure.client.address import Address, address_of
from unmoor.measure.client.load import Target
from unmoor.measure.server.http_page import answer_of, page_at
from unmoor.measure.server.metrics_page import Scrape, engines_with_metrics, scrape_of, whose
from unmoor.measure.server.metrics_poll import Polled
from unmoor.measure.server.server_report import ServerReport, server_report

_FIRST_S = 2.0
_EVERY_S = 1.0
_ENDS_S = 5.0
_OK = 200
_COMPLETIONS = "/v1/chat/completions"


class ServerWatch:
    """Watches as long as its `with` block lasts; `report` is there after it, None where the server tells nothing.

    What reads during the load is another process, at a lower priority, that ends with this one: nothing of it is in
    the loop that sends and stamps.
    """

    def __init__(self, url: str) -> None:
        """Reads the first page. Raises UsageError for a target that is not this machine."""
        self.report: ServerReport | None = None
        self._place = _Place(url)
        self._engine, self._first = self._place.recognised()
        self._poll: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._engine is not None:
            place = self._place.address
            names = self._engine.scrape.values()
            path = self._place.path_of(self._engine.metrics_path)
            # Without -I: it is to find this package where this process does.
            command = [sys.executable, "-m", "unmoor.measure.server.metrics_poll", place.host, str(place.port), path]
            self._poll = subprocess.Popen(  # noqa: S603 - our own module
                [*command, str(_EVERY_S), *names],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the load; this ends when its standard input does
            )
            if self._poll.stdout is not None:
                self._poll.stdout.readline()  # it has started: that is in nobody's measuring time
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is None or self._first is None:
            return
        polled = self._end_poll()
        page = self._place.page(self._engine.metrics_path)
        names = self._engine.scrape
        during = [scrape_of(one.page.encode(), one.at_ns, names) for one in polled if one.page is not None]
        last = [] if page is None else [scrape_of(page, monotonic_ns(), names)]
        missed = sum(one.page is None for one in polled) + (page is None)
        self.report = server_report(self._engine.name, [self._first, *during, *last], missed)

    def _end_poll(self) -> list[Polled]:
        if self._poll is None:
            return []
        try:
            written, _ = self._poll.communicate(timeout=_ENDS_S)
        except subprocess.TimeoutExpired:
            self._poll.kill()
            self._poll.communicate()
            return []
        kept = []
        for line in written.splitlines():
            with suppress(msgspec.MsgspecError):
                kept.append(msgspec.json.decode(line, type=Polled))
        return kept


def reset_cache(url: str) -> str:
    """Empties the server's prefix cache by its engine's own request; the engine's name.

    Raises WorldError where the engine is not recognised by its metrics, has no such request, or refuses it.
    """
    place = _Place(url)
    engine, _ = place.recognised()
    if engine is None:
        raise _not_reset(url, "no metrics of an engine that is known", "leave --reset-cache out, and --seed too")
    if engine.cache_reset_path is None:
        raise _not_reset(url, f"{engine.title}, which has no request for it", "restart it between runs instead")
    path = place.path_of(engine.cache_reset_path)
    status, _, _ = answer_of("POST", place.address.host, place.address.port, path, timeout_s=_FIRST_S)
    if status != _OK:
        needs = f"start it with {engine.cache_reset_hint}" if engine.cache_reset_hint else "is it busy with something?"
        raise _not_reset(url, f"POST {path} answered {status or 'nothing'}", needs)
    return engine.name


class _Place:
    """Where a server's other pages are, beside the API that it is loaded by."""

    def __init__(self, url: str) -> None:
        self.address: Address = address_of(Target(url=url, served_name=""))

    def path_of(self, path: str) -> str:
        return self.address.path.removesuffix(_COMPLETIONS) + path

    def page(self, path: str) -> bytes | None:
        return page_at(self.address.host, self.address.port, self.path_of(path), timeout_s=_FIRST_S)

    def recognised(self) -> tuple[Engine | None, Scrape | None]:
        """Whose metrics the server has, and its first page; None and None where nobody's."""
        engines = engines_with_metrics()
        for path in dict.fromkeys(known.metrics_path for known in engines):
            page = self.page(path)
            found = None if page is None else whose(page, [known for known in engines if known.metrics_path == path])
            if page is not None and found is not None:
                return found, scrape_of(page, monotonic_ns(), found.scrape)
        return None, None


def _not_reset(url: str, seen: str, hint: str) -> WorldError:
    return WorldError(
        "the prefix cache was not emptied",
        where=f"--reset-cache, {url}",
        seen=seen,
        expected="a server that empties it on request",
        hint=hint,
    )
