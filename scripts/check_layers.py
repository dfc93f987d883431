#!/usr/bin/env python3
"""Fails when a folder under src/ includes what its CMakeLists.txt does not name.

The truth is the call quire_module(name ROOMS ... DEPS ... LIBS ...) of each folder: it may include
the modules that DEPS reaches, and third-party headers of its LIBS. DEPS must stand before the
folder in the list of src/CMakeLists.txt, so that no floor uses a higher one. ROOMS are its folders,
lowest first: a room includes itself and lower ones. Tests and their helpers may include all.

    check_layers.py [--root DIR]     prints each violation, fails if there is one
    check_layers.py --self-test      shows that each rule can fail
"""
import argparse
import re
import sys
import tempfile
from pathlib import Path

# Which library a third-party header belongs to; the first pattern that matches decides.
THIRD_PARTY = [
    (r"mpi\.h", "mpi"), (r"lz4.*\.h", "lz4"), (r"zstd.*\.h", "zstd"), (r"xxhash\.h", "xxhash"),
    (r"zlib\.h", "zlib"), (r"rocksdb/.*", "rocksdb"), (r"leveldb/.*", "leveldb"),
    (r"libpmem.*\.h", "pmem"), (r"nlohmann/.*", "nlohmann_json"), (r"CLI/.*", "cli11"),
]
# Libraries that one folder alone may use, so that there is one place that knows them.
ONLY_IN = {"mpi": {"comm"}, "pmem": {"io"}}
# A folder that one file alone of another may include: the engine of databases' parts.
NAMED_BY = {("kv", "lsm"): "src/kv/protocol/part_engine.cpp"}
# The public headers that take a communicator.
MPI_HEADERS = {"include/quire/mpi.h", "include/quire/quire_mpi.h", "include/papyrus/mpi.h"}
# Compositions that stand side by side and must not know each other.
STRANGERS = {"kv", "dataset", "stream"}
KEYWORDS = {"ROOMS", "SOURCES", "TESTS", "FUZZERS", "DEPS", "LIBS"}
SOURCE_SUFFIXES = {".h", ".cpp", ".c", ".inc"}


def cmake_words(text):
    """The words of a CMake file's text, comments removed."""
    return re.sub(r"#[^\n]*", "", text).replace('"', " ").split()


def expand(words, text):
    """Replaces ${x} by all words that set() and list(APPEND) give x."""
    result = []
    for word in words:
        variable = re.fullmatch(r"\$\{(\w+)\}", word)
        if not variable:
            result.append(word)
            continue
        name = variable.group(1)
        for call in re.finditer(rf"(?:set\(|list\(APPEND)\s*{name}\s([^)]*)\)", text):
            result += cmake_words(call.group(1))
    return result


def read_module(path):
    """(name, {keyword: [words]}) of the quire_module call in a CMakeLists.txt, or None."""
    text = re.sub(r"#[^\n]*", "", path.read_text())
    call = re.search(r"quire_module\(([^)]*)\)", text)
    if not call:
        return None
    words = cmake_words(call.group(1))
    name, keyword, values = words[0], None, {key: [] for key in KEYWORDS}
    for word in words[1:]:
        if word in KEYWORDS:
            keyword = word
        elif keyword:
            values[keyword].append(word)
    return name, {key: expand(value, text) for key, value in values.items()}


def read_modules(root, problems):
    modules = {}
    for path in sorted((root / "src").glob("*/CMakeLists.txt")):
        module = read_module(path)
        if module is None or module[0] != path.parent.name:
            problems.append(f"{path.relative_to(root)}: no quire_module({path.parent.name} ...)")
        else:
            modules[module[0]] = module[1]
    return modules


def closure(name, modules):
    reached, waiting = set(), [name]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += modules.get(module, {"DEPS": []})["DEPS"]
    return reached


def check_floors(root, modules, problems):
    order = cmake_words((root / "src/CMakeLists.txt").read_text().split("ITEMS")[1].split(")")[0])
    for name, module in modules.items():
        if name not in order:
            problems.append(f"src/{name}: not in the list of src/CMakeLists.txt")
            continue
        for dep in module["DEPS"]:
            if dep not in order or order.index(dep) >= order.index(name):
                problems.append(f"src/{name}/CMakeLists.txt: {dep} is not on a lower floor")
    for name in STRANGERS & modules.keys():
        for other in sorted((closure(name, modules) & STRANGERS) - {name}):
            problems.append(f"src/{name}/CMakeLists.txt: {name} must not know {other}")


