#!/usr/bin/env python3
"""Fails where the code leaves the style: sizes, names, banned calls, documentation of functions.

    check_style.py [--root DIR]   prints each violation; fails if a rule has more than its ratchet
    check_style.py --tighten      writes what is reached now into style_ratchet.json, never looser
    check_style.py --self-test    shows that each rule can fail

style_ratchet.json holds, for each rule, how many violations are left (absent: none), and the medians
that must not grow. It only tightens.
"""
import argparse
import collections
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path

import cpp_scan

FOLDERS = ["include", "src", "tools", "bench", "examples", "tests"]
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
ROOM_FILES_MAX = 32  # product files in a folder under src/
CLASS_FUNCTIONS_MAX, CLASS_VARIABLES_MAX = 60, 30
COMPLEXITY_MAX = 15
PARAMETERS_MAX = 6
COLUMNS_MAX = 100

# Where functions have as many parameters as somebody else's interface says.
FOREIGN_INTERFACES = ("src/api/compat/", "src/comm/mpi/mpi_error_test.cpp", "tests/papyruskv/")

# Calls that reach the system's data, clock or randomness: only src/io makes them, so that the tests
# can put faults and simulated time under everything above. (Called without an object before them.)
SYSTEM_CALLS = """open openat creat read pread readv preadv write pwrite writev pwritev mmap munmap
mremap msync madvise fsync fdatasync sync syncfs rename renameat unlink unlinkat rmdir mkdir mkdirat
ftruncate truncate fallocate posix_fallocate flock fcntl shm_open shm_unlink memfd_create sendfile
copy_file_range clock_gettime gettimeofday nanosleep clock_nanosleep usleep sleep rand srand rand_r
random srandom drand48 getrandom getentropy getenv secure_getenv setenv unsetenv system popen fork
vfork execv execve execvp socket connect accept syscall fopen freopen tmpfile mkstemp mkdtemp
opendir readdir stat fstat lstat access chmod fchmod chown kill raise signal sigaction""".split()
SYSTEM_NAMES = [
    r"std::chrono::(system|steady|high_resolution)_clock", r"std::random_device",
    r"std::filesystem\b", r"std::[io]?fstream\b", r"std::this_thread::sleep_(for|until)",
]
# Calls that make a descriptor. If the program's standard streams are closed, they return 0, 1 or 2,
# which io::FileDescriptor never keeps: so it takes what they return in the same expression.
MAKES_DESCRIPTORS = re.compile(
    r"(?<!\w)::(open|openat|openat2|creat|socket|accept4?|eventfd|epoll_create1?|memfd_create|"
    r"shm_open|dup|pipe2?|socketpair|timerfd_create|signalfd|inotify_init1?|pidfd_open|mkstemp|"
    r"opendir|fopen|tmpfile)\(|F_DUPFD|SYS_userfaultfd")
TAKES_DESCRIPTOR = re.compile(r"\bFileDescriptor(\s+\w+)?\((static_cast<int>\()?(::)?\w+\(")
OWNS_DESCRIPTORS = "src/io/files/descriptor.cpp"
# Outside src/io, and why.
ALLOWED_SYSTEM = {
    "src/base/threads/epoch.cpp": {"syscall": "membarrier: makes readers' fences free; no data, no clock"},
}
PRINTS = re.compile(r"(?<![\w.>])(?:std::)?(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror)\s*\(|"
                    r"std::(?:cout|cerr|clog)\b")
STOPS = re.compile(r"(?<![\w.>:])(?:std::|::)?(exit|_exit|_Exit|quick_exit|abort|terminate)\s*\(")
# A thread that starts elsewhere takes the program's signals, and throws where it is refused.
THREAD_STARTS = re.compile(r"std::(?:j?thread\s*(?:\w+\s*)?[({]|async\s*\()|"
                           r"std::jthread|\bthreads?\w*(?:\.|->)emplace\w*\(|"
                           r"(?<![\w.>])(?:pthread_create|thrd_create)\s*\(")
