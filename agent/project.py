"""The directory that opta works in, and whether what it brings along is trusted."""

from __future__ import annotations

from pathlib import Path

from agent.errors import USAGE, UserError
from tools import storage
from tools.permissions.trust import ProjectFileError, TrustReport, TrustStore, inspect


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


def is_trusted(root: Path, *, may_ask: bool = True) -> bool:
    """Tell whether the project may be obeyed; `may_ask` asks the person where it is not settled.

    A project that brings nothing along has nothing to be trusted with. Raises UserError.
    """
    report = project_report(root)
    try:
        store = TrustStore(storage.state_dir())
        if not report.anything or store.trusted(report):
            return True
        if not may_ask or not _asked(report, store):
            return False
        store.grant(report)
    except storage.StorageError as error:
        raise UserError(str(error)) from None
    return True


def project_report(root: Path) -> TrustReport:
    """Return what the project would have executed or obeyed. Raises UserError."""
    try:
        return inspect(root)
    except ProjectFileError as error:
        raise UserError(str(error)) from None


def _asked(report: TrustReport, store: TrustStore) -> bool:
    from agent.ui.trust import ask_for_trust

    return ask_for_trust(report, store.what_changed(report))


class ProjectTrust:
    """Whether the project is obeyed, for as long as a session lasts.

    Bound to what was there when it was given: `changed` tells when that is no longer so (R25).
    """

    def __init__(self, root: Path, *, given: bool) -> None:
        """Take the person's word for the project as it is now. Raises UserError."""
        self.root = root
        self.given = given
        self._digest = project_report(root).digest

    def changed(self) -> TrustReport | None:
        """Return what the project brings now, if that is not what was trusted."""
        if not self.given:
            return None
        report = project_report(self.root)
        return report if report.digest != self._digest else None

    def difference(self, report: TrustReport) -> str:
        """Return a unified diff to what was trusted, as far as that is remembered."""
        return TrustStore(storage.state_dir()).what_changed(report)

    def settle(self, report: TrustReport, *, given: bool) -> None:
        """Take the person's answer to a change. Raises StorageError."""
        self.given = given
        self._digest = report.digest
        if given:
            TrustStore(storage.state_dir()).grant(report)

    def take_own_change(self) -> None:
        """opta itself changed a file at the person's request."""
        self._digest = project_report(self.root).digest
