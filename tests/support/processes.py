"""Whether what was started has ended. A zombie has: only its parent has not looked yet."""

from __future__ import annotations

import os

import psutil


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def group_is_gone(group: int) -> bool:
    """Tell whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
