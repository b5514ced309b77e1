"""Opens the person's browser, at an address that was checked and that they agreed to (R5)."""

from __future__ import annotations

import subprocess
import sys

from tools.sources.mcp.login import checked_url


def open_browser(url: str) -> bool:
    """Show an http or https address; False where no browser could be started.

    The program gets the address as one argument and nothing of the terminal. Raises LoginFailed
    for any other address.
    """
    argv = [*_opener(), checked_url(url)]
    try:
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    return True


def _opener() -> list[str]:
    if sys.platform == "darwin":
        return ["open"]
    if sys.platform == "win32":
        return ["rundll32", "url.dll,FileProtocolHandler"]
    return ["xdg-open"]
