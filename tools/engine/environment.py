"""The environment that opta's children get (R38, R44, X21)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

PROVIDER_KEYS = frozenset(
    {
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "AZURE_OPENAI_API_KEY",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "TOGETHER_API_KEY",
        "XAI_API_KEY",
    }
)
"""Keys of model providers, which opta itself may hold."""

_OWN_SECRET = re.compile(r"OPTA_\w*(KEY|TOKEN|SECRET|PASSWORD)")

WITHOUT_TERMINAL = {
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "SYSTEMD_PAGER": "cat",
}
"""What keeps programs from asking, paging or opening an editor where nobody could answer."""


def child_environment(
    environ: Mapping[str, str], *, secrets: Collection[str] = ()
) -> dict[str, str]:
    """Return `environ` for a child: without provider keys, and set up for having no terminal.

    `secrets` are further names to leave out (each configured `api_key_env`).
    """
    kept = {name: value for name, value in environ.items() if not is_secret(name, secrets)}
    return kept | WITHOUT_TERMINAL


def with_terminal(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return `env` for a child that has the person's terminal: pagers and editors as in `environ`.

    What a tool itself set stays.
    """
    own = {name: value for name, value in env.items() if WITHOUT_TERMINAL.get(name) != value}
    return {name: environ[name] for name in WITHOUT_TERMINAL if name in environ} | own


def is_secret(name: str, secrets: Collection[str] = ()) -> bool:
    """Tell whether a variable holds a key or token of opta's own."""
    return name in PROVIDER_KEYS or name in secrets or _OWN_SECRET.fullmatch(name) is not None
