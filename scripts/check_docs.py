#!/usr/bin/env python3
"""Fails where the documents say what is not so: links, paths, anchors, the program in the README.

    check_docs.py [--root DIR]    prints each problem, fails if there is one
    check_docs.py --self-test     shows that each rule can fail
"""
import argparse
import fnmatch
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The README's programs are these files, so that they are compiled and run by the tests.
SNIPPETS = ("examples/hello/hello.cpp", "examples/hello/checkpoint.cpp",
            "examples/hello/stream.cpp")
ARCHITECTURE_LINES_MAX = 200
COLUMNS_MAX = 150  # of prose in Markdown; tables and code are free
ROOMS_LINES_MAX = 40  # of the README of a folder with rooms
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
# A path in `backticks`, from the top of the repository. `*` and {a,b} stand for several.
PATH = re.compile(r"`((?:src|include|tests|bench|docs|scripts|cmake|examples|tools|\.ci)/[\w./*{},-]*)`")


def without_code(text):
    return re.sub(r"```.*?```", lambda block: re.sub(r"[^\n]", "", block.group(0)), text, flags=re.S)


def anchors(text):
    """The anchors that headings get on GitHub and GitLab."""
    result = set()
    for heading in re.findall(r"^#+\s+(.*)$", without_code(text), re.M):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        result.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return result


