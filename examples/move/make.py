"""Makes the files beside this one: two invented gateway logs and what goes with them, the same bytes on every machine.

    python examples/move/make.py FOLDER

`requests.jsonl.gz` is a day of five teams that use, between them, everything that `unmoor move check` looks at: each
habit below comes a few times. `clean.jsonl.gz` is traffic of which nothing changes between any two of vLLM, SGLang,
TensorRT-LLM and llama.cpp. `start.sh` starts the engine of today, vLLM; `dashboards/` holds what relies on its names.
One JSON a line: `timestamp`, `team`, `session_id`, `status_code`, `duration_s`, `request` and `response`.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from unmoor.traffic.words import WORDS

Tree = dict[str, Any]

OK, CLIENT_GONE = 200, 499
START = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
MODEL, ADAPTERS = "llama-3.1-70b", ("claims-de", "claims-fr")
BOS = "<|begin_of_text|>"
TEMPLATED = (
    BOS + "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
)
GBNF = 'root ::= "yes" | "no" | "unsure"'
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFc"
    "SJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TAGS = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<call>"],
        "tags": [
            {"begin": "<call>", "content": {"type": "json_schema", "json_schema": {"type": "object"}}, "end": "</call>"}
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Habit:
    """What some requests of a team do: fields of the body, and what came back; `times` in the log."""

    team: str
    times: int
    body: Tree
    message: Tree = field(default_factory=dict)
    choice: Tree = field(default_factory=dict)
    answer: Tree = field(default_factory=dict)
    status: int = OK


def schemas() -> Iterator[Tree]:
    """Schemas, one for each keyword that grammar libraries differ in."""
    text, whole = {"type": "string"}, {"type": "integer"}
    yield from (
        _object(tags={"type": "array", "items": text, "uniqueItems": True}),
        _object(age={"type": "integer", "not": {"const": 0}}),
        _object(kind={"enum": ["a", "b"]}, more=text)
        | {"if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["more"]}},
        _object(card=text, address=text) | {"required": [], "dependentRequired": {"card": ["address"]}},
        _object(seen={"type": "array", "contains": {"const": "x"}}),
        {"allOf": [{"type": "object", "properties": {name: text}, "required": [name]} for name in ("first", "second")]},
        {"oneOf": [_object(name=text), _object(name=text, alias=text)]},
        {"anyOf": [_object(number=whole), _object(word=text)]},
        _object(code={"type": "string", "pattern": "^[A-Z]{3}$"}),
        _object(code={"type": "string", "pattern": "^[A-Z]+$", "maxLength": 4}),
        _object(day={"type": "string", "format": "date"}, mail={"type": "string", "format": "email"}),
        _object(iban={"type": "string", "format": "iban"}),
        _object(cents={"type": "integer", "multipleOf": 5}),
        {"type": "object", "patternProperties": {"^x-": text}, "additionalProperties": False},
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": text},
        _object(share={"type": "number", "minimum": 0, "exclusiveMaximum": 1}),
        _object(stars={"type": "integer", "minimum": 1, "maximum": 5}),
        _object(lines={"type": "array", "items": text, "minItems": 1, "maxItems": 3}),
        _object(title={"type": "string", "minLength": 3, "maxLength": 40}),
        {"type": "object", "additionalProperties": text, "minProperties": 1, "maxProperties": 4},
        {"type": "object", "properties": {"name": text}, "required": ["name", "undeclared"]},
        _object(colour={"enum": ["red", "green"]}, version={"const": 1}),
        {"$defs": {"line": _object(text=text)}, **_object(line={"$ref": "#/$defs/line"})},
        {
            "$defs": {"node": _object(next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})},
            "$ref": "#/$defs/node",
        },
        _object(pair={"type": "array", "prefixItems": [text, whole], "minItems": 2}),
        _object(note={"type": ["string", "null"]}, old={"type": "string", "nullable": True}),
        {"type": "object", "properties": {"open": text}, "required": ["open"]},
    )


def _object(**fields: Tree) -> Tree:
    """An object of these properties, all required, and no others."""
    return {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}


def by_schema(schema: Tree) -> Tree:
    """The field that asks for an answer of this schema."""
    return {"type": "json_schema", "json_schema": {"name": "record", "strict": True, "schema": schema}}


def tool(draw: random.Random, name: str, *, strict: bool | None = None) -> Tree:
    """A function as a chat request defines it."""
    fields = {word: {"type": "string", "description": prose(draw, 8)} for word in draw.sample(WORDS, 2)}
    function: Tree = {"name": name, "description": prose(draw, 20), "parameters": _object(**fields)}
    return {"type": "function", "function": function | ({} if strict is None else {"strict": strict})}


def prose(draw: random.Random, words: int) -> str:
    """A sentence of common words."""
    return " ".join(draw.choice(WORDS) for _ in range(words)).capitalize() + "."


def called(name: str, content: str | None) -> Tree:
    """A message that calls a tool."""
    function = {"name": name, "arguments": "{}"}
    return {"content": content, "tool_calls": [{"id": "call-1", "type": "function", "function": function}]}


def logprobs(count: int) -> Tree:
    """The probabilities that come with an answer."""
    top = [{"token": "yes", "logprob": -0.1, "bytes": None}] * count
    return {"logprobs": {"content": [{"token": "yes", "logprob": -0.1, "bytes": None, "top_logprobs": top}]}}


def support() -> Iterator[Habit]:
    """Chats with people: sampling in every spelling, streams, thinking, ends and failures."""
    usual = {"temperature": 0.3, "top_p": 0.9, "max_tokens": 400, "stream": True}
    asked = {"stream_options": {"include_usage": True}}
    for off in (-1, 0, 40):
        yield Habit("support", 8, usual | asked | {"top_k": off})
    yield Habit("support", 50, {"temperature": 0.3, "stream": True})
    yield Habit("support", 6, {"max_completion_tokens": 300, "user": "desk-7", "store": True})
    yield Habit("support", 5, usual | {"metadata": {"desk": "7"}, "service_tier": "default"})
    yield Habit("support", 4, {"max_tokens": 200, "temperature": 0, **asked})
    yield Habit(
        "support", 4, {"max_tokens": 200, "temperature": 2.0, "top_p": 0.5, "min_p": 0.05, "frequency_penalty": 0.2}
    )
    yield Habit("support", 4, {"max_tokens": 200, "repetition_penalty": 1.1, "presence_penalty": 0.4})
    yield Habit("support", 3, {"max_tokens": 200, "repetition_penalty": 2.5, "top_p": 0})
    yield Habit("support", 2, {"max_tokens": 200, "repeat_penalty": 1.1})
    yield Habit("support", 2, {"max_tokens": 0})
    ended = {"stop": ["\n\n", "User:"], "stop_token_ids": [128009]}
    yield Habit("support", 6, usual | ended, choice={"stop_reason": "User:"})
    yield Habit(
        "support",
        3,
        {"max_tokens": 90, "stop": ["\n"], "include_stop_str_in_output": True},
        choice={"stop_reason": 128009},
    )
    yield Habit(
        "support", 2, {"max_tokens": 90, "stop_regex": "[.!?]$", "no_stop_trim": True}, choice={"matched_stop": "."}
    )
    yield Habit(
        "support", 3, {"max_tokens": 90, "min_tokens": 20, "ignore_eos": True}, choice={"finish_reason": "length"}
    )
    yield Habit("support", 3, {"max_tokens": 90, "bad_words": ["alas"], "logit_bias": {"1734": -100}})
    cached = {"usage": {"prompt_tokens": 500, "completion_tokens": 80, "prompt_tokens_details": {"cached_tokens": 448}}}
    yield Habit("support", 8, usual | {"cache_salt": "desk-7"}, answer=cached)
    yield Habit("support", 6, usual | {"priority": -5})
    yield Habit("support", 6, usual | {"priority": 10})
    for model in ADAPTERS:
        yield Habit("support", 5, {"model": model, "max_tokens": 120, "temperature": 0.1})
    yield Habit("support", 2, {"max_tokens": 120, "lora_path": ADAPTERS[0]})
    yield Habit(
        "support",
        2,
        {"max_tokens": 120, "lora_request": {"lora_name": ADAPTERS[1], "lora_int_id": 2, "lora_path": "/a/fr"}},
    )
    yield Habit("support", 2, {"max_tokens": 120, "lora": [{"id": 0, "scale": 1.0}]})
    thought = {"reasoning": "Let me see what they need."}
    yield Habit("support", 5, {"max_tokens": 900, "reasoning_effort": "high"}, message=thought)
    yield Habit(
        "support", 3, {"max_tokens": 900, "reasoning_effort": "minimal", "include_reasoning": True}, message=thought
    )
    yield Habit(
        "support", 3, {"max_tokens": 900, "separate_reasoning": True}, message={"reasoning_content": "Let me see."}
    )
    yield Habit(
        "support",
        3,
        {"max_tokens": 900, "chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 256},
        message=thought,
    )
    yield Habit("support", 2, {"max_tokens": 900, "enable_thinking": False})
    yield Habit(
        "support", 2, {"max_tokens": 900}, message={"content": "<think>They ask for hours.</think>We open at nine."}
    )
    yield Habit("support", 3, {"max_tokens": 200}, choice={"finish_reason": "abort"})
    yield Habit("support", 3, usual, status=CLIENT_GONE)
    nested = {
        "error": {
            "message": "This model's maximum context length is 8192 tokens.",
            "type": "BadRequestError",
            "code": 400,
        }
    }
    yield Habit("support", 3, {"max_tokens": 200}, answer=nested, status=400)
    yield Habit(
        "support",
        2,
        {"model": "retired-model", "max_tokens": 9},
        answer={"error": {"message": "The model does not exist.", "type": "NotFoundError", "code": 404}},
        status=404,
    )
    yield Habit(
        "support",
        2,
        {"max_tokens": 9},
        answer={"error": {"message": "The engine is currently busy.", "code": 503}},
        status=503,
    )
    yield Habit("support", 1, {"max_tokens": 9}, answer={"error": "Unauthorized"}, status=401)
    yield Habit(
        "support",
        1,
        {"max_tokens": 9},
        answer={"object": "error", "message": "The queue is full.", "type": "Busy", "code": 503},
        status=503,
    )


def extract() -> Iterator[Habit]:
    """Answers in a form: every kind of constraint in every engine's spelling, and those of years ago."""
    sure = {"temperature": 0, "max_tokens": 300}
    for schema in schemas():
        yield Habit("extract", 2, sure | {"response_format": by_schema(schema)})
    small = _object(answer={"type": "string"})
    for form in (
        {"type": "json_object"},
        {"type": "text"},
        {"type": "regex", "regex": "(yes|no)"},
        {"type": "ebnf", "ebnf": GBNF},
        {"type": "json_object", "schema": small},
        TAGS,
    ):
        yield Habit("extract", 2, sure | {"response_format": form})
    for inner in (
        {"json": small},
        {"regex": "[0-9]{4}-[0-9]{2}"},
        {"grammar": GBNF},
        {"choice": ["refund", "exchange", "(other)"]},
        {"json_object": True},
        {"structural_tag": json.dumps(TAGS)},
    ):
        yield Habit("extract", 3, sure | {"structured_outputs": inner})
    for named in (
        {"guided_json": small},
        {"guided_regex": "[0-9]+"},
        {"guided_choice": ["yes", "no"]},
        {"guided_grammar": GBNF},
        {"regex": "[0-9]+"},
        {"ebnf": GBNF},
        {"grammar": GBNF},
        {"json_schema": small},
    ):
        yield Habit("extract", 2, sure | named)


