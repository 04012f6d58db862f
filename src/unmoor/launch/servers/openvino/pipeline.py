"""The engine's pipeline and its one owner. Requests wait in a queue, tokens come out as text, step by step.

`step()` of openvino-genai 2026.4.1 keeps the interpreter's lock for as long as it computes (seen: a second thread ran
once per step). A second thread for HTTP would therefore get no time while a step runs, and lose its turn at every
write in between. So the event loop's own thread owns the pipeline, and lets the loop turn between two steps.

`max_num_seqs` bounds nothing while dynamic split fuse is on (seen: 1 let twelve requests decode together). So requests
beyond `max_running` wait here, and the setting means what it says.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openvino_genai as genai
from answer_text import Text
from http_wire import Refusal
from openai_wire import Ask, Usage
from schemas import Tried

# What a new request takes to come through: accept, connect, wait for bytes, read, parse, submit.
LOOP_TURNS = 8
MAX_WAITING = 4096
# Below this a temperature is 0 to the engine's own arithmetic, and means the same: the likeliest token (as in vLLM).
COLDEST = 1e-5


@dataclass(frozen=True, slots=True)
class Config:
    """What the pipeline is built with. `cache_gib` is memory for keys and values; None leaves the engine's default."""

    model: Path
    threads: int
    context_tokens: int
    cache_gib: int
    max_running: int | None
    max_batch_tokens: int | None
    prefix_caching: bool
    split_fuse: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that became known with one step. `finish_reason` is set on the last one."""

    text: str
    finish_reason: str | None


@dataclass(slots=True)
class Job:
    """One request on its way. `gone` says whether its client has left."""

    ask: Ask
    input_ids: Any
    usage: Usage
    max_tokens: int
    gone: Callable[[], bool]
    handle: Any = None
    text: Text | None = None
    pieces: asyncio.Queue[Piece | Refusal] = field(default_factory=asyncio.Queue)


class Owner:
    """Owns the pipeline: the only one to add requests and to step."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._pipeline = _build(config)
        self._tokenizer = self._pipeline.get_tokenizer()
        self._ids = itertools.count()
        self._waiting: deque[Job] = deque()
        self._active: list[Job] = []
        self._tried = Tried()
        self._trial: Job | None = None
        self._work = asyncio.Event()
        self.idle = asyncio.Event()
        self.prompt_tokens = self.generated_tokens = self.finished = 0
        self._refuse_long_context()

    def _refuse_long_context(self) -> None:
        """The tokenizer cuts every text at the model's own limit, and so tells that limit."""
        wanted = self._config.context_tokens
        limit = self._encode(" a" * (wanted + 8)).shape[1]
        if limit < wanted:
            raise SystemExit(f"error: a context of {wanted} tokens is more than the model's own {limit}")

    def submit(self, ask: Ask, gone: Callable[[], bool]) -> Job:
        """The request on its way. Raises Refusal when it does not fit, or the queue is full."""
        if len(self._waiting) >= MAX_WAITING:
            raise Refusal(503, "the queue is full")
        fault = self._tried.fault(ask.json_schema) if ask.json_schema is not None else None
        if fault is not None:
            raise _unusable(fault)
        input_ids = self._encode(self._prompt(ask))
        usage = Usage(prompt_tokens=input_ids.shape[1])
        job = Job(ask, input_ids, usage, self._room(ask, usage.prompt_tokens), gone)
        job.text = Text(self._tokenizer.decode, ask.stop)
        self._waiting.append(job)
        self._work.set()
        return job

    def _admit(self) -> None:
        most = self._config.max_running
        while self._waiting and (most is None or len(self._active) < most) and self._may_enter(self._waiting[0]):
            job = self._waiting.popleft()
            try:
                job.handle = self._pipeline.add_request(next(self._ids), job.input_ids, _generation(job))
            except Exception as error:  # noqa: BLE001 - a binding's TypeError too: one request must not end the owner
                job.pieces.put_nowait(Refusal(400, f"the engine refuses these parameters: {_short(error)}"))
                continue
            self._active.append(job)
            if self._is_new(job):
                self._trial = job
            self.prompt_tokens += job.usage.prompt_tokens

    def _may_enter(self, job: Job) -> bool:
        """A schema that the engine has not seen yet enters alone, up to its first token: it may break the step."""
        return self._trial is None and not (self._active and self._is_new(job))

    def _is_new(self, job: Job) -> bool:
        return job.ask.json_schema is not None and not self._tried.knows(job.ask.json_schema)

    def _prompt(self, ask: Ask) -> str:
        if ask.messages is None:
            return ask.prompt or ""
        try:
            return str(self._tokenizer.apply_chat_template(ask.messages, add_generation_prompt=True))
        except Exception as error:  # noqa: BLE001 - a binding's TypeError too
            raise Refusal(400, f"the chat template refuses these messages: {_short(error)}", param="messages") from None

    def _encode(self, text: str) -> Any:
        try:
            return self._tokenizer.encode(text, add_special_tokens=False).input_ids
        except Exception:  # noqa: BLE001 - a binding's TypeError too, whose message holds the text
            raise Refusal(400, "the tokenizer cannot take this text") from None

    def _room(self, ask: Ask, prompt_tokens: int) -> int:
        context, batch = self._config.context_tokens, self._config.max_batch_tokens
        left = context - prompt_tokens
        if left < 1 or (ask.max_tokens or 1) > left:
            more = f" and {ask.max_tokens} for the answer" if ask.max_tokens else ""
            at_least = " at least" if left < 1 else ""
            message = f"the context is {context} tokens; the request has{at_least} {prompt_tokens} in its prompt{more}"
            raise Refusal(400, message, param="messages" if ask.chat else "prompt")
        if not self._config.split_fuse and batch is not None and prompt_tokens > batch:
            raise Refusal(400, f"without split fuse a prompt of {prompt_tokens} tokens does not fit a batch of {batch}")
        return ask.max_tokens or left

    async def run(self) -> None:
        """Steps for as long as there is work, and lets the event loop turn in between."""
        while True:
            if not self._active and not self._waiting:
                self.idle.set()
                self._work.clear()
                await self._work.wait()
                self.idle.clear()
            self._drop_the_gone()
            self._admit()
            if self._active:
                self._step()
            for _ in range(LOOP_TURNS):
                await asyncio.sleep(0)

    def cancel_all(self) -> None:
        """Ends every request, so that the pipeline can be left in order."""
        for job in self._active:
            job.handle.cancel()
        for job in (*self._active, *self._waiting):
            job.pieces.put_nowait(Refusal(503, "the server is shutting down"))
        self._active.clear()
        self._waiting.clear()
        self._trial = None
        if self._pipeline.has_non_finished_requests():
            self._pipeline.step()

    def _drop_the_gone(self) -> None:
        for job in [job for job in self._active if job.gone()]:
            job.handle.cancel()
            self._leave(job)
            job.pieces.put_nowait(Refusal(503, "the client has left"))
        for job in [job for job in self._waiting if job.gone()]:
            self._waiting.remove(job)
            job.pieces.put_nowait(Refusal(503, "the client has left"))
        if not self._active and self._pipeline.has_non_finished_requests():
            self._pipeline.step()

    def _step(self) -> None:
        try:
            self._pipeline.step()
            for job in tuple(self._active):
                self._read(job)
        except Exception as error:  # noqa: BLE001 - a binding's TypeError too: one request must not end the owner
            self._rebuild(error)

    def _read(self, job: Job) -> None:
        ids: list[int] = []
        finish = None
        while job.handle.can_read():
            for output in job.handle.read().values():
                ids.extend(output.generated_ids)
                finish = _finish_reason(output.finish_reason) or finish
        if job.handle.get_status() == genai.GenerationStatus.IGNORED:
            self._end(job, Refusal(500, "the KV cache is too small for this request"))
            return
        if job.text is None or not (ids or finish):
            return
        if job is self._trial and ids:
            self._tried.note(job.ask.json_schema or "", None)
            self._trial = None
        job.usage.completion_tokens += len(ids)
        self.generated_tokens += len(ids)
        text = job.text.add(ids, last=finish is not None)
        if job.text.stopped:
            job.handle.cancel()
            finish = "stop"
        piece = Piece(text, finish)
        if finish is not None:
            self._end(job, piece)
        elif text:
            job.pieces.put_nowait(piece)

    def _leave(self, job: Job) -> None:
        self._active.remove(job)
        if job is self._trial:
            self._trial = None

    def _end(self, job: Job, how: Piece | Refusal) -> None:
        self._leave(job)
        self.finished += 1
        job.pieces.put_nowait(how)

    def _rebuild(self, error: Exception) -> None:
        """After a failed step the pipeline is of no more use: a new one takes its place.

        The usual cause is a JSON schema that the engine cannot compile, which it only finds out here. Then that is
        remembered, and nobody else was in the step.
        """
        trial = self._trial
        # A schema is the client's own text, and the reason may quote it: then the log stays silent on it.
        silent = any(job.ask.json_schema is not None for job in self._active)
        print(f"a step failed, the pipeline is rebuilt: {'a schema' if silent else _short(error)}", flush=True)
        for job in tuple(self._active):
            if job is trial:
                self._tried.note(job.ask.json_schema or "", _short(error))
            self._end(
                job, _unusable(_short(error)) if job is trial else Refusal(500, "the engine failed at this request")
            )
        self._pipeline = _build(self._config)
        self._tokenizer = self._pipeline.get_tokenizer()

    def gauges(self) -> dict[str, float]:
        """What the engine says of itself; what it last said of requests is not kept when there are none."""
        said = self._pipeline.get_metrics()
        running = said.scheduled_requests if self._active else 0
        return {
            "requests_running": running,
            "requests_waiting": len(self._waiting) + max(0, len(self._active) - running),
            "kv_cache_usage": said.cache_usage / 100,  # it says per cent
            "kv_cache_bytes": said.kv_cache_size_in_bytes,
        }


