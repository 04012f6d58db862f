"""An engine is ready when it has answered a real completion: a port that listens, or a health page, is not enough."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from unmoor.core.errors import EngineDiedError

POLL_S = 0.2
SAY_EVERY_S = 10.0
ANSWER_S = 60.0
OK = 200


def wait_until_ready(
    url: str,
    served_name: str,
    *,
    title: str,
    check_alive: Callable[[], None],
    timeout_s: float,
    say: Callable[[str], None],
    log_path: Path,
) -> float:
    """Seconds until the first completion was answered. `check_alive` raises as soon as the engine has ended.

    Raises EngineDiedError after `timeout_s` without an answer.
    """
    started = said = time.monotonic()
    seen = "no connection"
    while (now := time.monotonic()) - started < timeout_s:
        check_alive()
        answer = ask_once(url, served_name)
        if answer is None:
            # The answer could be a stranger's, who took the port while ours was dying of it.
            check_alive()
            return time.monotonic() - started
        seen = answer
        if now - said >= SAY_EVERY_S:
            said = now
            say(f"waiting for {title}: {now - started:.0f} s")
        time.sleep(POLL_S)
    raise EngineDiedError(
        f"{title} has not answered within {timeout_s:.0f} s",
        where=str(log_path),
        seen=seen,
        expected="an answer to one completion",
        hint="its log says how far it came; on a slow machine allow it more time",
    )


def ask_once(url: str, served_name: str) -> str | None:
    """None when one token was answered; else why not, in a few words."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=ANSWER_S)
    question = {"model": served_name, "prompt": "One two three", "max_tokens": 1, "temperature": 0}
    try:
        connection.request("POST", "/v1/completions", json.dumps(question), {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        if response.status != OK:
            return f"HTTP {response.status}: {body[:200].decode(errors='replace')}"
        return None if json.loads(body).get("choices") else "an answer without choices"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
