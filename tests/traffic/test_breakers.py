from __future__ import annotations

import hashlib
import json
import random
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.core.evidence import Caveat
from unmoor.traffic.breakers import Breaker, Watch
from unmoor.traffic.breakers.kinds import KINDS
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.entry import Blocks, Entry, Part, Prompt
from unmoor.traffic.readers.contract import Cut
from unmoor.traffic.text.pieces import BytesCutter
from unmoor.traffic.text.tokens import tokenizer_cutter

_T = TypeVar("_T")

RULES = " ".join(f"Rule {i}: follow policy number {i} and be kind to everyone." for i in range(25))
NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau"
WORDS = NAMES.split()
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{i}",
            "description": f"Does thing {i} and no other.",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
        },
    }
    for i in range(5)
]
SHOTS = [(f"A question about {word} and its neighbours?", f"An answer about {word}.") for word in WORDS[:6]]


class SmallCutter:
    """Cuts every STEP bytes."""

    by: Literal["tokens", "bytes"] = "bytes"
    step = 8
    notes: Sequence[Caveat] = ()

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        return [self._cut(prompt) for prompt in prompts]

    def _cut(self, prompt: Prompt) -> Cut:
        text = "\0".join((*prompt.tools, *(f"{part.role}\1{part.text}" for part in prompt.parts))).encode()
        state, chain = hashlib.blake2b(digest_size=8), []
        ends = [min(start + self.step, len(text)) for start in range(0, len(text), self.step)]
        for end in ends:
            state.update(text[end - self.step : end] if end % self.step == 0 else text[-(end % self.step) :])
            chain.append(int.from_bytes(state.digest(), "little"))
        return Cut(np.array(chain, dtype=np.uint64), np.array(ends, dtype=np.int64))


class TokenCutter(SmallCutter):
    by: Literal["tokens", "bytes"] = "tokens"


def entry(*parts: tuple[str, str], tools: Iterable[object] = (), tenant: str | None = None) -> Entry:
    texts = tuple(tool if isinstance(tool, str) else json.dumps(tool) for tool in tools)
    prompt = Prompt(parts=tuple(Part(*part) for part in parts), tools=texts)
    return Entry(at_s=0.0, input_tokens=None, output_tokens=1, content=prompt, tenant=tenant)


def watched(log: Sequence[Entry], watch: Watch | None = None) -> Watch:
    watch = watch or Watch()
    for line, one in enumerate(log, 1):
        watch(line, one)
    return watch


def found(log: Sequence[Entry], *, show_text: bool = False) -> tuple[Breaker, ...]:
    findings = watched(log).findings(SmallCutter(), show_text=show_text)
    assert findings is not None
    return findings


def now(i: int) -> str:
    return f"{datetime(2026, 11, 30, 12, tzinfo=UTC) + timedelta(minutes=i):%Y-%m-%d %H:%M}"


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def shuffled(rng: random.Random, things: Iterable[_T]) -> list[_T]:
    ordered = list(things)
    rng.shuffle(ordered)
    return ordered


def keys_shuffled(rng: random.Random, value: object) -> object:
    if isinstance(value, dict):
        return {key: keys_shuffled(rng, inner) for key, inner in shuffled(rng, value.items())}
    return value


def dated(rng: random.Random, count: int = 30) -> list[Entry]:
    return [entry(("system", f"Today is {now(i)}. {RULES}"), ("user", words(rng, 20))) for i in range(count)]


@pytest.fixture
def rng() -> random.Random:
    return random.Random(7)  # noqa: S311 - the same logs every time


def test_a_date_in_the_system_prompt_is_found_with_its_place_and_its_price(rng: random.Random) -> None:
    (breaker,) = found(dated(rng))
    assert breaker.what == "date_in_prefix"
    assert breaker.where.unit == "message"
    assert (breaker.where.index, breaker.where.role) == (0, "system")
    assert breaker.where.offset_bytes == len("Today is 2026-11-30 12:0")
    assert breaker.lines == breaker.where.lines == (1, 2)
    assert breaker.requests == 30
    # All of the rules is shared but once, of about 1,500 of 1,650 bytes a prompt.
    assert breaker.share_lost == pytest.approx(0.86, abs=0.04)
    assert breaker.gain == breaker.share_lost