# The simulated job's ranks are threads of the program, in tests alone.
MAY_START_THREADS = {"src/base/threads/thread.cpp", "src/comm/sim/sim_transport.cpp"}
ASSERTS = re.compile(r"(?<![\w.>:])assert\s*\(")
# QUIRE_CHECK says what is broken and ends the process: an invariant of ours does not hold.
MAY_STOP = {"src/base/core/check.cpp"}
# On standard error, where a variable of the environment asks for it.
MAY_PRINT = {"src/api/log_level.cpp"}
UNFINISHED = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b")
FILE_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*\.(h|cpp|c|inc|py|sh|md|txt|cmake)|"
                       r"CMakeLists\.txt|README\.md")


class Findings:
    def __init__(self):
        self.by_rule = collections.defaultdict(list)
        self.file_lines, self.function_lines = [], []
        self.test_lines = self.source_lines = 0

    def add(self, rule, where, text):
        self.by_rule[rule].append(f"{where}: {text}")


def is_library(relative):
    """Code of the library proper: under src/, without the tests that lie beside it."""
    tests = r"_(test|fuzz|bench)\.cpp$|_test_|_testing"
    return relative.startswith("src/") and not re.search(tests, relative)


def check_text(relative, text, found):
    lines = text.split("\n")
    if len(lines) - 1 > FILE_LINES_MAX:
        found.add("file_lines", relative, f"{len(lines) - 1} lines, at most {FILE_LINES_MAX}")
    for number, line in enumerate(lines, 1):
        where = f"{relative}:{number}"
        if len(line) > COLUMNS_MAX:
            found.add("columns", where, f"{len(line)} columns, at most {COLUMNS_MAX}")
        if line != line.rstrip() or "\t" in line:
            found.add("whitespace", where, "tab or trailing space")
        if UNFINISHED.search(line):
            found.add("unfinished", where, "a mark of unfinished work")
    if not FILE_NAME.fullmatch(Path(relative).name):
        found.add("file_name", relative, "file names are snake_case")


# A time limit that nothing multiplies ends the long runs and the sanitizers: quire_add_test() has it.
BARE_CTEST = re.compile(r"^[^#\n]*(\badd_test\(|set_tests_properties\([^)]*\bTIMEOUT\b)", re.M)


def check_ctests(relative, text, found):
    if relative != "cmake/QuireModule.cmake":
        for match in BARE_CTEST.finditer(text):
            line = text.count("\n", 0, match.end()) + 1
            found.add("ctest", f"{relative}:{line}", "tests are added by quire_add_test()")


# GoogleTest's comparisons are an if with an else: GCC warns, and the sanitizers' builds stop there.
BARE_EXPECT = re.compile(r"^\s*if \([^\n{]*\)\s+(?:EXPECT|ASSERT)_(?!OK\b)\w+\(", re.M)


def check_expects(relative, text, found):
    for match in BARE_EXPECT.finditer(text):
        line = text.count("\n", 0, match.end()) + 1
        found.add("bare_expect", f"{relative}:{line}", "a comparison behind an if needs braces")


def check_functions(relative, text, found):
    outer, code = cpp_scan.scan(text)
    for function in cpp_scan.functions(outer):
        where = f"{relative}:{function.first_line}"
        line_count = function.last_line - function.first_line + 1
        if is_library(relative) or relative.startswith("include/"):
            found.function_lines.append(line_count)
        if line_count > FUNCTION_LINES_MAX:
            found.add("function_lines", where,
                      f"{function.name} has {line_count} lines, at most {FUNCTION_LINES_MAX}")
        parameter_count = cpp_scan.parameters(function.head)
        if parameter_count > PARAMETERS_MAX and not relative.startswith(FOREIGN_INTERFACES):
            found.add("parameters", where,
                      f"{function.name} has {parameter_count} parameters, at most {PARAMETERS_MAX}")
        decisions = cpp_scan.complexity(code, function)
        if decisions > COMPLEXITY_MAX:
            found.add("complexity", where,
                      f"{function.name} has complexity {decisions}, at most {COMPLEXITY_MAX}")


