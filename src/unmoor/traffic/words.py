"""Words that stand for a prompt's segments, so that real engines can be sent traffic whose text nobody kept.

The words were chosen as short, very common English ones of which each, with and without a space before it, is one
token in the tokenizer of SmolLM2 (a GPT-2-style byte-pair vocabulary of 49,152); such words are one token in larger
byte-pair vocabularies too as a rule, which a caller verifies by the server's own count. There are 256, so that one
byte of a hash picks one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from unmoor.core.traffic import Request, Segment

_LIST = """
able area away back ball base bear best bird black board boat book born brown build call came card case catch cell
cent check child city clean clear cold color cook cool corn cost count cross dark deep door draw dream drive dust
early east easy eight enter event face fact fall farm feed feel felt field fill find fine fish five floor flow foot
force form four free front fruit game girl give gold gone grand grass great green grow guess guide half hand hard
head heat heavy held here high hold hole horse hour human idea inch join jump kind king lake land large late lead
least leave level life light line list long look love made make many mark mean meat mile milk mine miss month moon
more mouth move name neck night noise north note ocean often open page pair part party pass path piece plain plan
plant play point port pose pound power print pull quick quiet quite radio rain reach read real reply rest ride right
rise river rock roll root rose round safe salt save seat self sell send sent seven share sharp ship shop show side
sign sing size slip slow snow soft soil soon sound space speed stand star state stay step stood stop story study
tail take talk team tell thick thin think third time tiny tone total touch track trade tree trip true turn type
value view voice walk warm wash watch wave wear west wheel whole wide wind wire woman word work write year
"""
WORDS: tuple[str, ...] = tuple(_LIST.split())
"""The vocabulary."""


def prompt_text(request: Request, *, overhead_tokens: int = 0, salt: str = "") -> str:
    """Words for the request's segments, one for each token, less `overhead_tokens` that a chat template adds.

    Two requests share words exactly as far as their segments agree from the start (after that a word is equal by
    chance once in 256). The overhead is taken from the last segment, down to one word, so that shared prefixes stay
    whole. `salt` changes every word from the first on: give each run its own, so that no cache is warm from an
    earlier one. A request without segments gets words of its own, from its arrival and lengths.
    """
    segments = request.segments or (_nameless(request),)
    last = len(segments) - 1
    words: list[str] = []
    for place, (seed, segment) in enumerate(_seeded(segments, salt)):
        tokens = max(1, segment.tokens - overhead_tokens) if place == last else segment.tokens
        words.extend(_words(seed, tokens))
    return " ".join(words)


def _nameless(request: Request) -> Segment:
    return Segment(f"{request.arrival_s!r}/{request.input_tokens}/{request.output_tokens}", request.input_tokens)


def _seeded(segments: tuple[Segment, ...], salt: str) -> Iterator[tuple[bytes, Segment]]:
    """Each segment with a seed that stands for the salt and everything up to it."""
    seed = hashlib.sha256(salt.encode()).digest()
    for segment in segments:
        seed = hashlib.sha256(seed + f"{segment.tokens}/{segment.name}".encode()).digest()
        yield seed, segment


def _words(seed: bytes, count: int) -> Iterator[str]:
    # SHAKE's output is a stream: fewer words are the start of more, so a shortened last segment still shares.
    return map(WORDS.__getitem__, hashlib.shake_256(seed).digest(count))