@pytest.mark.parametrize(
    "value",
    [
        lambda r, _: str(uuid.UUID(int=r.getrandbits(128))),
        lambda r, _: f"{r.getrandbits(64):016x}",
        lambda _, i: f"#{1000 + i}",
        lambda r, _: f"user{r.randint(1, 999)}@example.org",
        lambda r, _: f"{r.choice(WORDS).title()} {r.choice(WORDS).title()}",
        lambda r, _: f"sess_{r.getrandbits(80):x}",
    ],
    ids=["uuid", "hex", "counter", "email", "name", "session"],
)
def test_what_names_a_user_or_request_in_the_system_prompt_is_an_id(
    rng: random.Random, value: Callable[[random.Random, int], str]
) -> None:
    log = [entry(("system", f"You help {value(rng, i)} here. {RULES}"), ("user", words(rng, 20))) for i in range(40)]
    (breaker,) = found(log)
    assert breaker.what == "id_in_prefix"
    assert breaker.where.offset_bytes >= len("You help ")


def test_a_date_and_a_name_in_one_sentence_are_two_findings(rng: random.Random) -> None:
    log = [
        entry(("system", f"You help {words(rng, 2).title()}, and it is {now(i)}. {RULES}"), ("user", words(rng, 20)))
        for i in range(40)
    ]
    assert {breaker.what for breaker in found(log)} == {"date_in_prefix", "id_in_prefix"}


def test_tools_in_unstable_order_are_found_at_the_first_that_differs(rng: random.Random) -> None:
    log = [entry(("system", RULES), ("user", words(rng, 20)), tools=shuffled(rng, TOOLS)) for _ in range(40)]
    (breaker,) = found(log)
    assert breaker.what == "tools_order"
    assert (breaker.where.unit, breaker.where.role) == ("tool", None)


def test_unstable_keys_in_tools_and_in_a_schema_inside_a_message_are_found(rng: random.Random) -> None:
    tools = [entry(("user", words(rng, 20)), tools=[keys_shuffled(rng, tool) for tool in TOOLS]) for _ in range(40)]
    schema = [
        entry(("system", f"{RULES}\n{json.dumps(keys_shuffled(rng, TOOLS[0]))}\n{RULES}"), ("user", words(rng, 20)))
        for _ in range(40)
    ]
    assert [(b.what, b.where.unit) for b in found(tools)] == [("json_key_order", "tool")]
    assert [(b.what, b.where.unit) for b in found(schema)] == [("json_key_order", "message")]


def test_shuffled_examples_are_found_as_messages_and_as_paragraphs_of_one_text(rng: random.Random) -> None:
    as_messages = [
        entry(
            ("system", "Answer briefly."),
            *(part for q, a in shuffled(rng, SHOTS) for part in (("user", q), ("assistant", a))),
            ("user", words(rng, 20)),
        )
        for _ in range(40)
    ]
    as_text = [
        entry(
            ("system", "\n\n".join(("Answer so:", *(f"Q: {q}\nA: {a}" for q, a in shuffled(rng, SHOTS)), RULES))),
            ("user", words(rng, 20)),
        )
        for _ in range(40)
    ]
    assert [breaker.what for breaker in found(as_messages)] == ["examples_order"]
    assert [breaker.what for breaker in found(as_text)] == ["examples_order"]


def test_a_users_text_in_front_of_shared_text_is_found_inside_a_message_and_as_one(rng: random.Random) -> None:
    inside = [entry(("system", f"{words(rng, 40)}\n\n{RULES}"), ("user", words(rng, 20))) for _ in range(40)]
    before = [entry(("user", words(rng, 40)), ("system", RULES), ("user", words(rng, 20))) for _ in range(40)]
    assert [breaker.what for breaker in found(inside)] == ["user_text_first"]
    assert [breaker.what for breaker in found(before)] == ["user_text_first"]


def test_habits_that_hide_one_another_are_all_found_and_their_shares_add_up(rng: random.Random) -> None:
    log = [
        entry(
            ("system", f"Session {uuid.UUID(int=rng.getrandbits(128))}\nNow: {now(i)}\n{RULES}"),
            *(part for q, a in shuffled(rng, SHOTS) for part in (("user", q), ("assistant", a))),
            ("user", words(rng, 10)),
            tools=shuffled(rng, [keys_shuffled(rng, tool) for tool in TOOLS]),
        )
        for i in range(40)
    ]
    breakers = found(log)
    assert {breaker.what for breaker in breakers} == set(KINDS) - {"user_text_first"}
    before = found(log)[-1].overlap_after - sum(breaker.share_lost for breaker in breakers)
    assert before == pytest.approx(0.0, abs=0.05), "nothing but the first few bytes was shared before"
    assert breakers[-1].overlap_after > 0.9
    assert all(breaker.share_lost > 0.01 for breaker in breakers)


