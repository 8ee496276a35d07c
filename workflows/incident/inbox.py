"""What is said to an incident from outside, until its loop takes it.

Handlers take whatever they are sent and only enqueue: a typed handler that is sent a wrong number of arguments fails
the workflow's task for ever, and "send signal" in the Temporal UI does exactly that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from sickbay.model.base import tamed
from sickbay.model.command import UNVERIFIED, Command, CommandVerb
from sickbay.model.contracts import ADMITTED_SIGNAL, OBSERVE_SIGNAL, Admitted, Observed

CAPACITY: Final = 1000
"""Signals kept until the loop takes them; more are dropped and counted: a live reading tells what they would have."""


@dataclass(frozen=True)
class Refusal:
    """A signal that was not understood."""

    name: str
    why: str


Word = Observed | Admitted | Command | Refusal

_VERBS: Final = frozenset(CommandVerb)

_TYPES: Final[dict[str, type[Observed | Admitted]]] = {OBSERVE_SIGNAL: Observed, ADMITTED_SIGNAL: Admitted}


class Inbox:
    """A bounded queue of signals, parsed when they are taken."""

    def __init__(self, run: str = "") -> None:
        """Begin empty.

        Args:
            run: of the workflow; with a number it names commands that came without an id.
        """
        self._run = run
        self._words: deque[tuple[str, Sequence[object]]] = deque()
        self.dropped = 0
        self._taken = 0

    def __bool__(self) -> bool:
        return bool(self._words)

    def put(self, name: str, args: Sequence[object]) -> None:
        """Keep one signal with its decoded arguments."""
        if len(self._words) >= CAPACITY:
            self.dropped += 1
            return
        self._words.append((name, args))

    def take(self) -> Word:
        """Parse the oldest signal; what cannot be parsed is a `Refusal`, never an exception."""
        name, args = self._words.popleft()
        if name in _VERBS:
            return _command(CommandVerb(name), args, f"signal/{self._run}/{self._count()}")
        kind = _TYPES.get(name)
        if kind is None:
            return Refusal(tamed(name), "there is no such signal")
        if len(args) != 1:
            return Refusal(name, f"it takes one argument and was given {len(args)}")
        try:
            return kind.model_validate(args[0])
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            return Refusal(name, tamed(f"its argument is not {kind.__name__}: {problem['msg']}"))

    def _count(self) -> int:
        self._taken += 1
        return self._taken


def _command(verb: CommandVerb, args: Sequence[object], name: str) -> Command | Refusal:
    """Read a command that somebody sent as a signal: with nothing, with a reason, or with an object.

    Whoever it claims to be, it was asked by nobody. One without an id is applied as often as it is sent.
    """
    if len(args) > 1:
        return Refusal(verb, f"it takes one argument at most and was given {len(args)}")
    said = args[0] if args else {}
    if isinstance(said, str):
        said = {"reason": said}
    if said is None:
        said = {}
    if not isinstance(said, dict):
        return Refusal(verb, "its argument is neither a text, the reason, nor an object with reason and until")
    claimed = said.get("actor")
    actor = f"{UNVERIFIED} ({tamed(claimed, 100)})" if isinstance(claimed, str) and claimed else UNVERIFIED
    given = {"id": name, **said, "verb": verb, "actor": actor}
    try:
        return Command.model_validate(given)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in problem["loc"])
        return Refusal(verb, tamed(f"{field}: {problem['msg']}"))
