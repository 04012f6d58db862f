"""An OpenAI-compatible server over OpenVINO GenAI, which has none of its own. Run in the engine's own environment.

It logs no prompt and no answer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from http_wire import (
    MAX_HEAD_BYTES,
    EventStream,
    Incoming,
    Reader,
    Refusal,
    answer,
    answer_json,
    linger,
    read_request,
)
from openai_wire import Ask, Shape, parse
from pipeline import Config, Job, Owner, Piece

GRACE_S = 5.0
ANSWER_S = 1.0
QUEUED_CONNECTIONS = 1024


class Server:
    """The routes."""

    def __init__(self, owner: Owner, *, name: str, context_tokens: int) -> None:
        self._owner = owner
        self._name = name
        self._context_tokens = context_tokens
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._busy: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def connection(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        """Answers one request after another until the client has enough."""
        task = asyncio.current_task()
        if task is not None:
            self._open[task] = writer
            task.add_done_callback(self._open.pop)
        try:
            while await self._one(reader, writer):
                await writer.drain()
        except ConnectionError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, its message may hold a prompt and stays untold
            print(f"a request failed within the server: {where(error)}", flush=True)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def close(self) -> None:
        """Closes what is idle at once, and the rest when its answer is out or `ANSWER_S` have passed."""
        self._closing = True
        for task, writer in self._open.items():
            if task not in self._busy:
                writer.close()
        if self._open:
            await asyncio.wait(tuple(self._open), timeout=ANSWER_S)
        for writer in self._open.values():
            writer.close()

    async def _one(self, reader: Reader, writer: asyncio.StreamWriter) -> bool:
        """Whether another request may follow on this connection."""
        try:
            incoming = await read_request(reader, writer)
        except Refusal as refusal:
            answer_json(writer, refusal.status, refusal.body(), keep_alive=False)
            await linger(reader, writer)
            return False
        if incoming is None:
            return False
        task = asyncio.current_task()
        if task is None:
            return await self._answer(incoming, reader, writer)
        self._busy.add(task)
        try:
            return await self._answer(incoming, reader, writer) and not self._closing
        finally:
            self._busy.discard(task)

    async def _answer(self, incoming: Incoming, reader: Reader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection can stay. Whatever happens, the client gets an answer."""
        try:
            return await self._route(incoming, reader, writer)
        except Refusal as refusal:
            answer_json(writer, refusal.status, refusal.body(), keep_alive=incoming.keep_alive)
            return incoming.keep_alive
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            print(f"a request failed within the server: {where(error)}", flush=True)
            failure = Refusal(500, "the server failed while it worked on this request")
            answer_json(writer, failure.status, failure.body(), keep_alive=False)
            return False

    async def _route(self, incoming: Incoming, reader: Reader, writer: asyncio.StreamWriter) -> bool:
        keep, head = incoming.keep_alive, incoming.method == "HEAD"
        match "GET" if head else incoming.method, incoming.path:
            case "POST", "/v1/chat/completions" | "/v1/completions":
                return await self._generate(incoming, reader, writer)
            case "GET", "/v1/models":
                answer_json(writer, 200, self._models(), keep_alive=keep, head_only=head)
            case "GET", "/health":
                answer_json(writer, 200, {"status": "ok"}, keep_alive=keep, head_only=head)
            case "GET", "/metrics":
                metrics, kind = self._metrics().encode(), "text/plain; version=0.0.4"
                answer(writer, 200, metrics, kind=kind, keep_alive=keep, head_only=head)
            case _, "/v1/chat/completions" | "/v1/completions" | "/v1/models" | "/health" | "/metrics":
                raise Refusal(405, f"{incoming.path} does not take {incoming.method}")
            case _:
                raise Refusal(404, f"there is nothing at {incoming.path}")
        return keep

    async def _generate(self, incoming: Incoming, reader: Reader, writer: asyncio.StreamWriter) -> bool:
        ask = parse(incoming.body, chat=incoming.path == "/v1/chat/completions")
        if ask.model is not None and ask.model != self._name:
            raise Refusal(404, f"the model '{ask.model}' is not served here; '{self._name}' is", param="model")
        job = self._owner.submit(ask, gone=lambda: reader.ended or writer.is_closing())
        shape = Shape(model=self._name, chat=ask.chat)
        if ask.stream:
            keep = incoming.keep_alive and incoming.chunks
            events = EventStream(writer, keep_alive=keep, chunks=incoming.chunks)
            return await self._stream(ask, job, shape, events) and keep
        text, finish = "", None
        while finish is None:
            piece = await self._piece(job)
            text, finish = text + piece.text, piece.finish_reason
        answer_json(writer, 200, shape.whole(text, finish, job.usage), keep_alive=incoming.keep_alive)
        return incoming.keep_alive

    async def _stream(self, ask: Ask, job: Job, shape: Shape, events: EventStream) -> bool:
        """Whether the stream was ended in order. What fails before the first piece is still a proper error."""
        finish, first = None, True
        while finish is None:
            try:
                piece = await self._piece(job)
            except Refusal as refusal:
                if first:
                    raise
                await events.send(refusal.body())
                await events.close()
                return False
            if first and shape.chat:
                await events.send(shape.role())
            first, finish = False, piece.finish_reason
            if piece.text or finish:
                await events.send(shape.piece(piece.text, finish))
        if ask.include_usage:
            await events.send(shape.last(job.usage))
        await events.close()
        return True

    @staticmethod
    async def _piece(job: Job) -> Piece:
        piece = await job.pieces.get()
        if isinstance(piece, Refusal):
            raise piece
        return piece

    def _models(self) -> dict[str, Any]:
        model = {"id": self._name, "object": "model", "created": 0, "owned_by": "unmoor"}
        return {"object": "list", "data": [{**model, "max_model_len": self._context_tokens}]}

    def _metrics(self) -> str:
        counters = {
            "prompt_tokens_total": self._owner.prompt_tokens,
            "generation_tokens_total": self._owner.generated_tokens,
            "requests_finished_total": self._owner.finished,
        }
        kinds = (("gauge", self._owner.gauges()), ("counter", counters))
        lines = [
            f"# TYPE openvino_{name} {kind}\nopenvino_{name} {value}"
            for kind, set_ in kinds
            for name, value in set_.items()
        ]
        return "\n".join(lines) + "\n"