def test_a_log_in_which_nothing_is_wrong_has_no_finding(rng: random.Random) -> None:
    dates_by_the_user = [
        entry(("system", RULES), ("user", f"On {now(i)} I ran:\n" + rng.choice(("print(1)\n", "f()\n")) * 60))
        for i in range(40)
    ]
    documents = [
        entry(("system", RULES), ("user", "\n\n".join(rng.sample([f"doc {w}: {w * 30}" for w in WORDS], 5))))
        for _ in range(60)
    ]
    tenants = [
        entry(("system", f"You work for {t}. {RULES}"), ("user", words(rng, 10)), tenant=t)
        for _ in range(80)
        for t in [rng.choice(WORDS)]
    ]
    own_tools = [rng.sample(TOOLS, 4) for _ in range(5)]
    tools = [entry(("user", words(rng, 30)), tools=rng.choice(own_tools)) for _ in range(60)]
    dated_last = [entry(("system", f"{RULES}\nToday is {now(i)}."), ("user", words(rng, 20))) for i in range(40)]
    for log in (dates_by_the_user, documents, tenants, tools, dated_last, [], log_of_one(), dialogues(rng)):
        assert watched(log).findings(SmallCutter()) in ((), None)


def log_of_one() -> list[Entry]:
    return [entry(("system", RULES), ("user", "Hello."))]


def dialogues(rng: random.Random) -> list[Entry]:
    log = []
    for _ in range(8):
        talk = [("system", RULES)]
        for _ in range(5):
            talk.append(("user", rng.choice(("Hello, are you there?", "Thanks, please go on.", words(rng, 10)))))
            log.append(entry(*talk))
            talk.append(("assistant", words(rng, 15)))
    return log


def test_less_than_one_in_a_hundred_tokens_is_no_finding(rng: random.Random) -> None:
    short = "Be kind, be brief, and never be late with it."
    log = [entry(("system", f"Today is {now(i)}. {short}"), ("user", words(rng, 1500))) for i in range(20)]
    assert found(log) == ()


def test_no_text_is_in_a_finding_unless_it_was_asked_for(rng: random.Random) -> None:
    log = dated(rng)
    hidden = msgspec.json.encode(found(log)).decode()
    assert "policy" not in hidden
    assert "2026" not in hidden
    (breaker,) = found(log, show_text=True)
    assert breaker.where.excerpts[0].startswith("0. Rule 0")
    assert breaker.where.excerpts[1].startswith("1. Rule 0")


def test_a_finding_as_json_has_the_keys_of_the_contract(rng: random.Random) -> None:
    (told,) = json.loads(msgspec.json.encode(found(dated(rng))))
    assert {"what", "where", "share_lost", "gain", "fix", "requests", "lines"} <= set(told)


def test_the_place_is_counted_in_bytes(rng: random.Random) -> None:
    log = [entry(("system", f"Grüße, heute: {now(i)}. {RULES}"), ("user", words(rng, 20))) for i in range(30)]
    (breaker,) = found(log)
    assert breaker.where.offset_bytes == len("Grüße, heute: 2026-11-30 12:0".encode())


def test_gain_is_what_the_fix_brings_at_the_capacity_asked_for(rng: random.Random) -> None:
    watch = watched(dated(rng))
    large = watch.findings(SmallCutter(), kv_tokens=1_000_000)
    small = watch.findings(SmallCutter(), kv_tokens=10)
    assert large is not None
    assert small is not None
    assert large[0].gain == pytest.approx(large[0].share_lost)
    assert small[0].gain < 0.1
    assert small[0].share_lost == large[0].share_lost


def test_what_a_fix_brings_is_counted_within_each_adapter_as_it_would_be_served(rng: random.Random) -> None:
    log = dated(rng, 40)

    def priced(adapters: int) -> Sequence[Breaker]:
        many = [msgspec.structs.replace(one, adapter=f"a{i % adapters}") for i, one in enumerate(log)]
        return watched(many).findings(SmallCutter(), kv_tokens=1_000_000) or ()

    (one,), (four,) = priced(1), priced(4)
    assert one.share_lost == found(log)[0].share_lost
    assert four.share_lost / one.share_lost == pytest.approx(36 / 39, rel=0.02)  # all prompts but an adapter's first
    assert four.gain == pytest.approx(four.share_lost)
    assert four.overlap_after < one.overlap_after
    assert priced(40) == ()


def test_a_log_without_text_has_no_findings_and_says_why() -> None:
    blocks = Entry(at_s=0.0, input_tokens=512, output_tokens=1, content=Blocks((1,), 512))
    watch = watched([blocks] * 5)
    assert watch.findings(SmallCutter()) is None
    assert [note.code for note in watch.notes(SmallCutter())] == ["breakers_need_text"]