def includes(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found.group(2)


def third_party(header):
    return next((lib for pattern, lib in THIRD_PARTY if re.fullmatch(pattern, header)), None)


def check_library(where, relative, header, libs, problems):
    lib = third_party(header)
    if lib is None:
        return
    folder = relative.split("/")[1]
    if lib not in libs:
        problems.append(f"{where}: <{header}> needs {lib} in LIBS")
    if folder not in ONLY_IN.get(lib, {folder}):
        problems.append(f"{where}: <{header}> is for src/{' and src/'.join(ONLY_IN[lib])} only")


def check_source(root, path, name, modules, problems):
    relative = str(path.relative_to(root))
    allowed = closure(name, modules)
    known = {folder.name for folder in (root / "src").iterdir() if folder.is_dir()}
    libs = {lib for module in allowed for lib in modules.get(module, {"LIBS": []})["LIBS"]}
    is_test = path.stem.endswith(("_test", "_fuzz"))
    for number, header in includes(path):
        where = f"{relative}:{number}"
        first = header.split("/")[0]
        if "/" in header and first in known and first not in allowed:
            problems.append(f"{where}: {name} includes {header}, but {first} is not in its DEPS")
        elif is_product(path) and NAMED_BY.get((name, first), relative) != relative:
            problems.append(f"{where}: {name} names {first} in {NAMED_BY[name, first]} only")
        elif first in ("bench", "tools", "examples") or (first == "tests" and not is_test):
            problems.append(f"{where}: the library must not include {header}")
        check_library(where, relative, header, libs, problems)


def is_product(path):
    return not re.search(r"_(test|fuzz|bench|testing)$", path.stem)


def check_rooms(root, path, name, rooms, problems):
    """A module with rooms has no source beside them, and none of them includes a higher one."""
    inside = path.relative_to(root / "src" / name).parts
    where = path.relative_to(root)
    if inside[0] not in rooms or len(inside) < 2:
        problems.append(f"{where}: it belongs to one of the rooms {' '.join(rooms)}")
        return
    for number, header in includes(path):
        parts = header.split("/")
        if parts[0] != name or len(parts) < 3 or not is_product(path):
            continue
        if parts[1] not in rooms or rooms.index(parts[1]) > rooms.index(inside[0]):
            problems.append(f"{where}:{number}: {inside[0]} includes {header} of a higher room")


def check_public_header(root, path, problems):
    relative = str(path.relative_to(root))
    for number, header in includes(path):
        where = f"{relative}:{number}"
        lib = third_party(header)
        if lib == "mpi" and relative in MPI_HEADERS:
            continue
        if lib is not None:
            problems.append(f"{where}: a public header shows no third-party type ({header})")
        elif "/" in header and not header.startswith(("quire/", "sys/")):
            problems.append(f"{where}: a public header includes only public headers ({header})")


def check(root):
    problems = []
    modules = read_modules(root, problems)
    if not modules:
        problems.append("no modules found under src/")
        return problems
    check_floors(root, modules, problems)
    for folder in sorted((root / "src").iterdir()):
        sources = [path for path in folder.rglob("*") if path.suffix in SOURCE_SUFFIXES]
        if sources and folder.name not in modules:
            problems.append(f"src/{folder.name}: sources, but no CMakeLists.txt")
        elif folder.is_dir():
            for path in sorted(sources):
                check_source(root, path, folder.name, modules, problems)
                rooms = modules[folder.name]["ROOMS"]
                if rooms:
                    check_rooms(root, path, folder.name, rooms, problems)
    for path in sorted((root / "include").rglob("*.h")):
        check_public_header(root, path, problems)
    return problems


def self_test():
    good = {
        "src/CMakeLists.txt": "foreach(f IN ITEMS base io comm lsm kv stream)",
        "src/base/CMakeLists.txt": "quire_module(base SOURCES a.cpp LIBS xxhash)",
        "src/io/CMakeLists.txt": "quire_module(io SOURCES f.cpp DEPS base)",
        "src/comm/CMakeLists.txt": "set(l mpi)\nquire_module(comm SOURCES c.cpp DEPS io LIBS ${l})",
        "src/lsm/CMakeLists.txt": "quire_module(lsm SOURCES l.cpp DEPS io)",
        "src/kv/CMakeLists.txt":
            "quire_module(kv ROOMS protocol low high SOURCES low/k.cpp DEPS comm lsm)",
        "src/kv/protocol/part_engine.cpp": '#include "lsm/l.h"',
        "src/kv/low/k.cpp": '#include "kv/low/k.h"',
        "src/kv/low/k_test.cpp": '#include "kv/high/k.h"',
        "src/kv/high/k.cpp": '#include "kv/low/k.h"',
        "src/base/a.cpp": '#include <xxhash.h>\n#include "base/a.h"',
        "src/comm/c.cpp": '#include <mpi.h>\n#include "base/a.h"',
        "include/quire/mpi.h": '#include <mpi.h>\n#include "quire/status.h"',
    }
    bad = {
        "src/base/b.cpp": '#include "io/f.h"',
        "src/base/m.cpp": "#include <lz4.h>",
        "src/kv/low/m.cpp": "#include <mpi.h>",
        "src/kv/low/l.cpp": '#include "lsm/l.h"',
        "src/kv/low/k.h": '#include "kv/high/k.h"',
        "src/kv/k.h": '#include "kv/low/k.h"',
        "src/kv/third/k.h": "struct K {};",
        "src/io/t.cpp": '#include "tests/support/x.h"',
        "include/quire/status.h": '#include "base/a.h"',
        "include/quire/db.h": "#include <rocksdb/db.h>",
        "src/base/CMakeLists.txt": "quire_module(base SOURCES a.cpp DEPS kv LIBS xxhash)",
        "src/stream/CMakeLists.txt": "quire_module(stream SOURCES s.cpp DEPS kv)",
        "src/log/record.h": "struct Record {};",
        "src/dedup/CMakeLists.txt": "quire_module(dedup SOURCES s.cpp)",
    }

    def problems_of(files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check(Path(folder))

    failures = [f"good tree: {problem}" for problem in problems_of(good)]
    for name, text in bad.items():
        if not problems_of({**good, name: text}):
            failures.append(f"not noticed: {name}: {text}")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    problems = self_test() if arguments.self_test else check(arguments.root)
    for problem in problems:
        print(problem)
    print(f"check_layers: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