def where(error: BaseException) -> str:
    """What kind of error, and where it was raised. Never its message: that may quote what a client sent."""
    frames = traceback.extract_tb(error.__traceback__)
    at = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in frames[-1:])
    return type(error).__name__ + at


def _say_what_the_loop_met(_loop: asyncio.AbstractEventLoop, met: dict[str, Any]) -> None:
    """In place of asyncio's own handler, which prints messages and arguments."""
    error = met.get("exception")
    print(f"the event loop met {where(error) if error else 'something unexpected'}", flush=True)


async def serve(args: argparse.Namespace, listener: socket.socket) -> None:
    """Serves until asked to end; then lets what runs finish for `GRACE_S`, and cancels the rest."""
    owner = Owner(_config(args))
    server = Server(owner, name=args.served_model_name, context_tokens=args.context_tokens)
    stop = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(_say_what_the_loop_met)
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    stepping = asyncio.create_task(owner.run())
    listening = await asyncio.get_running_loop().create_server(
        lambda: asyncio.StreamReaderProtocol(Reader(limit=MAX_HEAD_BYTES), server.connection),
        sock=listener,
        backlog=QUEUED_CONNECTIONS,
    )
    print(f"serving {args.served_model_name} on http://{args.host}:{args.port}", flush=True)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({stepping, stopping}, return_when=asyncio.FIRST_COMPLETED)
    listening.close()
    if stepping.done() and (error := stepping.exception()) is not None:
        sys.exit(f"error: the engine's owner ended: {where(error)}")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(owner.idle.wait(), GRACE_S)
    stepping.cancel()
    owner.cancel_all()
    await server.close()


def _config(args: argparse.Namespace) -> Config:
    return Config(
        model=args.model,
        threads=args.threads,
        context_tokens=args.context_tokens,
        cache_gib=args.cache_gib,
        max_running=args.max_running,
        max_batch_tokens=args.max_batch_tokens,
        prefix_caching=args.prefix_caching,
        split_fuse=args.dynamic_split_fuse,
    )


def arguments() -> argparse.ArgumentParser:
    """The flags. No abbreviations: an adapter passes full names only."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--served-model-name", required=True, help="the name that requests give")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="inference threads")
    parser.add_argument("--context-tokens", type=int, default=2048, help="prompt and answer together")
    parser.add_argument("--cache-gib", type=int, default=1, help="memory for keys and values")
    parser.add_argument("--max-running", type=int, help="sequences in one step (the engine's default: 256)")
    parser.add_argument("--max-batch-tokens", type=int, help="tokens in one step (the engine's default: 256)")
    parser.add_argument("--prefix-caching", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--dynamic-split-fuse", action=argparse.BooleanOptionalAction, default=True)
    return parser


def main() -> None:
    """Takes the port before the model is loaded, so that a taken one is said at once."""
    args = arguments().parse_args()
    if not args.model.is_file():
        sys.exit(f"error: no model file at {args.model}")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((args.host, args.port))
    except OSError as error:
        sys.exit(f"error: cannot listen on {args.host}:{args.port}: {error.strerror}")
    asyncio.run(serve(args, listener))


if __name__ == "__main__":
    main()