def test_the_window_is_the_logs_start_and_a_longer_log_is_said(rng: random.Random) -> None:
    log = dated(rng, 60)
    watch = watched(log, Watch(window_bytes=50_000))
    breakers = watch.findings(SmallCutter())
    assert breakers is not None
    assert 20 < breakers[0].requests < 40
    (note,) = watch.notes(SmallCutter())
    assert note.code == "breakers_window"
    assert "of 60" in note.text
    assert watched(log).notes(SmallCutter()) == ()


def test_the_window_holds_no_more_than_so_many_prompts_however_short(rng: random.Random) -> None:
    watch = watched(dated(rng, 60), Watch(window_prompts=30))
    breakers = watch.findings(SmallCutter())
    assert breakers is not None
    assert breakers[0].requests == 30
    assert [note.text.split(" of ")[-1] for note in watch.notes(SmallCutter())] == ["60 prompts"]


def test_a_tokenizer_is_asked_for_less_of_the_log(rng: random.Random) -> None:
    log = [entry(("system", RULES), ("user", words(rng, 40_000))) for _ in range(40)]
    watch = watched(log)
    assert watch.notes(SmallCutter()) == ()
    assert [note.code for note in watch.notes(TokenCutter())] == ["breakers_window"]


def test_with_a_chat_template_prompts_are_priced_as_the_template_gives_them(rng: random.Random) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: i for i, word in enumerate(["[UNK]", *sorted(set(re.findall(r"\w+|[^\w\s]", RULES + NAMES)))])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 - a token of text
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    template = "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}"
    cutter = tokenizer_cutter(tokenizer.to_str().encode(), template=template, where="tokenizer.json")
    log = [
        entry(("system", f"User {rng.choice(WORDS)} {rng.choice(WORDS)} asks. {RULES}"), ("user", words(rng, 20)))
        for _ in range(40)
    ]
    findings = watched(log).findings(cutter)
    assert findings is not None
    assert [breaker.what for breaker in findings] == ["id_in_prefix"]
    assert findings[0].overlap_after < 0.99, "what differs is counted, not an empty conversation"
    assert findings[0].share_lost > 0.5


def test_fixes_lose_no_text_and_leave_alone_what_they_do_not_concern(rng: random.Random) -> None:
    log = [
        entry(
            ("system", f"Now: {now(i)}\nCaller: {rng.getrandbits(64):x}\n{RULES}"),
            *(part for q, a in shuffled(rng, SHOTS) for part in (("user", q), ("assistant", a))),
            ("user", words(rng, 10)),
            tools=shuffled(rng, [keys_shuffled(rng, tool) for tool in TOOLS]),
        )
        for i in range(30)
    ]
    prompts = tuple(one.content for one in log if isinstance(one.content, Prompt))
    scene = Scene(prompts, tuple(range(30)), (None,) * 30)
    other = Prompt(parts=(Part("user", "Something else."),))
    for suspect in (suspect for ways in KINDS.values() for suspect in ways):
        suspicion = suspect(scene)
        for fix in suspicion.fixes if suspicion else ():
            assert fix(other) is other
            for prompt in prompts:
                assert letters(fix(prompt)) == letters(prompt)
                assert fix(fix(prompt)) == fix(prompt) or suspicion is None or "prefix" in suspicion.what


def letters(prompt: Prompt) -> list[str]:
    text = "".join((*prompt.tools, *(part.text for part in prompt.parts)))
    return sorted(letter for letter in text if not letter.isspace())


pieces_of_text = st.lists(
    st.sampled_from(
        ["{", '{"a": 1, "b": 2}', "2025-05-06 10:15", "Q: a\nA: b", "\n\n", " ", "\ud800", "日", RULES[:300]]
    )
    | st.text(max_size=8),
    max_size=8,
).map("".join)
any_prompt = st.builds(
    Prompt,
    parts=st.lists(
        st.builds(Part, st.sampled_from(["system", "user", "assistant", "tool", ""]), pieces_of_text), max_size=4
    ).map(tuple),
    tools=st.lists(pieces_of_text, max_size=3).map(tuple),
)


@settings(deadline=None, max_examples=60)
@given(prompts=st.lists(any_prompt, max_size=12))
def test_any_prompts_at_all_give_findings_within_bounds(prompts: list[Prompt]) -> None:
    log = [Entry(at_s=None, input_tokens=None, output_tokens=None, content=prompt) for prompt in prompts]
    for breaker in watched(log).findings(BytesCutter(b"key"), kv_tokens=1000) or ():
        assert 0 <= breaker.share_lost <= 1
        assert 0 <= breaker.overlap_after <= 1
        assert 1 <= breaker.lines[0] <= len(log)
        assert 1 <= breaker.requests <= len(log)
