#!/usr/bin/env python3
"""Shows how far a build or a test run is: n of N, and the minutes that are left.

    progress.py build LOG             reads what Ninja prints
    progress.py test LOG [SECONDS]    reads what CTest prints; passes on all but tests that passed
    progress.py --self-test

All that is read goes into LOG; the progress goes to standard error, a line on a terminal, else one
line in half a minute. SECONDS (tests/seconds.txt) says what the tests of each suite take.
"""
import re
import sys
import time

BUILT = re.compile(r"^\[(\d+)/(\d+)\] ")
TESTED = re.compile(r"^ *(\d+)/(\d+) Test +#\d+: (\S+) .*?(Passed|\*\*\*\w[\w :()]*?) +[\d.]+ sec")
QUIET = re.compile(r"^Internal ctest changing|^ *Start +\d+: ")
OTHER_SECONDS = 0.3  # of a test whose suite SECONDS does not know


def suite(name):
    """The part of a test's name that its figures are kept under."""
    return re.sub(r"^(?:\w+/)?([A-Za-z_]+).*", r"\1", name)


def read_seconds(path):
    """{suite: (number of tests, seconds of all)}"""
    rows = [line.split() for line in open(path, encoding="utf-8") if not line.startswith("#")]
    return {name: (int(count), float(seconds)) for name, count, seconds in rows}


class Progress:
    """Knows how far the work is, and when it was begun."""

    def __init__(self, seconds, now):
        self.seconds, self.begun = seconds, now
        self.done = self.total = 0
        self.expected = self.expected_done = 0.0

    def of_test(self, name):
        count, seconds = self.seconds.get(suite(name), (1, OTHER_SECONDS))
        return seconds / max(1, count)

    def step(self, line):
        """Whether the line says that a step is over; and if so, whether it is worth no line."""
        test = TESTED.match(line)
        found = test or BUILT.match(line)
        if not found:
            return False, bool(QUIET.match(line))
        self.done, self.total = int(found.group(1)), int(found.group(2))
        self.expected_done += self.of_test(test.group(3)) if test else 1
        self.expected = self.total
        if test:
            known = sum(seconds for _, seconds in self.seconds.values())
            others = max(0, self.total - sum(count for count, _ in self.seconds.values()))
            self.expected = max(known + others * OTHER_SECONDS, self.expected_done)
        return True, not test or test.group(4) in ("Passed", "***Skipped")

    def say(self, now):
        text = f"{self.done} of {self.total}"
        passed = now - self.begun
        if passed >= 5 and self.expected_done > 0:
            left = passed / self.expected_done * (self.expected - self.expected_done)
            long = left >= 90
            text += f", {left / 60:.0f} minutes left" if long else f", {left:.0f} seconds left"
        return text


def run(mode, log_path, seconds):
    progress, shown = Progress(seconds, time.monotonic()), 0.0
    terminal = sys.stderr.isatty()
    begin, end, interval = ("\r\033[K", "", 1) if terminal else ("", "\n", 30)
    with open(log_path, "w", encoding="utf-8") as log:
        for line in sys.stdin:
            log.write(line)
            log.flush()
            stepped, quiet = progress.step(line)
            if mode == "test" and not quiet:
                print(("\r\033[K" if terminal else "") + line, end="", flush=True)
            now = time.monotonic()
            if stepped and (now - shown >= interval and now - progress.begun >= interval):
                shown = now
                print(f"{begin}   {progress.say(now)}", end=end, file=sys.stderr, flush=True)
    if terminal:
        print(begin, end="", file=sys.stderr)


def self_test():
    build = Progress({}, 0.0)
    assert build.step("[3/12] Building CXX object a.o\n") == (True, True)
    assert build.say(1.0) == "3 of 12"
    assert build.step("FAILED: a.o\n") == (False, False)
    tests = Progress({"Slow": (1, 90.0), "Quick": (10, 10.0)}, 0.0)
    passed = "  1/11 Test  #7: Quick.Is ...........   Passed    1.00 sec\n"
    assert tests.step(passed) == (True, True)
    assert tests.say(10.0) == "1 of 11, 16 minutes left", tests.say(10.0)
    assert tests.step("      Start  3: Quick.Is\n") == (False, True)
    assert tests.step(" 2/11 Test #3: Quick.No ....***Failed    1.00 sec\n") == (True, False)
    assert tests.step(" 3/11 Test #4: nodes.x ....***Skipped    1.00 sec\n") == (True, True)
    names = ("Ranks/Db.A/3", "Db.A", "nodes.kv_parallel.2,2", "hello.1")
    assert [suite(name) for name in names] == ["Db", "Db", "nodes", "hello"]
    print("progress.py: the self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    mode, log_path = sys.argv[1:3]
    run(mode, log_path, read_seconds(sys.argv[3]) if len(sys.argv) > 3 else {})


if __name__ == "__main__":
    main()