def agents(draw: random.Random) -> Iterator[Habit]:
    """Tools and what comes of them, pictures, and templates asked for by the request."""
    tools = [tool(draw, name) for name in ("find_order", "send_mail")]
    strict = [tool(draw, "find_order", strict=True)]
    usual = {"temperature": 0.2, "max_tokens": 500, "tools": tools}
    yield Habit("agents", 8, usual, message=called("find_order", None), choice={"finish_reason": "tool_calls"})
    yield Habit(
        "agents",
        6,
        usual | {"tool_choice": "auto"},
        message=called("send_mail", ""),
        choice={"finish_reason": "tool_calls"},
    )
    yield Habit(
        "agents",
        4,
        usual | {"tool_choice": "required"},
        message=called("find_order", "Well."),
        choice={"finish_reason": "tool_calls"},
    )
    yield Habit("agents", 3, usual | {"tool_choice": "none"})
    one = {"type": "function", "function": {"name": "find_order"}}
    yield Habit(
        "agents", 4, usual | {"tool_choice": one, "parallel_tool_calls": False}, message=called("find_order", None)
    )
    raw = '<tool_call>\n{"name": "find_order", "arguments": {}}\n</tool_call>'
    yield Habit("agents", 3, usual | {"tools": strict}, message={"content": raw})
    said = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PIXEL}}],
        }
    ]
    yield Habit("agents", 4, {"messages": said, "max_tokens": 60})
    gone_on = [{"role": "user", "content": "Write a list."}, {"role": "assistant", "content": "1. "}]
    yield Habit(
        "agents",
        3,
        {"messages": gone_on, "max_tokens": 60, "continue_final_message": True, "add_generation_prompt": False},
    )
    yield Habit("agents", 2, {"messages": gone_on, "max_tokens": 60, "echo": True})
    told = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello.", "name": "desk"}]
    yield Habit(
        "agents", 2, {"messages": told, "max_tokens": 60, "documents": [{"title": "Hours", "text": "Nine to five."}]}
    )
    yield Habit("agents", 2, {"max_tokens": 60, "chat_template": "{{ messages[0].content }}"})
    yield Habit(
        "agents",
        2,
        {"max_tokens": 60, "truncate_prompt_tokens": 512, "skip_special_tokens": False, "add_special_tokens": False},
    )


