#!/usr/bin/env python3
"""Builds the library with one safety step left out at a time, and sees that its tests notice.

    sabotage.py --check                        every sabotage of sabotages.py still finds its place in the sources
    sabotage.py --build DIR [--sample N] [--seed S]   N of them, chosen by the seed (another one every time)
    sabotage.py --build DIR --name X [--name Y]       those of these names
    sabotage.py --build DIR --all              all

A sabotage replaces some text of one source file. The changed copy is compiled beside the build, with the command of
DIR/compile_commands.json, and the test program is linked anew with the changed object before the libraries, so that the
sources and DIR stay as they are. DIR is a Ninja build of the preset `release`, up to date. The program as built has to
pass the tests of the sabotage, the changed one has to fail them: by its exit status, a crash, or by not coming to an end.

Exit status 0 only if every sabotage was caught.
"""
import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # nothing beside the sources
from sabotages import SABOTAGES  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 60          # for the changed program, or TIMEOUT_FACTOR times what the one as built takes
TIMEOUT_FACTOR = 10
# The lines of a batch of sources (cmake/QuireModule.cmake).
INCLUDED = re.compile(r'^#include "(.*)"$', re.M)
TEST_NAME = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
PLAIN_TIMEOUT_SECONDS = 600   # for the program as built
FAILURE_CHARACTERS = 4000     # shown of the output of tests that fail without a sabotage
COUNT_MIN = 20
# What would make tests longer or shorter than the sabotages ask for.
SCALES = ("QUIRE_TEST_SCALE", "QUIRE_CRASH_POINTS", "QUIRE_KILL_COUNT", "QUIRE_HISTORY_COUNT",
          "QUIRE_FIRST_SEED", "QUIRE_MODEL_SEEDS")
SKIPPED = 77


class Broken(Exception):
    """The sabotage, or the build, is not usable: nothing can be said about the tests."""


def sabotaged_text(sabotage):
    """The source file with the safety step left out."""
    text = (ROOT / sabotage.file).read_text()
    count = text.count(sabotage.old)
    if count != 1:
        raise Broken(f"{sabotage.file} contains {sabotage.old!r} {count} times, not once: "
                     f"adapt tests/sabotage/sabotages.py")
    changed = text.replace(sabotage.old, sabotage.new)
    if changed == text:
        raise Broken("it changes nothing")
    return changed


def test_names():
    """Of all tests in the sources, as "Suite.Test"."""
    paths = [path for folder in ("src", "tests", "tools")
             for path in (ROOT / folder).rglob("*_test.cpp")]
    return [".".join(found) for path in paths
            for found in TEST_NAME.findall(path.read_text())]


def check_tests(sabotage, names):
    """Each pattern of its tests begins as a test of the sources: parameters are not told there."""
    for pattern in sabotage.tests.split("-")[0].split(":"):
        pieces = [piece for piece in re.split(r"[*/]", pattern) if piece]
        known = [piece for piece in pieces if "." in piece] or pieces[:1]
        if not all(any(piece in name for name in names) for piece in known):
            raise Broken(f"{pattern} is no test of {sabotage.program}")


def check():
    """Whether all sabotages are usable, as far as the sources tell."""
    problems = []
    names = test_names()
    for sabotage in SABOTAGES:
        try:
            sabotaged_text(sabotage)
            check_tests(sabotage, names)
        except (Broken, OSError) as error:
            problems.append(f"{sabotage.name}: {error}")
    names = [sabotage.name for sabotage in SABOTAGES]
    problems += [f"{name}: there are two of this name" for name in set(names)
                 if names.count(name) > 1]
    if len(names) < COUNT_MIN:
        problems.append(f"there are {len(names)} sabotages, fewer than {COUNT_MIN}")
    for problem in problems:
        print(problem)
    print(f"{len(names)} sabotages, {len(problems)} problems")
    return not problems


class Build:
    """The commands of a build directory, and the test programs in it."""

    def __init__(self, directory):
        self.directory = Path(directory).resolve()
        self.plain_seconds = {}
        try:
            commands = json.loads((self.directory / "compile_commands.json").read_text())
            cache = (self.directory / "CMakeCache.txt").read_text()
        except OSError as error:
            raise Broken(f"{self.directory} is no build of CMake: {error}") from error
        self.compile_commands = {entry["file"]: entry["command"] for entry in commands}
        self.batches = {str((ROOT / "src" / source).resolve()): batch
                        for batch in self.compile_commands if Path(batch).parent.name == "batches"
                        for source in INCLUDED.findall(Path(batch).read_text())}
        self.ninja = re.search(r"^CMAKE_MAKE_PROGRAM:\w+=(.*)$", cache, re.M).group(1)

    def compile_command(self, source, changed, target):
        """Compiles `changed`, a copy of `source`, to `target`: less optimised, without warnings.

        Where the build compiles `source` in a batch, all of the batch is compiled.
        """
        path = str(ROOT / source)
        batch = self.batches.get(path)
        if batch is not None:
            path = batch
            whole = Path(target).parent / "batch.cpp"
            whole.write_text(INCLUDED.sub(
                lambda line: f'#include "{changed}"' if self.includes(line[1], source) else line[0],
                Path(batch).read_text()))
            changed = whole
        try:
            words = shlex.split(self.compile_commands[path])
        except KeyError:
            raise Broken(f"{source} is not compiled in {self.directory}") from None
        if Path(words[0]).name == "ccache":
            words = words[1:]
        words = words[:words.index("-o")]
        return words + ["-O1", "-w", "-o", str(target), "-c", str(changed)]

    @staticmethod
    def includes(included, source):
        """Whether a line of a batch, relative to src/, names `source`, relative to the checkout."""
        return (ROOT / "src" / included).resolve() == ROOT / source

    def link_command(self, program, changed, target):
        """Links `program` anew to `target`, with the object `changed` before what it replaces; and where it lies now."""
        lines = run([self.ninja, "-C", str(self.directory), "-t", "commands", program],
                    f"{program} is no program of {self.directory}").strip().splitlines()
        for part in lines[-1].split(" && "):
            words = shlex.split(part)
            if "-o" not in words or "-c" in words:
                continue
            if Path(words[0]).name == "ccache":
                words = words[1:]
            at = words.index("-o") + 1
            plain = self.directory / words[at]
            return words[:1] + [str(changed)] + words[1:at] + [str(target)] + words[at + 1:], plain
        raise Broken(f"the command that links {program} was not understood: {lines[-1]}")


