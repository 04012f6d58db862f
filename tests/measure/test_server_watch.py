"""The server's own metrics beside a load: pages of real sockets, and what is made of them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.errors import WorldError
from unmoor.core.record import Outcome, Record
from unmoor.engines.contract import Metric
from unmoor.engines.registry import engine, engine_names
from unmoor.fake.engine import FakeEngine
from unmoor.measure.server.http_page import answer_of
from unmoor.measure.server.metrics_page import Scrape, engines_with_metrics, lines_of, scrape_of, whose
from unmoor.measure.server.server_report import hit_rate_doubts, server_caveats, server_report
from unmoor.measure.server.server_watch import ServerWatch, reset_cache

NAMED = [name for name in engine_names() if engine(name).scrape]


def page_of(name: str, values: Mapping[Metric, float], *, label: str = "0") -> bytes:
    """A page in an engine's own words, as it would write it."""
    lines = []
    for metric, value in values.items():
        spelled = engine(name).scrape.get(metric)
        if spelled is not None:
            lines.append(f'# HELP {spelled} x\n# TYPE {spelled} gauge\n{spelled}{{engine="{label}"}} {value}')
    return ("\n".join(lines) + "\n").encode()


class Counters:
    """What a server counts, changed by a test as it goes; `reads` counts its pages."""

    def __init__(self, name: str, **values: float) -> None:
        self.name, self.reads = name, 0
        self.values: dict[Metric, float] = {}
        self.set(**values)

    def set(self, **values: float) -> None:
        self.values.update(values)  # type: ignore[arg-type] # a table of them

    def page(self) -> bytes:
        self.reads += 1
        return page_of(self.name, self.values)


def record(index: int, tokens: int | None = 10, outcome: Outcome = Outcome.OK) -> Record:
    return Record(index=index, outcome=outcome, scheduled_at_ns=index, output_tokens=tokens)


@pytest.mark.parametrize("name", NAMED)
def test_an_engine_is_known_by_its_metrics(name: str) -> None:
    values: dict[Metric, float] = {"running": 3, "waiting": 1, "kv_use": 0.5, "generated_tokens": 7}
    page = page_of(name, values)
    found = whose(page, engines_with_metrics())
    assert found is not None
    assert found.name == name
    known = {metric: value for metric, value in values.items() if metric in engine(name).scrape}
    assert scrape_of(page, 5, engine(name).scrape) == Scrape(at_ns=5, values=known)


def test_replicas_are_added_up_and_the_fullest_is_told() -> None:
    names = engine("vllm").scrape
    pages = [page_of("vllm", {"running": n, "kv_use": n / 10}, label=str(n)) for n in (2, 5)]
    both = pages[0] + b"\n".join(line for line in pages[1].splitlines() if not line.startswith(b"#")) + b"\n"
    assert scrape_of(both, 0, names).values == {"running": 7, "kv_use": 0.5}


def test_what_is_no_number_is_missing_and_not_nought() -> None:
    values: dict[Metric, float] = {"running": float("nan"), "waiting": float("inf"), "kv_use": 0.0}
    odd: dict[Metric, float] = {"running": -1, "waiting": -5, "kv_use": 55}
    assert scrape_of(page_of("vllm", odd), 0, engine("vllm").scrape).values == {}
    assert scrape_of(page_of("vllm", values), 0, engine("vllm").scrape).values == {"kv_use": 0.0}
    assert whose(b"", engines_with_metrics()) is None
    assert whose(b"<html>hello</html>", engines_with_metrics()) is None


@given(st.binary(max_size=300))
def test_no_page_raises(page: bytes) -> None:
    assert scrape_of(page, 0, engine("vllm").scrape).values == {}
    whole = page_of("vllm", {"running": 2})
    ours = lines_of(whole + page, engine("vllm").scrape.values())
    assert ours is not None
    assert ours.startswith(b"vllm:num_requests_running")


def test_a_watch_tells_what_the_server_did_meanwhile() -> None:
    counted = Counters("vllm", running=0, waiting=0, kv_use=0.1, preemptions=5, prefix_hits=100, prefix_queries=1000)
    with FakeEngine(pages={"/metrics": counted.page}) as fake:
        with ServerWatch(fake.url) as watch:
            counted.set(running=4, waiting=9, kv_use=0.8)
            reads = counted.reads
            while counted.reads < reads + 2:
                time.sleep(0.05)
            counted.set(running=0, preemptions=7, prefix_hits=160, prefix_queries=1200, kv_use=0.2)
        report = watch.report
    assert report is not None
    assert (report.engine, report.preemptions, report.prefix_hit_rate, report.restarted) == ("vllm", 2, 0.3, False)
    assert report.kv_use_max == 0.8
    assert report.running is not None
    assert report.running.max == 4
    assert (report.prompt_tokens, report.generated_tokens, report.missed) == (None, None, 0)
    assert report.scrapes >= 4


def test_metrics_are_found_where_another_engine_has_them() -> None:
    counted = Counters("tensorrt-llm", running=1, kv_use=0.3)
    json_page = b'[{"iter": 1}]'
    pages = {"/metrics": lambda: json_page, "/prometheus/metrics": counted.page}
    with FakeEngine(pages=pages) as fake, ServerWatch(f"{fake.url}/v1") as watch:
        pass
    assert watch.report is not None
    assert (watch.report.engine, watch.report.kv_use_max) == ("tensorrt-llm", 0.3)


def test_a_server_without_metrics_is_watched_in_vain() -> None:
    with FakeEngine() as fake, ServerWatch(fake.url) as watch:
        pass
    assert watch.report is None