def research() -> Iterator[Habit]:
    """Numbers about answers: several at once, seeds, probabilities."""
    yield Habit("research", 5, {"max_tokens": 80, "n": 4, "temperature": 0.8, "seed": 7})
    yield Habit("research", 2, {"max_tokens": 80, "n": 8, "temperature": 1.0})
    yield Habit(
        "research", 4, {"max_tokens": 80, "logprobs": True, "top_logprobs": 5, "temperature": 0.5}, choice=logprobs(5)
    )
    yield Habit(
        "research", 2, {"max_tokens": 80, "logprobs": True, "top_logprobs": 40, "temperature": 1}, choice=logprobs(40)
    )
    yield Habit("research", 2, {"max_tokens": 80, "prompt_logprobs": 1, "temperature": 1})
    yield Habit("research", 2, {"max_tokens": 80, "use_beam_search": True, "n": 4, "temperature": 0})
    yield Habit("research", 2, {"max_tokens": 80, "seed": 7, "temperature": 0, "spaces_between_special_tokens": False})


def legacy() -> Iterator[Habit]:
    """Scripts that still write out the template themselves, and send it to completions."""
    yield Habit("legacy", 8, {"prompt": TEMPLATED, "max_tokens": 150, "temperature": 0.2})
    yield Habit("legacy", 3, {"prompt": TEMPLATED, "max_tokens": 150, "add_special_tokens": False})
    yield Habit("legacy", 6, {"prompt": "", "temperature": 0.7})
    yield Habit("legacy", 5, {"prompt": "", "max_completion_tokens": 150})
    yield Habit(
        "legacy",
        3,
        {"prompt": "", "max_tokens": 1, "echo": True, "logprobs": 5},
        choice={"logprobs": {"tokens": ["yes"]}},
    )
    yield Habit("legacy", 2, {"prompt": ["One.", "Two."], "max_tokens": 16, "best_of": 2, "suffix": "End."})
    yield Habit("legacy", 2, {"prompt": "", "max_tokens": 16, "cache_salt": "desk-7", "stream": True})
    yield Habit(
        "legacy", 2, {"prompt": "", "max_tokens": 90, "response_format": by_schema(_object(answer={"type": "string"}))}
    )


