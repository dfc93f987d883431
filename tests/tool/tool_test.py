#!/usr/bin/env python3
"""Runs every command of quire on small repositories: tool_test.py QUIRE MAKE_REPOSITORY

What is printed as text and as JSON is compared; files are damaged, repaired, and verified again.
"""
import contextlib
import fcntl
import json
import os
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
from cases import copy_golden, run_cases  # noqa: E402

FINE, FOUND_WRONG, WRONG_USAGE, CANNOT_READ = range(4)
OTHER_USER = 65534
COMMANDS = ("ls", "stat", "verify", "get", "scan", "repair", "clean", "doctor")


class Tool:
    """The program, and a repository of its own that is made anew on request."""

    def __init__(self, quire, make, directory):
        self.quire, self.make, self.directory = quire, make, Path(directory)
        self.repository = self.directory / "repository"

    def fresh(self):
        subprocess.run([self.make, str(self.repository)], check=True)

    def run(self, *arguments, code=FINE):
        """What it printed on standard output; it has to exit with `code`."""
        done = subprocess.run([self.quire, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        if code in (WRONG_USAGE, CANNOT_READ):
            assert done.stderr, arguments
        self.errors = done.stderr
        return done.stdout

    def json(self, *arguments, code=FINE):
        return json.loads(self.run(*arguments, "--json", code=code))

    def part(self, rank, generation=2):
        return self.repository / f"numbers/gen-{generation}/rank-{rank}"


def flip(path, offset):
    """Changes one byte; a negative offset counts from the end."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def state_of(directory):
    """Every file below, with what it holds."""
    return {str(path.relative_to(directory)): path.read_bytes()
            for path in sorted(directory.rglob("*")) if path.is_file()}


@contextlib.contextmanager
def locked(path, holder=b"node7 pid 12"):
    """The lock on a file, held as another process of Quire would."""
    with open(path, "r+b") as lock:
        lock.write(holder)
        lock.flush()
        ofd_setlk = 37
        fcntl.fcntl(lock, ofd_setlk, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield


def expected_pairs():
    pairs = {f"k{i:03d}": f"new{i}" for i in range(50)}
    pairs.update({f"k{i:03d}": f"old{i}" for i in range(60, 100)})
    pairs.update({"large": "L" * 3000, "logged": "in the log"})
    return pairs


def subcommands(text):
    """Of a --help: the names below Subcommands."""
    lines = text.split("Subcommands:\n")[1].split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines if re.match("  [a-z]", line)]


def options(text):
    """Of a --help: the long names below Options."""
    return set(re.findall(r"^\s+(?:-\w,)?(--[\w-]+)", text, re.MULTILINE))


def test_help(tool):
    groups = {"checkpoint": ("list", "verify", "drop", "export"),
              "dataset": ("list", "get", "scan", "verify"),
              "stream": ("ls", "get", "stat", "verify")}
    assert sorted(subcommands(tool.run("--help"))) == sorted(COMMANDS + tuple(groups))
    for group, below in groups.items():
        assert sorted(subcommands(tool.run(group, "--help"))) == sorted(below)
    document = (Path(__file__).resolve().parents[2] / "docs/tool.md").read_text()
    documented = {row[0]: set(re.findall("`(--[a-z-]+)", row[1])) for row in
                  re.findall(r"^\| `quire ([a-z ]*)` \| (.*) \|$", document, re.MULTILINE)}
    plain = [()] + [(group,) for group in groups]
    pairs = [(group, one) for group, below in groups.items() for one in below]
    for command in plain + [(one,) for one in COMMANDS] + pairs:
        text = tool.run(*command, "--help")
        assert "Examples:" in text and "Exit codes:" in text, command
        example = "  quire " + " ".join(command)
        assert example in text.split("Examples:")[1], command
        if command in plain:
            continue
        assert "--json" in options(text), command
        assert options(text) - {"--help", "--json"} == documented.pop(" ".join(command), set()), \
            command
    assert not documented, documented
    tool.run(code=WRONG_USAGE)
    for line, told in (("nothing", ('"nothing" of quire;', "quire --help")),
                       ("veryfi", ('"verify"?',)), ("dataset", ("quire dataset --help",)),
                       ("--nothing", ("quire --help",)), ("ls --nothing", ("quire ls --help",)),
                       ("get /", ("KEY", "quire get --help")),
                       ("dataset get /", ("KEY", "quire dataset get --help")),
                       ("help nothing", ('"nothing" of quire;',)),
                       ("checkpoint lst /", ('"lst" of quire checkpoint;', '"list"?')),
                       ("stream list /", ('"list" of quire stream;', '"ls"?'))):
        tool.run(*line.split(), code=WRONG_USAGE)
        assert all(text in tool.errors for text in told), tool.errors
    tool.run("ls", code=WRONG_USAGE)
    for line in ("", "scan", "checkpoint", "stream get"):
        words = line.split()
        wanted = tool.run(*words, "--help")
        assert tool.run("help", *words) == wanted, line
        assert line in ("scan", "stream get") or tool.run(*words, "help") == wanted, line
    assert "Nothing is changed without --yes" in tool.run("help"), tool.run("help")
    assert tool.run("--version").strip()[0].isdigit()


def test_values_of_options(tool):
    """Of a value that an option does not take, the option, the value and what it takes are said."""
    numbers, dataset = tool.repository / "numbers", tool.directory / "particles"
    copy_golden("base", dataset)
    scan, pairs = ("scan", numbers), ("dataset", "scan", dataset)
    stream = ("stream", "get", tool.directory, "heat")
    shown = ((("get", numbers, "k"), "text, hex or json"), (scan, "text, hex or json"),
             (("dataset", "get", dataset, "k"), "text, hex or json"),
             ((*pairs, "--epoch", 1), "text, hex or json"),
             ((*stream, 0, "k"), "raw, text or npy"))
    for command, forms in shown:
        for form in ("xml", "1"):
            tool.run(*command, f"--format={form}", code=WRONG_USAGE)
            assert f'--format is "{form}"; it must be {forms};' in tool.errors, tool.errors
        text = tool.run(*[word for word in command if isinstance(word, str)][:2], "--help") \
            if command[0] in ("dataset", "stream") else tool.run(command[0], "--help")
        assert forms in text and "->" not in text, text
    one, zero = "it must be a number, 1 or more;", "it must be a number, 0 or more;"
    for command, option, wanted in ((scan, "--limit", one),
                                    (pairs + ("--epoch", 1), "--limit", one),
                                    (pairs, "--epoch", zero),
                                    (stream + (0, "k"), "--version", one),
                                    (("dataset", "get", dataset, "k"), "--epoch", zero),
                                    (stream + (0, "k"), "--snapshot", one),
                                    (("repair", numbers), "--ranks", one)):
        for value in ("-1", "0", "99999999999999999999", "2x"):
            if value == "0" and wanted == zero:
                continue
            tool.run(*command, f"{option}={value}", code=WRONG_USAGE)
            assert f'{option} is "{value}"; ' in tool.errors, tool.errors
            assert wanted in tool.errors or value[0] == "9", tool.errors
    for command in (stream + ("x", "k"), ("stream", "stat", tool.directory, "heat", "4294967296")):
        tool.run(*command, code=WRONG_USAGE)
        assert "RANK is " in tool.errors, tool.errors


def test_no_room_for_the_output(tool):
    """A full device as standard output is not taken for success."""
    numbers = tool.repository / "numbers"
    for arguments in (["ls", numbers], ["stat", "--json", numbers], ["get", numbers, "k000"],
                      ["scan", numbers], ["verify", numbers], ["repair", numbers],
                      ["checkpoint", "list", f"{tool.repository}-checkpoints"],
                      ["--help"], ["ls", "--help"], ["--version"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([tool.quire, *map(str, arguments)], stdout=full, timeout=60,
                                  stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == CANNOT_READ, (arguments, done)
        assert "standard output cannot be written" in done.stderr, (arguments, done)


def sizes_of(directory, pattern):
    return {path.name: path.stat().st_size for path in Path(directory).glob(pattern)}


def test_ls(tool):
    databases = tool.json("ls", tool.repository)["databases"]
    assert [one["name"] for one in databases] == ["numbers", "own"]
    numbers = databases[0]
    assert numbers["state"] == "ready"
    assert [(one["number"], one["ranks"], one["partitioner"]) for one in numbers["generations"]] \
        == [(2, 3, "hash"), (1, 2, "hash")]
    assert len(numbers["parts"]) == 5 and all(part["here"] for part in numbers["parts"])
    tables = [table for part in numbers["parts"] for run in part["runs"] for table in run]
    assert len(tables) == 5 and sum(table["entries"] for table in tables) == 100 + 62
    assert all(table["smallest_key"].startswith("k") for part in numbers["parts"][3:]
               for run in part["runs"] for table in run)
    for database in databases:
        for part in database["parts"]:
            listed = {f"t-{one['ssid']}.sst": one["bytes"] for run in part["runs"] for one in run}
            assert listed == sizes_of(part["directory"], "t-*.sst"), part
            taken = [path.stat().st_blocks * 512 for path in Path(part["directory"]).iterdir()]
            assert part["allocated_bytes"] == sum(taken), part
    text = tool.run("ls", tool.repository)
    sizes = re.findall(r"t-\d+.sst  (\d+) B  ", text)
    assert sorted(map(int, sizes)) == sorted(
        size for part in tool.repository.glob("*/gen-*/rank-*")
        for size in sizes_of(part, "t-*.sst").values())
    assert "generation 2: 3 ranks, partitioner hash" in text and "t-1.sst" in text
    assert tool.json("ls", tool.repository / "own/gen-1")["databases"][0]["parts"][1]["rank"] == 1
    tool.run("ls", tool.directory / "nowhere", code=CANNOT_READ)
    assert "nowhere" in tool.errors


def test_stat(tool):
    numbers = tool.json("stat", tool.repository / "numbers")["databases"][0]
    total = numbers["total"]
    assert total["entries"] == 162 and total["tombstones"] == 10 and total["tables"] == 5
    assert total["log_records"] == 1 and total["runs"] == 1
    assert total["value_segments"] == 1 and total["referenced_value_bytes"] > 3000
    assert total["space_amplification"] >= 1.0
    assert total["allocated_bytes"] == sum(part["allocated_bytes"] for part in numbers["parts"]) > 0
    assert sum(part["entries"] for part in numbers["parts"]) == 162
    assert "162 entries, 10 tombstones" in tool.run("stat", tool.repository / "numbers")


def test_stat_sizes(tool):
    """What is told is what lies there, and what was written."""
    for database in tool.json("stat", tool.repository)["databases"]:
        total = database["total"]
        for part in database["parts"]:
            directory = tool.repository / \
                f"{database['name']}/gen-{part['generation']}/rank-{part['rank']}"
            tables, values = (sizes_of(directory, kind) for kind in ("t-*.sst", "val-*.seg"))
            assert part["tables"] == len(tables) and part["value_segments"] == len(values), part
            assert part["table_bytes"] == sum(tables.values()), part
            assert part["value_segment_bytes"] == sum(values.values()), part
            assert part["read_amplification"] == part["runs"], part
        for name in ("tables", "table_bytes", "raw_bytes", "value_segments", "value_segment_bytes",
                     "referenced_value_bytes", "tables_written"):
            assert total[name] == sum(part[name] for part in database["parts"]), name
    numbers, own = tool.json("stat", tool.repository)["databases"]
    older = [part for part in numbers["parts"] if part["generation"] == 1]
    assert sum(part["raw_bytes"] for part in older) == \
        sum(len(f"k{i:03d}old{i}") for i in range(100))
    # With 10 deleted keys, a binary pair, and a key whose value lies apart.
    newer = sum(len(f"k{i:03d}new{i}") for i in range(50)) + 40 + 10 + len("large")
    assert 0 < numbers["total"]["raw_bytes"] - sum(part["raw_bytes"] for part in older) - newer < 64
    assert 3000 < numbers["total"]["referenced_value_bytes"] < 3100
    assert numbers["total"]["read_amplification"] == 1
    ratio = lambda sums: (sums["table_bytes"] + sums["value_segment_bytes"]) / \
        (sums["table_bytes"] + sums["referenced_value_bytes"])
    assert abs(numbers["total"]["space_amplification"] - ratio(numbers["total"])) < 1e-9
    # Two runs: the older one is what a full merge would leave, as far as is known.
    part = own["parts"][1]
    assert part["runs"] == own["total"]["read_amplification"] == 2
    lies = part["table_bytes"] + part["value_segment_bytes"]
    oldest = sizes_of(tool.repository / "own/gen-1/rank-1", "t-1.sst")["t-1.sst"]
    assert abs(part["space_amplification"] - lies / oldest) < 1e-9
    text = tool.run("stat", tool.repository / "own")
    assert f"space amplification at most {lies / oldest:.2f}, a get looks into at most 2 " in text


def test_stat_damaged(tool):
    """Of a table that lacks its end, or is not there, the part is named; the others are told."""
    table = tool.part(1) / "t-1.sst"
    sound = table.read_bytes()
    for damage in ("cut", "footer", "gone"):
        if damage == "gone":
            table.unlink()
        else:
            table.write_bytes(sound[:-1] if damage == "cut" else sound[:-5] + b"\0" * 5)
        report = tool.json("stat", tool.repository / "numbers", code=FOUND_WRONG)["databases"][0]
        problems = {(part["generation"], part["rank"]): part["problem"]
                    for part in report["parts"] if "problem" in part}
        assert list(problems) == [(2, 1)] and str(table) in problems[2, 1], (damage, problems)
        assert report["parts"][0]["entries"] == 22, report
        assert str(table) in tool.run("stat", tool.repository / "numbers", code=FOUND_WRONG)
    table.write_bytes(sound)
    # In the middle it is not looked at: that is what verify does.
    flip(table, 50)
    tool.run("stat", tool.repository / "numbers")
    flip(tool.part(0) / "MANIFEST", 30)
    report = tool.json("stat", tool.repository / "numbers", code=FOUND_WRONG)["databases"][0]
    assert "MANIFEST" in report["parts"][0]["problem"], report["parts"][0]


def test_get(tool):
    numbers = tool.repository / "numbers"
    assert tool.run("get", numbers, "k000", "k099", "logged") == "new0\nold99\nin the log\n"
    assert tool.run("get", numbers, "k055", "k000", code=FOUND_WRONG) == "new0\n"
    assert tool.errors == 'quire: key "k055" is not there\n', tool.errors
    assert tool.run("get", numbers, "large") == "L" * 3000 + "\n"
    assert tool.run("get", "--hex", numbers, "00ff01") == "binary\\x0a\n"
    assert tool.run("get", "--hex", "--format=hex", numbers, "00ff01") == b"binary\n".hex() + "\n"
    lines = tool.run("get", "--json", "--hex", numbers, "00FF01", b"k001".hex()).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"key_hex": "00ff01", "found": True, "value_hex": b"binary\n".hex()},
        {"key": "k001", "found": True, "value": "new1"}]
    assert json.loads(tool.run("get", "--format", "json", numbers, "nothing", code=FOUND_WRONG)) \
        == {"key": "nothing", "found": False}
    # A rule of the program's own: all ranks are asked.
    assert tool.run("get", tool.repository / "own", "mine") == "on rank 1\n"
    tool.run("get", "--hex", numbers, "0x", code=WRONG_USAGE)
    tool.run("get", tool.repository, "k000", code=WRONG_USAGE)
    assert "numbers, own" in tool.errors
    tool.run("get", tool.directory, "k000", code=CANNOT_READ)


def test_scan(tool):
    numbers = tool.repository / "numbers"
    lines = [json.loads(line) for line in tool.run("scan", "--json", numbers).splitlines()]
    formatted = tool.run("scan", "--format", "json", numbers).splitlines()
    assert [json.loads(line) for line in formatted] == lines
    assert tool.run("scan", "--format", "json", "--keys", "--from", "k1", numbers).splitlines() == \
        ['{"key":"large"}', '{"key":"logged"}']
    assert lines[0] == {"key_hex": "00ff01", "value_hex": b"binary\n".hex()}
    assert {line["key"]: line["value"] for line in lines[1:]} == expected_pairs()
    assert [line["key"] for line in lines[1:]] == sorted(expected_pairs())
    assert tool.run("scan", "--from", "k048", "--to", "k062", numbers) == \
        "k048\tnew48\nk049\tnew49\nk060\told60\nk061\told61\n"
    assert tool.run("scan", "--keys", "--from", "k1", "--limit", "1", numbers) == "large\n"
    assert tool.run("scan", "--keys", "--limit", "2", "--format", "hex", numbers) == \
        "00ff01\n" + b"k000".hex() + "\n"
    assert tool.run("scan", "--hex", "--from", b"logged".hex(), numbers) == "logged\tin the log\n"


def test_verify(tool):
    report = tool.json("verify", tool.repository)
    assert report["sound"] and report["findings"] == [] and report["parts"] == 7
    assert report["tables"] == 7 and report["values"] == 2 and report["log_records"] == 1
    assert tool.run("verify", tool.repository).startswith("sound: 7 parts, 7 tables")
    assert tool.errors == ""     # no terminal, no progress
    tool.run("verify", "--progress", tool.repository)
    assert "100 %" in tool.errors
    table = next(tool.part(1).glob("t-*.sst"))
    flip(table, 50)
    report = tool.json("verify", tool.repository, code=FOUND_WRONG)
    assert not report["sound"] and [one["path"] for one in report["findings"]] == [str(table)]
    assert report["findings"][0]["kind"] == "table"
    assert str(table) in tool.run("verify", tool.repository, code=FOUND_WRONG)
    flip(table, 50)
    shutil.move(tool.part(0, 1), tool.directory / "away")
    report = tool.json("verify", tool.repository, code=FOUND_WRONG)
    assert "not here" in report["findings"][0]["problem"]
    tool.run("get", tool.repository / "numbers", "nothing1", "nothing2", "nothing3", "nothing4",
             "nothing5", "nothing6", "nothing7", "nothing8", code=CANNOT_READ)
    shutil.move(tool.directory / "away", tool.part(0, 1))
    flip(tool.repository / "numbers/DATABASE", 30)
    report = tool.json("verify", tool.repository, code=FOUND_WRONG)
    assert report["findings"][0]["kind"] == "descriptor"
    assert "problem" in tool.json("ls", tool.repository, code=FOUND_WRONG)["databases"][0]


def test_looking_changes_nothing(tool):
    checkpoints = tool.directory / "repository-checkpoints"
    before = state_of(tool.directory)
    for command in ("ls", "stat", "verify", "scan", "repair"):
        tool.run(command, tool.repository / "numbers")
    tool.run("get", tool.repository / "numbers", "k000", "large")
    for command in ("list", "verify"):
        tool.run("checkpoint", command, checkpoints)
    report = subprocess.run([tool.quire, "doctor", str(tool.repository)], capture_output=True,
                            timeout=60, check=False)
    assert report.returncode in (FINE, FOUND_WRONG), report
    assert state_of(tool.directory) == before


def test_repair(tool):
    numbers = tool.repository / "numbers"
    assert tool.json("repair", numbers) == {
        "needed": False, "done": False, "parts": tool.json("repair", numbers)["parts"]}
    (tool.part(0) / "MANIFEST").unlink()
    flip(tool.part(1) / "t-1.sst", 50)
    before = state_of(tool.repository)
    planned = tool.json("repair", numbers, code=FOUND_WRONG)
    assert planned["needed"] and not planned["done"]
    assert "to do: " in tool.run("repair", numbers, code=FOUND_WRONG)
    assert state_of(tool.repository) == before
    done = tool.json("repair", "--yes", numbers, code=FOUND_WRONG)
    assert done["done"]
    losses = "\n".join(loss for part in done["parts"] for loss in part["losses"])
    assert "t-" in losses and "deleted keys may be back" in losses
    assert [path.name for path in (numbers / "lost").iterdir()] == ["gen-2.rank-1.t-1.sst"]
    assert tool.json("verify", numbers)["sound"]
    assert tool.json("repair", numbers)["needed"] is False
    lines = tool.run("scan", "--from", "k", numbers).splitlines()
    pairs = dict(line.split("\t") for line in lines)
    wanted = expected_pairs()
    # What is lost shows older values, and keys whose deletion is lost are back; the rest is whole.
    assert all(pairs[key] in (wanted.get(key), f"old{int(key[1:])}") for key in pairs
               if key[0] == "k")
    assert sum(pairs[key] == wanted.get(key) for key in pairs) > 60


def test_relative_paths(tool):
    """A part is named from within it; what it loses goes beside it, not into it."""
    flip(tool.part(1) / "t-1.sst", 50)
    done = subprocess.run([tool.quire, "repair", "--yes", "."], cwd=tool.part(1), check=False,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == FOUND_WRONG, done
    assert [path.name for path in (tool.part(1) / "../lost").iterdir()] == \
        ["gen-0.rank-1.t-1.sst"]
    done = subprocess.run([tool.quire, "checkpoint", "list", "1"], check=True, timeout=60,
                          cwd=tool.directory / "repository-checkpoints/own", capture_output=True,
                          text=True)
    assert done.stdout.startswith("own 1  complete")


def test_open_elsewhere(tool):
    with locked(tool.part(2) / "LOCK"):
        tool.run("repair", tool.repository / "numbers", code=CANNOT_READ)
        assert "process 12 on host node7" in tool.errors
        parts = tool.json("stat", tool.repository / "numbers")["databases"][0]["parts"]
        assert parts[2]["open_in"].startswith("node7 pid 12")
        tool.run("scan", tool.repository / "numbers")


def test_drop_of_what_is_no_checkpoint(tool):
    results = tool.directory / "results"
    for name in ("2024/rank-0", "2025"):
        (results / name).mkdir(parents=True)
        (results / name / "MANIFEST").write_text("a result")
    before = state_of(results)
    for name in ("2024", "2025"):
        for yes in ([], ["--yes"]):
            tool.run("checkpoint", "drop", *yes, results / name, code=CANNOT_READ)
            assert "is no checkpoint" in tool.errors, tool.errors
    assert state_of(results) == before


def test_checkpoint(tool):
    checkpoints = tool.directory / "repository-checkpoints"
    one = checkpoints / "own/1"
    begun, written = checkpoints / "own/.partial-2", checkpoints / "own/.partial-3"
    for directory in (begun, written):
        directory.mkdir()
        (directory / "LOCK").write_text("somebody")
    with locked(written / "LOCK"):
        for named in (checkpoints, checkpoints / "own"):
            listed = tool.json("checkpoint", "list", named)["checkpoints"]
            assert [(item["number"], item["state"]) for item in listed] == \
                [(1, "complete"), (2, "failed"), (3, "partial")]
        assert listed[0]["ranks"] == 2 and listed[0]["partitioner"] == "mine"
        assert "own 1  complete  2 ranks" in tool.run("checkpoint", "list", checkpoints)
        tool.run("checkpoint", "drop", "--yes", written, code=CANNOT_READ)
    assert tool.json("checkpoint", "verify", checkpoints)["sound"]
    assert "sound" in tool.run("checkpoint", "verify", one)
    # What a checkpoint holds is looked at as any database.
    assert tool.run("get", one, "mine") == "on rank 1\n"
    assert tool.run("scan", "--keys", one) == "mine\nmine too\n"
    assert tool.json("verify", one)["sound"]
    # Without a rank's part it is not taken for a smaller one.
    part_gone = tool.directory / "part gone/own/1"
    shutil.copytree(one, part_gone)
    shutil.rmtree(part_gone / "rank-1")
    report = tool.json("verify", part_gone, code=FOUND_WRONG)
    assert report["findings"][0]["path"].endswith("rank-1"), report
    for command in ("scan",), ("get", "mine"):
        tool.run(command[0], part_gone, *command[1:], code=CANNOT_READ)
        assert "rank-1" in tool.errors, tool.errors
    # A copy is whole, or not there, and then neither is anything that was made for it.
    archive = tool.directory / "archive"
    broken = tool.directory / "broken"
    shutil.copytree(one, broken / "own/1")
    files = [path for path in (broken / "own/1/rank-1").iterdir() if path.name != "FILES"]
    damaged = max(files, key=lambda path: path.stat().st_size)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    tool.run("checkpoint", "export", broken / "own/1", archive, code=FOUND_WRONG)
    assert damaged.name in tool.errors, tool.errors
    assert not archive.exists()
    shutil.rmtree(broken)
    assert tool.run("checkpoint", "export", one, archive).strip() == str(archive / "own/1")
    assert state_of(archive / "own/1") == state_of(one)
    tool.run("checkpoint", "export", one, archive, code=WRONG_USAGE)
    assert tool.json("checkpoint", "export", one, tool.directory / "third") == \
        {"directory": str(tool.directory / "third/own/1")}
    assert state_of(tool.directory / "third/own/1") == state_of(one)
    assert tool.errors == ""     # no terminal, no progress
    tool.run("checkpoint", "export", "--progress", one, tool.directory / "fourth")
    assert "100 %" in tool.errors
    tool.run("checkpoint", "verify", one)
    assert tool.errors == ""
    tool.run("checkpoint", "verify", "--progress", one)
    assert "100 %" in tool.errors
    value = next((one / "rank-1").glob("val-*.seg"))
    flip(value, -1000)
    report = tool.json("checkpoint", "verify", checkpoints, code=FOUND_WRONG)
    assert [item["path"] for item in report["checkpoints"][0]["findings"]] == [str(value)]
    tool.run("checkpoint", "export", one, tool.directory / "second", code=FOUND_WRONG)
    assert not (tool.directory / "second/own/1").exists()
    assert tool.json("checkpoint", "verify", archive)["sound"]
    flip(archive / "own/1/CHECKPOINT", 30)
    tool.run("checkpoint", "list", archive, code=FOUND_WRONG)
    # Dropped only when told to.
    tool.run("checkpoint", "drop", one, code=FOUND_WRONG)
    state = state_of(tool.directory)
    wanted = [{"database": "own", "number": number, "state": state, "directory": str(directory)}
              for number, state, directory in ((1, "complete", one), (2, "failed", begun))]
    assert tool.json("checkpoint", "drop", one, begun, code=FOUND_WRONG) == \
        {"done": False, "checkpoints": wanted}
    assert state_of(tool.directory) == state
    assert tool.json("checkpoint", "drop", "--yes", one, begun) == \
        {"done": True, "checkpoints": wanted}
    assert not one.exists() and not begun.exists() and written.exists()
    tool.run("checkpoint", "drop", "--yes", one, code=CANNOT_READ)
    tool.run("checkpoint", "list", tool.directory / "nowhere", code=CANNOT_READ)


def test_dropped_half(tool):
    """A removal of a checkpoint that was cut short is told, and goes on."""
    home = tool.directory / "repository-checkpoints/own"
    dropped = home / ".dropped-1"
    for goes_on in (("checkpoint", "drop", "--yes", dropped),
                    ("clean", "--yes", "--shared-memory", tool.directory, home.parent)):
        (home / "1").rename(dropped)
        saved = tool.directory / "saved"
        shutil.copytree(dropped, saved, dirs_exist_ok=True)
        (dropped / "CHECKPOINT").unlink()
        (dropped / "rank-0/FILES").unlink()
        assert tool.json("checkpoint", "list", home)["checkpoints"] == \
            [{"database": "own", "number": 1, "state": "dropped", "directory": str(dropped)}]
        assert "own 1  dropped" in tool.run("checkpoint", "list", home)
        tool.run("checkpoint", "verify", home, code=CANNOT_READ)
        assert "no complete checkpoint" in tool.errors, tool.errors
        tool.run("checkpoint", "export", dropped, tool.directory / "archive", code=WRONG_USAGE)
        assert not (tool.directory / "archive").exists()
        tool.run(*goes_on)
        assert list(home.iterdir()) == [], goes_on
        assert tool.run("checkpoint", "list", home) == "no checkpoints\n"
        shutil.copytree(saved, home / "1")
    assert tool.json("checkpoint", "verify", home)["sound"]


def test_export_without_room(tool):
    """No file may become large enough: nothing is left. What a killed one left can be removed."""
    one = tool.directory / "repository-checkpoints/own/1"

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    done = subprocess.run([tool.quire, "checkpoint", "export", one, tool.directory / "small"],
                          capture_output=True, text=True, timeout=60, check=False,
                          preexec_fn=small_files)
    assert done.returncode == CANNOT_READ and "val-1.seg" in done.stderr, done
    assert "ulimit -f" in done.stderr and done.stdout == "", done
    assert not (tool.directory / "small").exists()
    (tool.directory / "small/own/.partial-1").mkdir(parents=True)
    tool.run("checkpoint", "export", one, tool.directory / "small", code=WRONG_USAGE)
    assert "quire clean" in tool.errors
    tool.run("clean", "--yes", "--shared-memory", tool.directory, tool.directory / "small")
    tool.run("checkpoint", "export", one, tool.directory / "small")
    assert tool.json("checkpoint", "verify", tool.directory / "small")["sound"]


def test_repair_descriptor(tool):
    """A lost DATABASE is made anew where the keys say what stood in it, or the user does."""
    numbers, own = tool.repository / "numbers", tool.repository / "own"
    original = (numbers / "DATABASE").read_bytes()
    before = dict(line.split("\t") for line in tool.run("scan", numbers).splitlines())

    def generations():
        return [line for line in (numbers / "DATABASE").read_text().splitlines()
                if line.startswith("generation.")]
    wanted = generations()
    for damage in ("missing", "damaged"):
        if damage == "missing":
            (numbers / "DATABASE").unlink()
        else:
            flip(numbers / "DATABASE", 30)
        tool.run("scan", numbers, code=FOUND_WRONG)
        assert "DATABASE" in tool.run("verify", numbers, code=FOUND_WRONG)
        listed = tool.json("ls", tool.repository, code=FOUND_WRONG)["databases"]
        assert {one["name"] for one in listed} == {"numbers", "own"}
        state = state_of(tool.repository)
        planned = tool.json("repair", numbers, code=FOUND_WRONG)
        assert state_of(tool.repository) == state
        done = tool.json("repair", "--yes", numbers, code=FOUND_WRONG)
        assert planned["parts"][-1]["steps"] == done["parts"][-1]["steps"]
        assert generations() == wanted
        assert (numbers / "lost/DATABASE").exists() == (damage == "damaged")
        assert tool.json("verify", numbers)["sound"]
        assert dict(line.split("\t") for line in tool.run("scan", numbers).splitlines()) == before
    # With a damaged part as well: that first.
    (numbers / "DATABASE").unlink()
    (tool.part(0) / "MANIFEST").unlink()
    planned = tool.json("repair", numbers, code=FOUND_WRONG)
    assert "of the repaired parts" in planned["parts"][-1]["steps"][0]
    tool.json("repair", "--yes", numbers, code=FOUND_WRONG)
    assert generations() == wanted
    # Only rank 0's part is here, as on its node: its keys could be those of any number of ranks.
    (numbers / "DATABASE").unlink()
    for rank in (1, 2):
        shutil.move(tool.part(rank), tool.directory / f"away-{rank}")
    tool.run("repair", "--yes", numbers, code=WRONG_USAGE)
    assert "--ranks" in tool.errors and not (numbers / "DATABASE").exists()
    tool.run("repair", "--yes", "--ranks", 3, numbers, code=WRONG_USAGE)
    tool.run("repair", "--yes", "--ranks", 3, "--partitioner", "hash", numbers, code=FOUND_WRONG)
    assert generations() == wanted
    for rank in (1, 2):
        shutil.move(tool.directory / f"away-{rank}", tool.part(rank))
    # The highest rank's part is gone: the keys of the others do not agree with fewer ranks.
    (numbers / "DATABASE").unlink()
    shutil.move(tool.part(2), tool.directory / "away")
    tool.run("repair", "--yes", numbers, code=WRONG_USAGE)
    assert "--ranks" in tool.errors and not (numbers / "DATABASE").exists()
    tool.run("repair", "--yes", "--ranks", 3, "--partitioner", "hash", numbers, code=FOUND_WRONG)
    assert generations() == wanted
    shutil.move(tool.directory / "away", tool.part(2))
    # A rule of the program's own.
    (own / "DATABASE").unlink()
    tool.run("repair", "--yes", own, code=WRONG_USAGE)
    assert "--partitioner" in tool.errors
    tool.run("repair", "--yes", "--partitioner", "mine", own, code=WRONG_USAGE)
    assert "--ranks" in tool.errors
    tool.run("repair", "--yes", "--ranks", 2, "--partitioner", "mine", own, code=FOUND_WRONG)
    assert "generation.1 = 2 mine" in (own / "DATABASE").read_text()
    # On another rank's node no DATABASE is missed.
    (numbers / "DATABASE").unlink()
    shutil.rmtree(tool.part(0))
    assert tool.json("verify", numbers)["sound"]
    assert tool.json("repair", "--yes", numbers)["needed"] is False
    (numbers / "DATABASE").write_bytes(original)


def test_dataset(tool):
    """Datasets as src/dataset/calls/golden_test.cpp says what they hold."""
    datasets = tool.directory / "datasets"
    copy_golden("", datasets)
    listed = tool.json("dataset", "list", datasets)["datasets"]
    assert [one["format"] for one in listed] == ["base", "base", "bloom", "cuckoo", "pointer",
                                                 "ribbon", "ribbon"]
    assert [one["partitioner"] for one in listed] == ["hash", "by the last byte", "hash", "hash",
                                                      "hash", "hash", "by the last byte"]
    assert listed[0]["epochs"][1] == {"epoch": 5, "ranks": 2, "pairs": 42,
                                      "unix_time": listed[0]["epochs"][1]["unix_time"]}
    assert tool.json("ls", datasets)["datasets"] == [one["directory"] for one in listed]
    for one in listed:
        assert tool.run("dataset", "get", one["directory"], "k3") == "1\t0\tv1.1\n5\t0\tv5.1\n"
        assert tool.run("dataset", "get", "--epoch", 5, one["directory"], "both") == \
            "5\t0\trank0\n5\t1\trank1\n"
        lines = tool.run("dataset", "scan", "--epoch", 1, "--json", one["directory"]).splitlines()
        assert len(lines) == 42 and json.loads(lines[0])["key"] == "both"
        assert len(tool.run("dataset", "scan", "--epoch", 1, "--limit", 3, "--keys",
                            one["directory"]).splitlines()) == 3
        tool.run("dataset", "get", one["directory"], "nobody", code=FOUND_WRONG)
        tool.run("dataset", "get", "--epoch", 2, one["directory"], "k3", code=CANNOT_READ)
        tool.run("dataset", "scan", "--epoch", 2, one["directory"], code=CANNOT_READ)
        assert tool.json("dataset", "verify", one["directory"]) == {"sound": True, "epochs": 2,
                                                                    "findings": []}
        part = Path(one["directory"]) / "part-1"
        flip(part, 100)
        report = tool.json("dataset", "verify", one["directory"], code=FOUND_WRONG)
        assert str(part) in report["findings"][0]["problem"], report
    tool.run("dataset", "list", tool.repository, code=CANNOT_READ)
    tool.run("dataset", "verify", tool.repository, code=CANNOT_READ)


def test_nothing_there(tool):
    """A directory without a database is a mistake, and none that is sound."""
    empty = tool.directory / "empty"
    empty.mkdir()
    for command in ("ls", "stat", "verify", "repair"):
        tool.run(command, empty, code=CANNOT_READ)
        assert "no database" in tool.errors


def test_repair_leaves_checkpoints(tool):
    """What belongs to a checkpoint is not changed: its sums would not fit any more."""
    checkpoint = Path(f"{tool.repository}-checkpoints") / "own/1"
    (checkpoint / "rank-0/MANIFEST").unlink()
    before = state_of(checkpoint)
    for place in (checkpoint, checkpoint / "rank-0"):
        tool.run("repair", "--yes", place, code=CANNOT_READ)
        assert "checkpoint" in tool.errors
    assert state_of(checkpoint) == before


def test_doctor(tool):
    done = subprocess.run([tool.quire, "doctor", "--json", str(tool.directory)],
                          capture_output=True, text=True, timeout=60, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == (FINE if report["ready"] else FOUND_WRONG)
    checks = {one["check"]: one for one in report["checks"]}
    sound = {"processor", "cores", "memory", "writable", "locks", "rename", "mapped files",
             "directory sync", "room set aside (fallocate)"}
    assert sound <= set(checks), checks.keys()
    for name in sound:
        assert checks[name]["level"] == "ok", checks[name]
    told = sound | {"mpi", "open files (ulimit -n)", "processes (ulimit -u)",
                    "locked memory (ulimit -l)", "shared memory", "file system", "free space",
                    "sync", "hard links", "nameless files (O_TMPFILE)"}
    sometimes = {"mpi ranks", "mpi threads", "shared memory left behind"}
    assert told <= set(checks) <= told | sometimes, set(checks) ^ told
    assert len(checks) == len(report["checks"])
    assert all(one["todo"] for one in report["checks"] if one["level"] != "ok")
    assert not list(tool.directory.glob(".quire-doctor*"))
    report = tool.json("doctor", tool.directory / "nowhere", code=FOUND_WRONG)
    assert not report["ready"]
    # Without MPI, and with few files, it says so and what to do.
    done = subprocess.run(["bash", "-c", 'ulimit -n 64; PATH=/nowhere "$0" "$@"', tool.quire,
                           "doctor", tool.directory], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == FOUND_WRONG
    assert "neither mpiexec nor mpirun" in done.stdout and "ulimit -n 4096" in done.stdout


def doctor_with(tool, launcher):
    """The checks of MPI where mpiexec is the script `launcher`."""
    program = tool.directory / "bin/mpiexec"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{launcher}\n")
    program.chmod(0o755)
    done = subprocess.run([tool.quire, "doctor", "--json", str(tool.directory)], timeout=60,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"})
    checks = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    return checks["mpi ranks"], checks.get("mpi threads")


def test_doctor_mpi(tool):
    """Two ranks are started with the launcher in PATH; what comes of that is told."""
    mpirun = shlex.quote(str(Path(__file__).resolve().parents[2] / "scripts/mpirun"))
    ranks, threads = doctor_with(tool, f'exec {mpirun} "$@"')
    assert ranks["level"] == "ok" and "MPI" in ranks["what"], ranks
    assert threads["level"] == "ok" and threads["what"] == "MPI_THREAD_MULTIPLE", threads
    version = '[ "$1" = --version ] && echo "Some MPI 1" && exit; '
    # The launcher of another MPI starts programs that each are alone.
    ranks, threads = doctor_with(tool, version + f'{mpirun} -n 1 "$3"; {mpirun} -n 1 "$3"')
    assert ranks["level"] == "wrong" and "do not find each other" in ranks["what"], ranks
    says = 'echo "quire-mpi-probe: ranks 2, level MPI_THREAD_FUNNELED, Some MPI 1"'
    ranks, threads = doctor_with(tool, version + says)
    assert ranks["level"] == "ok" and threads["level"] == "note", (ranks, threads)
    for failing in ("echo no slots; exit 1", "echo no slots", "exec 0<&-; kill -9 $$"):
        ranks, threads = doctor_with(tool, version + failing)
        assert ranks["level"] == "wrong" and "by hand" in ranks["todo"], ranks
        assert "no slots" in ranks["what"] or "kill" in failing, ranks


def test_no_mpi(tool):
    needed = subprocess.run(["ldd", tool.quire], capture_output=True, text=True, check=False).stdout
    assert "libmpi" not in needed and "libmpich" not in needed, needed


def fresh_tool(directory):
    """The command, and a repository of its own."""
    tool = Tool(*sys.argv[1:], directory)
    tool.fresh()
    return tool


if __name__ == "__main__":
    sys.exit(run_cases(dict(globals()), fresh_tool))