SYSTEM_CALL = re.compile(r"(?<![\w.>:~])(?:std::|::)?(" + "|".join(SYSTEM_CALLS) + r")\s*\(")
SYSTEM_NAME = re.compile("|".join(f"({name})" for name in SYSTEM_NAMES))


def is_product(relative):
    """What users run: the library and the tools, without the tests beside them."""
    return is_library(relative) or (relative.startswith("tools/") and is_library("src/" + relative))


def check_classes(relative, text, found):
    """No class knows everything."""
    outer, code = cpp_scan.scan(text)
    for scope in cpp_scan.types(outer):
        functions, variables = cpp_scan.members(code, scope)
        if functions > CLASS_FUNCTIONS_MAX or variables > CLASS_VARIABLES_MAX:
            found.add("class_members", f"{relative}:{scope.first_line}",
                      f"{scope.name} has {functions} functions and {variables} variables, at most "
                      f"{CLASS_FUNCTIONS_MAX} and {CLASS_VARIABLES_MAX}")


def check_thread_starts(relative, text, found):
    if not is_product(relative) or relative in MAY_START_THREADS:
        return
    code = cpp_scan.drop_preprocessor(cpp_scan.blank(text))
    for match in THREAD_STARTS.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        found.add("thread_start", f"{relative}:{line}", "threads start in base::StartThread alone")


def check_calls(relative, text, found):
    if not is_library(relative):
        return
    code = cpp_scan.drop_preprocessor(cpp_scan.blank(text))
    allowed = ALLOWED_SYSTEM.get(relative, {})
    for number, line in enumerate(code.split("\n"), 1):
        where = f"{relative}:{number}"
        if not relative.startswith("src/io/"):
            for match in list(SYSTEM_CALL.finditer(line)) + list(SYSTEM_NAME.finditer(line)):
                name = match.group(1) if match.re is SYSTEM_CALL else match.group(0)
                if name not in allowed:
                    found.add("system_call", where, f"{name}: only src/io makes system calls")
        if relative in MAY_STOP:
            continue
        if PRINTS.search(line) and relative not in MAY_PRINT:
            found.add("print", where, "the library prints nothing; it logs through its callback")
        if STOPS.search(line) or ASSERTS.search(line):
            found.add("stop", where, "the library neither stops the program nor asserts (QUIRE_CHECK)")


def check_descriptors(relative, text, found):
    tests = re.search(r"_(test|fuzz|bench)\.cpp$|_testing", relative)
    if tests or not relative.startswith(("src/", "tools/")) or relative == OWNS_DESCRIPTORS:
        return
    code = cpp_scan.drop_preprocessor(cpp_scan.blank(text))
    for number, line in enumerate(code.split("\n"), 1):
        if MAKES_DESCRIPTORS.search(line) and not TAKES_DESCRIPTOR.search(line):
            found.add("descriptor", f"{relative}:{number}",
                      "only io::Descriptor may own a descriptor: it is never 0 to 2")


def leading_comment(text):
    block = re.match(r"(?:#ifndef \w+\n#define \w+\n\s*)?((?:\s*//[^\n]*\n)+)", text)
    return block.group(1) if block else ""


def check_header_block(relative, text, found):
    """An internal header opens with what it is, its layer and its threads."""
    block = leading_comment(text)
    missing = [field for field in ("Layer", "Threads") if not re.search(rf"^//+\s*{field}\b", block, re.M)]
    if missing:
        found.add("header_block", relative, f"the opening comment has no line for: {', '.join(missing)}")
    elif re.search(r"[^/\s] +(Layer|Source|Encoding|Threads|Invariants)  ", block):
        found.add("header_block", relative, "the opening comment has two fields on one line")
    if not re.search(r"#pragma once|#ifndef QUIRE_\w+_H_", text):
        found.add("header_block", relative, "no include guard")


