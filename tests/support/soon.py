"""Tells "stopped" from "waited": a bound on time that measures nothing."""

from __future__ import annotations

SOON_S = 20
"""Seconds. Less than what a test must not wait for (30 s or more, or for ever), far more than a
slow and busy machine needs for what it does."""
