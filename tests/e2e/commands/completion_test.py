"""Tests `rollcall completion` with a real bash, zsh and fish."""
import os
import subprocess

import harness
from harness import E2E

# Completes the line $2 with the script $1, and prints the matches.
BASH = r"""
source "$1"
eval "COMP_WORDS=($2)"
[[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_rollcall
printf '%s\n' "${COMPREPLY[@]}"
"""

# Does the same in an interactive zsh on its own terminal, since completion
# works only there. The matches are those that the completion system adds.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source ${(q)3}; SCRIPT=${(q)1}; set_up"
zpty -r shell output '*READY*'
zpty -w -n shell "$2"$'\t'
zpty -r shell output '*DONE*'
"""
ZSH_INSIDE = r"""
autoload -Uz compinit
compinit -u -D
compadd() {
  local -a hits
  # -O, -A and -D: the system asks which would match, and adds nothing.
  if (( ! ${argv[(I)-(O|A|D)]} )); then
    builtin compadd -A hits "$@"
    (( $#hits )) && print -rl -- $hits >>%s
  fi
  builtin compadd "$@"
}
complete_and_tell() { _main_complete; print DONE; }
set_up() {
  source $SCRIPT
  zle -C complete_and_tell complete-word complete_and_tell
  bindkey '^I' complete_and_tell
  print READY
}
"""


class Completion(E2E):
    def setUp(self):
        super().setUp()
        self.folder = self.stage.path("home")
        os.makedirs(self.folder)
        self.scripts = {}
        for shell in ("bash", "zsh", "fish"):
            text = subprocess.run(
                [harness.ROLLCALL, "completion", shell], check=True, text=True,
                capture_output=True, timeout=60).stdout
            self.scripts[shell] = self.file(shell, text)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def offered(self, shell, line):
        """Returns what `shell` offers for the last word of `line`, sorted."""
        environment = dict(os.environ, XDG_STATE_HOME=self.folder,
                           HOME=self.folder, TERM="dumb",
                           PATH=harness.BIN + ":" + os.environ["PATH"])
        script = self.scripts[shell]
        if shell == "bash":
            argv = ["bash", "-c", BASH, "-", script, line]
        elif shell == "fish":
            argv = ["fish", "--no-config", "-c",
                    "source $argv[1]; complete -C $argv[2]", script, line]
        else:
            hits = self.file("hits", "")
            inside = self.file("inside.zsh", ZSH_INSIDE % hits)
            argv = ["zsh", "-f", "-c", ZSH, "-", script, line, inside]
        done = subprocess.run(argv, env=environment, cwd=self.folder, text=True,
                              capture_output=True, timeout=60)
        text = done.stdout
        if shell == "zsh":
            with open(hits) as f:
                text = f.read()
        words = {line.split("\t")[0] for line in text.splitlines()}
        return sorted(words - {""})

    def check_all(self, line, expected, shells=("bash", "zsh", "fish")):
        for shell in shells:
            with self.subTest(shell=shell, line=line):
                self.assertEqual(self.offered(shell, line), sorted(expected))

    def test_what_is_known(self):
        self.check_all("rollcall la", ["launch"])
        self.check_all("rollcall launch --gr", ["--grow"])
        self.check_all("rollcall launch --grow ", ["boundary", "never"])
        self.check_all("rollcall join --nccl-env n", ["needed", "none"])
        self.check_all("rollcall token ro", ["rotate"])
        self.check_all("rollcall token create --role ",
                       ["admin", "viewer", "worker"])
        self.check_all("rollcall render k", ["kubernetes"])
        self.check_all("rollcall completion ", ["bash", "fish", "zsh"])
        # Hidden commands and flags are not offered.
        self.check_all("rollcall ag", [])
        self.check_all("rollcall launch --sysr", [])

    def test_jobs_folders_and_the_command(self):
        for job in ("first", "second"):
            os.makedirs(os.path.join(self.folder, "rollcall", job))
        os.makedirs(os.path.join(self.folder, "logs"))
        self.file("lines", "")
        # This is neither one job nor two: a job's name has no line end.
        os.makedirs(os.path.join(self.folder, "rollcall", "one\nother"))
        # A job cannot have this name, and bash would execute the command in it.
        os.makedirs(os.path.join(self.folder, "rollcall", "$(touch ran)"))
        self.check_all("rollcall status --job ", ["first", "second"])
        self.assertFalse(os.path.exists(os.path.join(self.folder, "ran")))
        # A folder of another user is ignored.
        os.chown(os.path.join(self.folder, "rollcall"), 65534, 65534)
        self.check_all("rollcall status --job ", [])
        self.check_all("rollcall launch --spec li", ["lines"])
        # zsh and fish add a slash to a folder when they insert it.
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell=shell):
                self.assertEqual(
                    [w.rstrip("/") for w in
                     self.offered(shell, "rollcall launch --log-dir l")],
                    ["logs"])
        # After `--`, another command's line is completed.
        self.check_all("rollcall launch --nodes 2 -- rollcalld",
                       ["rollcalld"])
        self.check_all("rollcall launch -- rollcall li", ["lines"],
                       shells=("bash",))
