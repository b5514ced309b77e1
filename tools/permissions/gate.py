"""The one gate: decides every call of every source and gives the grants that let it run.

Order of decision (R8): deny rules, then what a person must answer, then the skip flag,
then ask rules, then allow rules and answers of this session, then the mode, then the default by
risk. Absence means deny: where nobody can answer, an ask is a denial at once (R46).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum

from tools.actions import CodeAction
from tools.confinement import Level
from tools.definition import EffectKind, Invocation, ResolvedCall, Risk, Scope, Source
from tools.permissions.allowlist import Allowlist
from tools.permissions.grant import Grant, mint
from tools.permissions.mode import Mode
from tools.permissions.question import (
    PERSON_SAID_NO,
    Approver,
    Choice,
    PermissionRequest,
)
from tools.permissions.rules import READ_ONLY, Judgement, Rule, RuleSet, Verdict
from tools.record import record
from tools.storage import StorageError

NOBODY_ASKED = "nobody could be asked"
NOT_GRANTED = "Permission not granted: "
"""Begins a line with a permission that a refused tool declared to need (C332)."""

_SHOWN_PART = 60


class Denial(StrEnum):
    """Why a call was not allowed."""

    RULE = "rule"
    MODE = "mode"
    PERSON = "person"
    NOBODY = "nobody"
    HOOK = "hook"


@record
class Decision:
    """The outcome: a grant, or the kind of denial with the text for the model."""

    by: str
    grant: Grant | None = None
    denial: Denial | None = None
    message: str = ""
    stop_turn: bool = False


class PermissionGate:
    """Decides calls one at a time; holds the mode, the rules and the answers of this session."""

    def __init__(
        self,
        rules: RuleSet,
        approver: Approver | None = None,
        *,
        mode: Mode = Mode.ASK,
        skip_permissions: bool = False,
        default: Verdict = Verdict.ASK,
        remember: Callable[[Rule], None] | None = None,
    ) -> None:
        """Make a gate.

        `approver` None means that nobody can answer. `default` holds where no rule and no mode
        speaks. `remember` stores an "always" rule for later runs and may raise OSError or
        StorageError: the answer then holds for this session, and `tell` is told, which a front end
        sets. `allowlist` gives the commands that the team allows, if it says so; a call of any tool
        is held to them.
        """
        self.rules = rules
        self.approver = approver
        self.mode = mode
        self.skip_permissions = skip_permissions
        self.default = default
        self.unanswered = 0
        self.tell: Callable[[str], None] = lambda text: None
        self.allowlist: Callable[[], Allowlist | None] = lambda: None
        self._remember = remember
        self._asking = asyncio.Lock()

    def next_mode(self) -> None:
        """Go to the mode that follows the present one."""
        modes = list(Mode)
        self.mode = modes[(modes.index(self.mode) + 1) % len(modes)]

    async def authorise(self, call: ResolvedCall, invocation: Invocation) -> Decision:
        """Decide one call, asking the person where nothing else decides."""
        judgement = self.rules.judge(call, invocation)
        decided = self._without_asking(call, invocation, judgement)
        if decided is not None:
            return decided
        # Ask rules and possible denials beat allow rules: no new rule would spare the question.
        every_time = _must_be_answered(invocation) or judgement is not None
        request = PermissionRequest(
            call, invocation, _risk(call, invocation), self.reason(invocation, judgement),
            () if every_time else self.rules.suggest(call, invocation),
        )  # fmt: skip
        async with self._asking:
            # An earlier answer of this session may have settled it while this call waited.
            decided = self._without_asking(call, invocation, self.rules.judge(call, invocation))
            return decided or await self._ask(request)

    def authorise_person(self, call: ResolvedCall, invocation: Invocation, how: str) -> Decision:
        """Allow what the person does by hand: shown, not asked (R48).

        A command is the person's own. A file that is only read is read for the model, and a
        message may name it in text that was pasted: there deny rules hold.
        """
        if _only_reads(invocation):
            return self.authorise_configured(call, invocation, how)
        return _allowed(call, invocation, how)

    def authorise_configured(
        self, call: ResolvedCall, invocation: Invocation, how: str
    ) -> Decision:
        """Allow what the person's own configuration starts, unless a deny rule speaks of it."""
        judgement = self.rules.judge(call, invocation)
        if judgement is not None and judgement.verdict is Verdict.DENY:
            return _denied_by_rule(judgement.rule)
        return _allowed(call, invocation, how)

    def _without_asking(
        self, call: ResolvedCall, invocation: Invocation, judgement: Judgement | None
    ) -> Decision | None:
        refused = self._refused_at_once(invocation, judgement)
        if refused is not None:
            return refused
        if _must_be_answered(invocation) or _may_be_denied(judgement):
            return None
        if self.skip_permissions:
            return _allowed(call, invocation, "--dangerously-skip-permissions")
        if judgement is None:
            return self._by_mode(call, invocation)
        if judgement.verdict is Verdict.ASK:
            return None
        return _allowed_by_rule(call, invocation, judgement.rule)

    def _refused_at_once(
        self, invocation: Invocation, judgement: Judgement | None
    ) -> Decision | None:
        if judgement is not None and judgement.verdict is Verdict.DENY:
            return _denied_by_rule(judgement.rule)
        allowlist = self.allowlist()
        if allowlist is not None and (part := allowlist.refused(invocation, self.rules.root)):
            return _denied_by_allowlist(allowlist, part)
        if self.mode is Mode.PLAN and not self.rules.only_reads(invocation):
            return Decision(
                by="plan mode", denial=Denial.MODE,
                message="Permission denied: plan mode is on and allows only reading. Nothing "
                "was done. Describe the change instead of making it.",
            )  # fmt: skip
        return None

    def _by_mode(self, call: ResolvedCall, invocation: Invocation) -> Decision | None:
        if not invocation.effects:
            return _allowed(call, invocation, "it touches nothing but opta's own records")
        if _only_reads(invocation) and _stays_inside(invocation) and not _asks_to_read(invocation):
            return _allowed(call, invocation, "reads in the workspace are allowed")
        allowed = {EffectKind.READ, EffectKind.WRITE}
        if self.mode is Mode.AUTO_SANDBOX:
            # A program of a tool has walls of its own wherever it runs.
            allowed.add(EffectKind.PROGRAM)
            if _is_walled_in(invocation):
                allowed.add(EffectKind.EXECUTE)
        if (
            self.mode in (Mode.ACCEPT_EDITS, Mode.AUTO_SANDBOX)
            and all(e.kind in allowed for e in invocation.effects)
            and _stays_inside(invocation)
            and not _asks_to_read(invocation)
        ):
            return _allowed(call, invocation, f"{self.mode} mode")
        return self._by_default(call, invocation)

    def _by_default(self, call: ResolvedCall, invocation: Invocation) -> Decision | None:
        """Apply `permissions.default`, which opens no secrets."""
        if self.default is Verdict.DENY:
            return _denied_by_rule(Rule(Verdict.DENY, "permissions.default: deny", "settings"))
        secret = _asks_to_read(invocation) or self.rules.reads_secrets(invocation)
        if self.default is Verdict.ALLOW and not secret:
            return _allowed(call, invocation, "permissions.default: allow")
        if not secret and _is_accepted(call):
            return _allowed(call, invocation, f"autoAccept in your own {call.tool.origin.path}")
        return None

    async def _ask(self, request: PermissionRequest) -> Decision:
        answer = await self.approver.ask(request) if self.approver is not None else None
        if answer is None:
            self.unanswered += 1
            return Decision(
                by=NOBODY_ASKED, denial=Denial.NOBODY,
                message=f"Permission denied: {request.told_reason}, and nobody is there to be "
                "asked. Nothing was done. Go on without it, or say what is needed.",
            )  # fmt: skip
        if answer.choice is Choice.NO:
            return _refused(answer.feedback)
        if answer.choice is not Choice.ONCE:
            for rule in request.suggested:
                self.rules.add(rule)
        unsaved = self._store(request.suggested) if answer.choice is Choice.ALWAYS else ""
        return _allowed(request.call, request.invocation, f"you ({answer.choice.value}{unsaved})")

    def _store(self, rules: Iterable[Rule]) -> str:
        """Store rules for later runs; return what to add to the answer where that failed."""
        if self._remember is None:
            return ""
        try:
            for rule in rules:
                self._remember(rule)
        except (OSError, StorageError) as error:
            self.tell(f"Your answer holds for this session only; it could not be saved: {error}")
            return ", for this session only: it could not be saved"
        return ""

    def reason(self, invocation: Invocation, judgement: Judgement | None) -> str:
        """Say why a call is asked about, to follow "because"."""
        for effect in invocation.effects:
            if effect.protected:
                return effect.protected
        if judgement is not None and judgement.verdict is not Verdict.ALLOW:
            return _reason_of_rule(judgement)
        for effect in invocation.effects:
            if effect.sensitive:
                return effect.sensitive
            if effect.kind in (EffectKind.READ, EffectKind.WRITE) and not effect.inside:
                return f"{effect.value} is outside the workspace"
        if self.mode is Mode.AUTO_SANDBOX and not _is_walled_in(invocation):
            return _why_not_walled_in(invocation)
        return self._unruled(invocation)

    def _unruled(self, invocation: Invocation) -> str:
        """Say which part of a command no rule allows, where it is not the whole."""
        for effect in invocation.effects:
            parts = self.rules.parts(effect) if effect.cwd else []
            part = next((part for part in parts if not part.allowed), None)
            if part is None or (part.unlisted and len(parts) == 1):
                continue
            if part.why.startswith("reads "):
                return f"it {part.why}"
            if len(parts) > 1 and len(part.text) <= _SHOWN_PART:
                return f"no rule allows `{part.text}`, which {part.why}"
            return f"no rule allows it: it {part.why}"
        return "no rule allows it"


