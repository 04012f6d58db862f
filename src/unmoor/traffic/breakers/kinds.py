"""The kinds of breaker that are known, by code. Adding one is one file here and one line below."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unmoor.traffic.breakers import examples_order, key_order, tools_order, user_text
from unmoor.traffic.breakers.breaker import Suspicion
from unmoor.traffic.breakers.moved import suspect_moved
from unmoor.traffic.breakers.scene import Scene

DATE_FIX = "put the date or time behind the shared text, at the end of the last message, or round it to the day"
ID_FIX = "put what names the user, session or request behind the shared text, at the end of the last message"


def _dates(scene: Scene) -> Suspicion | None:
    return suspect_moved(scene, kind="date", what="date_in_prefix", fix=DATE_FIX)


def _ids(scene: Scene) -> Suspicion | None:
    return suspect_moved(scene, kind="id", what="id_in_prefix", fix=ID_FIX)


KINDS: Mapping[str, tuple[Callable[[Scene], Suspicion | None], ...]] = {
    "date_in_prefix": (_dates,),
    "id_in_prefix": (_ids,),
    tools_order.WHAT: (tools_order.suspect,),
    key_order.WHAT: (key_order.suspect,),
    examples_order.WHAT: (examples_order.suspect_messages, examples_order.suspect_text),
    user_text.WHAT: (user_text.suspect_inside, user_text.suspect_messages),
}
"""Each kind's code, and the ways to suspect it: each tells evidence from coincidence, and brings its fix."""
