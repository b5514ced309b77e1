"""The proof that a call was allowed, without which no process starts and no file is written.

Only `tools.permissions.gate` makes grants (a test reads the imports). A grant is bound to the call
id, the arguments and the definition, so it cannot be replayed for another call or survive an edit
between the question and the run. It carries the walls that were decided on: processes run behind
those and no others.
"""

from __future__ import annotations

from tools.confinement import Confinement
from tools.definition import ResolvedCall

_SEAL = object()


class GrantError(Exception):
    """Something tried to act without a grant, or with one given for another call."""


class Grant:
    """Permission for one call. `by` says who gave it, in the words of the journal.

    `confinement` None means that its processes run as the user, behind no walls.
    """

    __slots__ = ("arguments_digest", "by", "call_id", "confinement", "definition_digest")

    def __init__(
        self, call: ResolvedCall, by: str, seal: object, confinement: Confinement | None = None
    ) -> None:
        if seal is not _SEAL:
            raise GrantError("only the permission gate gives grants")
        self.call_id = call.id
        self.arguments_digest = call.arguments_digest
        self.definition_digest = call.tool.digest
        self.by = by
        self.confinement = confinement

    def check(self, call: ResolvedCall) -> None:
        """Raise GrantError unless this grant was given for exactly this call."""
        if (self.call_id, self.arguments_digest, self.definition_digest) != (
            call.id,
            call.arguments_digest,
            call.tool.digest,
        ):
            raise GrantError(f"the grant is not for call {call.id!r} of {call.tool.name!r}")


def mint(call: ResolvedCall, by: str, confinement: Confinement | None = None) -> Grant:
    """Make a grant. For the gate alone."""
    return Grant(call, by, _SEAL, confinement)
