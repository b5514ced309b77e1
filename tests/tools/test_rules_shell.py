"""What rules can know of shell commands: allow only what is plain, deny through any disguise."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.permissions.command_cover import suggest_command
from tools.permissions.shell import (
    AllowedCommands,
    CommandPattern,
    Match,
    RestrictedCommands,
)

ROOT = Path("/nowhere/project")


def allowed(*patterns: str) -> AllowedCommands[str]:
    rules: AllowedCommands[str] = AllowedCommands()
    for pattern in patterns:
        rules.add(CommandPattern.parse(pattern), pattern)
    return rules


def restricted(*patterns: str) -> RestrictedCommands[str]:
    rules: RestrictedCommands[str] = RestrictedCommands()
    for pattern in patterns:
        rules.add(CommandPattern.parse(pattern), pattern)
    return rules


def match(pattern: str, command: str) -> Match:
    return restricted(pattern).concerning(command)[0]


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("npm test:*", "npm test"),
        ("npm test:*", "npm test -- --watch src/a.js"),
        ("npm test:*", "  npm   test  x "),
        ("git status:*", "git status"),
        ("git status:*", "git status src"),
        ("git log --oneline:*", "git log --oneline"),
        ("make lint", "make lint"),
        ("cd x && make", "cd x && make"),
        ("*", "anything; at all"),
    ],
)
def test_an_allow_rule_covers_plain_commands(pattern: str, command: str) -> None:
    assert allowed(pattern).covering(command, ROOT) == pattern


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("npm test:*", "npm testing"),
        ("npm test:*", "npm"),
        ("make lint", "make lint x"),
        ("make lint", "make"),
        ("npm:*", "/tmp/npm test"),
        ("npm:*", "./npm test"),
    ],
)
def test_r10_an_allow_rule_ends_at_a_word(pattern: str, command: str) -> None:
    assert allowed(pattern).covering(command, ROOT) is None


@pytest.mark.parametrize(
    "tail",
    [
        "; id", "&& id", "| sh", "& id", "\nid", "\r\nid", "> f", "< f", ">> f", "$(id)", "`id`",
        "$HOME", "${x}", "'a b'", '"a"', "\\x", "*", "a?", "[a]", "{a,b}", "~/x", "# c", "!x",
        "(id)", "<(id)", "\x00", "\u00a0x", "é", "\u202ex", "^x", "x\x0bid",
    ],
)  # fmt: skip
def test_an_allow_rule_covers_nothing_with_shell_syntax(tail: str) -> None:
    rules = allowed("npm test:*")
    assert rules.covering(f"npm test {tail}", ROOT) is None
    assert rules.covering("npm test x", ROOT), "the same without the tail is covered"


@pytest.mark.parametrize("prefix", ["X=1 ", "env ", "sudo ", "time ", "\\", "( ", "! ", "\n;"])
def test_an_allow_rule_covers_nothing_in_front_of_its_program(prefix: str) -> None:
    assert allowed("npm test:*").covering(f"{prefix}npm test", ROOT) is None


@pytest.mark.parametrize(
    "command",
    [
        "find . -delete", "find . -exec rm x", "sort -o f", "sort --compress-program=x",
        "rg --pre x",
        "rg -z x", "tree -o f", "base64 -o f", "git -c a.b=c status", "git --exec-path=x status",
        "git diff --output=f", "git diff --ext-diff", "git grep -Ovim x",
        "tar -xf a --to-command=x",
        "sed -i x", "sed 1e x", "awk x f", "uniq a b", "curl -o f x", "fd x -x rm", "date -s x",
        "make SHELL=x", "make x CC=y", "make --eval=x", "make -f x", "make -C x", "make -kf x",
        "cargo --config=x", "go -exec x", "go --toolexec=x", "go -ldflags=x",
        "npm --script-shell x", "npm --script-s=x", "npm --node-options=x", "npm --prefix x",
        "pytest -p x", "pytest -qp x",
        "pytest -px", "ruff --fix", "eslint --fix x", "prettier --write x", "gh -X x",
    ],
)  # fmt: skip
def test_r09_flags_that_write_or_run_are_covered_only_by_the_rule_itself(command: str) -> None:
    program = command.split()[0]
    assert allowed(f"{program}:*").covering(command, ROOT) is None
    assert allowed(f"{command}:*").covering(command, ROOT), "a rule that names the flag covers it"


@pytest.mark.parametrize(
    "command",
    ["npm test -- -c x --fix", "npm test --silent", "pytest -xvv tests --lf -k x", "make test -j4",
     "make -k test lint", "cargo test --release -- --nocapture", "go test -v -run X ./...",
     "ruff check src", "eslint --max-warnings=0 src"],
)  # fmt: skip
def test_usual_options_are_covered(command: str) -> None:
    assert allowed(f"{command.split()[0]}:*").covering(command, ROOT)


def test_a_program_found_in_the_project_is_not_covered_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "lint"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    assert allowed("lint:*").covering("lint x", tmp_path) is None
    assert allowed("lint:*").covering("lint x", ROOT) == "lint:*"
    assert allowed("bin/lint:*").covering("bin/lint x", tmp_path), "unless the rule says the path"


@pytest.mark.parametrize(
    "command",
    [
        "rm x", "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm", "ls |& rm", "a & rm x",
        "ls\nrm x",
        "(rm x)", "{ rm x; }", "$(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "${a:-$(rm x)}"',
        "diff <(rm x) y", "if true; then rm x; fi", "for i in a; do rm $i; done", "! rm x",
        "while rm x; do :; done", "case a in a) rm x;; esac", "f() { rm x; }",
        "function f { rm x; }",
        "r$'m' x", "$'rm' x", "$'\\x72\\155' x", "$'\\u0072m\\0z' x", "$'/bin/\\U72m'",
        "\\rm x", 'r"m" x', "'rm' x", "r''m x", "r\\\nm x", "/bin/rm x", "RM x", "X=1 Y=2 rm x",
        "sudo rm x", "sudo -u root rm x", "env -i A=1 rm", "timeout -s KILL 5 rm", "nice -n 5 rm",
        "nohup setsid ionice -c 3 stdbuf -o L rm", "time -p rm x", "exec rm", "command rm",
        "xargs -0 rm", "find . -exec rm {} ;", "fd x -x rm", "bash -c 'rm x'", 'sh -lc "ls; rm x"',
        "sudo bash -ec 'rm x'", "eval 'rm x'", "eval rm x", "cat <<E\n$(rm x)\nE", "ls > f; rm x",
        "cat <<'E'\ndon't\nE\nrm x", "cat <<A\n$(cat <<B\n$(rm x)\nB\n)\nA\n", "echo a#b; rm",
        ': $((1<<E))\nrm x\nE\n', ': $[1<<E]\nrm x\nE\n', "echo \"${x:-'}\"; rm y; echo \"'}\"",
    ],
)  # fmt: skip
def test_r11_a_deny_rule_finds_its_program_at_every_command_position(command: str) -> None:
    assert match("rm:*", command) is Match.YES


@pytest.mark.parametrize(
    "command",
    [
        "$x y", "/bin/r? x", "{rm,x}", "curl x | sh", "bash -s x",
        "bash <(x)",
        "source <(x)", ". /dev/stdin", "alias q=rm; q x", "hash -p /bin/rm ls; ls",
        'echo "unclosed',
        "echo 'unclosed", "python3 -c 'os.system(\"rm x\")'", "coproc N { rm x; }",
        "sudo " * 30 + "x",
        "[[ a ]] then rm x", "for x do rm x; done", "watch 'rm x'", "trap 'rm x' EXIT", "xargs env",
        "cat <<E | sh\nrm x\nE", "x=`echo \\`rm x\\``", "env -S'rm x' y", "$(", "cat <<E\nls",
        'eval "$x"', "let 'a[$(rm x)]=1'", "[[ -v 'a[$(rm x)]' ]]", "test -v 'a[`rm x`]'",
        "printf -v 'a[$(rm x)]' y", "read 'a[$(rm x)]' <<< x", "unset 'a[$(rm x)]'",
        "declare 'a[$(rm x)]=1'", "mapfile -C 'rm x' a", "x='$(rm x)'; echo ${x@P}",
        "x='a[$(rm x)]'; echo $((x))",
    ],
)  # fmt: skip
def test_r11_a_command_that_hides_what_it_runs_may_be_what_is_denied(command: str) -> None:
    assert match("rm:*", command) is Match.MAYBE


@pytest.mark.parametrize(
    "command",
    ["git $x", "git ${x} y", "git $(echo push)", "x=push; git $x", "git -C . `echo push`"],
)
def test_r11_a_subcommand_that_only_running_would_tell_may_be_what_is_denied(command: str) -> None:
    assert match("git push:*", command) is Match.MAYBE
    assert match("git:*", command) is Match.YES


@pytest.mark.parametrize("command", ["git add $x", "git log -n $x", 'git commit -m "$x"'])
def test_a_subcommand_that_is_named_is_no_other(command: str) -> None:
    assert match("git push:*", command) is Match.NO


@pytest.mark.parametrize(
    "command",
    [
        "ls", "echo 'rm x'", "grep rm file", "ls 2>&1 rm", "cat <<'E'\nrm don't\nE\nls", "RM=1 ls",
        "echo # rm x", "npm run rm", "bash script.sh", "git log --format='%h {x}' | head",
        "echo $HOME",
        "bash -o pipefail -c 'ls | wc'", "echo \"it's\"", "ls *.py", "echo {a,b}", "a=$(ls)",
        "[ -f x ] && ls",
        "for f in *.py; do sed -n 1p \"$f\"; done", "rmdir x", "echo $((1+2))", "sudo ls", "env ls",
    ],
)  # fmt: skip
def test_a_deny_rule_leaves_other_commands_alone(command: str) -> None:
    assert match("rm:*", command) is Match.NO


@pytest.mark.parametrize(
    "command",
    [
        "git -c alias.x='!rm y' x", "git -c core.pager='rm y' log", "git -c alias.x=!rm x",
        "git -c core.sshCommand='rm y' fetch", "git --config-env=alias.x=V x",
        "git --config-env core.pager=V log", "git rebase -x 'rm y' main", "git rebase -xrm main",
        "git rebase --exec='rm y' main", "git rebase --exec rm main", "git bisect run rm y",
        "git submodule foreach 'rm y'", "git submodule foreach --recursive rm y",
        "git submodule foreach \"$x\"", "git filter-branch --tree-filter 'rm y' HEAD",
        "git difftool -x 'rm y'", "git difftool --extcmd=rm", "git fetch --upload-pack='rm y' x",
        "git clone 'ext::rm y' z", "git clone ext::sh%20-c%20rm z", "git grep -Orm x",
        "git grep --open-files-in-pager=rm x", "git push --receive-pack=rm x", "git hook run x",
        "ssh host rm y", "ssh -p 22 -i k host 'rm y'", "ssh -o ProxyCommand='rm y' host x",
        "ssh -oProxyCommand=rm host x", "echo 'rm y' | ssh host", "ssh host \"$x\"",
        "ssh host <<'E'\nrm y\nE",
        "docker exec c rm y", "docker run --rm -it image rm y", "docker run i sh -c 'rm y'",
        "docker compose exec web rm y", "docker run --entrypoint rm i y", "docker exec c $x",
        "docker -H h exec c rm", "podman run i rm y", "nerdctl exec c rm",
        "kubectl exec pod -- rm y", "kubectl -n n exec -it pod -c c -- sh -c 'rm y'",
        "kubectl run x --image=i --command -- rm", "oc rsh pod rm y",
        "uv run rm y", "uv run -- rm y", "uv tool run rm", "uvx rm y", "pipx run rm",
        "poetry run rm y", "pipenv run rm y", "pdm run rm", "hatch run x:rm", "conda run -n x rm y",
        "npx rm y", "npx -c 'rm y'", "npm exec -- rm y", "npm x -c 'rm y'", "bunx rm y",
        "bun x rm y", "pnpm dlx rm y", "pnpm exec rm y", "yarn exec rm y", "yarn dlx rm",
        "bundle exec rm y", "mise exec -- rm y", "mise x -- rm", "direnv exec . rm y",
        "nix-shell --run 'rm y'", "nix run x -- rm", "go run -exec rm .", "go test -exec=rm .",
        "cargo watch -x 'rm y'", "cargo watch -s 'rm y'", "gh alias set x '!rm y'",
        "tar --checkpoint=1 --checkpoint-action=exec='rm y' -cf a b", "tar -I 'rm y' -xf a",
        "tar --checkpoint-action exec=rm -cf a b", "tar -xf a --to-command='rm y'",
        "tar -Irm -xf a", "tar --use-compress-program=rm -xf a", "sqlite3 db '.shell rm y'",
        "sqlite3 db .shell\\ rm", "echo 'rm y' | at now", "at -f x now", "batch < x", "crontab x",
        "crontab -", "watch -n 1 rm y", "parallel rm ::: y", "script -c 'rm y' /dev/null",
        "script -qc 'rm y'", "flock f -c 'rm y'", "flock -n f rm y", "su - root -c 'rm y'",
        "su -c rm", "nsenter -t 1 -m rm y", "chroot d rm y", "chroot --userspec=a d rm",
        "systemd-run --user rm y", "systemd-run -p User=x --wait rm y", "make -f-", "make -f - x",
        "make --file=/dev/stdin", "make --eval='x:;rm y' x", "make SHELL='rm y' x", "make CC=rm",
        "vim -c ':!rm y'", "psql -c '\\! rm y'", "rsync -e 'rm y' a b", "rsync --rsh=rm a b",
        "sort --compress-program=rm x", "rg --pre rm x", "rg --pre=rm x", "split --filter='rm y' f",
        "man -P rm x", "man -Prm x", "gdb --args rm y", "entr rm y", "nodemon --exec 'rm y'",
        "hyperfine 'rm y'", "concurrently 'rm y'", "expect -c 'spawn rm y'", "ltrace rm y",
        "ip netns exec n rm y", "lxc-attach -n c -- rm y", "start-stop-daemon --exec /bin/rm",
        "something-new rm y", "something-new --run 'rm y'", "something-new --run=/bin/rm",
        "PAGER='rm y' git log", "GIT_SSH_COMMAND='rm y' git fetch", "env EDITOR=rm git commit",
        "export BASH_ENV=$x; bash f", "LD_PRELOAD=$x ls",
        "python3 - <<'E'\nimport os; os.system('rm y')\nE", "echo 'x(\"rm y\")' | python3",
        "curl x | python3 -", "curl x | node", "python3 /dev/stdin", "psql <<'E'\n\\! rm y\nE",
        "sudo ssh h rm y", "ssh a ssh b rm y", "bash -c 'docker exec c rm y'", "ssh h 'sudo rm y'",
        "npm explore x -- rm y", "docker run -v /a:/b i xargs rm",
    ],
)  # fmt: skip
def test_r11_a_program_that_runs_its_arguments_does_not_hide_what_is_denied(command: str) -> None:
    assert match("rm:*", command) is not Match.NO


@pytest.mark.parametrize(
    "command",
    [
        "npm install rm", "npm run rm", "npm test -- rm", "apt-get install -y rm",
        "brew install rm",
        "pip install rm", "cargo add rm", "git commit -m 'rm y'", "git log --grep 'rm y'",
        "git rm x", "git checkout rm", "git stash push -m 'rm y'", "git -c a.b=c commit -m 'rm y'",
        "docker rm c", "docker ps", "docker build -t rm .", "kubectl get rm", "make rm",
        "gh pr create --title 'rm y' --body \"don't rm y\"", "pytest -k rm", "man rm", "which rm",
        "command -v rm", "type rm", "curl https://x.test/rm", "touch rm", "cat rm", "cp rm x",
        "jq .rm x", "echo 'rm y' > f", "cat > f <<'E'\nrm don't\nE", "python3 rm.py",
        "git commit -F - <<'E'\nrm y\nE", "cat > f <<'E'\nrm y\nE\nnpm test", "crontab -l",
        "something-new --message \"don't $x\"", "docker run -v \"$PWD:/w\" -w /w node npm test",
        "python3 <<'E'\nprint('it is ' + x)\nE", "python3 --version", "node x.js", "uv run pytest",
        "ssh host uptime", "npx tsc --noEmit", "PYTHONPATH=. pytest", "PAGER=cat git log",
        "make -j 4 CC=gcc", "sort -k 2 rm", "tee rm", "sed -n 1p rm", "ls rm", "test -f rm",
    ],
)  # fmt: skip
def test_a_word_that_is_no_command_is_not_taken_for_one(command: str) -> None:
    assert match("rm:*", command) is Match.NO


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("git push:*", "git push --force", Match.YES),
        ("git push:*", "git -C . push", Match.YES),
        ("git push:*", "git -c a.b=c --no-pager push x", Match.YES),
        ("git push --force:*", "git push origin main -f", Match.YES),
        ("git push --force:*", "git push origin main", Match.NO),
        ("git push:*", "git --unknown x push", Match.MAYBE),
        ("git push:*", "git log push", Match.MAYBE),
        ("rm -rf:*", "rm -rf x", Match.YES),
        ("rm -rf:*", "rm -f x -r", Match.YES),
        ("rm -r:*", "rm -fr x", Match.YES),
        ("rm -r:*", "rm --recursive x", Match.YES),
        ("rm -r:*", "rm --recurs x", Match.YES),
        ("rm -r:*", "rm -R x", Match.YES),
        ("rm --recursive:*", "rm -vfr x", Match.YES),
        ("rm -rf:*", "rm x", Match.NO),
        ("rm -rf:*", "rm -r x", Match.NO),
    ],
)
def test_a_deny_rule_knows_other_spellings_of_its_words(pattern, command, expected) -> None:
    assert match(pattern, command) is expected


@pytest.mark.parametrize(
    "command",
    ["X=rm; $X -rf y", "X=rm\n${X} y", "X='rm -rf'; $X y", "for p in ls rm; do $p x; done",
     "export X=rm; $X y", "sudo env X=rm true; sudo $X y"],
)  # fmt: skip
def test_a_deny_rule_sees_through_variables_that_the_text_sets(command) -> None:
    assert match("rm:*", command) is Match.YES


def test_r07_the_ten_thousandth_command_is_checked_too() -> None:
    assert match("rm:*", "ls;" * 10_000 + "rm x") is Match.YES


@pytest.mark.parametrize(
    "command",
    [
        "git x; " * 1400, "sudo " * 2000, "$( " * 3000, '"${' * 3000, "`ls` " * 2000, "do " * 3000,
        "then sudo " * 1000, "a" * 10_000, "'" * 10_000, '"' * 10_000, "\\" * 10_000, "<<a " * 2500,
        "bash -c '" + "sudo x " * 1400 + "'", "<<a\n" * 2500, "( " * 5000, "npm test " * 1100,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_r42_a_thousand_rules_judge_a_long_command_in_time(command: str) -> None:
    deny = restricted(*[f"git sub{number}:*" for number in range(1000)])
    allow = allowed(*[f"npm sub{number}:*" for number in range(1000)])
    best = min(_seconds(deny, allow, command) for _ in range(5))
    assert best < 0.05, f"{best * 1000:.0f} ms"


def _seconds(deny: RestrictedCommands[str], allow: AllowedCommands[str], command: str) -> float:
    start = time.process_time()
    deny.concerning(command)
    allow.covering(command, ROOT)
    return time.process_time() - start


@pytest.mark.parametrize(
    ("command", "suggestion"),
    [
        ("npm test", "npm test:*"),
        ("npm run build -- --x", "npm run build:*"),
        ("git status", "git status:*"),
        ("git log --oneline", "git log --oneline"),
        ("pytest -q tests", "pytest:*"),
        ("uv run pytest -q", "uv run pytest:*"),
        ("uv run python x.py", "uv run python x.py"),
        ("ruff check .", "ruff check:*"),
        ("ruff check --fix .", "ruff check --fix ."),
        ("make test", "make test"),
        ("npm install lodash", "npm install lodash"),
        ("npm install test", "npm install test"),
        ("pip install x", "pip install x"),
        ("cargo test", "cargo test:*"),
        ("git push", "git push"),
        ("git commit -m x", "git commit:*"),
        ("gh pr view 12", "gh pr view:*"),
        ("gh pr merge 12", "gh pr merge 12"),
        ("gh repo delete x", "gh repo delete x"),
        ("docker compose logs web", "docker compose logs:*"),
        ("docker rm web", "docker rm web"),
        ("docker exec web ls", "docker exec web ls"),
        ("kubectl delete pod x", "kubectl delete pod x"),
        ("npm run", "npm run"),
        ("ls -la", "ls -la"),
        ("python x.py", "python x.py"),
        ("npm test && id", "npm test && id"),
        ("cat a | wc", "cat a | wc"),
        ("*", ""),
        ("echo a:*", ""),
    ],
)
def test_suggestions_are_narrow(command: str, suggestion: str) -> None:
    assert suggest_command(command) == suggestion


shell_text = st.lists(
    st.sampled_from(
        ["rm", "ls", "git", "npm test", " ", " ", "\n", ";", "&&", "|", "(", ")", "$(", "`", "'",
         '"',
         "\\", "${", "}", "{", "<<E\n", "\nE\n", "<", ">", "#", "$x", "$'", "then", "sudo",
         "sh -c", "=", "*"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@given(shell_text)
@settings(max_examples=400)
def test_a_denied_program_after_any_text_is_never_missed(text: str) -> None:
    """Whatever stands before it, `rm` on a line of its own is found, unless the line is data."""
    found = match("rm:*", f"{text}\nrm x")
    in_document = "<<" in text
    assert found is not Match.NO or in_document or text.endswith("\\")


@given(shell_text)
@settings(max_examples=400)
def test_what_an_allow_rule_covers_is_plain_and_a_suggestion_covers_its_command(text: str) -> None:
    if allowed("npm test:*").covering(text, ROOT):
        assert text.split()[:2] == ["npm", "test"]
        assert not set(text.strip(" \t\n")) & set(";&|()$`'\"\\{}<>#*\n=")
    suggestion = suggest_command(text)
    if suggestion:
        assert allowed(suggestion).covering(text, ROOT) == suggestion


def test_blanks_and_line_ends_around_a_command_are_no_part_of_it() -> None:
    for text in ("npm test\n", "\n npm test", "npm test \t\n\n"):
        assert allowed("npm test:*").covering(text, ROOT)
        assert suggest_command(text) == "npm test:*"
    for text in ("npm test\nid", "npm test\n\nid\n", "npm test\r", "npm test\x0b"):
        assert not allowed("npm test:*").covering(text, ROOT)
        assert not allowed("npm test").covering(text, ROOT)