def run(command, what, directory=None):
    """The output of a command that has to succeed."""
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise Broken(f"{what}:\n{done.stdout.strip()}")
    return done.stdout


def run_tests(program, sabotage, seconds):
    """Runs the tests of the sabotage: (exit status, or None after `seconds`; output)."""
    environment = {name: value for name, value in os.environ.items() if name not in SCALES}
    environment.update(sabotage.environment)
    with tempfile.TemporaryDirectory(prefix="quire-sabotage-") as home:
        with open(Path(home) / "output", "w+", errors="replace") as output:
            process = subprocess.Popen(
                [str(program), f"--gtest_filter={sabotage.tests}", "--gtest_fail_fast"], cwd=home,
                env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
                os.killpg(process.pid, 9)
                process.wait()
            output.seek(0)
            return status, output.read()


def plain_seconds(build, program, sabotage):
    """How long the program as built takes for the tests, all of which it has to pass."""
    key = (program, sabotage.tests, tuple(sorted(sabotage.environment.items())))
    if key not in build.plain_seconds:
        start = time.monotonic()
        status, output = run_tests(program, sabotage, PLAIN_TIMEOUT_SECONDS)
        if status != 0:
            raise Broken(f"{sabotage.tests} do not pass without it:\n{output[:FAILURE_CHARACTERS]}")
        if not re.search(r"^\[  PASSED  \] [1-9]", output, re.M):
            raise Broken(f"{program} runs no test of {sabotage.tests}")
        build.plain_seconds[key] = time.monotonic() - start
    return build.plain_seconds[key]


def verdict(status, output):
    """Which test caught the sabotage, and how; None: none did."""
    failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", output, re.M)
    begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
    if status == 0:
        return None
    if failed:
        return failed[0]
    last = begun[-1] if begun else "no test"
    how = "came to no end" if status is None else f"ended with status {status}"
    return f"{last}, which {how}"


def attempt(build, sabotage):
    """Builds and runs one; what caught it, or None."""
    text = sabotaged_text(sabotage)
    with tempfile.TemporaryDirectory(prefix="quire-sabotage-") as home:
        changed = Path(home) / Path(sabotage.file).name
        changed.write_text(text)
        target = Path(home) / "changed.o"
        program = Path(home) / sabotage.program
        link, plain = build.link_command(sabotage.program, target, program)
        if not plain.exists():
            raise Broken(f"{plain} is not built")
        seconds = plain_seconds(build, plain, sabotage)
        run(build.compile_command(sabotage.file, changed, target), "it does not compile", build.directory)
        run(link, "it does not link", build.directory)
        status, output = run_tests(program, sabotage,
                                   max(TIMEOUT_SECONDS, TIMEOUT_FACTOR * seconds))
    return verdict(status, output)


def attempt_all(directory, chosen):
    """Tries the chosen ones, and tells of each; whether all were caught."""
    build = Build(directory)
    failures = 0
    for sabotage in chosen:
        start = time.monotonic()
        try:
            caught = attempt(build, sabotage)
            outcome = f"caught by {caught}" if caught else f"SURVIVED {sabotage.tests}"
        except (Broken, OSError) as error:
            caught = None
            outcome = f"UNUSABLE: {error}"
        failures += caught is None
        print(f"{sabotage.name} ({sabotage.left_out}): {outcome}; "
              f"{time.monotonic() - start:.1f} s", flush=True)
    print(f"{len(chosen)} sabotages, {failures} not caught")
    return failures == 0


def choose(arguments):
    """The sabotages that were asked for."""
    if arguments.all:
        return SABOTAGES
    if arguments.name:
        known = {sabotage.name: sabotage for sabotage in SABOTAGES}
        unknown = [name for name in arguments.name if name not in known]
        if unknown:
            sys.exit(f"sabotage.py: there is no sabotage {', '.join(unknown)}; "
                     f"there are: {', '.join(known)}")
        return [known[name] for name in arguments.name]
    seed = time.time_ns() % 1_000_000 if arguments.seed is None else arguments.seed
    print(f"sample of {arguments.sample}; again: {Path(sys.argv[0])} --build {arguments.build} "
          f"--sample {arguments.sample} --seed {seed}", flush=True)
    return random.Random(seed).sample(SABOTAGES, min(arguments.sample, len(SABOTAGES)))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--build", metavar="DIR")
    parser.add_argument("--sample", type=int, default=3, metavar="N")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--name", action="append", metavar="X")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        return 0 if check() else 1
    if not arguments.build:
        parser.error("--build DIR or --check is needed")
    drawn = not arguments.name and not arguments.all
    if drawn and float(os.environ.get("QUIRE_TEST_SCALE") or 1) < 1:
        print("a sample takes a minute: only if QUIRE_TEST_SCALE is 1 or more (scripts/test-full)")
        return SKIPPED
    try:
        return 0 if attempt_all(arguments.build, choose(arguments)) else 1
    except Broken as error:
        print(f"sabotage.py: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