def responses() -> Iterator[Habit]:
    """The newer interface: answers kept by the server, and gone on from."""
    form = {"type": "json_schema", "name": "record", "schema": _object(total={"type": "number"})}
    yield Habit("portal", 5, {"input": "", "max_output_tokens": 300, "reasoning": {"effort": "medium"}})
    yield Habit("portal", 3, {"input": "", "text": {"format": form}, "store": True, "metadata": {"desk": "7"}})
    yield Habit(
        "portal", 3, {"input": "", "previous_response_id": "resp-1", "instructions": "Be brief.", "truncation": "auto"}
    )
    yield Habit("portal", 2, {"input": "", "priority": 3, "top_k": 0, "service_tier": "flex", "user": "desk-7"})
    cut = {"status": "cancelled"}
    yield Habit("portal", 2, {"input": "", "stream": True, "prompt_cache_key": "desk-7"}, answer=cut)


def clean() -> Iterator[Habit]:
    """Requests that say what they want, in words that all four engines understand alike."""
    said = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "max_tokens": 256, "reasoning_effort": "low"}
    yield Habit("support", 40, said)
    yield Habit("support", 20, said | {"stream": True, "stream_options": {"include_usage": True}})
    yield Habit(
        "support", 20, said | {"stop": ["END"], "presence_penalty": 0.5, "frequency_penalty": 0.5, "min_p": 0.05}
    )
    prompt = {name: value for name, value in said.items() if name != "reasoning_effort"}
    yield Habit("legacy", 20, prompt | {"prompt": ""})