def check_own_header_first(root, relative, text, found):
    """x.cpp includes x.h (or x_impl.h) before all else: so every header is compiled alone once."""
    header = relative[len("src/"):-len(".cpp")] + ".h"
    first = re.search(r"^#include\s+[\"<]([^\">]+)", text, re.M)
    own = (header, header[:-2] + "_impl.h")
    if (root / "src" / header).exists() and (first is None or first.group(1) not in own):
        found.add("own_header", relative, f"its first include is not {header}")


def check_test_namespace(relative, text, found):
    """x_test.cpp has a namespace x_test, for full builds compile several tests in one go."""
    name = Path(relative).stem
    own = re.search(rf"^namespace \w[\w:]*::{name} {{", text, re.M)
    if re.search(r"^TEST(_[FP])?\(", text, re.M) and not own:
        found.add("test_namespace", relative, f"its tests are in no namespace {name}")


TEST_NAME = re.compile(r"^[ \t]*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)", re.M)
INVERTED_FIRST = set("Of What Whatever Who Whoever Whose Where That Nor So Nobody Somebody".split())
UNPLAIN_WORDS = set("Tell Tells Told Telling Hear Hears Heard Nobody Nobodys Somebody Somebodys "
                    "Everybody Whoever Anew".split())
# "Suite.Name": why the word is right there. There is none yet.
PLAIN_ALL_THE_SAME = {}


def check_test_names(relative, text, found):
    """A test's name states the promise: subject first, verb second, with the actor's name."""
    for match in TEST_NAME.finditer(text):
        words = re.findall(r"[A-Z][a-z0-9]*", match.group(2))
        unplain = [word for word in words[:1] if word in INVERTED_FIRST]
        unplain += [word for word in words if word in UNPLAIN_WORDS and word not in unplain]
        if unplain and ".".join(match.groups()) not in PLAIN_ALL_THE_SAME:
            line = text.count("\n", 0, match.end()) + 1
            found.add("test_name", f"{relative}:{line}",
                      f"{match.group(2)}: no {' and no '.join(unplain)}; subject, verb, actor")


LOCAL_NAME = re.compile(
    r"^(?:class|struct|enum class|enum) (?P<type>\w+)|^using (?P<alias>\w+) ="
    r"|^(?:inline |static )?constexpr [^=({]*?\b(?P<constant>k[A-Z]\w*)"
    r"|^(?!QUIRE_)[A-Za-z_][\w:<>,*& ]* [*&]*(?P<function>[A-Z]\w*)\(", re.M)


def check_local_names(root, found):
    """What anonymous namespaces of a module's product files name is there once: full builds compile
    several of them in one go."""
    places = collections.defaultdict(set)
    for module in [*(root / "src").iterdir(), root / "tools" / "quire-streamd"]:
        for path in module.rglob("*.cpp"):
            if re.search(r"_(test|fuzz|bench|testing)$", path.stem):
                continue
            for space in re.findall(r"^namespace \{$(.*?)^\}  // namespace$", path.read_text(),
                                    re.S | re.M):
                for name in LOCAL_NAME.finditer(space):
                    places[module.name, name[name.lastgroup]].add(str(path.relative_to(root)))
    for (_, name), paths in sorted(places.items()):
        if len(paths) > 1:
            found.add("local_names", min(paths), f"{name} is also in {', '.join(sorted(paths)[1:])}")


# A type that a header exports; not what it only declares, and not a class within a class.
TYPES = re.compile(r"^(?:class|struct|enum(?: class)?) (?:alignas\(\w+\) |QUIRE_\w+ )*(\w+)(?: final)?"
                   r"(?: : [^;{]*)? \{", re.M)


