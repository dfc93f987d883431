#!/usr/bin/env python3
"""Counts turns of phrase that readers stumble over: inverted, pronominal and verbless sentences.

    check_prose.py [--root DIR]   prints each group's rate; fails if one is above its limit
    check_prose.py --list GROUP   prints each place of a group: file, line, rule, text
    check_prose.py --self-test    shows that each rule can fail

CONTRIBUTING.md has the rules. A rate is of places per 1,000 words.
"""
import argparse
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Each rule: its name, and what it looks for in a text on one line.
START = r"(?:^|(?<=[.;:!?]\s)|(?<=\.\s\s))"
AFTER = r"(?i:\b(?:of|by|for|to|from|and|or|while|if|when|than|as|know|see|say|says)\s)"
RULES = [(name, re.compile(pattern)) for name, pattern in [
    ("begins", START + r"(?:What|Of|Who|Where|By which|That which|Whose|Whoever|Whatever) "
                       r"(?!is |are |does |do |can |if |happens )"),
    ("tells", r"(?i)\b(?:tells?|told|telling)\b(?! apart)"),
    ("hears", r"(?i)\b(?:hears?|heard)\b"),
    ("nobody", r"(?i)\b(?:nobody|somebody|anybody|everybody)\b"),
    ("who", f"(?:{START}|{AFTER})" + r"(?i:who|whoever)\b(?!\?| is \w+\?)"),
    ("where", r"(?i)\bwhere (?:there (?:is|are|was)|it is|this is|that is|no |none |nothing |"
              r"one is|they are|memory |(?:a|the) \w+ (?:fails|has) )"),
    ("anew", r"(?i)\banew\b"),
]]

USERS_PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"] + [f"docs/{name}.md" for name in (
    "benchmarks/README", "benchmarks/dataset", "benchmarks/engine", "benchmarks/goals",
    "benchmarks/parallel", "benchmarks/persistence", "benchmarks/stream",
    "dependencies", "durability", "limitations", "nvs", "papyruskv", "policies",
    "security", "statistics", "streamd", "tool")]
PAGES = ("docs", "src", "tools", "bench", "examples", "tests", "scripts")
SOURCES = ("src", "tools", "bench", "examples", "tests")
COMMENT = re.compile(r"//[/!]?<?(.*)|/\*+(.*?)\*/", re.S)
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
WORDS_OF_A_TEXT = 4  # shorter strings are names, not sentences
# Places per 1,000 words: those that a rule counts by mistake, and a few.
LIMITS = {"public headers": 0.3, "users' pages": 0.3, "texts of the program": 0.3,
          "other pages": 1.0, "internal headers": 1.0, "comments of sources": 1.0}


@dataclass
class Place:
    path: str
    line: int
    rule: str
    text: str


def files(root, folders, suffix):
    """Paths from `root`, of files under the folders; "" is the top alone."""
    found = []
    for folder in folders:
        pattern = f"*{suffix}" if folder == "" else f"{folder}/**/*{suffix}"
        found += [str(path.relative_to(root)) for path in sorted(root.glob(pattern))]
    return found


def is_test(path):
    return re.search(r"(_test|_fuzz|_bench|_testing)\.(cpp|h)$", path) is not None


def groups(root):
    """The files of each group of readers, and how their sentences are found."""
    headers = [p for p in files(root, ("src", "tools"), ".h") if not is_test(p)]
    sources = [p for p in files(root, ("src", "tools"), ".cpp") if not is_test(p)]
    pages = [p for p in USERS_PAGES if (root / p).exists()]
    others = [p for p in files(root, ("", *PAGES), ".md") if p not in pages]
    all_sources = [p for suffix in (".cpp", ".c") for p in files(root, SOURCES, suffix)]
    return {
        "public headers": (files(root, ("include",), ".h"), comments),
        "users' pages": (pages, markdown),
        "texts of the program": (sources, strings),
        "other pages": (others, markdown),
        "internal headers": (headers, comments),
        "comments of sources": (all_sources, comments),
    }


def comments(text):
    """Pairs of line and text: the comments, those of following lines joined."""
    joined, last = [], -2
    for number, line in enumerate(text.split("\n"), 1):
        match = re.search(r"(?<![:\"])//[/!]?<?\s?(.*)$", line)
        starred = re.match(r"\s*/?\*+/?\s?(.*?)(?:\*/)?$", line) if not match else None
        said = match or starred
        if not said:
            continue
        if last == number - 1 and line.lstrip().startswith(("//", "*")):
            joined[-1] = (joined[-1][0], joined[-1][1] + " " + said.group(1).strip())
        else:
            joined.append((number, said.group(1).strip()))
        last = number
    return joined


