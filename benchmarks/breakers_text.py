"""Words, dates and ids for generated logs: nothing in them is anybody's text."""

from __future__ import annotations

import random
import string
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def _words(text: str) -> list[str]:
    return text.split()


_SYLLABLES = _words(
    "ba be bo da de do fa fe ga ge ka ke la le li lo ma me mi mo na ne no pa pe ra re ri ro sa se ta te to va ve"
)
_ENGLISH = _words(
    "the a of to in and that is for with as on by this be from at or an are will not can all has their when must may "
    "answer customer policy order refund account always never clearly short reason source page step detail tone offer "
    "question reply check ask give note keep say use make list explain follow confirm share report result team support"
)
_GERMAN = _words(
    "der die das und in zu den mit von ist nicht ein eine auf als auch es an werden aus er hat dass sie nach wird bei "
    "immer nie kurz klar Antwort Kunde Bestellung Frage Schritt Quelle Regel Ton Konto prüfe gib nenne erkläre folge"
)
_SPANISH = _words(
    "el la de que y a en un ser se no haber por con su para como estar tener le lo todo pero más hacer o poder decir "
    "siempre nunca respuesta cliente pedido pregunta paso fuente regla tono cuenta revisa explica sigue confirma"
)
FIRST_NAMES = _words(
    "Alice Bob Carla Dmitri Elena Farid Grace Hugo Ines Jonas Keiko Liam Maria Noah Olga Pedro Quinn Rosa Sven Tara"
)
LAST_NAMES = _words(
    "Smith Jones Keller Ivanov Rossi Haddad Okafor Lopez Tanaka Novak Silva Berg Moreau Patel Kim Weber"
)


class Writer:
    """Writes text from a seed: sentences of a language, or of words that no language has."""

    def __init__(self, rng: random.Random, language: str) -> None:
        self.rng = rng
        self.words = {"en": _ENGLISH, "de": _GERMAN, "es": _SPANISH}.get(language, [])

    def word(self) -> str:
        """A word; one in three is rare."""
        if self.words and self.rng.random() < 2 / 3:
            return self.rng.choice(self.words)
        return "".join(self.rng.choices(_SYLLABLES, k=self.rng.randint(2, 4)))

    def sentence(self) -> str:
        """A sentence of 6 to 16 words."""
        words = [self.word() for _ in range(self.rng.randint(6, 16))]
        return " ".join(words).capitalize() + self.rng.choice("....:!")

    def text(self, characters: int) -> str:
        """Sentences of about so many characters."""
        sentences = [self.sentence()]
        while sum(map(len, sentences)) < characters:
            sentences.append(self.sentence())
        return " ".join(sentences)


# What varies from request to request


def moment(i: int, step_s: float) -> datetime:
    """When request i comes."""
    return datetime(2025, 4, 28, 7, 12, 9, tzinfo=UTC) + timedelta(seconds=i * step_s)


DATES: dict[str, Callable[[datetime], str]] = {
    "iso": lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "spoken": lambda t: t.strftime("%A, %B %d, %Y at %H:%M"),
    "minute": lambda t: t.strftime("%Y-%m-%d %H:%M"),
    "epoch": lambda t: str(int(t.timestamp())),
}
DATES_HELD_OUT: dict[str, Callable[[datetime], str]] = {
    "american": lambda t: t.strftime("%m/%d/%Y %I:%M %p"),
    "mail": lambda t: t.strftime("%a, %d %b %Y %H:%M:%S GMT"),
    "compact": lambda t: t.strftime("%Y%m%dT%H%M%SZ"),
    "chinese": lambda t: f"{t.year}年{t.month}月{t.day}日 {t:%H:%M}",
    "clock": lambda t: t.strftime("%H:%M:%S"),
    "day": lambda t: t.strftime("%d %b %Y"),
}
IDS: dict[str, Callable[[random.Random, int], str]] = {
    "uuid": lambda r, _: str(uuid.UUID(int=r.getrandbits(128))),
    "hex": lambda r, _: f"{r.getrandbits(64):016x}",
    "counter": lambda _, i: f"#{4711 + i}",
    "name": lambda r, _: f"{r.choice(FIRST_NAMES)} {r.choice(LAST_NAMES)}",
    "email": lambda r, _: f"{r.choice(FIRST_NAMES).lower()}{r.randint(1, 400)}@example.org",
}
IDS_HELD_OUT: dict[str, Callable[[random.Random, int], str]] = {
    "session": lambda r, _: "sess_" + "".join(r.choices(string.ascii_letters + string.digits, k=20)),
    "ulid": lambda r, _: "01J" + "".join(r.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=23)),
    "ticket": lambda r, _: f"ACME-{r.randint(1000, 99999)}",
    "double name": lambda r, _: f"{r.choice(FIRST_NAMES)} {r.choice(LAST_NAMES)}-{r.choice(LAST_NAMES)}",
    "user number": lambda r, _: f"user {r.randint(1, 99999)}",
    "trace": lambda r, _: f"00-{r.getrandbits(128):032x}-{r.getrandbits(64):016x}-01",
}
LABELS = {
    "date_in_prefix": ("Current date: {}", "It is now {}.", "[{}]", "Today is {}. Keep that in mind."),
    "id_in_prefix": ("Session: {}", "You are talking to {}.", "[request {}]", "The user is {}; be polite."),
}
LABELS_HELD_OUT = {
    "date_in_prefix": ("<now>{}</now>", "Zeit: {}", "(as of {}, local time)", "# {}"),
    "id_in_prefix": ("<caller>{}</caller>", "Kennung={}", "(conversation {}, keep private)", "// {}"),
}