def refusal(decision: Decision, invocation: Invocation) -> str:
    """Return what the model is told of a call that was not allowed."""
    lines = [f"{NOT_GRANTED}{permission}" for permission in invocation.permissions]
    return "\n".join((*lines, decision.message))


def _reason_of_rule(judgement: Judgement) -> str:
    rule = f"rule {judgement.rule.text} ({judgement.rule.origin})"
    if judgement.rule.verdict is Verdict.DENY:
        return f"{rule} may forbid it: the command does not show all that it runs"
    return f"{rule} asks"


def _risk(call: ResolvedCall, invocation: Invocation) -> Risk:
    """Return the risk of a call: its values may make it higher than that of its tool (X88)."""
    return max(call.tool.risk, Risk.HIGH if invocation.hazards else Risk.LOW)


def _allowed(call: ResolvedCall, invocation: Invocation, by: str) -> Decision:
    return Decision(by=by, grant=mint(call, by, invocation.confinement))


def _allowed_by_rule(call: ResolvedCall, invocation: Invocation, rule: Rule) -> Decision:
    if rule is READ_ONLY:
        return _allowed(call, invocation, "commands that only read in the workspace are allowed")
    return _allowed(call, invocation, f"rule {rule.text} ({rule.origin})")


def _denied_by_rule(rule: Rule) -> Decision:
    return Decision(
        by=f"rule {rule.text} ({rule.origin})", denial=Denial.RULE,
        message=f"Permission denied by the rule {rule.text} ({rule.origin}). Nothing was done. "
        "Do not try another way to do the same; go on without it or say what is needed.",
    )  # fmt: skip


