"""How names, figures and ranges read on paper: the one place where seconds turn into milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.choose.facts import load_facts
from unmoor.core.decision import CandidateReport, LeavingFact
from unmoor.core.evidence import Caveat, Figure
from unmoor.core.traffic import TrafficProfile

_TITLES = {
    "max_rate_at_slo_rps": "highest rate at SLO",
    "output_tput_lost_to_adapters": "throughput lost to LoRA",
    "output_tput_tuned_over_untuned": "tuned over untuned",
    "only_candidate": "there is one candidate only",
    "default": "the default stands",
    "reversibility": "what is hard to reverse",
    "hardware_possible": "hardware possible",
    "runs_on_hardware": "runs on it",
    "fits_hardware": "fits in memory",
    "hardware": "hardware",
    "output_tput_tps": "output throughput",
    "tpot_mean_s": "mean TPOT",
}
_UNITS = {"s": "ms", "rps": "requests/s", "tps": "tokens/s"}
_ACRONYMS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "slo": "SLO"}
_SUFFIXES = ("_s", "_rps", "_tps")


def name_of(engine: str) -> str:
    """The engine's name as its project writes it."""
    return load_facts().title(engine)


def titled(name: str) -> str:
    """A metric, gate or rule as words: "ttft_p95_s" is "TTFT p95"."""
    if name in _TITLES:
        return _TITLES[name]
    stem = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
    return " ".join(_ACRONYMS.get(word, word) for word in stem.split("_"))


def unit_of(figure: Figure) -> str:
    """The unit as shown: milliseconds for seconds, a per cent sign for shares."""
    return "%" if figure.unit == "1" else _UNITS.get(figure.unit, figure.unit)


def number(figure: Figure, value: float | None) -> str:
    """One value of `figure` in its shown unit, three significant digits; empty where there is none."""
    if value is None:
        return ""
    scale = {"s": 1000.0, "1": 100.0}.get(figure.unit, 1.0)
    shown = value * scale
    return f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:.3g}"  # noqa: PLR2004 - three digits either way


def band(figure: Figure) -> str:
    """The range in the shown unit; "no range" where neither end is known."""
    low, high = number(figure, figure.low), number(figure, figure.high)
    if low and low == high:
        return f"about {low}"
    if low and high:
        return f"{low} – {high}"
    return f"from {low}" if low else f"up to {high}" if high else "no range"


def kind_of(figure: Figure) -> str:
    """The kind of evidence, and that nobody validated it where that is so."""
    return figure.kind.value if figure.validated else f"{figure.kind.value}, unvalidated"


def overlap_words(traffic: TrafficProfile) -> tuple[str, str]:
    """The prefix overlap as a figure and what it is a share of; "unknown" and why where the source does not say."""
    if traffic.prefix_overlap is None:
        if any(caveat.code == "content_partly_unknown" for caveat in traffic.caveats):
            return "unknown", "the log's prompts are partly redacted or not kept"
        return "unknown", "the source says nothing of what prompts contain"
    block, same = traffic.overlap_block_tokens, for_the_same_model(traffic.caveats)
    exact = "" if block in {None, 1} else f", told apart in blocks of {block} tokens"
    return f"{traffic.prefix_overlap:.1%}", f"of prompt tokens repeat the start of an earlier prompt{same}{exact}"


def for_the_same_model(caveats: Sequence[Caveat]) -> str:
    """That prompts are compared within one model, where the log names several; empty where it does not."""
    return " for the same model" if any(caveat.code == "several_models" for caveat in caveats) else ""


def headroom_words(figure: Figure | None) -> str:
    """How much of the traffic the hardware carries, in words; empty where nothing says."""
    if figure is None:
        return ""
    ends = dict.fromkeys(f"{end:.2g}" for end in (figure.low, figure.high) if end is not None)
    seen = " to ".join(ends) if figure.value is None else f"{figure.value:.2g} ({' to '.join(ends)})"
    return f"{figure.kind.value} to carry {seen} times the traffic at the SLO"


def counts_word(fact: LeavingFact) -> str:
    """Whether a fact counts when a tie is decided, and of which kind it is."""
    return fact.kind.value if fact.counts else f"{fact.kind.value}, counts for nothing in a tie"


def shared_caveats(candidates: Sequence[CandidateReport]) -> tuple[Caveat, ...]:
    """The caveats that every candidate has word for word, so that they are said once; none for one candidate alone."""
    if len(candidates) < 2:  # noqa: PLR2004 - what is shared is shared by two
        return ()
    first, *rest = candidates
    return tuple(caveat for caveat in first.caveats if all(caveat in other.caveats for other in rest))


def sources_of(figures: Sequence[Figure]) -> list[str]:
    """Each source with its date once, in order of first use."""
    return list(dict.fromkeys(f"{figure.source}, {figure.as_of}" for figure in figures))
