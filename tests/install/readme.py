#!/usr/bin/env python3
"""Runs the commands of the README as a reader does who pastes them: all its blocks of sh, and the
commands within its sentences, from the top, in one shell, in the working directory. Prints each,
and fails at the first that fails.

    readme.py                      from the top of a clone: all of them, make test included
    readme.py --without-tests      all but make test
    readme.py --installed PREFIX   without make: PREFIX is what "make install" has made

The home directory of the commands is a temporary one.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN = """set -Eeuo pipefail
trap 'echo "readme.py: exit status $?: $BASH_COMMAND" >&2' ERR
set -v
"""


# A command within a sentence begins with the launcher, or with a program that the README has made:
# one in hello/, or `quire` with arguments. Other spans only name commands: those that build (`make
# help`, `scripts/test -R NAME`), those with a place to fill in (`mpicc prog.c`), and all in tables.
SPAN = r"`((?:quire|scripts/mpirun) [^`\n]+|\"\$HOME/quire/bin/[^`\n]+|hello/[^`\n]+)`"
TABLE = r"^\|[^\n]*"


def commands(text):
    """The commands, in order. The shell would not end at a failure before `&&`."""
    found = re.findall(rf"^```(sh)?\w*\n(.*?)^```|{TABLE}|{SPAN}", text, re.M | re.S)
    if not any(kind for kind, _, _ in found) or not any(span for _, _, span in found):
        sys.exit("readme.py: the README has no commands")
    joined = "".join(block if kind else span + "\n" for kind, block, span in found if kind or span)
    if "&&" in joined:
        sys.exit("readme.py: write the commands of the README one to a line, without &&")
    return joined


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--installed", type=Path)
    parser.add_argument("--without-tests", action="store_true")
    options = parser.parse_args()
    script = commands(README.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as home:
        if options.installed:
            (Path(home) / "quire").symlink_to(options.installed.resolve())
            script = re.sub(r"^make .*\n", "", script, flags=re.M)
        if options.without_tests:
            script = re.sub(r"^make test\b.*\n", "", script, flags=re.M)
        # Not the variable: the compiler's cache is in the home directory of the caller.
        pasted = Path(home) / "pasted.sh"
        pasted.write_text(BEGIN + script.replace("$HOME", home), encoding="utf-8")
        return subprocess.run(["bash", pasted], stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
