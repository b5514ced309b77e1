"""Which words of a command may be a command themselves, for deny and ask rules (R11).

A program that is not listed here may run any of its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.permissions.shell_scanner import Word
from tools.record import record

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_SSH = frozenset(f"-{letter}" for letter in "bcDEeFIiJLlmOoPpQRSWw")
WRAPPERS: Mapping[str, tuple[frozenset[str], int]] = {
    "busybox": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "bwrap": (frozenset(), 0),
    "caffeinate": (frozenset(("-t", "-w")), 0),
    "chpst": (frozenset(("-u", "-U", "-n", "-m")), 0),
    "chrt": (frozenset(), 1),
    "chroot": (frozenset(), 1),
    "command": (frozenset(), 0),
    "coproc": (frozenset(), 0),
    "doas": (frozenset(("-u", "-C")), 0),
    "dbus-run-session": (frozenset(), 0),
    "env": (frozenset(("-u", "-C", "--unset", "--chdir")), 0),
    "exec": (frozenset(("-a",)), 0),
    "fakeroot": (frozenset(), 0),
    "firejail": (frozenset(), 0),
    "flock": (frozenset(("-w", "-E")), 1),
    "ionice": (frozenset(("-c", "-n")), 0),
    "nice": (frozenset(("-n",)), 0),
    "nohup": (frozenset(), 0),
    "nsenter": (frozenset(), 0),
    "numactl": (frozenset(), 0),
    "parallel": (frozenset(("-j", "-I")), 0),
    "prlimit": (frozenset(), 0),
    "proxychains": (frozenset(("-f",)), 0),
    "proxychains4": (frozenset(("-f",)), 0),
    "runuser": (frozenset(("-u", "-g", "-G")), 0),
    "screen": (frozenset(("-S", "-c")), 0),
    "script": (frozenset(), 0),
    "setarch": (frozenset(), 1),
    "setpriv": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "sg": (frozenset(), 1),
    "ssh": (_SSH, 1),
    "stdbuf": (frozenset(("-i", "-o", "-e")), 0),
    "strace": (frozenset(("-e", "-o")), 0),
    "su": (frozenset(), 1),
    "sudo": (frozenset(("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-r", "-t")), 0),
    "systemd-run": (frozenset(("-u", "-p", "-E", "-M", "-H")), 0),
    "taskset": (frozenset(), 1),
    "time": (frozenset(("-f", "-o")), 0),
    "timeout": (frozenset(("-s", "-k")), 1),
    "tmux": (frozenset(("-L", "-S", "-f")), 1),
    "toybox": (frozenset(), 0),
    "unbuffer": (frozenset(), 0),
    "unshare": (frozenset(), 0),
    "watch": (frozenset(("-n",)), 0),
    "xvfb-run": (frozenset(), 0),
    "xargs": (frozenset(("-I", "-n", "-P", "-L", "-d", "-s", "-a", "-E")), 0),
}
"""Programs that run the rest of their words: options that take a word, and how many operands come
first."""

_NEVER = frozenset(
    """
    : [ [[ apk apropos apt apt-cache apt-get aptitude arch b2sum base32 base64 basename bc bg
    black brew break cat cd chgrp chmod chown cksum clear cmake cmp column comm continue convert cp
    csplit curl cut date dd declare df diff dig dir dircolors dirname dnf dpkg du echo egrep
    eslint exit expand export expr factor false fg fgrep file flake8 fmt fold gcc g++ clang getent
    getopts grep groups gunzip gzip head help hexdump host hostname http iconv id info install
    isort jest jobs join jq kill killall less let ln local locale locate logger login logname ls
    lsblk lscpu lsof md5sum mdfind mkdir mkfifo mktemp more mv mypy nl notify-send nproc nslookup
    od open pacman paste patch pgrep pidof ping pip pip3 pkill pr prettier printenv printf ps pwd
    pylint pyright pytest read readlink readonly realpath return rg rm rmdir rpm ruff sed seq set
    sha1sum sha256sum sha512sum shasum shift shred shuf sleep sort source . split stat strings
    stty sum sync tac tail tee test touch tput tr tree true truncate tsc tsort tty type typeset
    ulimit umask uname unexpand uniq unlink unset unzip uptime users vitest wait wc wget whatis
    whereis which who whoami xxd xz yes yq yum zcat zip zsh-help zypper
    """.split()  # noqa: SIM905 - a list of this length is read best as words
)
"""Programs whose words are no commands, but for the values of some options."""

_BEHIND: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for names, words in (
        ("npm", "exec x explore -c --call"),
        ("pnpm", "exec dlx x -c"),
        ("yarn", "exec dlx"),
        ("docker podman nerdctl docker-compose", "exec run create --entrypoint"),
        ("kubectl oc", "exec run debug rsh --"),
        ("uv", "run tool"),
        ("poetry pipenv pdm hatch rye pixi pipx conda mamba", "run exec shell"),
        ("bundle mise asdf rbenv pyenv nodenv", "exec x"),
        ("cargo", "watch run --config"),
        ("go", "-exec -toolexec -vettool"),
        ("gh", "alias codespace"),
        ("helm terraform", "plugin --post-renderer"),
        ("man", "-P -H"),
        ("git", "-x -O"),
        ("dotnet gradle mvn rake composer mix swift helm terraform", ""),
    )
    for name in names.split()
}
"""Programs that run what stands behind one of these words."""

_RUN_OPTION = re.compile(
    r"--(?:[\w-]+-)?(?:exec|cmd|command|compress-program|pager|open-files-in-pager|editor|pre|eval"
    r"|extcmd|filter|rsh|upload-pack|receive-pack|hostname-bin|checkpoint-action|strip-program"
    r"|shell|run|call)(?:=(?P<value>.*))?",
    re.DOTALL,
)
_FIND_RUNS = frozenset(
    ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch", "exec", "run")
)
_GIT_WITH_VALUE = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace"))
_GIT_RUNS = {("bisect", "run"), ("submodule", "foreach"), ("hook", "run")}
_MAKE_INPUT = re.compile(r"(?:^|\s)(?:-\w*f|--(?:file|makefile))[\s=]?(?:-|/dev/|/proc/)")
_TRANSPORT = "ext::"
_PLACEHOLDER = Word("", True)


@record
class Launched:
    """Words of a command that may be commands, or texts of commands.

    `surely` says that the program is known to run them: one that only running would tell hides
    what is run.
    """

    words: Sequence[Word]
    surely: bool = False


def is_assignment(word: str) -> bool:
    """Tell whether a word sets a variable where it stands before a command."""
    return _ASSIGNMENT.match(word) is not None


def launched(name: str, arguments: Sequence[Word]) -> Launched:
    """Return which arguments of a program may be commands, beside what one of WRAPPERS runs."""
    if name in WRAPPERS:
        return Launched(list(_values(arguments)) if name == "ssh" else ())
    if name == "git":
        return Launched(list(_of_git(arguments)), surely=True)
    if name in ("make", "gmake"):
        return Launched(list(_values(arguments)))
    if name in _NEVER:
        return Launched(list(_of_options(arguments)), surely=True)
    behind = _BEHIND.get(name)
    if behind is None:
        return Launched(arguments)
    return Launched([*_behind(behind, arguments), *_of_options(arguments)], surely=True)


def reads_commands(name: str, arguments: Sequence[Word]) -> bool:
    """Tell whether a program takes commands from its input or from a file."""
    texts = [word.text for word in arguments]
    match name:
        case "at" | "batch":
            return True
        case "crontab":
            return texts != ["-l"]
        case "make" | "gmake":
            return _MAKE_INPUT.search(" ".join(texts)) is not None
        case "ssh":
            return not _behind_operands(arguments, _SSH, 1)
        case _:
            return False


def runs_input(name: str) -> bool:
    """Tell whether a here-document for a program may be code: nothing says that it is not."""
    return name not in _NEVER and name not in _BEHIND and name not in WRAPPERS


def _behind(starts: frozenset[str], arguments: Sequence[Word]) -> Iterator[Word]:
    for place, word in enumerate(arguments):
        if word.text in starts:
            yield from arguments[place + 1 :]
            return
        if word.text[:2] in starts:
            yield Word(word.text[2:], word.dynamic)
        name, equals, value = word.text.partition("=")
        if equals and name in starts:
            yield Word(value, word.dynamic)


def _of_options(arguments: Sequence[Word]) -> Iterator[Word]:
    """Yield the values of options that are the same for many programs (`--exec`, `--pager=…`)."""
    for place, word in enumerate(arguments):
        match = _RUN_OPTION.fullmatch(word.text) if word.text.startswith("--") else None
        if match is not None and match["value"] is not None:
            yield Word(match["value"], word.dynamic)
        elif match is not None:
            yield from arguments[place + 1 : place + 2]


def _values(arguments: Iterable[Word]) -> Iterator[Word]:
    for word in arguments:
        _, equals, value = word.text.partition("=")
        if equals:
            yield Word(value, word.dynamic)


def _of_git(arguments: Sequence[Word]) -> Iterator[Word]:
    texts = [word.text for word in arguments]
    operation = ""
    for place, word in enumerate(arguments):
        before = texts[place - 1] if place else ""
        if before == "-c" and not operation:
            yield _setting(word)
        elif word.text.startswith("--config-env"):
            yield _PLACEHOLDER
        elif _TRANSPORT in word.text:
            yield Word(word.text.rpartition(_TRANSPORT)[2].replace("%20", " "), word.dynamic)
        elif (operation, word.text) in _GIT_RUNS:
            yield from arguments[place + 1 :]
        elif operation == "filter-branch" and before.endswith("-filter"):
            yield word
        elif not operation and before not in _GIT_WITH_VALUE and not word.text.startswith("-"):
            operation = word.text
    if operation in ("rebase", "difftool", "grep"):
        yield from _behind_once(arguments)
    if operation == "hook":
        yield _PLACEHOLDER
    yield from _of_options(arguments)


def _behind_once(arguments: Sequence[Word]) -> Iterator[Word]:
    """Yield the values of `-x` and `-O`, in the next word or in the same."""
    for place, word in enumerate(arguments):
        if word.text == "-x":
            yield from arguments[place + 1 : place + 2]
        elif word.text[:2] in ("-x", "-O"):
            yield Word(word.text[2:], word.dynamic)


def _setting(word: Word) -> Word:
    """Return the command that a setting of git may be; an alias is one of git or of the shell."""
    name, _, value = word.text.partition("=")
    if value.startswith("!"):
        return Word(f"{value[1:]} ", word.dynamic)
    of_git = name.lower().startswith("alias.")
    return Word(f"git {value}" if of_git else value, word.dynamic)


def wrapped_words(name: str, words: Sequence[Word]) -> Sequence[Word] | None:
    """Return the words of the command that a wrapper runs, None when `name` is no wrapper.

    `words` begin with the wrapper itself.
    """
    if name in ("find", "fd", "fdfind"):
        places = (i for i, word in enumerate(words) if word.text in _FIND_RUNS)
        return words[next(places, len(words)) + 1 :]
    only_asks = name == "command" and len(words) > 1 and words[1].text in ("-v", "-V")
    if name not in WRAPPERS or only_asks:
        return None
    return _behind_operands(words[1:], *WRAPPERS[name])


def _behind_operands(
    words: Sequence[Word], with_value: frozenset[str], operands: int
) -> Sequence[Word]:
    """Return what stands behind options, assignments and that many operands."""
    at = 0
    while at < len(words):
        text = words[at].text
        if text in with_value:
            at += 2
        elif text.startswith("-") or is_assignment(text):
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return words[at:]