def _denied_by_allowlist(allowlist: Allowlist, part: str) -> Decision:
    return Decision(
        by=f"the allowlist of {allowlist.owner}", denial=Denial.RULE,
        message=f"Permission denied: {allowlist.owner} does not allow the command `{part}`, only "
        f"{allowlist.shown}. Nothing was done. Do not try another way to do the same; go on "
        "without it or say what is needed.",
    )  # fmt: skip


def _refused(feedback: str) -> Decision:
    if feedback:
        return Decision(
            by="you (no, with a reason)", denial=Denial.PERSON,
            message=f"Permission denied: the user refused this call; nothing was done. "
            f"The user says: {feedback}",
        )  # fmt: skip
    return Decision(
        by=PERSON_SAID_NO, denial=Denial.PERSON, stop_turn=True,
        message="Permission denied: the user refused this call; nothing was done. "
        "Do not repeat it.",
    )  # fmt: skip


def _must_be_answered(invocation: Invocation) -> bool:
    return any(effect.protected for effect in invocation.effects)


def _may_be_denied(judgement: Judgement | None) -> bool:
    """A deny rule that perhaps applies is not skipped: deny holds in every mode (R8)."""
    return judgement is not None and judgement.rule.verdict is Verdict.DENY


def _is_accepted(call: ResolvedCall) -> bool:
    """Tell whether a tool file of the person's own says so: one of a project may not (X10)."""
    tool = call.tool
    own = tool.origin.source is Source.CUSTOM and tool.origin.scope in (Scope.USER, Scope.GLOBAL)
    accepts = isinstance(tool.action, CodeAction) and tool.metadata.get("auto-accept") is True
    return own and accepts and tool.risk < Risk.CRITICAL


def _only_reads(invocation: Invocation) -> bool:
    return all(effect.kind is EffectKind.READ for effect in invocation.effects)


def _stays_inside(invocation: Invocation) -> bool:
    """A command has no path; where it may write, its walls say."""
    return all(effect.inside or effect.kind is EffectKind.EXECUTE for effect in invocation.effects)


def _is_walled_in(invocation: Invocation) -> bool:
    """True when processes can change only what lies in the workspace, and reach no network."""
    walls = invocation.confinement
    return walls is not None and walls.level is not Level.PROCESS and not walls.network


def _why_not_walled_in(invocation: Invocation) -> str:
    if invocation.confinement is not None and invocation.confinement.network:
        return "its sandbox has the network"
    runs = any(effect.kind is EffectKind.EXECUTE for effect in invocation.effects)
    return "it runs outside the sandbox" if runs else "no rule allows it"


def _asks_to_read(invocation: Invocation) -> bool:
    return any(effect.sensitive for effect in invocation.effects)