def check_type_names(root, found):
    """A type's name means one thing in the tree, also in another namespace."""
    paths_of = collections.defaultdict(set)
    for folder in ["include", "src", "tools", "bench"]:
        for path in (root / folder).rglob("*.h"):
            for name in TYPES.findall(path.read_text()):
                paths_of[name].add(str(path.relative_to(root)))
    for name, paths in sorted(paths_of.items()):
        if len(paths) > 1:
            found.add("type_names", min(paths), f"{name} is also in {', '.join(sorted(paths)[1:])}")


SPECIAL = re.compile(r"=\s*(default|delete)\s*;|~\w+\s*\(|\bfriend\b|"
                     r"^\s*(using|typedef|return|static_assert)\b")
# What one comment may cover in a run of lines: accessors, operators, constructors from a value.
ACCESSOR = re.compile(r"[^(]*\b[a-z_]+\(\)\s*(const|&&|&)|[^(]*\boperator\b|\s*(explicit )?\w+\(")


def declarations(text):
    """(first line, last line, text) of each public function's declaration or definition in a header."""
    outer, code = cpp_scan.scan(text)
    lines = code.split("\n")

    def walk(scope, first, last):
        access = "private" if re.match(r".*\bclass\b", scope.head) else "public"
        inner = {}
        for child in scope.children:
            for line in range(child.first_line, child.last_line + 1):
                inner[line] = child
        statement, start, number = "", 0, first
        while number <= last:
            line = lines[number - 1]
            child = inner.get(number)
            label = re.match(r"\s*(public|protected|private)\s*:(?!:)", line)
            if label:
                access = label.group(1)
            elif child is not None and child.kind in ("namespace", "type", "function"):
                if child.kind == "function" and access == "public":
                    yield child.first_line, child.last_line, child.head
                elif child.kind != "function" and access == "public" and "enum" not in child.head:
                    yield from walk(child, code.count("\n", 0, child.body_start) + 2, child.last_line)
                number, statement = max(child.last_line, number), ""
            elif line.strip():
                start = number if not statement.strip() else start
                statement += " " + line
                if ";" in line:
                    if access == "public" and cpp_scan.parameter_group(
                            cpp_scan.without_template(statement.strip())):
                        yield start, number, statement
                    statement = ""
            number += 1
    yield from walk(outer, 1, len(lines))


def check_documented(relative, text, found):
    lines = text.split("\n")
    documented_line, documented_name = 0, ""
    for first, last, declaration in declarations(text):
        above = lines[first - 2].strip() if first > 1 else ""
        name = cpp_scan.function_name(cpp_scan.without_template(declaration.strip()))
        # An overload, or one more of a run of accessors, shares the comment of the line before.
        shared = first - 1 == documented_line and (name == documented_name or ACCESSOR.match(declaration))
        if re.match(r"///|\*|.*\*/$", above) or "///<" in lines[first - 1] or shared:
            documented_line, documented_name = last, name
        elif not SPECIAL.search(declaration):
            found.add("documented", f"{relative}:{first}", f"no comment: {' '.join(declaration.split())[:60]}")


def check_file(root, path, found):
    relative = str(path.relative_to(root))
    text = path.read_text(errors="replace")
    check_text(relative, text, found)
    if path.suffix in (".txt", ".cmake"):
        check_ctests(relative, text, found)
    if path.suffix not in (".h", ".cpp", ".c", ".inc"):
        return
    check_functions(relative, text, found)
    if is_product(relative):
        check_classes(relative, text, found)
    check_expects(relative, text, found)
    check_test_names(relative, text, found)
    check_calls(relative, text, found)
    check_descriptors(relative, text, found)
    check_thread_starts(relative, text, found)
    line_count = text.count("\n")
    if is_library(relative) or relative.startswith("include/"):
        found.file_lines.append(line_count)
        found.source_lines += line_count
    elif relative.startswith(("src/", "tests/")):
        found.test_lines += line_count
    if path.suffix == ".h" and is_library(relative):
        check_header_block(relative, text, found)
    if path.suffix == ".cpp" and relative.startswith("src/"):
        check_own_header_first(root, relative, text, found)
        if relative.endswith("_test.cpp"):
            check_test_namespace(relative, text, found)
    if path.suffix == ".h" and relative.startswith("include/"):
        check_documented(relative, text, found)