def test_a_page_that_fails_during_the_load_is_missed_and_the_rest_stands() -> None:
    counted = Counters("vllm", running=1, generated_tokens=5)
    broken = threading.Event()
    with FakeEngine(pages={"/metrics": lambda: None if broken.is_set() else counted.page()}) as fake:
        with ServerWatch(fake.url) as watch:
            broken.set()
            time.sleep(1.3)
            broken.clear()
            counted.values["generated_tokens"] = 25
        report = watch.report
    assert report is not None
    assert report.missed >= 1
    assert report.generated_tokens == 20


def test_a_server_that_dies_leaves_what_was_read_before() -> None:
    counted = Counters("vllm", running=1, generated_tokens=5)
    with FakeEngine(pages={"/metrics": counted.page}) as fake:
        watch = ServerWatch(fake.url)
        watch.__enter__()
    watch.__exit__(None, None, None)
    assert watch.report is not None
    assert watch.report.missed >= 1


def test_a_server_that_hangs_on_its_metrics_costs_seconds_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        started_s = time.monotonic()
        with ServerWatch(url) as watch:
            pass
        assert watch.report is None
        assert time.monotonic() - started_s < 60


def test_a_page_that_drips_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 1000:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.1)

        thread = threading.Thread(target=drip)
        thread.start()
        answer = answer_of("GET", host, port, "/metrics", timeout_s=0.5)
        thread.join(timeout=30)
        assert not thread.is_alive()  # the connection was closed on it
    assert (answer.status, answer.body) == (None, None)
    assert "within 0.5 s" in answer.why


def test_a_page_of_too_many_series_is_missed() -> None:
    name = engine("vllm").scrape["running"]
    page = b"".join(f'{name}{{model="m{n}"}} 1.0\n'.encode() for n in range(20_000))
    assert lines_of(page, [name]) is None
    assert scrape_of(page, 0, engine("vllm").scrape).values == {}
    assert whose(page, engines_with_metrics()) is None


def test_counters_that_go_back_are_a_restart() -> None:
    steps: list[dict[Metric, float]] = [
        {"generated_tokens": 100, "prefix_hits": 5, "prefix_queries": 9},
        {"generated_tokens": 3},
        {"generated_tokens": 200},
    ]
    report = server_report("vllm", [Scrape(at_ns=n, values=step) for n, step in enumerate(steps)], 0)
    assert (report.restarted, report.generated_tokens, report.prefix_hit_rate) == (True, None, None)
    assert "server_restarted" in {caveat.code for caveat in server_caveats(report, [record(0)])}


def grown(tokens: float) -> list[Scrape]:
    return [Scrape(at_ns=0, values={"generated_tokens": 50}), Scrape(at_ns=1, values={"generated_tokens": 50 + tokens})]


def test_a_server_that_did_more_than_this_load_had_other_traffic() -> None:
    records = [record(n) for n in range(100)]
    alone, shared = (server_report("vllm", grown(tokens), 0) for tokens in (1000, 1200))
    assert server_caveats(alone, records) == ()
    assert [caveat.code for caveat in server_caveats(shared, records)] == ["other_traffic"]
    assert server_caveats(shared, [*records, record(100, None, Outcome.CANCELLED)]) == ()
    less = server_report("vllm", grown(100), 0)
    assert [caveat.code for caveat in server_caveats(less, records)] == ["metrics_disagree"]


def test_more_hits_than_tokens_looked_up_are_no_rate() -> None:
    first, last = ({"prefix_hits": 0.0, "prefix_queries": 0.0}, {"prefix_hits": 90.0, "prefix_queries": 9.0})
    report = server_report("vllm", [Scrape(at_ns=0, values=first), Scrape(at_ns=1, values=last)], 0)  # type: ignore[arg-type] # tables of them
    assert report.prefix_hit_rate is None


def test_a_warm_cache_voids_and_a_small_one_is_said() -> None:
    void, said = hit_rate_doubts(0.3, 0.5)
    assert ([one.code for one in void], said) == (["cache_warm"], ())
    void, said = hit_rate_doubts(0.3, 0.1)
    assert (void, [one.code for one in said]) == ((), ["hit_rate_below_plan"])
    for planned, measured in ((0.3, 0.3), (0.3, 0.26), (0.01, 0.0), (None, 0.4), (0.4, None)):
        assert hit_rate_doubts(planned, measured) == ((), ())


def test_a_cache_is_emptied_by_the_engines_own_request() -> None:
    emptied: list[str] = []
    counted = Counters("vllm", running=0)
    path = engine("vllm").cache_reset_path
    assert path is not None

    def empty() -> bytes:
        emptied.append(path)
        return b""

    with FakeEngine(pages={"/metrics": counted.page, path: empty}) as fake:
        assert reset_cache(fake.url) == "vllm"
        assert emptied == [path]


def test_a_cache_that_cannot_be_emptied_is_one_clear_error() -> None:
    deaf, without = (Counters(name, running=0) for name in ("vllm", "openvino"))
    with FakeEngine(pages={"/metrics": deaf.page}) as fake, pytest.raises(WorldError, match="VLLM_SERVER_DEV_MODE"):
        reset_cache(fake.url)
    with FakeEngine(pages={"/metrics": without.page}) as fake, pytest.raises(WorldError, match="no request for it"):
        reset_cache(fake.url)
    with FakeEngine() as fake, pytest.raises(WorldError, match="no metrics of an engine that is known"):
        reset_cache(fake.url)
