"""The error tree: every failure a user can meet, with where it is, what was seen, what was expected and a way out.

UnmoorError
├── UserError           the user's to mend; exit code 2
│   ├── PlanError       a plan file: unknown key, wrong type, missing table
│   ├── TrafficError    a log or trace: missing, broken line, wrong format
│   └── UsageError      a flag or a name on the command line
└── WorldError          the world's; exit code 1
├── EngineMissingError  a candidate whose engine is not installed here
├── EngineDiedError     an engine that did not start, or stopped answering
├── InstallError    an environment or a model that could not be brought
└── RunError        a run directory that cannot be read or written
"""

from __future__ import annotations

from typing import ClassVar


class UnmoorError(Exception):
    """One clear error. `str()` gives the text that the command line prints, without a traceback.

    `where` names the file, line or flag; `seen` and `expected` are shown as given; `hint` is what to do next.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        seen: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.seen = seen
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        parts = [head]
        if self.seen is not None:
            parts.append(f"  seen:     {self.seen}")
        if self.expected is not None:
            parts.append(f"  expected: {self.expected}")
        if self.hint is not None:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class UserError(UnmoorError):
    """The user's to mend."""

    exit_code = 2


class PlanError(UserError):
    """A plan file that cannot be used as it stands."""


class TrafficError(UserError):
    """A request log or trace that cannot be read."""


class UsageError(UserError):
    """A flag or a name on the command line."""


class WorldError(UnmoorError):
    """The world's: nothing in the plan is wrong, something around it is."""

    exit_code = 1


class EngineMissingError(WorldError):
    """A candidate whose engine is not installed here."""


class EngineDiedError(WorldError):
    """An engine that did not start, or stopped answering."""


class InstallError(WorldError):
    """An environment or a model that could not be brought."""


class RunError(WorldError):
    """A run directory that cannot be read or written."""
