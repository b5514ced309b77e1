"""Which projects the person trusts, bound to the real path and to what the project would run.

Only the path itself counts: a trusted directory says nothing of a clone, worktree or submodule
inside it (R25).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from tools import storage
from tools.permissions.trust import MAX_BYTES, MAX_FILES, ProjectFileError, Trust, TrustReport
from tools.record import record


class TrustStore:
    """Remembers what was trusted, with its text, below the user's state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / "trust"

    def trust_of(self, report: TrustReport) -> Trust:
        """Return how far exactly this was trusted at this path. Raises StorageError."""
        stored = self._load(report.root)
        if stored is None or stored.digest != report.digest or not report.complete:
            return Trust.NOTHING
        return stored.trust

    def what_changed(self, report: TrustReport) -> str:
        """Return a unified diff from what was trusted to what is there now (R25).

        Empty when nothing was ever trusted here, or nothing changed. Raises StorageError.
        """
        stored = self._load(report.root)
        if stored is None or stored.digest == report.digest:
            return ""
        now = {file.path: file.text for file in report.files}
        pieces = [
            _diff(path, stored.texts.get(path), now.get(path))
            for path in sorted(stored.texts.keys() | now.keys())
        ]
        return "".join(pieces)

    def grant(self, report: TrustReport, trust: Trust = Trust.RUNNING) -> None:
        """Trust what the report shows so far, nothing that came after it.

        Raises StorageError, and ProjectFileError for a report that is not complete.
        """
        if not report.complete:
            raise ProjectFileError(
                f"{report.root} has more than {MAX_FILES} tool files, or {MAX_BYTES >> 20} MiB of "
                "them: too many to be shown and trusted. Remove some to use any."
            )
        record = {
            "path": str(report.root),
            "digest": report.digest,
            "trust": trust.value,
            "texts": {file.path: file.text for file in report.files},
        }
        storage.write_private(self._file(report.root), json.dumps(record).encode())

    def _file(self, root: Path) -> Path:
        return self._directory / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"

    def _load(self, root: Path) -> _Stored | None:
        data = storage.read_private(self._file(root))
        try:
            record = json.loads(data) if data is not None else None
            if record is None or record["path"] != str(root):
                return None
            return _Stored(str(record["digest"]), Trust(record["trust"]), dict(record["texts"]))
        except (ValueError, KeyError, TypeError):
            # A damaged record trusts nothing: the question is asked again.
            return None


@record
class _Stored:
    digest: str
    trust: Trust
    texts: Mapping[str, str] = field(repr=False)


def _diff(path: str, old: str | None, new: str | None) -> str:
    if old == new:
        return ""
    import difflib

    lines = difflib.unified_diff(
        (old or "").splitlines(), (new or "").splitlines(),
        "/dev/null" if old is None else path, "/dev/null" if new is None else path, lineterm="",
    )  # fmt: skip
    return "".join(f"{line}\n" for line in lines)