def strings(text):
    """String literals that are sentences, those that follow each other joined."""
    found = []
    for match in re.finditer(r'(?:"(?:\\.|[^"\\\n])*"\s*)+', text):
        joined = "".join(STRING.findall(match.group(0)))
        if len(WORD.findall(joined)) >= WORDS_OF_A_TEXT:
            found.append((text.count("\n", 0, match.start()) + 1, joined))
    return found


def markdown(text):
    """Paragraphs, list items and cells of tables, without code."""
    text = re.sub(r"```.*?```", lambda block: "\n" * block.group(0).count("\n"), text, flags=re.S)
    text = re.sub(r"`[^`\n]*`", "X", text)
    found, joins = [], False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if line.startswith("|"):
            found += [(number, cell.strip()) for cell in line.strip("|").split("|")]
            joins = False
        elif not line:
            joins = False
        elif line.startswith("#"):
            joins = False  # a heading is a label
        elif joins and not re.match(r"[-*>]|\d+\.", line):
            found[-1] = (found[-1][0], found[-1][1] + " " + line)
        else:
            found.append((number, re.sub(r"^(?:[-*>]+|\d+\.)\s*(?:\*\*)?", "", line)))
            joins = True
    return found


def places_in(path, text, sentences):
    found, words = [], 0
    for line, said in sentences(text):
        words += len(WORD.findall(said))
        for rule, pattern in RULES:
            for match in pattern.finditer(said):
                around = said[max(0, match.start() - 20):match.end() + 60]
                found.append(Place(path, line, rule, around))
    return found, words


def measure(root):
    """For each group: its places, and its words."""
    measured = {}
    for name, (paths, sentences) in groups(root).items():
        places, words = [], 0
        for path in paths:
            text = (root / path).read_text(errors="replace")
            more, count = places_in(path, text, sentences)
            places += more
            words += count
        measured[name] = (places, words)
    return measured


def rates_of(measured):
    return {name: round(1000 * len(places) / max(words, 1), 2)
            for name, (places, words) in measured.items()}


def self_test():
    broken = {
        "begins": "// Of several writes the last one counts.",
        "tells": "// A rank tells all ranks.",
        "hears": "// Whether a rank heard of it.", "nobody": "// Nobody waits.",
        "who": "// The lock of who reads.", "where": "// kIo where there is no room.",
        "anew": "// Made anew.",
    }
    failed = [rule for rule, text in broken.items()
              if rule not in {place.rule for place in places_in("x.h", text, comments)[0]}]
    plain = "// Returns kNotFound if the key is absent. What is a rank? See where it lies."
    failed += [f"{place.rule} in a plain text" for place in places_in("x.h", plain, comments)[0]]
    if places_in("x.md", "```\nNobody\n```\n| Nobody | `who` |\n", markdown)[0][0].line != 4:
        failed.append("markdown's lines")
    if len(places_in("x.cpp", 'f("the daemon "\n  "tells of it");', strings)[0]) != 1:
        failed.append("strings that follow each other")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, group in (("include/x.h", "public headers"),
                            ("src/x_test.cpp", "comments of sources"),
                            ("tests/x.c", "comments of sources")):
            (root / path).parent.mkdir()
            (root / path).write_text('// Nobody hears.\nconst char* text = "Nobody";\n')
            if path not in {place.path for place in measure(root)[group][0]}:
                failed.append(f"{path} in the group \"{group}\"")
        if len(measure(root)["comments of sources"][0]) != 4:
            failed.append("the comments alone of sources")
    print("\n".join(f"not noticed: {text}" for text in failed) or "each rule can fail")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", metavar="GROUP")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    measured = measure(options.root)
    if options.list:
        for place in measured[options.list][0]:
            print(f"{place.path}:{place.line}: {place.rule}: {place.text}")
        return 0
    rates = rates_of(measured)
    worse = 0
    for name, rate in rates.items():
        places, words = measured[name]
        limit = LIMITS[name]
        worse += rate > limit
        print(f"{name}: {len(places)} places in {words} words, {rate} per 1,000, at most {limit}"
              + (f"; see check_prose.py --list \"{name}\"" if rate > limit else ""))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
