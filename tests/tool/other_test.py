#!/usr/bin/env python3
"""What quire says where it is not the one to ask, beside a job, and of names that others chose:
other_test.py QUIRE MAKE_REPOSITORY
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
from cases import copy_golden, run_cases  # noqa: E402
from tool_test import CANNOT_READ, FOUND_WRONG, WRONG_USAGE, fresh_tool, locked  # noqa: E402


def test_beside_a_running_job(tool):
    """Who has it open is said, and that what only its memory has is not shown."""
    numbers = tool.repository / "numbers"
    for lock in (tool.part(2) / "LOCK", numbers / "LOCK"):
        lock.touch()
        with locked(lock):
            for command in (["ls", numbers], ["stat", numbers], ["verify", numbers],
                            ["get", numbers, "k000"], ["scan", numbers]):
                told = tool.run(*command) + tool.errors
                assert told.count("numbers") and "open in process 12 on host node7" in told, told
                assert "what only its memory has is not shown" in told, told
            for command in ("ls", "stat"):
                told = tool.json(command, tool.repository)["databases"]
                assert [one.get("open_in") for one in told] == ["node7 pid 12", None], told
            assert tool.json("verify", tool.repository)["open_in"] == {str(numbers): "node7 pid 12"}
            for command in (["get", "--json", numbers, "k000"], ["scan", "--json", numbers]):
                line = json.loads(tool.run(*command).splitlines()[-1])
                assert line["open_in"] == "node7 pid 12", line
                assert tool.errors == "", tool.errors
            # No pair could say it.
            assert tool.run("scan", "--json", numbers, "--from", "zzz") == ""
            assert "open in process 12 on host node7" in tool.errors, tool.errors
    assert "open" not in tool.run("ls", numbers) + tool.run("stat", numbers)
    assert "open_in" not in tool.json("verify", numbers)
    tool.run("get", numbers, "k000")
    assert tool.errors == ""


def test_beside_the_writer_of_a_dataset(tool):
    """Who writes it is said, and that an epoch that has not ended is not shown."""
    dataset = tool.directory / "particles"
    copy_golden("base", dataset)
    lock = dataset / "LOCK"
    lock.touch()
    commands = (["list", dataset], ["get", dataset, "k3"], ["scan", dataset, "--epoch", 1],
                ["verify", dataset])
    with locked(lock):
        for command in commands:
            told = tool.run("dataset", *command) + tool.errors
            assert "particles" in told and "open in process 12 on host node7" in told, told
            assert "an epoch that it has not ended is not shown" in told, told
        assert tool.json("dataset", "list", dataset)["datasets"][0]["open_in"] == "node7 pid 12"
        assert tool.json("dataset", "verify", dataset)["open_in"] == {str(dataset): "node7 pid 12"}
        for command in commands[1:3]:
            lines = tool.run("dataset", *command, "--json").splitlines()
            assert lines and tool.errors == "", tool.errors
            assert {json.loads(line)["open_in"] for line in lines} == {"node7 pid 12"}, lines
    for command in commands:
        assert "open" not in tool.run("dataset", *command) + tool.errors, command


def test_misspelt_variable(tool):
    """A variable that nearly has the name of one is refused, not ignored."""
    for name, meant in (("QUIRE_TIMEOUT", "QUIRE_TIMEOUT_MS"), ("QUIRE_LOGS", "QUIRE_LOG")):
        done = subprocess.run([tool.quire, "ls", tool.repository], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, name: "5"})
        assert done.returncode == WRONG_USAGE and done.stdout == "", done
        assert f"{name}: " in done.stderr and f"the nearest is {meant};" in done.stderr, done


def test_misspelt_option(tool):
    """The command line is blamed, not the word after the option."""
    numbers = tool.repository / "numbers"
    for line, command, wrong, meant in (
            (("scan", "--limt", "5", numbers), "quire scan", "--limt", "--limit"),
            (("scan", numbers, "--fromat=hex"), "quire scan", "--fromat", "--format"),
            (("dataset", "get", "--hxe", numbers, "k"), "quire dataset get", "--hxe", "--hex"),
            (("--versoin",), "quire", "--versoin", "--version")):
        tool.run(*line, code=WRONG_USAGE)
        assert f"{command} has no option {wrong}; the nearest is {meant}; " in tool.errors, \
            tool.errors
    tool.run("get", numbers, "--", "--limt", code=FOUND_WRONG)
    assert tool.errors == 'quire: key "--limt" is not there\n', tool.errors


def test_something_else(tool):
    """Of another kind it says what is there, and which command shows it."""
    database, checkpoints = tool.repository / "numbers", Path(f"{tool.repository}-checkpoints")
    dataset = tool.directory / "particles"
    copy_golden("base", dataset)
    streams = tool.directory / "streams"
    (streams / "heat").mkdir(parents=True)
    (streams / "heat/log-0").write_bytes(b"a log")
    photos = tool.directory / "photos"
    photos.mkdir()
    (photos / "2024.jpg").write_bytes(b"a photo")
    there = {database: f"a database (quire ls {database})",
             dataset: f"a dataset (quire dataset list {dataset})",
             checkpoints: f"quire checkpoint list {checkpoints})",
             streams: f"a stream (quire stream ls {streams} heat)",
             photos: f"nothing of Quire is in {photos}\n"}
    commands = {database: (["stat"], ["verify"], ["repair"], ["get", "k"], ["scan"]),
                checkpoints: (["checkpoint", "list"], ["checkpoint", "verify"]),
                dataset: (["dataset", "list"], ["dataset", "get", "k"], ["dataset", "verify"],
                          ["dataset", "scan", "--epoch", 1]),
                streams: (["stream", "ls"], ["stream", "stat", "heat"],
                          ["stream", "verify", "heat"], ["stream", "get", "heat", 0, "k"])}
    for own, own_commands in commands.items():
        for command in own_commands:
            words = 1 + (command[0] in ("checkpoint", "dataset", "stream"))
            for place, told in there.items():
                if place == own:
                    continue
                line = command[:words] + [place] + command[words:]
                assert tool.run(*line, code=CANNOT_READ) == "", line
                assert told in tool.errors, (line, tool.errors)
                if own == dataset:
                    assert "there is no dataset " in tool.errors, (line, tool.errors)
    # One level above a repository it says where one is, whatever the path was called.
    above = tool.directory / "above"
    shutil.copytree(database, above / "results/first")
    for place in (above, Path(os.path.relpath(above))):
        tool.run("ls", place, code=CANNOT_READ)
        assert (f"nothing of Quire is in {above}; in its folders: a database "
                f"(quire ls {above}/results)\n") in tool.errors, tool.errors
    two = tool.directory / "two"
    for name in ("first", "second"):
        shutil.copytree(database, two / name)
    tool.run("dataset", "list", two, code=CANNOT_READ)
    assert f"; there are 2 databases (quire ls {two})" in tool.errors, tool.errors
    for command in ("drop", "export"):
        line = ["checkpoint", command, database] + [tool.directory / "x"] * (command == "export")
        tool.run(*line, code=CANNOT_READ)
        assert "is no checkpoint" in tool.errors, tool.errors
    # ls shows all kinds, each with the command that shows more.
    for place, command in ((dataset, f"particles  (a dataset: quire dataset list {dataset})"),
                           (checkpoints, "own  (checkpoints: quire checkpoint list "
                            f"{checkpoints}/own)"),
                           (streams, f"heat  (a stream: quire stream ls {streams} heat)")):
        assert command in tool.run("ls", place)
    assert tool.json("ls", tool.directory)["datasets"] == [str(dataset)]
    assert tool.json("ls", streams)["streams"] == [str(streams / "heat")]
    assert tool.json("ls", checkpoints)["checkpoints"] == [str(checkpoints / "own")]


def test_what_verify_does_not_verify(tool):
    """What lies beside the databases is named, with the command that verifies it."""
    place, own = tool.repository, Path(f"{tool.repository}-checkpoints") / "own"
    copy_golden("base", place / "steps")
    (place / "heat").mkdir()
    (place / "heat/log-0").write_bytes(b"a log")
    shutil.copytree(own, place / "kept")
    table = place / "steps/part-0"
    content = bytearray(table.read_bytes())
    content[100] ^= 1
    table.write_bytes(content)
    left = [("dataset", "steps", f"quire dataset verify {place}/steps"),
            ("checkpoints", "kept", f"quire checkpoint verify {place}/kept"),
            ("stream", "heat", f"quire stream verify {place} heat")]
    for command, code in ((["verify"], 0), (["repair"], 0)):
        tool.run(*command, place, code=code)
        assert tool.errors.splitlines() == [f"quire: not verified: {kind} {name} ({how})"
                                            for kind, name, how in left], tool.errors
        report = tool.json(*command, place, code=code)
        assert report["not_verified"] == [{"kind": kind, "directory": str(place / name),
                                           "command": how} for kind, name, how in left], report
        assert tool.errors == "", tool.errors
    # The named command finds the damage.
    tool.run(*left[0][2].split()[1:], code=FOUND_WRONG)
    for path in (place / "numbers", place / "kept/1", place / "kept/1/rank-0"):
        assert "not_verified" not in tool.json("verify", path)
        tool.run("verify", path)
        assert tool.errors == "", tool.errors


def test_a_number_without_a_commit_record(tool):
    """Is no checkpoint to restart from; beside checkpoints it is named, alone it is none."""
    home = Path(f"{tool.repository}-checkpoints") / "own"
    (home / "7").mkdir()
    (home / "7/results").write_text("none of ours")
    listed = tool.json("checkpoint", "list", home, code=FOUND_WRONG)["checkpoints"]
    assert [(one["number"], one["state"]) for one in listed] == [(1, "complete"), (7, "unrecorded")]
    report = tool.json("checkpoint", "verify", home, code=FOUND_WRONG)
    assert [one["sound"] for one in report["checkpoints"]] == [True, False], report
    for command in (["drop", "--yes", home / "7"], ["export", home / "7", tool.directory / "x"]):
        tool.run("checkpoint", *command, code=CANNOT_READ)
        assert "is no checkpoint" in tool.errors, tool.errors
    assert (home / "7/results").exists()
    shutil.rmtree(home / "1")
    tool.run("checkpoint", "list", home, code=CANNOT_READ)
    (home / ".partial-8").mkdir()
    tool.run("checkpoint", "verify", home / ".partial-8", code=CANNOT_READ)
    assert "no complete checkpoint" in tool.errors, tool.errors


def peak_of(command):
    """Bytes of memory that the command took at most."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_maxrss * 1024