def check_shell(relative, text, found):
    """A script in bash says which of its commands failed, by a trap of its own or of common.sh."""
    trapped = re.search(r"^trap .*\$LINENO.*\$BASH_COMMAND.* ERR$", text, re.M) and "set -E" in text
    if text.startswith("#!/usr/bin/env bash\n") and not trapped and "/common.sh" not in text:
        found.add("shell_trap", f"{relative}:2", "no trap on ERR with $LINENO and $BASH_COMMAND")


def files(root):
    suffixes = {".h", ".cpp", ".c", ".inc", ".py", ".sh", ".txt", ".cmake"}
    for folder in FOLDERS + ["scripts", "cmake"]:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root).parts
            generated = {"corpus", "golden", "__pycache__", "data"} & set(inside)
            if path.is_file() and path.suffix in suffixes and not generated:
                yield path


def check_room_sizes(root, found):
    sizes = collections.Counter()
    for path in (root / "src").rglob("*"):
        relative = str(path.relative_to(root))
        if path.suffix in (".h", ".cpp", ".inc") and is_library(relative):
            sizes[relative.rpartition("/")[0]] += 1
    for folder, count in sorted(sizes.items()):
        if count > ROOM_FILES_MAX:
            found.add("room_files", folder, f"{count} product files, at most {ROOM_FILES_MAX}")


def measure(root):
    found = Findings()
    for path in files(root):
        relative = path.relative_to(root).parts
        if relative[0] == "cmake":
            # Modules of CMake have names of their own.
            check_text("cmake/CMakeLists.txt", path.read_text(), found)
            check_ctests("/".join(relative), path.read_text(), found)
        else:
            check_file(root, path, found)
    check_room_sizes(root, found)
    check_local_names(root, found)
    check_type_names(root, found)
    for folder in ["bench", "examples", "scripts", "tests"]:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in ("", ".sh"):
                check_shell(str(path.relative_to(root)), path.read_text(errors="replace"), found)
    return found


def medians(found):
    lengths = sorted(found.function_lines) or [0]
    return {
        "file_lines_median": statistics.median(found.file_lines or [0]),
        "function_lines_median": statistics.median(lengths),
        "function_lines_p95": lengths[int(len(lengths) * 0.95)],
    }


def check(root, ratchet):
    """(lines to print, number of rules broken)"""
    found = measure(root)
    output, broken = [], 0
    for rule, problems in sorted(found.by_rule.items()):
        allowed = ratchet.get("violations", {}).get(rule, 0)
        if len(problems) > allowed:
            broken += 1
            output += [f"[{rule}] {problem}" for problem in problems]
            output.append(f"[{rule}] {len(problems)}, allowed {allowed}")
    for name, value in medians(found).items():
        limit = ratchet.get("medians", {}).get(name)
        if limit is not None and value > limit:
            broken += 1
            output.append(f"[{name}] {value}, was {limit}: it only shrinks")
    ratio = found.test_lines / max(1, found.source_lines)
    output.append(f"check_style: {broken} rules broken; {medians(found)}, test lines per source line {ratio:.2f}")
    return output, broken


