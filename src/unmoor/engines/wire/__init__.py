"""The OpenAI-compatible wire without I/O: request bodies, and what timed bytes of an answer say.

`ask.py` writes what is asked; `sse.py` finds events in bytes; `chunk.py` knows the words of the endpoints in them;
`answer.py` says what came of it all, `form_check.py` whether it has the form asked for, `error_text.py` what failed.
"""

from unmoor.engines.wire.answer import AnswerReading, Usage, all_text, read_answer, read_body, read_stream
from unmoor.engines.wire.ask import STREAMED, AnswerForm, Endpoint, chat_body, completion_body, responses_body
from unmoor.engines.wire.error_text import error_text, withhold

__all__ = [
    "STREAMED",
    "AnswerForm",
    "AnswerReading",
    "Endpoint",
    "Usage",
    "all_text",
    "chat_body",
    "completion_body",
    "error_text",
    "read_answer",
    "read_body",
    "read_stream",
    "responses_body",
    "withhold",
]
