#!/usr/bin/env python3
"""Kills a program that writes a database with several threads, a stream and a dataset, and opens
what it left under another boot id, as a job does that goes on on another node: nothing that was
acknowledged may be lost.

    move_test.py MOVE_PROGRAM WHERE

WHERE is `here` (the temporary directory), or ext4, xfs or btrfs: a file system of that kind in a
file, which is mounted. Another boot id is a file that is mounted over the kernel's, in a namespace
of its own. What the machine does not allow is skipped, with the reason (exit status 77).

QUIRE_KILL_COUNT (6) kills, in the turn of WAYS from one that is drawn: the place is opened where it
is, or as a copy; in an image the kill also falls once the device is full, or about when it runs
full, amid writes. Such a place is opened both ways: as a copy, and, once a file beside it was
removed, where it is. The random choices follow from QUIRE_KILL_SEED (printed).
"""
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

SKIPPED = 77
SECONDS = 240
IMAGE_BYTES = 480 << 20  # xfs wants 300 MiB
BESIDE_BYTES = 64 << 20  # of a file beside a full place: more than opening it takes
LOW_BYTES = 40 << 20    # left in an image that is about to be full
LOST = 3
WAYS = ["in place", "a copy", "full", "filling"]
WAYS_HERE = WAYS[:2]
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def say(text):
    print(f"move_test: {text}", flush=True)


def skip(why):
    say(f"skipped: {why}")
    sys.exit(SKIPPED)


def elsewhere(boot_file, command):
    """The command, under the boot id that is in the file."""
    return ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c",
            f'mount --bind "$0" {BOOT_ID} && exec "$@"', str(boot_file)] + command


def check_boot_id(home):
    boot_file = home / "boot-id"
    boot_file.write_text(f"{uuid.uuid4()}\n")
    if shutil.which("unshare") is None:
        skip("there is no unshare(1) for another boot id")
    seen = subprocess.run(elsewhere(boot_file, ["cat", BOOT_ID]), capture_output=True, text=True)
    if seen.stdout != boot_file.read_text():
        skip(f"no other boot id can be mounted over {BOOT_ID}: {seen.stderr.strip()}")
    return boot_file