def tighten(root, path):
    old = json.loads(path.read_text()) if path.exists() else {}
    found = measure(root)
    counts = {rule: len(problems) for rule, problems in sorted(found.by_rule.items())}
    if "violations" in old:
        counts = {rule: min(count, old["violations"].get(rule, 0)) for rule, count in counts.items()}
    limits = old.get("medians", {})
    new = {name: min(value, limits.get(name, value)) for name, value in medians(found).items()}
    counts = {rule: count for rule, count in counts.items() if count}
    path.write_text(json.dumps({"violations": counts, "medians": new}, indent=2) + "\n")


def self_test():
    header = "/// A thing.\n///\n/// Layer    base\n/// Threads  any\n#pragma once\n"
    good = {
        "src/base/a.h": header + "namespace quire::base {\nint F(int a);\n}\n",
        "src/base/a.cpp": "#include \"base/a.h\"\n#include <string>\n",
        "src/io/f.cpp": "int F() {\n  return ::fstat(1, 0);\n}\n"
                        "FileDescriptor G() {\n  return FileDescriptor(::socket(1, 0));\n}\n",
        "src/kv/k.cpp": "void F() {\n  file->read(1);\n  db.open(2);\n  // printf(\n  Say(\"exit(1)\");\n}\n",
        "include/quire/x.h": header + "class X {\n public:\n  /// Does it.\n  int F(int a);\n  X() = default;\n"
                             "  /// Sizes.\n  int a() const;\n  int b() const { return 1; }\n"
                             "  /// Opens.\n  int Open(int a,\n           int b);\n  int Open(long a);\n"
                             " private:\n  int G();\n};\n/// Free.\nint H();\n",
        "src/kv/CMakeLists.txt": "# add_test(x)\nquire_add_test(NAME x TIMEOUT 3 COMMAND x)\n"
                                 "set_tests_properties(x PROPERTIES LABELS y)\n",
        "tests/papyruskv/p.c": "int F(int a, int b, int c, int d, int e, int f, int g) {\n}\n",
        "cmake/QuireModule.cmake": "add_test(NAME x)\n",
        "scripts/s": "#!/usr/bin/env bash\nsource common/common.sh\n",
        "src/kv/k_test.cpp": "namespace quire::kv::k_test {\n"
                             "TEST(A, B) {\n  std::filesystem::remove(x);\n}\n"
                             "TEST(What, OffersWhatOfItsPartsIsWhole) {\n}\n}\n",
    }
    bad = {
        "shell_trap": ("tests/t.sh", "#!/usr/bin/env bash\nset -euo pipefail\nfalse\n"),
        "file_lines": ("src/kv/b.cpp", "int a;\n" * 801),
        "function_lines": ("src/kv/b.cpp", "int F() {\n" + "  x();\n" * 70 + "}\n"),
        "class_members": ("src/kv/b.cpp", "class B {\n" + "  int F();\n" * 61 + "};\n"),
        "parameters": ("src/kv/b.cpp", "int F(int a, int b, int c, int d, int e, int f, M<int, int> g) {\n}\n"),
        "complexity": ("src/kv/b.cpp", "int F() {\n" + "  if (a && b) c();\n" * 8 + "}\n"),
        "columns": ("src/kv/b.cpp", "// " + "x" * 100 + "\n"),
        "whitespace": ("src/kv/b.cpp", "int a; \n"),
        "unfinished": ("src/kv/b.cpp", "// TO" + "DO: more\n"),
        "ctest": ("tests/y/CMakeLists.txt", "set_tests_properties(\n  x PROPERTIES\n  TIMEOUT 3)\n"),
        "bare_expect": ("src/kv/b.cpp", "void F() {\n  if (a)\n    EXPECT_EQ(b, 1);\n}\n"),
        "file_name": ("src/kv/BadName.cpp", "int a;\n"),
        "system_call": ("src/kv/b.cpp", "void F() {\n  auto t = std::chrono::steady_clock::now();\n}\n"),
        "descriptor": ("src/io/b.cpp", "int F() {\n  return ::open(\"x\", 0);\n}\n"),
        "print": ("src/kv/b.cpp", "void F() {\n  std::fprintf(stderr, \"x\");\n}\n"),
        "thread_start": ("tools/x/b.cpp", "void F() {\n  std::thread([] {}).detach();\n}\n"),
        "stop": ("src/kv/b.cpp", "void F() {\n  std::abort();\n}\n"),
        "header_block": ("src/kv/b.h", "#pragma once\nint F();\n"),
        "own_header": ("src/base/a.cpp", "#include <string>\n#include \"base/a.h\"\n"),
        "test_namespace": ("src/kv/b_test.cpp", "namespace quire::kv {\nTEST(A, B) {\n}\n}\n"),
        "test_name": ("tests/api/b_test.cpp", "TEST_F(A,\n       OfBIsThere) {\n}\n"),
        "documented": ("include/quire/y.h", header + "class Y {\n public:\n  int F(int a);\n};\n"),
    }

    def rules_broken(tree):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tree.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return {rule: problems for rule, problems in measure(Path(folder)).by_rule.items()}

    failures = [f"good tree: {problem}" for problem in sum(rules_broken(good).values(), [])]
    for rule, (name, text) in bad.items():
        broken = rules_broken({**good, name: text})
        if set(broken) != {rule}:
            failures.append(f"{rule}: wanted it to be broken alone, got {broken}")
    twice = {f"src/kv/{name}.cpp": "namespace {\nconstexpr int kMost = 3;\n}  // namespace\n"
             for name in "xy"}
    same = {"src/io/s.h": header + "struct Same {\n};\n", "src/kv/s.h": header + "class Same final : A {\n};\n",
            "src/log/s.h": header + "class Same;\nclass C {\n  struct Same {\n  };\n};\n"}
    if len(rules_broken({**good, **same}).get("type_names", [])) != 1:
        failures.append("type_names: two headers name a type the same")
    if set(rules_broken({**good, **twice})) != {"local_names"}:
        failures.append("local_names: two files of a module name the same")
    crowd = {f"src/kv/x{number}.cpp": "int a;\n" for number in range(ROOM_FILES_MAX)}
    if set(rules_broken({**good, **crowd})) != {"room_files"}:
        failures.append("room_files: a folder of too many files is not noticed")
    starts = rules_broken({"src/kv/b.cpp": "void F() {\n  std::thread a(G);\n"
                                           "  threads_.emplace_back(G);\n"
                                           "  pthread_create(&t, 0, g, 0);\n  std::async(G);\n}\n",
                           "src/base/threads/thread.cpp": "void F() {\n  std::thread a(G);\n}\n"})
    if len(starts.get("thread_start", [])) != 4:
        failures.append(f"starts of threads not counted: {starts}")
    tests = ("TEST(A, AReaderIsToldSo) {\n}\nTYPED_TEST(A, IsMadeAnewOnce) {\n}\n"
             "TEST_P(A, WaitsForNobody) {\n}\nTEST(A, WhereItIs) {\n}\nTEST(A, Tellers) {\n}\n")
    names = rules_broken({**good, "tests/b_test.cpp": tests})
    if len(names.get("test_name", [])) != 4:
        failures.append(f"names of tests not counted: {names}")
    calls = rules_broken({"src/kv/b.cpp": "void F() {\n  ::fsync(3);\n  getenv(\"A\");\n  rand();\n}\n"})
    if len(calls.get("system_call", [])) != 3:
        failures.append(f"system calls not counted: {calls}")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--tighten", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    ratchet_path = arguments.root / "scripts/style_ratchet.json"
    if arguments.self_test:
        failures = self_test()
        print("\n".join(failures + [f"check_style --self-test: {len(failures)} failures"]))
        return 1 if failures else 0
    if arguments.tighten:
        tighten(arguments.root, ratchet_path)
    output, broken = check(arguments.root, json.loads(ratchet_path.read_text()))
    print("\n".join(output))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