def expand(path):
    """The paths that a{b,c}d stands for."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [found for choice in braces.group(1).split(",")
            for found in expand(path[:braces.start()] + choice + path[braces.end():])]


def check_links(root, path, text, problems):
    for number, line in enumerate(without_code(text).split("\n"), 1):
        where = f"{path.relative_to(root)}:{number}"
        for link in LINK.finditer(line):
            target = link.group(1) or link.group(2)
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            linked = (path.parent / name) if name else path
            if not linked.exists():
                problems.append(f"{where}: no such file: {target}")
            elif anchor and linked.suffix == ".md" and anchor not in anchors(linked.read_text()):
                problems.append(f"{where}: no such heading: {target}")
        for named in PATH.findall(line):
            for one in expand(named):
                if not any(root.glob(one.rstrip("/"))):
                    problems.append(f"{where}: no such file: {one}")


def check_sources(root, problems):
    """Comments in the sources name documents that exist."""
    for folder in ["include", "src", "bench", "examples", "tools", "tests"]:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".c") and path.is_file():
                for named in set(re.findall(r"docs/[\w/.-]+\.md", path.read_text(errors="replace"))):
                    if not (root / named).exists():
                        problems.append(f"{path.relative_to(root)}: no such file: {named}")


def check_test_names(root, problems):
    """Tests that a document names as `Suite.Name` exist, of `Suite.Part*` at least one."""
    tests = set()
    for folder in ["src", "tests", "examples", "tools"]:
        for path in (root / folder).rglob("*_test.cpp"):
            found = re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)", path.read_text(), re.M)
            tests |= {f"{suite}.{name}" for suite, name in found}
    for path in sorted((root / "docs").rglob("*.md")):
        for named in re.findall(r"`([A-Z]\w*\.(?:[A-Z][\w*]+|\*[\w*]*))`", path.read_text()):
            if not fnmatch.filter(tests, named):
                problems.append(f"{path.relative_to(root)}: no such test: {named}")


def check_snippet(root, snippet, problems):
    source = root / snippet
    if not source.exists():
        problems.append(f"{snippet}: missing; a program of the README is that file")
        return
    readme = (root / "README.md").read_text()
    program = re.sub(r"\A(//[^\n]*\n)+", "", source.read_text()).strip()
    if program not in [block.strip() for block in re.findall(r"```cpp\n(.*?)```", readme, re.S)]:
        problems.append(f"README.md: no C++ program there is the text of {snippet}")


def check_columns(root, path, text, problems):
    """Lines of prose fit beside an editor."""
    for number, line in enumerate(without_code(text).split("\n"), 1):
        if len(line) > COLUMNS_MAX and not line.startswith("|"):
            problems.append(f"{path.relative_to(root)}:{number}: {len(line)} columns, "
                            f"at most {COLUMNS_MAX}")


def check_decision_numbers(root, problems):
    """Each decision has a number of its own, by which the documents name it."""
    names = {}
    for path in sorted((root / "docs/decisions").glob("[0-9]*.md")):
        number = path.name.partition("-")[0]
        if number in names:
            problems.append(f"docs/decisions: {names[number]} and {path.name} have one number")
        names[number] = path.name


def check_rooms(root, problems):
    """A folder with rooms has a short README whose first table names them, in order."""
    for cmake in sorted((root / "src").glob("*/CMakeLists.txt")):
        listed = re.search(r"^\s*ROOMS ([^\n]*)", cmake.read_text(), re.M)
        if not listed:
            continue
        readme = cmake.parent / "README.md"
        text = readme.read_text() if readme.exists() else ""
        where = readme.relative_to(root)
        if re.findall(r"^\| `(\w+)` \|", text, re.M) != listed.group(1).split():
            problems.append(f"{where}: its table does not name the rooms {listed.group(1)}")
        if text.count("\n") > ROOMS_LINES_MAX:
            problems.append(f"{where}: more than {ROOMS_LINES_MAX} lines")


def documents(root):
    """Markdown files of the repository: those that git knows where there is git."""
    git = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    listed = shutil.which("git") and subprocess.run(git, cwd=root, text=True, capture_output=True, check=False)
    if listed and listed.returncode == 0 and listed.stdout:
        return [root / name for name in listed.stdout.splitlines() if (root / name).exists()]
    return [path for path in root.rglob("*.md") if "build" not in path.relative_to(root).parts]


def check(root):
    problems = []
    for path in sorted(documents(root)):
        check_links(root, path, path.read_text(), problems)
        check_columns(root, path, path.read_text(), problems)
    check_sources(root, problems)
    check_test_names(root, problems)
    check_decision_numbers(root, problems)
    check_rooms(root, problems)
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"]:
        if not (root / name).exists():
            problems.append(f"{name}: missing")
    if (root / "README.md").exists():
        for snippet in SNIPPETS:
            check_snippet(root, snippet, problems)
    architecture = root / "ARCHITECTURE.md"
    if architecture.exists() and architecture.read_text().count("\n") > ARCHITECTURE_LINES_MAX:
        problems.append(f"ARCHITECTURE.md: more than {ARCHITECTURE_LINES_MAX} lines")
    return problems


def self_test():
    program = "#include <cstdio>\nint main() {}\n"
    good = {name: "" for name in ["CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"]}
    good.update({
        "README.md": f"# Quire\n```cpp\n{program}```\n[a](ARCHITECTURE.md#the-life-of-a-put) [b](https://x.y)\n",
        "ARCHITECTURE.md": "## The life of a `Put`\n`examples/hello/hello.cpp` `examples/{hello,hello}/*`\n"
                           "```\n[x](gone.md)\n```\n",
        "src/base/a_test.cpp": "TEST_F(Suite, Name) {}",
        "docs/c.md": "`Suite.Name` `Suite.*` `Suite.N*e`",
        "docs/decisions/0001-a.md": "",
        "src/base/CMakeLists.txt": "quire_module(\n  base\n  ROOMS low high\n  SOURCES x)",
        "src/base/README.md": "| room |\n| --- |\n| `low` | x |\n| `high` | y |\n",
        **{snippet: "// What it is.\n" + program for snippet in SNIPPETS},
    })
    bad = {
        "README.md": good["README.md"].replace("main() {}", "main() { }"),
        "CHANGELOG.md": "[a](gone.md)",
        "CONTRIBUTING.md": "[a](README.md#gone)",
        "LICENSE": None,
        "ARCHITECTURE.md": "## The life of a Put\n`src/gone.cpp`",
        "docs/a.md": "![p](p.png)",
        "docs/wide.md": "word " * 31,
        "docs/c.md": "`Suite.Gone`",
        "docs/d.md": "`Suite.G*`",
        "docs/e.md": "`Gone.*`",
        "docs/decisions/0001-b.md": "",
        "src/base/README.md": "| `high` | y |\n| `low` | x |\n",
        "src/base/a.h": "// docs/format/gone.md",
        "docs/b.md": "`examples/{hello,gone}/*`",
    }

    def problems_of(tree):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tree.items():
                if text is not None:
                    path = Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
            return check(Path(folder))

    failures = [f"good tree: {problem}" for problem in problems_of(good)]
    failures += [f"not noticed: {name}" for name, text in bad.items() if not problems_of({**good, name: text})]
    if not problems_of({**good, "ARCHITECTURE.md": "## The life of a Put\n" + "\n" * 200}):
        failures.append("not noticed: a long ARCHITECTURE.md")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    problems = self_test() if arguments.self_test else check(arguments.root)
    print("\n".join(problems + [f"check_docs: {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
