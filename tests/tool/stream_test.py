#!/usr/bin/env python3
"""Runs quire stream on small streams, whole and damaged: stream_test.py QUIRE MAKE_STREAM"""
import ast
import json
import struct
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
from cases import run_cases  # noqa: E402

FINE, FOUND_WRONG, WRONG_USAGE, CANNOT_READ = range(4)


def field(snapshot):
    return struct.pack("<6d", *[snapshot + 0.5 * i for i in range(6)])


class Tool:
    """The command, and streams of its own."""

    def __init__(self, quire, make, directory):
        self.quire, self.make, self.directory = quire, make, Path(directory)
        self.place = self.directory / "place"
        self.errors = ""  # of the last run
        subprocess.run([make, str(self.place)], check=True)

    def run(self, *arguments, code=FINE):
        done = subprocess.run([self.quire, "stream", *map(str, arguments)], capture_output=True,
                              timeout=60, check=False)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        if code in (WRONG_USAGE, CANNOT_READ):
            assert done.stderr, arguments
        self.errors = done.stderr.decode()
        return done.stdout

    def get(self, *arguments, code=FINE):
        return self.run("get", self.place, "heat", 0, *arguments, code=code)

    def json(self, *arguments, code=FINE):
        return json.loads(self.run(*arguments, "--json", code=code))


def test_ls(tool):
    assert tool.run("ls", tool.place) == b"heat: ranks 0 2\n"
    assert tool.json("ls", tool.place)["stores"] == [{"store": "heat", "ranks": [0, 2]}]
    text = tool.run("ls", tool.place, "heat").decode()
    assert text.startswith("rank 0: snapshot 3, finished\n"), text
    assert "  field\n    version 3, snapshot 3: float64 2 x 3, 48 B\n" in text, text
    listed = tool.json("ls", tool.place, "heat")["ranks"]
    assert [part["rank"] for part in listed] == [0, 2]
    objects = {one.get("key", one.get("key_hex")): one["versions"] for one in listed[0]["objects"]}
    assert sorted(objects) == ["00ff", "field", "ids", "note"]
    assert [one["version"] for one in objects["field"]] == [3, 2, 1]
    newest = objects["field"][0]
    assert (newest["element"], newest["extents"], newest["bytes"]) == ("float64", [2, 3], 48)
    assert newest["unix_time_ns"] > 10 ** 18 and newest["whole"]
    tool.run("ls", tool.directory / "nowhere", code=CANNOT_READ)
    tool.run("ls", tool.place, "cold", code=CANNOT_READ)
    tool.run("ls", tool.place, "../up", code=WRONG_USAGE)


def test_get(tool):
    assert tool.get("field") == field(3)
    assert tool.get("field", "--version", 1) == field(1)
    assert tool.get("field", "--snapshot", 2, "--format", "text") == b"2 2.5 3\n3.5 4 4.5\n"
    assert tool.get("ids", "--format", "text") == b"-1 0 1 2\n"
    assert tool.get("note") == b"hello\n"
    assert tool.get("note", "--format", "text") == b"hello\\x0a\n"
    assert tool.get("00ff", "--hex", "--format", "text") == b"(0,1.5) (-2,0)\n"
    tool.get("field", "--version", 9, code=FOUND_WRONG)
    tool.get("nobody", code=FOUND_WRONG)
    assert tool.errors == 'quire: key "nobody" is not there\n', tool.errors
    tool.get("field", "--version", 1, "--snapshot", 1, code=WRONG_USAGE)
    tool.get("0", "--hex", code=WRONG_USAGE)
    tool.get("field", "--json", code=WRONG_USAGE)
    tool.get("field", "-o", tool.directory / "no/where", code=CANNOT_READ)
    tool.run("get", tool.place, "heat", 1, "field", code=CANNOT_READ)


def test_npy(tool):
    path = tool.directory / "field.npy"
    told = json.loads(tool.get("field", "--format", "npy", "--output", path, "--json"))
    assert (told["version"], told["bytes"], told["output"]) == (3, 48, str(path))
    for key, names, shape, size in (("field", "<f8", (2, 3), 48), ("ids", "<i4", (4,), 16),
                                    ("note", "|u1", (6,), 6)):
        content = tool.get(key, "--format", "npy")
        assert content[:8] == b"\x93NUMPY\x01\x00"
        end = 10 + struct.unpack("<H", content[8:10])[0]
        header = ast.literal_eval(content[10:end].decode())
        assert header == {"descr": names, "fortran_order": False, "shape": shape}, header
        assert end % 64 == 0 and content[end - 1:end] == b"\n" and len(content) == end + size
    assert path.read_bytes() == tool.get("field", "--format", "npy")


