"""How answers end: by which tokens, why, and when the client goes away."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import said, sides
from unmoor.leave.uses import Rows

STOP = Kind(
    id="UM123",
    name="stop-and-eos",
    title="What ends an answer, and how that is told",
    bites="A model has several tokens that end an answer, and engines take them from different files; one that is "
    "missed leaves answers running on. Why an answer stopped is told under another name, or not at all, and special "
    "tokens stay in the text on one side.",
    look="Recorded answers with stop_reason or matched_stop, and requests that keep special tokens, are counted; the "
    "ids in the model's files are compared with the files that each engine reads.",
    mend="Write all ids into generation_config.json and config.json, or send stop_token_ids; read both names.",
    threads=threads("vllm-project/vllm#2947", "vllm-project/vllm#792"),
)
ABANDONED = Kind(
    id="UM125",
    name="abandoned-requests",
    title="Requests whose client went away, and a server that works on",
    bites="A request that nobody waits for any more keeps its slot until the server notices. One engine looks only "
    "when it is otherwise quiet: decoding for nobody went on for seconds.",
    look="Requests that were given up (status 499, cancelled, finish_reason abort) and requests without stream are "
    "counted; both engines' surfaces say when they notice.",
    mend="Stream requests that may be given up, and bound max_tokens; watch running requests after a client leaves.",
    threads=threads(
        "ggml-org/llama.cpp#24496",
        "ggml-org/llama.cpp#13262",
        "ggml-org/llama.cpp#9273",
        "BerriAI/litellm#37140",
    ),
)
ABORT = Kind(
    id="UM152",
    name="finish-reason-abort",
    title="finish_reason abort, which one side does not have",
    bites="OpenAI's interface has no finish_reason abort. Some engines answer it with status 200 when a request is "
    "ended from outside; strict clients fail on the word, or take a cut answer for a whole one.",
    look="Recorded answers that were ended so, and requests that were given up, are counted; both engines' surfaces "
    "say whether they use the word.",
    mend="Let clients take any finish_reason that they do not know for a failure.",
)

_OFF = (False,)


def _look(case: Case) -> Iterator[Hit]:
    if case.stays:
        return
    yield from _told_why(case)
    yield from _special_kept(case)
    yield from _eos(case)
    yield from _abandoned(case)
    yield from _aborts(case)


def _told_why(case: Case) -> Iterator[Hit]:
    for name in ("stop_reason", "matched_stop"):
        rows = case.uses.rows(name, "answer")
        if not rows or (both := sides(case, "stop_reason_field", f"{name} in answers")) is None:
            continue
        if not both.differ or both.here.value != name:  # the latter: not the source's own word
            continue
        gone = both.there.value == "none"
        yield hit(
            STOP,
            "lost" if gone else "translated",
            "warning",
            features=[f"answer.{name}"],
            rows=rows,
            seen=f"{both.target.title} does not say which stop ended an answer."
            if gone
            else f"{both.target.title} says {both.there.value} in place of {name}.",
            fix="Look at the end of the text in the client." if gone else f"Read {both.there.value} in the client.",
            sources=both.sources,
        )


def _special_kept(case: Case) -> Iterator[Hit]:
    """Requests that keep special tokens in the text."""
    rows = case.uses.which("skip_special_tokens", *_OFF)
    here, there = (one.spellings.get("skip_special_tokens") for one in (case.source, case.target))
    if not rows or here is None or here.absent:
        return
    if there is None:
        case.skipped(f"skip_special_tokens: what {case.target.title} does is not known")
    elif there.absent:
        yield hit(
            STOP,
            "lost",
            "warning",
            features=sorted({use.feature for use in case.uses.of("skip_special_tokens") if use.value is False}),
            rows=rows,
            seen=f"Special tokens vanish from the text on {case.target.title}: what is parsed out of them is gone.",
            fix=f"Nothing in a request keeps them{f' ({there.note})' if there.note else ''}.",
            sources=(case.target.source_of(there),),
        )


def _eos(case: Case) -> Iterator[Hit]:
    """Ids that end an answer on one side, by the files that it reads, and not on the other."""
    model = case.model
    if model is None or len(set(model.eos_in.values())) < 2:  # noqa: PLR2004 - two files that differ
        return
    both = sides(case, "eos_from", "which of the model's files say what ends an answer")
    if both is None:
        return
    ends = [
        {number for file in str(side.value).split(", ") for number in model.eos_in.get(file, ())}
        for side in (both.here, both.there)
    ]
    missed, new = sorted(ends[0] - ends[1]), sorted(ends[1] - ends[0])
    if not missed and not new:
        return
    ids, other = (missed, both.target) if missed else (new, both.source)
    told = ", ".join(map(str, ids))
    yield hit(
        STOP,
        "translated",
        "error" if missed else "note",
        features=["model"],
        seen=f"Token {told} does not end an answer on {other.title}, which reads {both.there.value}."
        if missed
        else f"Token {told} ends an answer on {both.target.title}, and not on {other.title} today.",
        fix="Write all of them into generation_config.json, or send stop_token_ids.",
        sources=both.sources,
        by="files",
    )


def _abandoned(case: Case) -> Iterator[Hit]:
    waiting = case.uses.pair("not streamed")
    if not waiting:
        return
    both = sides(case, "disconnect_no_stream", "requests without stream whose client goes away")
    if both is None or not both.differ or both.there.value != "late":
        return
    given_up = case.uses.pair("abandoned").both(waiting)
    yield hit(
        ABANDONED,
        "translated" if given_up else "same",
        "warning" if given_up else "note",
        features=["answer.finish_reason"] if given_up else ["chat.stream"],
        rows=given_up or waiting,
        seen=f"{both.target.title} notices late that a client without stream went away{said(both.there)}."
        + ("" if given_up else " None in this log was seen to be given up."),
        fix="Stream the requests that clients may give up, and bound their max_tokens.",
        sources=both.sources,
    )


def _aborts(case: Case) -> Iterator[Hit]:
    aborted = case.uses.which("finish_reason", "abort", places=("answer",))
    given_up = Rows.union((aborted, case.uses.pair("abandoned")))
    if not given_up:
        return
    both = sides(case, "finish_reason_abort", "requests that are ended from outside")
    if both is None or not both.differ:
        return
    appears = both.there.value == "yes"
    rows = given_up if appears else aborted
    if not rows:
        return
    yield hit(
        ABORT,
        "translated",
        "warning" if appears else "note",
        features=["answer.finish_reason"],
        rows=rows,
        seen=f"{both.target.title} may end an answer with finish_reason abort and status 200{said(both.there)}."
        if appears
        else f"{both.target.title} has no finish_reason abort{said(both.there)}: such answers end otherwise.",
        fix="Let clients take any finish_reason that they do not know for a failure.",
        sources=both.sources,
    )


CHECK = Check(kinds=(STOP, ABANDONED, ABORT), look=_look)
