#!/usr/bin/env python3
"""Stores into all the room of a log segment on a full device, beside a reader of its file: no store
raises SIGBUS.

    room_test.py ROOM_PROGRAM KIND [BLOCK_BYTES]

KIND is ext4 or xfs: a file system of that kind, of blocks of so many bytes, in a file, which is
mounted. What the machine does not allow is skipped, with the reason (exit status 77).
"""
import subprocess
import sys

sys.dont_write_bytecode = True  # the sources may be read-only
from move_test import place_on  # noqa: E402

SECONDS = 240


def main():
    program, kind = sys.argv[1:3]
    block = ["-b", sys.argv[3] if kind == "ext4" else f"size={sys.argv[3]}"] if sys.argv[3:] else []
    with place_on(kind, "quire-room-", block) as (_, mounted):
        place = mounted / "work"
        place.mkdir(mode=0o700)
        ran = subprocess.run([program, str(place)], capture_output=True, text=True, timeout=SECONDS)
        print(ran.stdout + ran.stderr, end="", flush=True)
        if ran.returncode != 0:
            sys.exit(f"room_test: the program ended with {ran.returncode}")


if __name__ == "__main__":
    main()
