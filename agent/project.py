"""The directory that opta works in, and whether what it brings along is trusted."""

from __future__ import annotations

from pathlib import Path

from agent.errors import USAGE, UserError
from tools import storage
from tools.permissions.trust import ProjectFileError, Trust, TrustReport, inspect
from tools.permissions.trust_store import TrustStore


def project_root(directory: str | None) -> Path:
    """Return the real path of the directory to work in. Raises UserError."""
    try:
        root = Path(directory or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        where = directory or "the current directory"
        raise UserError(f"cannot work in {where}: {reason}. Name one with -C.", USAGE) from None
    if not root.is_dir():
        raise UserError(f"cannot work in {directory}: it is not a directory", USAGE)
    return root


def trust_in(
    root: Path, *, given: bool, remembered: bool = True, may_ask: bool = False
) -> ProjectTrust:
    """Tell how far the project is trusted.

    `given` is the flag `--trust`: all of it, for this run. Without it what the person said
    earlier counts if `remembered`; `may_ask` asks where that settles nothing. A project that
    brings nothing along is asked about when it does. Raises UserError.
    """
    report = project_report(root)
    if given or not (remembered and report.anything):
        trust = Trust.RUNNING if given else Trust.NOTHING
        return ProjectTrust(report, trust, watched=given or remembered)
    try:
        store = TrustStore(storage.state_dir())
        trust = store.trust_of(report)
        if may_ask and trust is Trust.NOTHING:
            trust = _asked(report, store)
            if trust.reads:
                store.grant(report, trust)
    except (storage.StorageError, ProjectFileError) as error:
        raise UserError(str(error)) from None
    return ProjectTrust(report, trust, watched=trust.reads)


def project_report(root: Path) -> TrustReport:
    """Return what the project would have executed or obeyed. Raises UserError."""
    try:
        return inspect(root)
    except ProjectFileError as error:
        raise UserError(str(error)) from None


def _asked(report: TrustReport, store: TrustStore) -> Trust:
    from agent.ui.trust import ask_for_trust

    return ask_for_trust(report, store.what_changed(report))


class ProjectTrust:
    """How far the project is obeyed, for as long as a session lasts.

    Bound to what was there when the person said so: `changed` tells when that is no longer so,
    and `holds` what of it a file is (R25).
    """

    def __init__(self, report: TrustReport, level: Trust, *, watched: bool) -> None:
        """Take the person's word for what the report shows.

        What is not `watched` asks no question in this session: the person has refused it.
        """
        self.root = report.root
        self.level = level
        self.report = report
        self._watched = watched

    @property
    def settings(self) -> TrustReport | None:
        """What holds the settings that count; None where none does."""
        return self.report if self.level.reads else None

    def unused(self) -> str:
        """Say that tools of the project are not used, and why; empty where that is not so."""
        if self.level.runs or not self.report.anything:
            return ""
        if self.level.reads:
            return (
                "this directory is trusted to be read alone: none of its own tools is used; "
                "--trust uses them for this run"
            )
        why = (
            "what this directory brings has changed since you trusted it"
            if self.difference(self.report)
            else "this directory is not trusted"
        )
        return (
            f"{why}: its own tools, MCP servers, settings and AGENTS.md are not used; a chat asks "
            "when it starts here, and --trust uses them for this run"
        )

    def holds(self, path: Path, sha256: str) -> bool:
        """Tell whether a file of the project has the content that was trusted."""
        return self.level.runs and self.report.holds(path, sha256)

    def changed(self) -> TrustReport | None:
        """Return what the project brings now, if that is not what was trusted."""
        if not self._watched:
            return None
        report = project_report(self.root)
        if self.level is Trust.NOTHING:
            return report if report.anything else None
        return report if report.digest != self.report.digest else None

    def difference(self, report: TrustReport) -> str:
        """Return a unified diff to what was trusted, as far as that is remembered."""
        return TrustStore(storage.state_dir()).what_changed(report)

    def settle(self, report: TrustReport, trust: Trust) -> None:
        """Take the person's answer to a change. Raises StorageError, ProjectFileError."""
        if trust.reads:
            TrustStore(storage.state_dir()).grant(report, trust)
        self.level = trust
        self.report = report
        self._watched = trust.reads

    def take_own_change(self, path: Path) -> None:
        """opta itself changed this file at the person's request; nothing else is taken along."""
        report = project_report(self.root)
        if _others(report, path) == _others(self.report, path):
            self.report = report


def _others(report: TrustReport, path: Path) -> list[tuple[str, str]]:
    return [(file.path, file.digest) for file in report.files if report.root / file.path != path]