def log(habits: Iterable[Habit], draw: random.Random) -> Iterator[Tree]:
    """The log's lines in order of time: every habit as often as it says, mixed."""
    rows = [habit for habit in habits for _ in range(habit.times)]
    draw.shuffle(rows)
    at = START
    for habit in rows:
        at += timedelta(seconds=draw.expovariate(1 / 20))
        yield {
            "timestamp": at.isoformat(timespec="milliseconds"),
            "team": habit.team,
            "session_id": f"{habit.team}-{draw.randint(1, 40)}",
            "status_code": habit.status,
            "duration_s": round(draw.uniform(0.4, 8), 3),
            "request": said(habit.body, draw),
            "response": {} if habit.status == CLIENT_GONE else answered(habit, draw),
        }


def said(body: Tree, draw: random.Random) -> Tree:
    """A body with its text: messages, a prompt or an input."""
    whole: Tree = {"model": MODEL, **body}
    if "prompt" in body:
        if isinstance(body["prompt"], str):
            whole["prompt"] = (body["prompt"] or "{}").format(prose(draw, 30))
    elif "input" in body:
        whole["input"] = [{"role": "user", "content": [{"type": "input_text", "text": prose(draw, 20)}]}]
    elif "messages" not in body:
        system = {"role": "system", "content": "You answer customers of a shop. " * 8}
        whole["messages"] = [system, {"role": "user", "content": prose(draw, draw.randint(8, 60))}]
    return whole


