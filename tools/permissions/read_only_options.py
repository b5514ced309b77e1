"""The programs that only read, and the options of each that are known to keep it so.

An option that is not written here asks. In the texts below `-abc` are three options without a
value, `-n:` takes a value that is only text, `-f@` one that is a file to read, `--color?` a value
only behind `=`, `-#` is a number such as `-20`. Options mean the same, or nothing, in the GNU, BSD
and busybox versions of a program; those that write, run or follow something are left out (R9).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tools.record import record


class Operands(Enum):
    """What the words are that are no options."""

    FILES = "files"
    ONE_FILE = "one file"
    """A second one would be written."""
    PATTERN = "a pattern, then files"
    TEXT = "text"
    NONE = "none"
    FORMAT = "text that begins with +"


ALWAYS = "always"
"""For a program that reads the files of a directory without an option that says so."""


@record
class Program:
    """One program. `recursive` are options with which it reads all files below a directory, or
    ALWAYS.

    `bundles` and
    `attaches` that options with a value may stand in one word with others (`-bc 8`), or with any
    value (`-Pname`): programs that take their words apart by themselves differ there.
    """

    operands: Operands
    alone: frozenset[str]
    text: frozenset[str]
    files: frozenset[str]
    optional: frozenset[str]
    pattern_options: frozenset[str]
    recursive: frozenset[str]
    any_words: bool = False
    bundles: bool = True
    attaches: bool = True


def program(
    operands: Operands, options: str = "", *, pattern: str = "", recursive: str = "",
    any_words: bool = False, bundles: bool = True, attaches: bool = True,
) -> Program:  # fmt: skip
    """Read the options of a program as written in this module.

    `pattern` are options that give the pattern, so that no operand does; `any_words` says that
    nothing it can be given does harm, even unknown words.
    """
    alone: set[str] = set()
    text: set[str] = set()
    files: set[str] = set()
    optional: set[str] = set()
    for word in options.split():
        if word.endswith(":"):
            text.add(word[:-1])
        elif word.endswith("@"):
            files.add(word[:-1])
        elif word.endswith("?"):
            optional.add(word[:-1])
        elif word.startswith("--"):
            alone.add(word)
        else:
            alone.update(f"-{letter}" for letter in word[1:])
    return Program(
        operands, frozenset(alone), frozenset(text), frozenset(files), frozenset(optional),
        frozenset(pattern.split()), frozenset(recursive.split()), any_words,
        bundles, attaches,
    )  # fmt: skip


_FILES, _TEXT, _NONE = Operands.FILES, Operands.TEXT, Operands.NONE
_GREP = (
    "-ivnclLHhowxsqabEFGPIrT -e: -f@ -m: -A: -B: -C: -# --ignore-case --invert-match "
    "--line-number --count --files-with-matches --files-without-match --only-matching "
    "--word-regexp --line-regexp --no-messages --quiet --silent --with-filename --no-filename "
    "--extended-regexp --fixed-strings --basic-regexp --perl-regexp --text --recursive "
    "--byte-offset --initial-tab --null --color? --colour? --regexp: --file@ --max-count: "
    "--after-context: --before-context: --context: --include: --exclude: --exclude-dir: "
    "--binary-files: --line-buffered"
)
_RG = (
    "-ivnclowxsSFPNHIUqp0ua -e: -f@ -m: -A: -B: -C: -g: -t: -T: -d: -j: -M: -r: -E: "
    "--ignore-case --smart-case --case-sensitive --invert-match --line-number --no-line-number "
    "--count --count-matches --files-with-matches --files-without-match --only-matching "
    "--word-regexp --line-regexp --fixed-strings --pcre2 --multiline --multiline-dotall --quiet "
    "--pretty --null --unrestricted --hidden --no-ignore --no-ignore-vcs --no-ignore-parent "
    "--no-ignore-dot --no-messages --with-filename --no-filename --heading --no-heading --column "
    "--no-column --files --stats --json --vimgrep --trim --text --no-mmap --type-list --passthru "
    "--crlf --one-file-system --max-columns-preview --glob-case-insensitive --version "
    "--regexp: --file@ --max-count: --after-context: --before-context: --context: --glob: "
    "--iglob: --type: --type-not: --max-depth: --threads: --max-columns: --replace: --encoding: "
    "--max-filesize: --sort: --sortr: --color: --engine: --context-separator: "
    "--field-match-separator:"
)
_SUMS = program(_FILES, "-btz --binary --text --tag --zero")

PROGRAMS: Mapping[str, Program] = {
    "arch": program(_NONE),
    "b2sum": _SUMS,
    "basename": program(_TEXT, "-az -s: --multiple --suffix: --zero"),
    "break": program(_TEXT),
    "cat": program(
        _FILES,
        "-AbeEnstTuv --show-all --number --number-nonblank --squeeze-blank --show-ends "
        "--show-tabs --show-nonprinting",
    ),
    "cksum": program(_FILES),
    "cmp": program(_FILES, "-bls -n: --silent --quiet --verbose --print-bytes --bytes:"),
    "column": program(_FILES, "-tx -s: -c: -o: --table --separator: --output-separator:"),
    "comm": program(_FILES, "-123iz --check-order --nocheck-order --output-delimiter: --total"),
    "continue": program(_TEXT),
    "cut": program(
        _FILES,
        "-snz -d: -f: -c: -b: --delimiter: --fields: --characters: --bytes: --complement "
        "--only-delimited --output-delimiter: --zero-terminated",
    ),
    "date": program(
        Operands.FORMAT, "-uR -d: --date: --utc --universal --rfc-email --iso-8601? --rfc-3339:"
    ),
    "df": program(_FILES, "-hHkmPTilac --human-readable --print-type --inodes --total --local"),
    "diff": program(
        _FILES,
        "-abBcdeEiNqrsTuwy -U: -C: -x: -W: -I: -F: --brief --recursive --new-file --ignore-case "
        "--ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-trailing-space "
        "--text --side-by-side --suppress-common-lines --strip-trailing-cr --minimal "
        "--report-identical-files --unified? --context? --color? --exclude: --width: "
        "--ignore-matching-lines: --show-function-line: --no-dereference --label:",
        recursive=ALWAYS,
    ),
    "dirname": program(_TEXT, "-z --zero"),
    "du": program(
        _FILES,
        "-abchHkmsSxP0 -d: --all --bytes --total --human-readable --summarize --max-depth: "
        "--apparent-size --separate-dirs --one-file-system --exclude: --si --threshold:",
    ),
    "echo": program(_TEXT, any_words=True),
    "egrep": program(
        Operands.PATTERN, _GREP, pattern="-e -f --regexp --file", recursive="-r --recursive"
    ),
    "exit": program(_TEXT),
    "expand": program(_FILES, "-i -t: --initial --tabs:"),
    "false": program(_TEXT, any_words=True),
    "fgrep": program(
        Operands.PATTERN, _GREP, pattern="-e -f --regexp --file", recursive="-r --recursive"
    ),
    "file": program(
        _FILES, "-bhikLN0 -F: --brief --mime --mime-type --mime-encoding --no-pad --dereference"
    ),
    "fmt": program(_FILES, "-cstu -w: --width:"),
    "fold": program(_FILES, "-bs -w: --bytes --spaces --width:"),
    "free": program(_NONE, "-bkmghtlw"),
    "grep": program(
        Operands.PATTERN, _GREP, pattern="-e -f --regexp --file", recursive="-r --recursive"
    ),
    "head": program(_FILES, "-qvz -n: -c: -# --lines: --bytes: --quiet --silent --verbose"),
    "hexdump": program(_FILES, "-bcCdovx -n: -s:"),
    "hostname": program(_NONE, "-s"),
    "ls": program(
        _FILES,
        "-1aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ --all --almost-all --author --escape --color? "
        "--directory --classify? --human-readable --si --inode --recursive --reverse --size "
        "--sort: --time: --time-style: --full-time --group-directories-first --no-group "
        "--numeric-uid-gid --indicator-style: --ignore: --hide: --quoting-style: --format:",
    ),
    "md5sum": _SUMS,
    "nl": program(_FILES, "-b: -n: -w: -s: -v: --body-numbering: --number-width:"),
    "nproc": program(_NONE, "--all"),
    "od": program(_FILES, "-abcdfiloxv -A: -t: -N: -j: -w? --address-radix: --format:"),
    "paste": program(_FILES, "-sz -d: --delimiters: --serial"),
    "pwd": program(_NONE, "-LP"),
    "readlink": program(_FILES, "-efmnz --canonicalize --canonicalize-existing --no-newline"),
    "realpath": program(_FILES, "-emPLsqz --relative-to@ --relative-base@ --strip --quiet"),
    "rev": program(_FILES),
    "rg": program(Operands.PATTERN, _RG, pattern="-e -f --regexp --file --files --type-list"),
    "seq": program(_TEXT, "-w -s: -f: --separator: --format: --equal-width -#"),
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "shasum": program(_FILES, "-bt -a: --algorithm:"),
    "sleep": program(_TEXT),
    "sort": program(
        _FILES,
        "-bcCdfghiMmnRrsuVz -k: -t: --key: --field-separator: --reverse --unique --numeric-sort "
        "--human-numeric-sort --version-sort --general-numeric-sort --month-sort --ignore-case "
        "--ignore-leading-blanks --dictionary-order --stable --check? --merge --zero-terminated "
        "--random-sort",
    ),
    "stat": program(_FILES, "-Ltx -c: --dereference --format: --printf: --terse"),
    "strings": program(_FILES, "-af -n: -t: -e: --all --bytes: --radix: --encoding: -#"),
    "tac": program(_FILES, "-br -s: --before --regex --separator:"),
    "tail": program(_FILES, "-qvz -n: -c: -# --lines: --bytes: --quiet --silent --verbose"),
    "tr": program(_TEXT, "-cCdst --complement --delete --squeeze-repeats --truncate-set1"),
    "tree": program(
        _FILES,
        "-aAdfFghiCnNpqstuDSrvcU -L: -P: -I: --noreport --dirsfirst --prune --du --si --inodes "
        "--charset: --filelimit: --gitignore --ignore-case --matchdirs --sort:",
        attaches=False,
    ),
    "true": program(_TEXT, any_words=True),
    ":": program(_TEXT, any_words=True),
    "type": program(_TEXT, "-atpPf"),
    "uname": program(_NONE, "-amnoprsvi"),
    "unexpand": program(_FILES, "-a -t: --all --tabs:"),
    "uniq": program(
        Operands.ONE_FILE,
        "-cdDuiz -f: -s: -w: --count --repeated --unique --ignore-case --skip-fields: "
        "--skip-chars: --check-chars: --zero-terminated",
    ),
    "uptime": program(_NONE, "-ps"),
    "wc": program(_FILES, "-clmwL --bytes --chars --lines --words --max-line-length"),
    "which": program(_TEXT, "-as"),
    "whoami": program(_NONE),
    "xxd": program(
        Operands.ONE_FILE, "-abeEiupC -c: -g: -l: -o: -s: -n:", bundles=False, attaches=False
    ),
}

GIT: Mapping[str, Program] = {
    "blame": program(
        _FILES,
        "-bcefklnpstwCM -L: --porcelain --line-porcelain --show-email --date: --since: "
        "--abbrev? --root --no-progress",
    ),
    "cat-file": program(_FILES, "-tspe"),
    "check-ignore": program(_FILES, "-vqn --verbose --quiet --non-matching --no-index"),
    "count-objects": program(_NONE, "-vH --verbose --human-readable"),
    "describe": program(
        _FILES, "--tags --always --all --long --dirty --contains --exact-match --abbrev? --match:"
    ),
    "grep": program(
        Operands.PATTERN,
        "-EFGHhIilLnovwWcpqz -e: -A: -B: -C: -m: --cached --ignore-case --word-regexp "
        "--invert-match --line-number --column --count --files-with-matches --name-only "
        "--files-without-match --only-matching --extended-regexp --fixed-strings --break "
        "--heading --show-function --function-context --and --or --not --all-match --quiet "
        "--no-color --full-name --max-depth: --context: --after-context: --before-context:",
        pattern="-e",
    ),
    "ls-files": program(
        _FILES,
        "-cdmostuzkiv -x: --cached --deleted --modified --others --stage --unmerged --killed "
        "--ignored --exclude: --exclude-standard --full-name --error-unmatch --directory "
        "--no-empty-directory --abbrev? --eol --deduplicate",
    ),
    "ls-tree": program(
        _FILES, "-rdtlz --long --name-only --name-status --full-name --full-tree --object-only"
    ),
    "merge-base": program(_FILES, "-a --all --octopus --independent --is-ancestor --fork-point"),
    "rev-list": program(
        _FILES,
        "--count --all --branches --tags --remotes --no-merges --merges --first-parent --reverse "
        "--left-right --objects --abbrev-commit -n: --max-count: --skip: --since: --until: "
        "--after: --before: --author: --grep: -#",
    ),
    "rev-parse": program(
        _FILES,
        "-q --abbrev-ref? --short? --verify --quiet --symbolic --symbolic-full-name --all "
        "--branches --tags --remotes --show-toplevel --show-prefix --show-cdup --git-dir "
        "--git-common-dir --absolute-git-dir --is-inside-work-tree --is-inside-git-dir "
        "--is-bare-repository --is-shallow-repository --show-object-format? --no-revs --revs-only",
    ),
    "show-ref": program(_TEXT, "-dhqs --head --heads --tags --branches --hash? --verify --quiet"),
    "shortlog": program(_FILES, "-nsec --numbered --summary --email --no-merges --all --since:"),
    "version": program(_NONE, "--build-options"),
}
"""Subcommands of git beside those of `git_options.PLAIN`."""

FIND_ALONE = frozenset((
    "-empty", "-print", "-print0", "-ls", "-prune", "-true", "-false", "-readable", "-writable",
    "-executable", "-depth", "-xdev", "-mount", "-noleaf", "-daystart", "-nouser", "-nogroup",
    "-and", "-or", "-not", "-a", "-o", "!", "(", ")", ",", "-quit",
))  # fmt: skip
FIND_TEXT = frozenset((
    "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex",
    "-regextype", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime",
    "-cmin", "-perm", "-user", "-group", "-uid", "-gid", "-maxdepth", "-mindepth", "-links",
    "-inum", "-printf", "-newermt", "-lname", "-ilname",
))  # fmt: skip
FIND_FILES = frozenset(("-newer", "-anewer", "-cnewer", "-samefile"))

FD = program(
    Operands.PATTERN,
    "-HIuasipg01q -e: -t: -d: -E: -S: -c: -j: --hidden --no-ignore --unrestricted --absolute-path "
    "--ignore-case --case-sensitive --fixed-strings --full-path --glob --print0 --quiet "
    "--extension: --type: --max-depth: --min-depth: --exact-depth: --exclude: --size: --color: "
    "--changed-within: --changed-before: --max-results: --no-ignore-vcs",
)
JQ_ALONE = frozenset("rcnsSeMCjaR") | {
    "--raw-output", "--compact-output", "--null-input", "--slurp", "--sort-keys", "--exit-status",
    "--monochrome-output", "--color-output", "--join-output", "--ascii-output", "--raw-input",
    "--tab", "--stream", "--seq", "--unbuffered",
}  # fmt: skip