def _unusable(fault: str) -> Refusal:
    return Refusal(400, f"the engine cannot use this schema: {fault}", param="response_format")


def _build(config: Config) -> Any:
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = config.cache_gib
    scheduler.enable_prefix_caching = config.prefix_caching
    scheduler.dynamic_split_fuse = config.split_fuse
    if config.max_running is not None:
        scheduler.max_num_seqs = config.max_running
    if config.max_batch_tokens is not None:
        scheduler.max_num_batched_tokens = config.max_batch_tokens
    properties = {"INFERENCE_NUM_THREADS": config.threads}
    return genai.ContinuousBatchingPipeline(
        str(config.model), scheduler_config=scheduler, device="CPU", properties=properties
    )


def _generation(job: Job) -> Any:
    ask, numbers = job.ask, job.ask.numbers
    wanted = genai.GenerationConfig()
    wanted.max_new_tokens = job.max_tokens
    wanted.ignore_eos = ask.ignore_eos
    wanted.min_new_tokens = int(numbers["min_tokens"] or 0)
    wanted.do_sample = (numbers["temperature"] or 0.0) >= COLDEST
    if wanted.do_sample:
        wanted.temperature = numbers["temperature"]
        wanted.top_p = numbers["top_p"]
        wanted.min_p = numbers["min_p"] or 0.0
        if (numbers["top_k"] or 0) > 0:
            wanted.top_k = int(numbers["top_k"] or 0)
        if numbers["seed"] is not None:
            wanted.rng_seed = int(numbers["seed"]) % 2**63
    wanted.presence_penalty = numbers["presence_penalty"]
    wanted.frequency_penalty = numbers["frequency_penalty"]
    wanted.repetition_penalty = numbers["repetition_penalty"]
    if ask.json_schema is not None:
        wanted.structured_output_config = genai.StructuredOutputConfig()
        wanted.structured_output_config.json_schema = ask.json_schema
    return wanted


def _finish_reason(reason: Any) -> str | None:
    known = {genai.GenerationFinishReason.STOP: "stop", genai.GenerationFinishReason.LENGTH: "length"}
    return known.get(reason)


def _short(error: Exception) -> str:
    """The last line of what the engine says, which is the reason; the ones before are its own source's whereabouts.

    An error of the binding itself is told by its kind only: its message repeats every argument.
    """
    if not isinstance(error, RuntimeError):
        return type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"^.*\.\w+:\d+: ", "", lines[-1])[:200] if lines else "no reason given"