def answered(habit: Habit, draw: random.Random) -> Tree:
    """What came back."""
    tokens = draw.randint(10, 200)
    usage = {"prompt_tokens": draw.randint(60, 400), "completion_tokens": tokens}
    if habit.status != OK:
        return habit.answer
    if "input" in habit.body:
        text = [{"type": "output_text", "text": prose(draw, 12)}]
        return {"status": "completed", "output": [{"type": "message", "content": text}], "usage": usage} | habit.answer
    text_or_message = (
        {"text": prose(draw, 12)}
        if "prompt" in habit.body
        else {"message": {"role": "assistant", "content": prose(draw, 12)} | habit.message}
    )
    choices = [{"index": 0, "finish_reason": "stop"} | text_or_message | habit.choice]
    return {"choices": choices, "usage": usage} | habit.answer


START_COMMAND = """\
# How the engine of today is started.
VLLM_NO_USAGE_STATS=1 vllm serve /models/llama-3.1-70b \\
  --served-model-name llama-3.1-70b \\
  --tensor-parallel-size 4 \\
  --max-num-seqs 128 \\
  --max-model-len 8192 \\
  --gpu-memory-utilization 0.9 \\
  --enable-lora --max-loras 4 --max-lora-rank 32 \\
  --scheduling-policy priority \\
  --enable-auto-tool-choice --tool-call-parser llama3_json \\
  --enable-prompt-tokens-details --enforce-eager --swap-space 4
"""

_EXPRESSIONS = (
    ("Requests that run", "sum(vllm:num_requests_running)"),
    ("Requests that wait", "sum(vllm:num_requests_waiting)"),
    ("KV cache in use", "avg(vllm:kv_cache_usage_perc)"),
    ("Prefix cache", "rate(vllm:prefix_cache_hits_total[5m]) / rate(vllm:prefix_cache_queries_total[5m])"),
    ("First token, p95", "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))"),
    ("First token in a second", 'sum(rate(vllm:time_to_first_token_seconds_bucket{le="1.0"}[5m]))'),
)
DASHBOARD = {
    "title": "Inference",
    "panels": [
        {"id": number, "title": title, "type": "timeseries", "targets": [{"expr": expression}]}
        for number, (title, expression) in enumerate(_EXPRESSIONS, 1)
    ],
}

ALERTS = """\
groups:
  - name: inference
    rules:
      - alert: RequestsWait
        expr: sum(vllm:num_requests_waiting) > 50
        for: 5m
      - alert: Preemptions
        expr: rate(vllm:num_preemptions_total[10m]) > 0.1
probes:
  liveness: {httpGet: {path: /health, port: 8000}}
  version: {httpGet: {path: /version, port: 8000}}
"""


CLIENT = """\
// Asks for an answer, and says why there is none.
export async function answer(url: string, body: object): Promise<string> {
  const told = await (await fetch(`${url}/v1/chat/completions`, { method: "POST", body: JSON.stringify(body) })).json();
  if (told.error) throw new Error(told.error.message);
  return told.choices[0].message.content;
}
"""


def files(seed: int = 20261130) -> Iterator[tuple[str, bytes]]:
    """Every file's name and its bytes."""
    draw = random.Random(seed)  # noqa: S311 - invented logs, not a secret
    everything = [*support(), *extract(), *agents(draw), *research(), *legacy(), *responses()]
    for name, habits in (("requests", everything), ("clean", clean())):
        lines = "".join(json.dumps(line) + "\n" for line in log(habits, draw))
        yield f"{name}.jsonl.gz", gzip.compress(lines.encode(), mtime=0)
    yield "start.sh", START_COMMAND.encode()
    yield "dashboards/dashboard.json", json.dumps(DASHBOARD, indent=2).encode() + b"\n"
    yield "dashboards/alerts.yaml", ALERTS.encode()
    yield "dashboards/client.ts", CLIENT.encode()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "dashboards").mkdir(exist_ok=True)
    for name, made in files():
        (folder / name).write_bytes(made)