def test_logs_take_memory_for_their_pairs(tool):
    """Not for what they could take, and not for an index of that."""
    logged = str(tool.directory / "logged")
    subprocess.run([tool.make, logged, "logged"], check=True)
    assert len(tool.run("scan", logged).splitlines()) == 10
    others = peak_of([tool.quire, "scan", str(tool.repository / "numbers")])
    for command in ("scan", "verify"):
        assert peak_of([tool.quire, command, logged]) < others + (64 << 20), command


def controls(output):
    """What a terminal would obey in an output, but for the ends of lines and fields."""
    text = output.decode("utf-8", errors="surrogateescape")
    for end in "\n\t\r":
        text = text.replace(end, "")
    return [c for c in text if ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or 0xdc80 <= ord(c) < 0xdd00]


def test_nothing_is_said_to_the_terminal(tool):
    """Names, and what others wrote into locks, reach the terminal escaped, in text and in JSON."""
    evil = "\x1b]0;owned\x07\x1b[31m\n\x7f\u009b\udc9b"
    place = tool.directory / f"run{evil}"
    shutil.copytree(tool.repository, place)
    shutil.copytree(f"{tool.repository}-checkpoints/own/1", place / f"{evil}/1")
    copy_golden("base", place / "particles")
    numbers, one = place / "numbers", place / f"{evil}/1"
    (numbers / "gen-2/rank-1/MANIFEST").unlink()
    (numbers / "LOCK").write_bytes(b"")
    (one / "rank-1/MANIFEST").unlink()
    commands = [["ls", place], ["ls", one], ["stat", place], ["verify", "--progress", place],
                ["repair", numbers], ["get", numbers, f"k{evil}"], ["get", place, "k"],
                ["scan", numbers], ["get", one, "mine"], ["clean", place],
                ["ls", place / "nowhere"], ["doctor", place], ["doctor", place / "nowhere"],
                ["checkpoint", "list", place], ["checkpoint", "verify", "--progress", place],
                ["checkpoint", "drop", one], ["checkpoint", "export", one, place / "copy"],
                ["dataset", "list", place], ["dataset", "verify", place],
                ["dataset", "get", place / "particles", f"k{evil}"], ["stream", "ls", place],
                ["stream", "ls", place, f"s{evil}"], ["stream", "get", place, "numbers", "0", evil],
                ["nothing" + evil], ["checkpoint", "nothing" + evil], ["ls", "--x" + evil, place]]
    with locked(numbers / "LOCK", b"node\x1b[2J pid 1\x9b"):
        for command in commands:
            for json_too in ([], ["--json"]):
                done = subprocess.run([tool.quire, *map(os.fsencode, command), *json_too],
                                      capture_output=True, timeout=60, check=False)
                found = controls(done.stdout) + controls(done.stderr)
                assert not found, (command, done.stdout, done.stderr)
                assert done.stdout or done.stderr, command


if __name__ == "__main__":
    sys.exit(run_cases(dict(globals()), fresh_tool))
