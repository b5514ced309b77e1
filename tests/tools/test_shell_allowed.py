"""Commands that only read are not asked about; whatever else a line holds, is (R6-R13)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.calls import make_call, make_invocation, runs
from tests.support.commands import rule_set, verdict, whys
from tools.permissions.destruction import destruction
from tools.permissions.rules import Verdict
from tools.permissions.sed_script import only_prints

READING = [
    "ls", "ls -la", "ls -lah --color=never src", "cat a.py", "cat -n a.py src/b.py", "pwd",
    "echo hello", "echo 'a; rm x' \"$HOME\"", "echo $x", "head -20 a.py", "head -n 5 a.py",
    "tail -n +3 a.py", "wc -l a.py src/b.py", "wc -l *.py", "grep -n foo a.py",
    "grep -rn 'def main' src", "grep -rnE --include='*.py' 'a|b' .", "grep -c x < a.py",
    "rg foo", "rg -n 'foo bar' src -g '*.py' -t py", "rg --files src | head", "rg -l x | wc -l",
    "rg foo -g '!*.lock' -g '*.{ts,tsx}'", "find . -name '*.py' -not -path './x/*' | sort",
    "find src -type f -maxdepth 2 -print0", "find . \\( -name a -o -name b \\) -size +1k",
    "fd -e py", "tree -L 2 -a", "du -sh src", "df -h", "stat a.py", "file a.py",
    "diff a.py src/b.py",
    "od -w16 -c a.py", "xxd -l16 -c 8 a.py", "tree -aL 2 src", "rg x -g '*.{py,toml}'",
    "diff -u <(sort a.py) <(sort src/b.py)", "sort -u -k2,2n a.py | uniq -c | sort -rn | head -3",
    "cut -d: -f1 a.py", "cut -d ' ' -f2 < a.py", "tr a-z A-Z < a.py", "tac a.py", "nl a.py",
    "basename src/b.py .py", "dirname src/b.py", "realpath a.py", "which python3", "date +%F",
    "uname -a", "whoami", "nproc", "seq 3", "sleep 0", "true", "false || true", "type ls",
    "command -v git", "sha256sum a.py", "md5sum a.py", "xxd a.py", "xxd -l 16 a.py",
    "sed -n 1,20p a.py", "sed -n '/def/p;10q' a.py", "sed 's/a/b/g' a.py", "sed -n -e '$=' a.py",
    "awk '{print $1, $3}' a.py", "awk -F: '{print $1}' a.py", "jq .name a.json",
    "jq -r '.[] | select(.a == 1) | .b' a.json", "git status", "git status --short", "git diff",
    "git diff HEAD~1 -- src", "git --no-pager log --oneline -5", "git log -n 3 --stat",
    "git show HEAD", "git show HEAD:a.py", "git branch", "git branch -a", "git blame a.py",
    "git ls-files src", "git rev-parse --abbrev-ref HEAD", "git remote -v", "git tag -l 'v*'",
    "git stash list", "git config --get user.name", "git grep -n foo", "git describe --tags",
    "git status -sb", "git branch --list 'x*'", "x=$(cat a.py); echo \"$x\"", "echo \"a\\tb\"",
    "for i in $(seq 3); do echo $i; done", "printf \"%s\\n\" a b",
    "cd src && ls", "cd src && git status && cat b.py", "(cd src; ls) | wc -l",
    "ls; pwd\nwhoami", "ls && pwd || true", "! grep -q x a.py", "{ ls; pwd; } | cat",
    "if [ -f a.py ]; then cat a.py; else echo none; fi", "[[ -d src && -f a.py ]] && ls src",
    "for f in a.py src/b.py; do wc -l \"$f\"; done", "for f in *.py; do head -1 $f; done",
    "while read -r line; do echo \"$line\"; done < a.py", "x=src; ls $x", "n=3; head -n $n a.py",
    "echo $(git rev-parse HEAD)", "echo \"today: $(date +%F)\"", "echo `pwd`",
    "ls 2>/dev/null", "ls > /dev/null 2>&1", "grep foo a.py 2>&1 | head", "cat <<< 'a b'",
    "cat a.py # the first", "ls \\\n  -la \\\n  src", "set -euo pipefail; ls", "cat ./src/../a.py",
    "printf '%s\\n' \"$x\" a", "printf '%5.1f%% %-10s|%05d\\n' 1 a 2",
    "sed 's/[[:space:]]*$//' a.py", "sed -n '/^[^[:alnum:]_]/p' a.py", "sed 's/[]x]/y/' a.py",
    "test -f a.py && echo yes", "cat \"a.py\" 's'rc/b.py", "ls src/*.py",
    "echo {} x{1}y", "cat 'näme.py'", "ls -- -x", "cat -", "cat a.py | cat /dev/stdin",
    "env_file=a.py; cat $env_file", "echo a\\ b", "echo a=b", "echo '$(id)' '`id`'", ": nothing",
]  # fmt: skip

HOSTILE = [
    # writing by redirection
    "ls > f", "ls >> f", "ls >| f", "ls &> f", "ls >& f", "> f", "cat a.py 2> f",
    "echo x > ~/.bashrc",
    "cat < a.py > b", "ls <> f", "exec > f", "ls > /dev/tcp/h/80", "cat < /dev/tcp/h/80",
    "ls > /dev/null2", "ls > '/dev/null'x", "ls 3> f", "ls {fd}> f", "echo x >$f",
    # hiding the program
    "$x", "$x a", "${x} a", "\"$x\" a", "`echo ls`", "$(echo ls)", "\\ls", "\"l\"s", "l's'", "l\\s",
    "$'ls'", "$\"ls\"", "l$empty's'", "/bin/ls", "./ls", "../ls", "~/ls", "l?", "*", "{ls,-la}",
    "ls{,}", "c''at a.py", "cat$IFS.env", "cat${IFS}a.py", "ls$(id)", "\x1bls", "lſ", "ﬁnd .",
    # programs that run others
    "env ls", "env", "printenv", "sudo ls", "nice ls", "nohup ls", "timeout 5 ls", "time ls",
    "xargs ls", "ls | xargs rm", "watch ls", "setsid ls", "ionice ls", "stdbuf -oL ls", "exec ls",
    "command ls", "command -p ls", "builtin echo", "bash -c ls", "sh -lc ls", "eval ls",
    "eval 'ls'",
    "source a.py", ". a.py", "ssh h ls", "su -c ls", "chroot / ls", "flock f ls", "parallel ls",
    "busybox ls", "script -c ls", "coproc ls", "trap ls EXIT", "find . | sh", "cat a.py | bash",
    "python3 -c 1", "perl -e 1", "node -e 1", "ruby -e 1", "awk 'BEGIN{system(\"id\")}'",
    "awk '{print > \"f\"}' a.py", "awk '{print | \"sh\"}' a.py", "awk -f a.py",
    "awk '{print $1}' x=1",
    "awk -i inplace '{print}' a.py", "awk '@load \"x\"'", "gawk '{print}' a.py", "doas ls",
    "strace ls",
    "ld.so /bin/ls", "vim a.py", "less a.py", "more a.py", "man ls", "view a.py", "nano", "ed",
    "ex",
    "gdb", "make", "npm test", "npx x", "pip list", "cargo test", "docker ps", "yarn --version",
    # options that write or run
    "find . -delete", "find . -exec rm {} +", "find . -execdir x ';'", "find . -ok x ';'",
    "find . -fprint f", "find . -fprintf f %p", "find . -fls f", "find . -fprint0 f",
    "find . -files0-from f", "find -D exec .", "sort -o f a.py", "sort -of a.py", "sort -ro f a.py",
    "sort --output=f a.py", "sort --out f a.py", "sort --compress-program=sh a.py",
    "sort -T d a.py",
    "sort --files0-from=f", "sort a.py -o f", "sort a.py -uof", "sort -- a.py; sort -o f",
    "uniq a.py f", "uniq -c a.py f", "uniq -- a.py f", "tree -o f", "tree -of", "tree -R -L 1",
    "tree --output f", "date -s x", "date --set=x", "date 010203", "date -f a.py", "hostname x",
    "hostname -F f", "file -C -m f", "file -z a", "file -m f a", "xxd -r a f", "xxd a.py f",
    "xxd -r a.py", "base64 -o f", "rg --pre sh x", "rg --pre=sh x", "rg -z x", "rg --search-zip x",
    "rg --hostname-bin x y", "rg --pr sh x", "rg --ignore-file f x", "rg -L x", "rg --follow x",
    "rg --no-config x", "rg -g '*.pem' x", "rg -g '.env' x", "rg -g '*' x", "rg -g '*.e*' x",
    "rg --iglob '.E*' x", "rg --debug x", "fd -x rm", "fd --exec rm", "fd -X rm", "fd -l",
    "fd -xrm",
    "xxd -bc a.py f", "xxd -pc a.py f", "xxd a.py -u", "xxd a.py -l 5", "xxd -cols a.py f",
    "uniq a.py -c", "uniq a.py -f 1", "tree -Lo 1 f", "tree -Po x f", "tree -aIo x f",
    "strings @f", "strings -a @f", "git grep -a x", "git grep -na x", "rg -g '*.local' x",
    "rg -g '*.npmrc' x", "rg -g '*.production' x", "rg -g '*.{py,local}' x",
    "cd src/up && cd .. && ls", "cd src/up; cd ../..; ls", "cd src/up/.. && ls",
    "sed -i s/a/b/ a.py", "sed -i.bak s/a/b/ a.py", "sed --in-place s/a/b/ a.py", "sed -ni p a.py",
    "sed 'w f' a.py", "sed -n '/x/w f' a.py", "sed 's/a/b/w f' a.py", "sed 's/a/id/e' a.py",
    "sed '1e id' a.py", "sed e a.py", "sed 'r f' a.py", "sed -f a.py", "sed 's/a/b/;w f' a.py",
    "sed -n '1,3p' -i a.py", "sed 's/x/y/ge' a.py", "sed '1!{p;w f\n}' a.py", "sed -s -n p a.py",
    "sed 'W f' a.py", "sed -n '1R f' a.py", "sed 's/[/]/x/w f' a.py", "sed --expression=p a.py",
    "sed 's/[[:alpha:]/]x/;s/e;#/b/' a.py", "sed 's/[[.-.]/]x/;s/e;#/b/' a.py",
    "sed 's/[[=a=]/]x/;w f' a.py", "sed 's/[\\]/]x/;s/e;#/b/' a.py",
    "sed '/[[:digit:]/]/p;w f' a.py",
    "jq -n env", "jq -n '$ENV'", "jq 'env.HOME' a.json", "jq -f a.py", "jq -L d . a.json",
    "jq 'import \"a\" as $x; .' a.json", "jq 'include \"x\"; .'", "jq --from-file f", "jq",
    "jq --slurpfile a f . a.json", "jq --rawfile a f .", "jq -nf f",
    "printf %n PATH", "printf '%n' PATH; cat a.py", "printf %5n IFS", "printf '%%%n' PATH",
    "printf %-*.3n 1 PATH", "printf %hn PATH", "printf %", "printf '%(%F)T'",
    "printf -v x y", "printf -v 'a[$(id)]' x", "printf $x", "printf \"$x\" a", "printf",
    "read 'a[$(id)]'", "read -p x y", "read PATH", "read -r IFS x", "read -u 3 x", "read",
    "test -v 'a[$(id)]'", "[ -v 'a[$(id)]' ]", "[ $x -eq 1 ]", "test $x", "[[ -v a[$(id)] ]]",
    "[[ $x -eq 1 ]]", "[[ 1 -eq a[$(id)] ]]", "[[ x =~ $(id) ]]", "[[ -R x ]]", "[[ -t 1 ]]",
    "let a=1", "let 'a[$(id)]=1'", "((a=1))", "(( a[$(id)] ))", "echo $((a[$(id)]))",
    "echo $((1+1))",
    "echo $[1+1]", "echo ${x@P}", "echo ${x@E}", "echo ${!x}", "echo ${x:-y}", "echo ${x:=y}",
    "echo ${a[$(id)]}", "echo ${a[0]}", "echo ${#a[@]}", "echo ${x/a/b}", "echo ${x:1:2}",
    "echo ${x^}",
    "echo \"${x@P}\"", "cat ${x:-.env}", "for ((i=0;i<3;i++)); do ls; done",
    # the state of the shell
    "PATH=. ls", "LD_PRELOAD=./x.so ls", "GIT_PAGER=sh git log", "IFS=x ls", "PATH=.; ls", "x=1 ls",
    "PATH+=:.; ls", "a[0]=1", "a[$(id)]=1; ls", "a=(1 2)", "export PATH=.; ls", "export -f ls",
    "declare -x PATH=.", "typeset x=1", "local x=1", "readonly x", "unset PATH", "alias ls=rm; ls",
    "unalias ls", "hash -p ./x ls", "enable -n echo", "shopt -s extglob", "set -o allexport",
    "set -a",
    "set -k", "set -- x", "ulimit -n 1", "umask 0", "exec 3>f", "function ls { rm x; }; ls",
    "ls() { rm x; }; ls", "ls () ( rm x ); ls", "BASH_ENV=f ls", "ENV=f ls",
    "PS4='$(id)'; set -x; ls",
    "PROMPT_COMMAND=id", "HOME=/x; cat ~/a", "x+=1", "OPTIND=1", "bind -x a", "complete -C x y",
    "mapfile -C id x", "readarray -C id x", "getopts a x", "history -w f", "fc -s", "kill 1",
    "jobs",
    "pushd /", "popd", "dirs", "cd; ls", "cd -", "cd $x && ls", "cd .. && ls", "cd / && ls",
    "while true; do cd src; done", "wait", "disown", "suspend", "logout", "times", "caller",
    # git
    "git -c core.fsmonitor=x status", "git -C .. status", "git --exec-path=x status",
    "git --config-env=a=b status", "git --git-dir=x status", "git --work-tree=/ status",
    "git -p log",
    "git --paginate log", "git diff --ext-diff", "git diff --output=f", "git diff --output f",
    "git log --output=f", "git log --out=f", "git show --textconv", "git log --show-signature",
    "git log --format=%G?", "git log --pretty='%(signature)'", "git grep -O x", "git grep -Ovim x",
    "git grep --open-files-in-pager=x y", "git grep -f .env x", "git grep --no-index x",
    "git diff --no-index /etc/passwd a.py", "git branch x", "git branch -d x", "git branch -D x",
    "git branch -m x", "git tag v1", "git tag -d v1", "git tag -a v1", "git tag -l -d x",
    "git add a.py",
    "git commit -m x", "git push", "git fetch", "git pull", "git checkout x", "git switch x",
    "git restore a.py", "git reset --hard", "git clean -fd", "git stash", "git stash pop",
    "git rebase x",
    "git merge x", "git config user.name x", "git config --global a.b c", "git config --unset a.b",
    "git config -e", "git config --list", "git remote add a b", "git remote show origin",
    "git remote update", "git bisect run x", "git submodule foreach x", "git submodule update",
    "git filter-branch", "git archive --output=f HEAD", "git bundle create f HEAD", "git gc",
    "git am f",
    "git apply f", "git format-patch HEAD~1", "git difftool", "git mergetool", "git worktree add x",
    "git worktree remove x", "git notes add", "git reflog expire", "git reflog delete x",
    "git status x -z -y",
    "git unknown", "git", "git help log", "git var GIT_EDITOR", "git credential fill",
    "git ls-remote x",
    "git cat-file --textconv HEAD:a", "git cat-file --filters HEAD:a", "git cat-file --batch",
    "git blame --contents .env a.py", "git log --no-such", "git show-ref --exclude-existing",
    "git rev-parse --parseopt", "git ls-files -X .env", "git hash-object -w a.py",
    "git update-index x",
    "git \"$x\"", "git $x", "git log $x", "git -", "git --help", "git daemon", "git shell",
    "git lfs ls",
    # the network
    "curl x", "wget x", "nc h 1", "ping h", "dig h", "nslookup h", "host h", "telnet h",
    "scp a h:b",
    "rsync a b", "gh pr list", "hostname -i", "hostname -f", "whois x", "ftp", "openssl s_client",
    # nesting
    "ls; rm x", "ls && rm x", "ls || rm x", "ls | tee f", "ls |& tee f", "ls & rm x", "ls\nrm x",
    "ls &", "(rm x)", "{ rm x; }", "echo $(rm x)", "echo `rm x`", "echo \"$(rm x)\"", "cat <(rm x)",
    "ls > >(tee f)", "tee >(cat) < a.py", "if rm x; then ls; fi", "if ls; then rm x; fi",
    "if ls; then ls; elif rm x; then ls; fi", "while rm x; do ls; done", "until rm x; do ls; done",
    "for f in a; do rm $f; done", "for f in $(rm x); do ls; done", "case x in x) rm x;; esac",
    "case $(rm x) in *) ls;; esac", "select x in a; do rm x; done", "! rm x", "cat <<E\n$(rm x)\nE",
    "cat <<'E'\nx\nE", "cat <<-E\n\tx\n\tE", "cat <<E | sh\nrm x\nE", "cat <<< $(rm x)",
    "x=$(rm y)",
    "x=`rm y`; ls", "echo \"a`rm x`b\"", "echo $(echo $(rm x))", "[ -n \"$(rm x)\" ]",
    "[[ $(rm x) ]] && ls", "ls # x\nrm x", "ls #\\\nrm x", "echo a#b; rm x", "ls ';' rm x; rm x",
    "time rm x", "coproc { rm x; }", "ls;rm x", "ls;;rm x", "ls &&& rm x", "ls ||| rm", "|", "&&",
    # texts that readers disagree about
    "\\ cat a.py", "\\  # ls", "x=\\ ls", "cat <<<\\ a.py", "ls\\\nif", "ls\\\ncat", "{}",
    "cat \\ .env", "cat \\\t.env", "ls\rrm x", "ls \rrm x", "ls\x00rm x", "ls\x0brm x",
    "ls\x0crm x",
    "ls\u00a0rm", "ls\u2028rm x", "ls\u3000x", "ls\u200bx", "cat \u202e.env", "ls\x85rm x",
    "echo \x1b[2J",
    "echo 'unclosed", "echo \"unclosed", "echo $(ls", "echo `ls", "echo ${x", "( ls", "ls )",
    "{ ls",
    "if ls", "for x in", "ls <<E", "cat <<E\nx", "ls 'a' 'b", "rm\\\n x", "r\\\nm x",
    "echo \"\\`rm x\\`\" `echo \\`rm x\\``", "cat a\\\n.env", "echo \ud800", "ls <", "ls >",
    "cat =(ls)",
    # words that become something else
    "ls .*", "grep -r x .*", "cat .?/x", "cat src/.?*/x", "cat \".\"*",
    "for f in .*; do ls $f; done",
    "cat {.env,a.py}", "cat .en{v,x}", "cat a{1..3}", "cat ~root/x", "cat ~+/x", "cat ~-/x",
    "ls a=~/x", "ls --x=~/y", "ls -[la]", "cat *(a)", "cat +(a|b)", "cat $1", "cat $@",
    "cat \"$@\"", "cat $x", "cat \"$x\"", "x='-o f'; sort $x a.py", "x='a b'; cat $x",
    "x=$y; cat $x",
    "for f in $x; do cat $f; done", "for f; do cat $f; done", "read x; cat $x", "x=-of; sort $x",
    "x=a; x=-of; sort $x a.py", "sort $x; x=-of", "cat é", "head $(echo -n) a.py", "wc -l $(ls)",
    "for i in 1 2; do sort $x; x=-of; done", "cat -$x", "ls -$(id)", "cat a$x",
]  # fmt: skip

SECRET = [
    "cat .env", "cat ./.env", "cat src/../.env", "cat '.env'", "cat .e\"n\"v", "cat .en\\v",
    "head .env",
    "x=.env; cat $x", "x=env; cat .$x", "for f in .env a; do cat $f; done", "cat .en*", "cat .e?v",
    "cat < .env", "while read -r l; do echo \"$l\"; done < .env", "grep x .env", "grep -r x .",
    "grep -rn x", "rg x .env", "sed -n p .env", "awk '{print $1}' .env", "jq . .env", "sort .env",
    "diff a.py .env", "diff -r . src", "git show HEAD:.env", "git diff .env", "git diff -- .env",
    "git blame .env", "git log -p -- .env", "git cat-file -p HEAD:.env", "xxd .env", "strings .env",
    "cd src && cat ../.env", "cat link", "cat src/link", "tail -c 10 .env.local", "cat id_rsa",
    "cat KEY.PEM",
    "cat ~/.ssh/config", "echo \"$(cat .env)\"", "x=$(cat .env); echo $x", "wc -l .env",
    "head -n 1 -- .env", "nl .env", "cut -c1 .env",
    "cat a.py .env",
    "grep -f .env a.py", "rg -f .env x", "cat \"$PWD/.env\"", "cat ${PWD}/.env", "paste .env",
    "od -c .env", "od -w .env", "od -cw .env", "git blame --abbrev .env", "diff . src",
    "diff -N . src", "diff -q src/.. src", "grep -r --include='*.local' x .",
    "grep -r --include='*.npmrc' x .", "grep -r --include='*.py' --include='*.production' x .",
]  # fmt: skip

OUTSIDE = [
    "cat /etc/hosts", "ls /", "ls ..", "cat ../x", "cat ~/x", "cat \"$HOME/x\"", "find / -name x",
    "grep -r x /etc", "rg x /etc", "head /proc/self/environ", "cd /etc && cat hosts",
    "diff a.py /etc/hosts",
    "git diff /etc/hosts a.py", "cat src/../../x", "cat out/hosts", "tree ..", "du -sh /",
    "stat /etc",
    "cat < /etc/hosts", "x=/etc/hosts; cat $x", "cat /dev/sda", "cat /proc/1/environ",
    "wc -l /etc/*",
]  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("reading") / "project"
    (root / "src").mkdir(parents=True)
    for name in (
        "a.py",
        "src/b.py",
        "a.json",
        ".env",
        ".env.local",
        "id_rsa",
        "KEY.PEM",
        "näme.py",
    ):
        (root / name).write_text("x")
    (root / "link").symlink_to(".env")
    (root / "src" / "link").symlink_to("../.env")
    (root / "src" / "up").symlink_to("..")
    (root / "out").symlink_to("/etc")
    return root


@pytest.mark.parametrize("line", READING)
def test_r06_a_command_that_only_reads_the_workspace_is_allowed(project, line):
    if "grep -rn" in line and "--include" not in line:
        line = line.replace(" .", " src")
    assert verdict(line, project) is Verdict.ALLOW, whys(line, project)


@pytest.mark.parametrize("line", HOSTILE)
def test_r06_r09_whatever_may_do_more_is_asked_about(project, line):
    assert verdict(line, project) is Verdict.ASK


@pytest.mark.parametrize("line", HOSTILE)
def test_r07_one_bad_part_is_found_between_good_ones(project, line):
    assert verdict(f"ls\n{line}\n", project) is Verdict.ASK
    assert verdict(f"{line}\nls", project) is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    ["taskset 1 rm x", "chrt 5 rm x", "setpriv --reuid 1 rm x", "prlimit --nofile=9 rm x",
     "runuser -u a -- rm x", "systemd-run rm x", "nsenter -t 1 rm x", "toybox rm x",
     "tmux new 'rm x'",
     "firejail rm x", "bwrap --bind / / rm x", "script -c 'rm x'", "sg g 'rm x'", "screen -dm rm x",
     "caffeinate -i rm x", "chpst -u a rm x", "proxychains rm x", "xvfb-run rm x", "fakeroot rm x"],
)  # fmt: skip
def test_r11_a_denied_program_is_seen_behind_less_usual_wrappers(project, line):
    rules = "deny:run_command(rm:*)", "allow:run_command"
    assert verdict(line, project, *rules) is not Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    ['rm -rf "$(pwd)"', "rm -rf `pwd`", "rm -rf {/,x}", "rm -rf ~+", "rm -rf ~+/*", "rm -rf ~root",
     "rm -rf [a-z]*"],
)  # fmt: skip
def test_r14_other_spellings_of_what_must_not_be_removed_are_seen(project, line):
    assert destruction(line, project, project)


@pytest.mark.parametrize(
    "line", ["rm -rf {a,b}", 'rm "$(cat a.py)"', "rm ~nobody-there/x", "rm [a-z]*.pyc"]
)
def test_r14_what_only_looks_alike_is_not_taken_for_it(project, line):
    assert not destruction(line, project, project)


@pytest.mark.parametrize("line", SECRET)
def test_r40_a_command_that_names_a_secret_is_asked_about(project, line):
    assert verdict(line, project) is Verdict.ASK
    assert any("reads" in why for why in whys(line, project))


@pytest.mark.parametrize(
    "line",
    ["echo $GITHUB_TOKEN", 'echo "x${AWS_SECRET_ACCESS_KEY}"', "cat <<< $PGPASSWORD",
     "for x in $NPM_TOKEN; do ls; done", "x=$DB_PASS; echo $x", "echo $STORE"],
)  # fmt: skip
def test_r40_a_secret_in_the_environment_is_not_shown_without_a_question(
    project, line, monkeypatch
):
    monkeypatch.setenv("STORE", "postgres://me:hunter2@host/db")
    assert verdict(line, project) is Verdict.ASK
    assert any("which may be a secret" in why for why in whys(line, project))
    for harmless in ("echo $HOME $EDITOR $PWD", "key=a.py; cat $key", 'echo "$KEYBOARD"'):
        assert verdict(harmless, project) is Verdict.ALLOW


@pytest.mark.parametrize("line", OUTSIDE)
def test_reading_outside_the_workspace_is_asked_about(project, line):
    assert verdict(line, project) is Verdict.ASK
    assert any(why.startswith("reads ") for why in whys(line, project))


def test_r07_the_ten_thousandth_command_is_checked_too(project):
    assert verdict("ls\n" * 9_999 + "ls", project) is Verdict.ALLOW
    assert verdict("ls\n" * 9_999 + "rm x", project) is Verdict.ASK


def test_r07_nesting_without_end_is_asked_about(project):
    for opened, closed in (("echo $(", ")"), ("(", ")"), ("{ ", "; }"), ("! ", "")):
        for depth in (100, 3000):
            assert verdict(f"{opened * depth}ls{closed * depth}", project) is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    ["npm test", "npm test -- -t 'a b'", "npm test 2>&1 | tail -20", "cd src && npm test",
     "ls && npm test; echo done", "if npm test; then echo ok; fi", "(npm test)", "npm test *.py",
     "for x in a b; do npm test $x; done", "npm test < a.py", "echo $(npm test)"],
)  # fmt: skip
def test_r07_an_allow_rule_covers_a_part_beside_parts_that_read(project, line):
    assert verdict(line, project, "allow:run_command(npm test:*)") is Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    ["npm test; id", "npm test > f", "npm test $x", "X=1 npm test", "sudo npm test", "npm testing",
     "npm test | sh", "npm test & id", "npm test &", "env npm test", "time npm test", "npm",
     "bash -c 'npm test'", "$(npm test)", "npm test <<E\nx\nE", "npm test $(id)",
     "npm test; PATH=. ls",
     "npm test() { id; }; npm test", "cat .env; npm test", "npm test < .env", "npm te\\\nst",
     "cd .. && npm test", "npm test ${x@P}", "npm test {a,b}", "NPM test"],
)  # fmt: skip
def test_r09_an_allow_rule_covers_nothing_more(project, line):
    assert verdict(line, project, "allow:run_command(npm test:*)") is Verdict.ASK


@pytest.mark.parametrize(
    "line", ["git status", "git diff", "git log -p", "git show", "git blame a"]
)
def test_r12_git_beside_what_does_more_is_asked_about(project, line):
    rule = "allow:run_command(npm test:*)"
    assert verdict(f"npm test && {line}", project, rule) is Verdict.ASK
    assert verdict(f"npm test && {line}", project, rule, f"allow:run_command({line})")


@pytest.mark.parametrize("line", ["sed *", "sed -n -- *", "sed -e * a", "awk -F : *", "jq *"])
def test_r09_a_script_is_not_whichever_file_comes_first(tmp_path, line):
    """A language may sort `{e id` before `1p`, and `x{print` before ` {print}`."""
    names = (" {print}", "x{print}") if line.startswith("awk") else ("1p", "{e id\n}")
    for name in names:
        (tmp_path / name).touch()
    assert verdict(line, tmp_path) is Verdict.ASK
    for harmless in ("sed -n 1p *", "awk '{print $1}' *", "jq . *", "wc -l *"):
        assert verdict(harmless, tmp_path) is Verdict.ALLOW, whys(harmless, tmp_path)


def test_a_read_rule_holds_for_commands(project):
    assert verdict("cat src/b.py", project, "deny:read_file(src/**)") is Verdict.DENY
    assert verdict("ls; cd src; cat b.py", project, "ask:read_file(src/b.py)") is Verdict.ASK
    assert verdict("grep -r x src", project, "deny:read_file(src/b.py)") is Verdict.ASK
    assert verdict("rg x", project, "deny:read_file(src/b.py)") is Verdict.ASK
    assert verdict("git diff", project, "deny:read_file(src/b.py)") is Verdict.ASK
    assert verdict("cat /etc/hosts", project, "allow:read_file(/etc/hosts)") is Verdict.ALLOW
    assert verdict("cat .env", project, "allow:read_file(.env)") is Verdict.ALLOW
    assert verdict("cat .env", project, "allow:read_file(**)") is Verdict.ASK


@pytest.mark.parametrize(
    "rule", ["run_command(cat:*)", "run_command", "run_command(*)", "read_file"]
)
def test_r40_a_broad_rule_opens_no_secret(project, rule):
    assert verdict("cat .env", project, f"allow:{rule}") is Verdict.ASK
    assert verdict("cat .env", project, "allow:run_command(cat .env)") is Verdict.ALLOW


def test_r10_a_program_of_the_project_is_not_taken_for_one_of_the_system(project, monkeypatch):
    (project / "bin").mkdir()
    program = project / "bin" / "ls"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert verdict("ls", project) is Verdict.ALLOW
    monkeypatch.setenv("PATH", f"{project}/bin", prepend=":")
    assert verdict("ls", project) is Verdict.ASK
    assert verdict("cat a.py", project) is Verdict.ALLOW
    for path in (".", "", "src"):
        monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
        assert verdict("cat a.py", project) is Verdict.ASK


def test_r06_what_the_environment_means_to_the_shell_is_asked_about(project, monkeypatch):
    lines = ("cd src && ls", "editor=a.py; cat $editor", "read -r editor < a.py")
    assert [verdict(line, project) for line in lines] == [Verdict.ALLOW] * 3
    monkeypatch.setenv("CDPATH", "/etc")
    monkeypatch.setenv("editor", "vi")
    assert [verdict(line, project) for line in lines] == [Verdict.ASK] * 3
    assert verdict("cd ./src && ls", project) is Verdict.ALLOW


def test_r06_without_bash_a_test_of_bash_is_asked_about(project, monkeypatch, tmp_path):
    """`[[ -f x || ./evil ]]` starts `./evil` in every other shell."""
    line = "[[ -f x || ./evil ]]; [ -f x ]"
    assert verdict(line, project) is Verdict.ALLOW
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert verdict(line, project) is Verdict.ASK
    assert verdict("[ -f x ]", project) is Verdict.ALLOW


def test_r13_a_variable_of_one_command_is_none_of_the_next(project):
    assert verdict("x=a.py", project) is Verdict.ALLOW
    assert verdict("cat $x", project) is Verdict.ASK


def test_where_the_directory_is_not_known_nothing_is_allowed_without_a_rule(project):
    assert rule_set(project).judge(make_call(), make_invocation(runs("ls"))) is None


@pytest.mark.parametrize(
    ("script", "prints"),
    [("p", True), ("1p", True), ("1,5p", True), ("$p", True), ("/a/p", True), ("/a/,/b/p", True),
     ("1!p", True), ("s/a/b/", True), ("s|a|b|gI", True), ("s/[a-z]*/x/p", True), ("5q", True),
     ("1p;3p", True), ("/[0-9]/d", True), ("s/a\\/b/c/", True), ("", False), ("w f", False),
     ("s/a/b/w f", False), ("s/a/b/e", False), ("1e", False), ("e", False), ("r f", False),
     ("s/[/]/b/", False), ("s/a/b", False), ("/a", False), ("y/a/b/", False), ("p w", False),
     ("s/a/b/;e", False), ("{p}", False), ("1,p", True), ("a x", False), ("s/a/b/gw", False)],
)  # fmt: skip
def test_sed_scripts_that_only_print(script, prints):
    assert only_prints(script) is prints


@given(st.text(max_size=80))
@settings(max_examples=300, deadline=None)
def test_r06_no_text_makes_it_fail(text):
    from pathlib import Path

    verdict(text, Path("/nowhere"))


LONG = ["ls;" * 3333, "".join(f"cat {n};" for n in range(1050)), "echo " + "a " * 4997, "$(" * 5000]


@pytest.mark.parametrize("line", LONG, ids=lambda line: line[:8])
def test_r42_a_thousand_rules_judge_every_part_of_a_long_line_in_time(project, line):
    """The bound is 50 ms on a machine of its own (benchmarks/permissions.py), here CPU time."""
    rules = [f"{v}:run_command({v} sub{n}:*)" for v in ("deny", "ask", "allow") for n in range(334)]
    judge = rule_set(project, *rules)
    invocation = make_invocation(runs(line, cwd=str(project)))

    def seconds() -> float:
        start = time.process_time()
        judge.judge(make_call(), invocation)
        return time.process_time() - start

    best = min(seconds() for _ in range(5))
    assert best < 0.2, f"{best * 1000:.0f} ms"