def test_stat(tool):
    ranks = tool.json("stat", tool.place, "heat")["ranks"]
    assert [part["rank"] for part in ranks] == [0, 2]
    assert (ranks[0]["objects"], ranks[0]["versions"], ranks[0]["deltas"]) == (4, 12, 0)
    assert ranks[0]["object_bytes"] == 3 * (48 + 16 + 6 + 16) and ranks[0]["finished"]
    text = tool.run("stat", tool.place, "heat", 2)
    assert text.startswith(b"rank 2: 1 objects, 1 versions") and b"rank 0" not in text
    tool.run("stat", tool.place, "heat", 1, code=CANNOT_READ)


def test_beside_a_writer(tool):
    """Each version is there once its snapshot is committed; nothing is until then."""
    def listed():
        part = tool.json("ls", tool.place, "heat")["ranks"][-1]
        field_of, = part["objects"]
        assert (part["rank"], field_of["key"]) == (5, "field"), part
        versions = [one["version"] for one in field_of["versions"]]
        assert versions == [one["snapshot"] for one in field_of["versions"]], part
        assert part["last_snapshot"] == versions[0], part
        return part["finished"], versions

    def ready(writer):
        assert writer.stdout.readline() == b"ready\n"

    with subprocess.Popen([tool.make, tool.place, "stay"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as writer:
        for snapshot in (1, 2, 3):
            ready(writer)
            assert listed() == (False, list(range(snapshot, 0, -1))), snapshot
            for version in range(1, snapshot + 1):
                found = tool.run("get", tool.place, "heat", 5, "field", "--version", version)
                assert found == field(version), (snapshot, version)
            assert tool.run("get", tool.place, "heat", 5, "field") == field(snapshot)
            text = tool.run("ls", tool.place, "heat").decode()
            assert f"\nrank 5: snapshot {snapshot}, not finished\n" in text, text
            assert not tool.json("stat", tool.place, "heat", 5)["ranks"][0]["finished"]
            assert tool.json("verify", tool.place, "heat", 5)["sound"]
            if snapshot < 3:
                writer.stdin.write(b"\n")
                writer.stdin.flush()
        writer.stdin.close()
        assert writer.wait(timeout=60) == 0
    assert listed() == (True, [3, 2, 1])


def test_verify(tool):
    assert tool.json("verify", tool.place, "heat") == {"sound": True, "versions": 13,
                                                       "findings": []}
    assert tool.run("verify", tool.place, "heat", 2) == b"sound: 1 versions\n"
    log = tool.place / "heat/log-0"
    content = bytearray(log.read_bytes())
    at = content.find(field(2))
    assert at >= 0
    content[at + 3] ^= 1
    with open(log, "r+b") as file:
        file.write(content)
    report = tool.json("verify", tool.place, "heat", code=FOUND_WRONG)
    assert not report["sound"] and len(report["findings"]) == 1, report
    found = report["findings"][0]
    assert (found["rank"], found["key"], found["version"]) == (0, "field", 2), found
    assert b"not sound" in tool.run("verify", tool.place, "heat", code=FOUND_WRONG)
    assert tool.get("field", "--version", 2, code=FOUND_WRONG) == b""
    assert tool.get("field", "--version", 1) == field(1)
    tool.run("verify", tool.place, "cold", code=CANNOT_READ)


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_verify_finds_what_stops_a_writer(tool):
    """The index knows all versions still; who opens the log to write walks its commits."""
    log = tool.place / "heat/log-0"
    content = log.read_bytes()
    first = 4 * 4096
    directory, last = content.find(b"field", first), content.rfind(b"field")
    newest_head = max(range(1, 4), key=lambda slot: struct.unpack_from("<Q", content, slot * 4096))
    for what, at in (("a record", first), ("a record's size", first + 8),
                     ("a directory", directory), ("the last directory", last)):
        flip(log, at)
        report = tool.json("verify", tool.place, "heat", code=FOUND_WRONG)
        assert not report["sound"] and {one["rank"] for one in report["findings"]} == {0}, what
        assert "damaged" in report["findings"][0]["problem"], (what, report)
        flip(log, at)
        assert tool.json("verify", tool.place, "heat")["sound"], what
    # An older head says that less has gone, or the same: what it tells of is there.
    flip(log, newest_head * 4096)
    assert tool.json("verify", tool.place, "heat")["sound"]


if __name__ == "__main__":
    sys.exit(run_cases(dict(globals()), lambda directory: Tool(*sys.argv[1:], directory)))