class Image:
    """A file system in a file, mounted."""

    def __init__(self, kind, home, more=()):
        self.place = home / "mounted"
        self.place.mkdir()
        image = home / "image"
        if os.geteuid() != 0:
            skip("mounting takes root")
        if shutil.which(f"mkfs.{kind}") is None:
            skip(f"there is no mkfs.{kind}")
        with open(image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        force = ["-F"] if kind == "ext4" else ["-f"]
        for command in ([f"mkfs.{kind}", "-q", *more] + force + [str(image)],
                        ["mount", "-o", "loop", str(image), str(self.place)]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                skip(f"{' '.join(command)}: {done.stderr.strip()}")

    def remove(self):
        subprocess.run(["umount", "-l", str(self.place)], check=False)


@contextlib.contextmanager
def place_on(where, prefix, more=()):
    """A new directory, and where to work: there, or on an Image of the kind `where` in it."""
    home = Path(tempfile.mkdtemp(prefix=prefix))
    image = None
    try:
        image = None if where == "here" else Image(where, home, more)
        yield home, home if image is None else image.place
    finally:
        if image is not None:
            image.remove()
        shutil.rmtree(home, ignore_errors=True)


class Writer:
    def __init__(self, program, place, told, threads):
        self.output = open(told.with_suffix(".out"), "w+")
        self.process = subprocess.Popen([program, "write", str(place), str(told), str(threads)],
                                        stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return Path(self.output.name).read_text(errors="replace")

    def wait_until(self, done, what):
        end = time.monotonic() + SECONDS
        while not done():
            if self.process.poll() is not None:
                code = self.process.returncode
                raise SystemExit(f"move_test: the writer ended by itself ({code})\n{self.text()}")
            if time.monotonic() > end:
                self.kill()
                raise SystemExit(f"move_test: {what} takes too long\n{self.text()}")
            time.sleep(0.005)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def acknowledged(told):
    """The counts that the program was told; all zero as long as there are none."""
    try:
        words = told.read_bytes()
    except FileNotFoundError:
        return [0, 0]
    return [int.from_bytes(words[at:at + 8], "little") for at in range(0, len(words), 64)] or [0, 0]


def has_begun(told, threads):
    """Writes of the database, versions of the stream and epochs of the dataset are acknowledged."""
    return sum(told[:threads]) > 500 and told[-1] >= 5 and told[-2] >= 1


def check(program, work, told, threads, boot_file, how):
    boot_file.write_text(f"{uuid.uuid4()}\n")
    command = [program, "check", str(work), str(told), str(threads)]
    checked = subprocess.run(elsewhere(boot_file, command), capture_output=True, text=True,
                             timeout=SECONDS)
    say(f"{threads} threads, {how}: {checked.stdout.strip()}")
    if checked.returncode == LOST:
        raise SystemExit("move_test: what was acknowledged is lost")
    if checked.returncode != 0:
        raise SystemExit(f"move_test: the check failed with {checked.returncode}\n"
                         f"{checked.stdout}{checked.stderr}")


def check_copy(program, work, home, *more):
    copy = home / "copy"
    shutil.copytree(work, copy, symlinks=True)
    check(program, copy, *more)
    shutil.rmtree(copy)


def check_in_place(work):
    """On btrfs: no file that is stored to in memory is written to a new place at each change."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(work)], capture_output=True, text=True)
    if kind.stdout.strip() != "btrfs":
        return
    if shutil.which("lsattr") is None:
        say("skipped: there is no lsattr to tell whether files are written in place")
        return
    stored_to = list(work.glob("repository/**/val-*.seg"))  # there may be none
    for pattern in ("repository/**/log-*.seg", "streams/*/log-0", "streams/*/gate-0",
                    "streams/*/index-0"):
        found = list(work.glob(pattern))
        if not found:
            raise SystemExit(f"move_test: there is no {pattern}")
        stored_to += found
    shown = subprocess.run(["lsattr", *map(str, stored_to)], capture_output=True, text=True,
                           check=True)
    for line in shown.stdout.splitlines():
        if "C" not in line.split()[0]:
            raise SystemExit(f"move_test: written to a new place at each change: {line}")
    say(f"{len(stored_to)} files are written in place")


def left_bytes(place):
    room = os.statvfs(place)
    return room.f_bavail * room.f_frsize


def kill_at(way, writer, place, choose):
    if way == "full":
        writer.wait_until(lambda: "full" in writer.text(), "filling the device")
    elif way == "filling":
        writer.wait_until(lambda: left_bytes(place) < LOW_BYTES, "filling the device")
        time.sleep(choose.uniform(0, 0.2))
    else:
        time.sleep(choose.uniform(0, 0.4))
    writer.kill()


def kill_and_check(program, home, place, boot_file, choose, number, way):
    threads = choose.randint(2, 8)
    told = home / f"told-{number}"
    work = place / f"work-{number}"
    work.mkdir(mode=0o700)
    beside = place / "beside"
    fills = way in ("full", "filling")
    if fills:
        beside.write_bytes(os.urandom(BESIDE_BYTES))
    writer = Writer(program, work, told, threads)
    writer.wait_until(lambda: has_begun(acknowledged(told), threads), "beginning to write")
    kill_at(way, writer, place, choose)
    check_in_place(work)
    if fills:
        check_copy(program, work, home, told, threads, boot_file, f"{way}, a copy")
        beside.unlink()
        os.sync()  # btrfs frees the room when it commits
        check(program, work, told, threads, boot_file, f"{way}, in place")
    elif way == "a copy":
        check_copy(program, work, home, told, threads, boot_file, way)
    else:
        check(program, work, told, threads, boot_file, way)
    shutil.rmtree(work)


def main():
    program, where = sys.argv[1:3]
    with place_on(where, "quire-move-") as (home, place):
        boot_file = check_boot_id(home)
        count = int(os.environ.get("QUIRE_KILL_COUNT") or
                    max(2, 6 * float(os.environ.get("QUIRE_TEST_SCALE") or 1)))
        seed = int(os.environ.get("QUIRE_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
        say(f"QUIRE_KILL_SEED={seed} QUIRE_KILL_COUNT={count}")
        choose = random.Random(seed)
        ways = WAYS_HERE if where == "here" else WAYS
        first = choose.randrange(len(ways))
        for number in range(count):
            way = ways[(first + number) % len(ways)]
            kill_and_check(program, home, place, boot_file, choose, number, way)
        say(f"{count} kills, 0 acknowledged writes lost")


if __name__ == "__main__":
    main()
