#!/usr/bin/env python3
"""Tests of heat and heat_watch, as whole programs:

    heat_test.py HEAT HEAT_WATCH LAUNCHER CASE

LAUNCHER -n RANKS PROGRAM ... starts it in parallel. CASE is a function case_... below. Whatever
happens, the temperatures of a step have one hash, that of one rank without interruption; and
heat_watch, which compares each block with what its rank said of it and each halo with the
neighbour's cells, finds no snapshot torn.
The random choices follow from QUIRE_KILL_SEED (printed); QUIRE_KILL_COUNT (12) is how often.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 60  # for whatever is waited for
HEIGHT, WIDTH = 61, 47
SAID = ("min", "max", "mean", "heat", "hottest", "hash")


def check(is_true, what):
    if not is_true:
        sys.exit("FAILED: " + what)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def processes(program, place):
    """Those of a program that work at that place, until the last thread of each is gone."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if words[0].endswith(b"/" + program.encode()) and str(place).encode() in words:
            found.append(int(entry.name))
    return found


def wait_until(condition, what):
    end = time.monotonic() + SECONDS
    while not condition():
        check(time.monotonic() < end, f"not in {SECONDS} s: {what}")
        time.sleep(0.005)


class Watcher:
    """heat_watch at work: what it has said so far, and in the end."""
    def __init__(self, command):
        self.output, self.errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.errors)

    def lines(self):
        """Whole ones: of one that is killed the last may be cut off."""
        said = os.pread(self.output.fileno(), os.fstat(self.output.fileno()).st_size, 0).decode()
        return json_lines(said[:said.rfind("\n") + 1])

    def has_seen(self, condition):
        return any(condition(line) for line in self.lines())

    def runs(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()

    def end(self):
        code = self.process.wait(SECONDS)
        self.errors.seek(0)
        return code, self.errors.read().decode()


class Programs:
    def __init__(self, heat, watch, launcher, folder):
        self.heat, self.watch, self.launcher = heat, watch, launcher
        self.folder = Path(folder)

    def heat_command(self, place, ranks, steps, *more, height=HEIGHT, width=WIDTH):
        return [self.launcher, "-n", str(ranks), self.heat, "--place", str(self.folder / place),
                "--height", str(height), "--width", str(width), "--steps", str(steps),
                *map(str, more)]

    def run_heat(self, place, ranks, steps, *more, **size):
        """What it said in the end."""
        done = subprocess.run(self.heat_command(place, ranks, steps, *more, **size),
                              capture_output=True, text=True, check=False, timeout=SECONDS)
        check(done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr[-3000:]}")
        return json_lines(done.stdout)[-1]

    def start_heat(self, place, ranks, steps, *more):
        output = open(self.folder / f"{place}.output", "w")
        return subprocess.Popen(self.heat_command(place, ranks, steps, *more), stdout=output,
                                stderr=subprocess.STDOUT, start_new_session=True)

    def kill_heat(self, job, place, choose, everybody):
        """Kills ranks, and waits until nothing of the job is left that holds the streams."""
        path = self.folder / place
        pids = processes("heat", path)
        for pid in pids if everybody else choose.sample(pids, min(1, len(pids))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was faster
        try:
            job.wait(10)  # the launcher ends the others
        except subprocess.TimeoutExpired:
            # Open MPI's may wait for ever for ranks that died while they began.
            job.kill()
            job.wait()
            for pid in processes("heat", path):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not processes("heat", path), "the ranks are gone")

    def watch_command(self, place, *more):
        return [self.watch, "--place", str(self.folder / place), *map(str, more)]

    def run_watch(self, place, *more):
        """The lines of the versions, and that of the end."""
        done = subprocess.run(self.watch_command(place, *more), capture_output=True, text=True,
                              check=False, timeout=SECONDS)
        check(done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr[-3000:]}")
        *versions, end = json_lines(done.stdout)
        return versions, end

    def start_watch(self, place, *more):
        return Watcher(self.watch_command(place, *more))

    def end_of_watch(self, watcher):
        code, err = watcher.end()
        check(code == 0, f"heat_watch: {code} {watcher.lines()} {err[-3000:]}")
        *versions, end = watcher.lines()
        return versions, end

    def oracle(self, steps, every=10, **size):
        """By step: what one rank says that nobody interrupts, whose every snapshot is kept."""
        self.run_heat("oracle", 1, steps, "--every", every, "--deltas", "off", "--keep",
                      steps // every + 1, **size)
        versions, end = self.run_watch("oracle")
        check(end["versions"] == steps // every + 1 and end["skipped"] == 0, f"oracle: {end}")
        return {version["step"]: version for version in versions}


def same(version, expected):
    """Equal to the last bit but for sums, whose rounding depends on how the plate is cut."""
    exact = ("min", "max", "hottest", "hash")
    return ([version[key] for key in exact] == [expected[key] for key in exact] and
            all(abs(version[key] - expected[key]) <= 1e-9 * abs(expected[key])
                for key in ("heat", "mean")))


def check_versions(versions, expected, every=10):
    last = 0
    for version in versions:
        what = f"{version}, not {expected.get(version['step'])}"
        check(version["step"] == (version["snapshot"] - 1) * every, what)
        check(version["snapshot"] > last and same(version, expected[version["step"]]), what)
        last = version["snapshot"]


def check_picture(path, version, height, width):
    text = path.read_bytes()
    head = f"P6\n{width} {height}\n255\n".encode()
    check(text.startswith(head) and len(text) == len(head) + 3 * height * width, f"{path}")
    if version["max"] > 0:
        row, column = version["hottest"]
        place = len(head) + 3 * (row * width + column)
        check(text[place:place + 3] == b"\xff\xff\xff", f"{path}: the hottest cell is not white")


def case_ranks(programs):
    """Any number of ranks, odd sizes, more ranks than rows: one result."""
    for height, width, steps in ((61, 47, 120), (4, 90, 60), (1, 5, 40), (33, 128, 100)):
        expected = programs.oracle(steps, height=height, width=width)
        (programs.folder / "oracle").rename(programs.folder / f"oracle-{height}")
        for ranks in (1, 2, 3, 4):
            place = f"{height}-{ranks}"
            result = programs.run_heat(place, ranks, steps, height=height, width=width)
            check(same(result, expected[steps]), f"{place}: {result}, not {expected[steps]}")
            check(result["snapshots"] == steps // 10 + 1 and result["ranks"] == ranks, f"{result}")
            pictures = programs.folder / f"pictures-{place}"
            pictures.mkdir()
            versions, end = programs.run_watch(place, "--pictures", pictures)
            check_versions(versions, expected)
            kept = min(8, steps // 10 + 1)
            check(end["versions"] >= kept and end["last_step"] == steps and
                  end["ranks"] == ranks, f"{place}: {end}")
            check({key: versions[-1][key] for key in SAID} == {key: result[key] for key in SAID},
                  f"{place}: the watcher says {versions[-1]}, the simulation {result}")
            check(len(list(pictures.iterdir())) == len(versions), "a picture of each version")
            for version in versions:
                check_picture(pictures / f"heat-{version['step']:08}.ppm", version, height, width)


def case_deltas(programs):
    """Whatever finds the changes, the versions are the same."""
    expected = programs.oracle(200, every=2)
    for deltas in ("off", "hash", "watch", "protect", "auto"):
        result = programs.run_heat(deltas, 3, 200, "--every", 2, "--deltas", deltas, "--keep", 40)
        check(same(result, expected[200]), f"{deltas}: {result}")
        versions, end = programs.run_watch(deltas)
        check_versions(versions, expected, every=2)
        check(end["versions"] >= 40, f"{deltas}: {end}")
        if deltas == "off":
            check(result["deltas"] == 0 and result["tracking"] == "whole", f"{result}")
        elif deltas == "hash":
            check(result["tracking"] == "hash", f"{deltas}: {result}")
    # A small source on a large plate: most of it is as cold as before.
    stored = {deltas: programs.run_heat(f"large-{deltas}", 2, 50, "--every", 5, "--deltas", deltas,
                                        height=500, width=700) for deltas in ("off", "hash")}
    check(stored["off"]["hash"] == stored["hash"]["hash"], f"{stored}")
    check(stored["hash"]["deltas"] > 0, f"{stored}")
    check(stored["hash"]["stored_bytes"] < 0.7 * stored["off"]["stored_bytes"], f"{stored}")


def case_beside(programs):
    """The watcher runs beside the simulation, and sees each version, from the first one."""
    expected = programs.oracle(400)
    for ranks in (1, 2, 3, 4):
        place = f"beside-{ranks}"
        watchers = [programs.start_watch(place) for _ in range(2)]  # before there is anything
        result = programs.run_heat(place, ranks, 400, "--keep", 50)
        check(same(result, expected[400]), f"{place}: {result}")
        for watcher in watchers:
            versions, end = programs.end_of_watch(watcher)
            check_versions(versions, expected)
            check(end["versions"] == 41 and end["skipped"] == 0 and end["last_step"] == 400,
                  f"{place}: {end}")
    # A log that holds few versions: what the watcher is too slow for is skipped, never torn.
    watcher = programs.start_watch("few", "--pictures", programs.folder)
    programs.run_heat("few", 3, 400, "--keep", 1)
    versions, end = programs.end_of_watch(watcher)
    check_versions(versions, expected)
    check(end["versions"] + end["skipped"] == 41 and end["last_step"] == 400, f"{end}")


def case_resume(programs):
    """Steps in several runs are those of one; and who resumes must be the same job."""
    expected = programs.oracle(300)
    for ranks in (1, 3, 4):
        place = f"resume-{ranks}"
        for steps in (95, 100, 200, 300):
            result = programs.run_heat(place, ranks, steps, "--resume")
            check(steps % 10 != 0 or same(result, expected[steps]), f"{place}: {result}")
        check(result["first_step"] == 200 and result["snapshots"] == 31, f"{place}: {result}")
        versions, end = programs.run_watch(place)
        check_versions(versions, expected)
        check(end["last_step"] == 300, f"{place}: {end}")


def case_kills(programs):
    """One rank or all are killed at random moments, in one life after another: the end is exact."""
    seed = int(os.environ.get("QUIRE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    kills = int(os.environ.get("QUIRE_KILL_COUNT") or
                12 * float(os.environ.get("QUIRE_TEST_SCALE") or 1))
    print(f"QUIRE_KILL_SEED={seed} QUIRE_KILL_COUNT={kills}")
    choose = random.Random(seed)
    steps, every = 1200, 4
    expected = programs.oracle(steps, every=every)
    done, run = 0, 0
    while done < kills:
        run += 1
        place, ranks = f"kills-{run}", choose.choice((2, 3, 4))
        # Beside all lives of the job one watcher, which has the patience that this takes.
        watcher = programs.start_watch(place, "--patience", SECONDS)
        lives = min(3, kills - done)
        for life in range(lives):
            job = programs.start_heat(place, ranks, steps, "--every", every, "--resume",
                                      "--pause", 5, "--deltas", choose.choice(("off", "auto")))
            wait_until(lambda: len(processes("heat", programs.folder / place)) == ranks or
                       job.poll() is not None, "all ranks run")
            # The first lives may end before they have anything, the last one may not.
            if life == lives - 1:
                wait_until(lambda: watcher.has_seen(lambda line: line.get("step", 0) > 0) or
                           not watcher.runs(), "there is a snapshot")
            time.sleep(choose.uniform(0, 1.0))
            programs.kill_heat(job, place, choose, everybody=choose.random() < 0.5)
            done += 1
        result = programs.run_heat(place, ranks, steps, "--every", every, "--resume")
        check(same(result, expected[steps]), f"{place}, seed {seed}: {result}")
        check(result["first_step"] > 0, f"{place}, seed {seed}: it began anew: {result}")
        versions, end = programs.end_of_watch(watcher)
        check_versions(versions, expected, every)
        check(end["last_step"] == steps and end["versions"] > 0, f"{place}, seed {seed}: {end}")
        check_versions(programs.run_watch(place)[0], expected, every)
    print(f"{done} kills in {run} runs")


def case_watcher(programs):
    """The watcher is killed, time and again, and started anew: nobody else notices."""
    seed = int(os.environ.get("QUIRE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"QUIRE_KILL_SEED={seed}")
    choose = random.Random(seed)
    steps = 3000
    expected = programs.oracle(steps)
    pictures = programs.folder / "pictures"
    pictures.mkdir()
    job = programs.start_heat("watched", 2, steps, "--keep", 1, "--pause", 10)
    kills = 0
    while job.poll() is None:
        watcher = programs.start_watch("watched", "--pictures", pictures)
        time.sleep(choose.uniform(0, 0.3))
        if job.poll() is None:
            watcher.kill()
            kills += 1
        code, err = watcher.end()
        check_versions([line for line in watcher.lines() if "step" in line], expected)
        check(code <= 0, f"{code} {err}")
    said = (programs.folder / "watched.output").read_text()
    check(job.returncode == 0 and same(json_lines(said)[-1], expected[steps]), said)
    check(kills >= 5, f"only {kills} kills")
    versions, end = programs.run_watch("watched", "--pictures", pictures)
    check_versions(versions, expected)
    check(end["last_step"] == steps, f"{end}")
    for path in pictures.glob("*.ppm"):
        check_picture(path, expected[int(path.stem[-8:])], HEIGHT, WIDTH)
    print(f"{kills} watchers killed")


def case_errors(programs):
    """What cannot be done is said, by all ranks alike, and nothing else happens."""
    result = programs.run_heat("errors", 3, 50)

    def heat_says(says, ranks, *more, **size):
        done = subprocess.run(programs.heat_command("errors", ranks, 100, *more, **size),
                              capture_output=True, text=True, check=False, timeout=SECONDS)
        said = [line for line in done.stderr.splitlines() if line.startswith("heat: ")]
        check(done.returncode != 0 and said and all(says in line for line in said),
              f"{says}: {done.returncode} {done.stdout} {done.stderr[-3000:]}")

    heat_says("has snapshots of another run", 3)
    heat_says("on 3 ranks, a snapshot every 10 steps, and not of 61 x 47 cells on 2 ranks", 2,
              "--resume")
    heat_says("on 3 ranks, a snapshot every 10 steps, and not of 61 x 47 cells on 4 ranks", 4,
              "--resume")
    heat_says("a snapshot every 10 steps, and not", 3, "--resume", "--every", 5)
    heat_says("is of 61 x 47 cells on 3 ranks", 3, "--resume", height=60)
    heat_says("2 x 1 cells are too few for 4 ranks", 4, height=2, width=1)
    versions, end = programs.run_watch("errors")
    check(end["last_step"] == 50 and versions[-1]["hash"] == result["hash"], "it is as it was")
    nothing = subprocess.run(programs.watch_command("nothing", "--patience", 1),
                             capture_output=True, text=True, check=False, timeout=SECONDS)
    check(nothing.returncode == 1 and "heat_watch: " in nothing.stderr, f"{nothing}")
    # A simulation that was killed and comes back no more: the watcher says so.
    job = programs.start_heat("gone", 2, 1000000, "--pause", 5)
    watcher = programs.start_watch("gone", "--patience", 2)
    wait_until(lambda: len(processes("heat", programs.folder / "gone")) == 2, "all ranks run")
    wait_until(watcher.lines, "the watcher sees something")
    programs.kill_heat(job, "gone", random, everybody=True)
    code, err = watcher.end()
    check(code == 1 and "peer failed" in err, f"{code} {err}")


def case_demo(programs):
    build = Path(programs.heat).resolve().parents[2]
    done = subprocess.run([str(Path(__file__).with_name("demo.sh")), str(build)], text=True,
                          capture_output=True, check=False)
    check(done.returncode == 0, f"demo.sh: {done.returncode} {done.stderr[-2000:]}")
    print(done.stdout)
    lines = json_lines(done.stdout)
    watched, simulated = lines[-2], lines[-1]
    check(watched["last_step"] == simulated["steps"] and watched["skipped"] == 0, done.stdout)


def main():
    heat, watch, launcher, case = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="heat-test-") as folder:
        globals()["case_" + case](Programs(heat, watch, launcher, folder))


if __name__ == "__main__":
    main()
