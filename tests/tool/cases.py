"""Runs the cases of a test program, each in a directory of its own."""
import os
import shutil
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden/dataset"


def copy_golden(name, target):
    """Copies a dataset, or all of them. A clone may be a group's; the copy is this user's alone."""
    shutil.copytree(GOLDEN / name, target)
    for directory, _, _ in os.walk(target):
        os.chmod(directory, 0o700)


def run_cases(functions, prepare):
    """Calls each function whose name begins with "test_" with what `prepare` makes of an empty
    directory. Prints how each ended, with the line that failed; returns the exit status."""
    failed = 0
    for name, test in functions.items():
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as directory:
            subject = prepare(directory)
            try:
                test(subject)
                print(f"{name}: ok")
            except AssertionError as error:
                failed += 1
                line = error.__traceback__
                while line.tb_next:
                    line = line.tb_next
                print(f"{name}: FAILED in line {line.tb_lineno}: {error}")
    return 1 if failed else 0
