"""Variables of the environment whose value some program runs, loads or takes its settings from."""

from __future__ import annotations

import re

_NAMES = frozenset((
    "BASH_ENV", "BROWSER", "CC", "CLASSPATH", "COMSPEC", "CXX", "EDITOR", "ENV", "FPATH",
    "GIT_ASKPASS", "GIT_DIR", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_TEMPLATE_DIR",
    "GNUMAKEFLAGS", "GOFLAGS", "GRADLE_OPTS", "IFS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS",
    "KUBECONFIG", "LESSCLOSE", "LESSOPEN", "LUA_INIT", "MAKEFLAGS", "MANPAGER", "MAVEN_OPTS",
    "MFLAGS", "NODE_OPTIONS", "NODE_PATH", "OPENSSL_CONF", "PAGER", "PATH", "PERL5DB", "PERL5LIB",
    "PERL5OPT", "PHPRC", "PHP_INI_SCAN_DIR", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4",
    "PYTHONBREAKPOINT", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONSTARTUP",
    "PYTHONUSERBASE", "RSYNC_RSH", "RUBYLIB", "RUBYOPT", "RUSTC", "SHELL", "SHELLOPTS", "BASHOPTS",
    "TAR_OPTIONS", "VIMINIT", "VISUAL", "XDG_CONFIG_HOME", "ZDOTDIR", "_JAVA_OPTIONS",
))  # fmt: skip
_FAMILIES = re.compile(
    r"(LD|DYLD|GIT_CONFIG|BASH_FUNC|NPM_CONFIG|npm_config)_.+"
    r"|.+_(ASKPASS|BROWSER|COMMAND|EDITOR|PAGER|PRELOAD|RSH|SHELL|WRAPPER)"
)


def is_run(name: str) -> bool:
    """Tell whether programs run what a variable holds, or find in it what they run."""
    return name in _NAMES or _FAMILIES.fullmatch(name) is not None


def runs_value(name: str) -> str:
    """Say what becomes of a value in such a variable."""
    return f"is run or loaded by programs, as ${name}"
