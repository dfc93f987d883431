#!/usr/bin/env python3
"""Compares the C functions that the Fortran modules bind with the declarations of the C headers.

    check_fortran.py [--root DIR]   prints each difference; fails if there is one
    check_fortran.py --self-test    shows that each kind of difference is found

A compiler sees one side at a time: a wrong number, order or type of arguments would only show when
a program runs.
"""
import argparse
import re
import sys
import tempfile
from pathlib import Path

C_SCALARS = {"int": "int32", "int32_t": "int32", "uint32_t": "int32", "int64_t": "int64",
             "uint64_t": "int64", "size_t": "size", "double": "double", "char": "char",
             "void": "bytes", "unsigned char": "bytes"}
F_SCALARS = {"c_int": "int32", "c_int32_t": "int32", "c_int64_t": "int64", "c_size_t": "size",
             "c_double": "double", "c_char": "char"}
STANDARD = {"strlen": ("size", ["*char"])}  # functions of the C library


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def c_type(declared, callbacks, handles):
    """The kind of a parameter or result: a scalar's name, "*" and what it points to, "function"."""
    text = re.sub(r"\b(const|struct|enum)\b", " ", declared).strip()
    stars = text.count("*") + text.count("[")
    words = text.replace("*", " ").split("[")[0].split()
    base = words[0] if len(words) == 1 or words[0] != "unsigned" else " ".join(words[:2])
    if base in callbacks:
        return "function"
    return "*" * (stars + handles.count(base)) + C_SCALARS.get(base, "struct")


def c_functions(headers):
    """Result and parameters of each function that a header declares."""
    found = {}
    text = without_comments("\n".join(path.read_text() for path in headers))
    callbacks = re.findall(r"typedef[^;(]*\(\s*\*\s*(\w+)\s*\)", text)
    handles = re.findall(r"(?:typedef\s[^;({]*|\})\s*\*\s*(\w+)\s*;", text)  # pointers
    for result, name, listed in re.findall(
            r"(?:^|;|\}|\{)\s*(?:\w+_EXPORT\s+|extern\s+)?([\w][\w\s]*?[\s*]+)(\w+)\s*\(([^()]*)\)"
            r"\s*(?=;)", text):
        result = re.sub(r"\b\w+_EXPORT\b", "", result)
        parameters = [p.strip() for p in listed.split(",") if p.strip() not in ("", "void")]
        found[name] = (c_type(result, callbacks, handles),
                       [c_type(p, callbacks, handles) for p in parameters])
    return found


def f_type(declared):
    """As c_type, of a Fortran declaration such as `integer(c_int), value`."""
    by_value = re.search(r"\bvalue\b", declared) is not None
    if re.match(r"type\(c_funptr\)", declared):
        return "function" if by_value else "*function"
    if re.match(r"type\(c_ptr\)", declared):
        return "*any" if by_value else "**any"
    kind = re.match(r"(?:integer|real|character)\s*\((?:kind=)?(\w+)\)", declared)
    scalar = F_SCALARS.get(kind[1], kind[1]) if kind else "struct"
    return scalar if by_value else "*" + scalar


def f_functions(sources):
    """Pairs of the bound name and (file, line, result, parameters)."""
    for path in sources:
        text = re.sub(r"&\s*\n\s*&?", " ", path.read_text())
        for found in re.finditer(r"^ *(?:([\w()]+)\s+function|subroutine)\s+(\w+)\s*\(([^)]*)\)"
                                 r"[^\n]*bind\(c, *name=\"(\w+)\"\)([^\n]*)\n(.*?)^ *end ", text,
                                 re.M | re.S):
            result, _, listed, bound, _, body = found.groups()
            kinds = {}
            for declared, names in re.findall(r"^ *([^\n!]*?)\s*::\s*([^\n!]*)$", body, re.M):
                for name in re.findall(r"(\w+)(?:\([^)]*\))?", names):
                    kinds[name.lower()] = f_type(declared)
            parameters = [kinds.get(p.strip().lower(), "undeclared")
                          for p in listed.split(",") if p.strip()]
            line = text.count("\n", 0, found.start()) + 1
            yield bound, (path.name, line, f_type(result + ", value") if result else "bytes",
                          parameters)


def same(c, fortran):
    if c == fortran:
        return True
    if "function" in (c, fortran):
        return False
    stars, of = c.count("*"), c.lstrip("*")
    other_stars, other = fortran.count("*"), fortran.lstrip("*")
    if other == "any":  # an address, of anything
        return stars >= other_stars > 0
    if stars != other_stars or stars == 0:
        return False
    return "struct" in (of, other) and of == other or {of, other} == {"bytes", "char"}


def differences(root):
    headers = sorted((root / "include").rglob("*.h"))
    declared = {**c_functions(headers), **STANDARD}
    bound = list(f_functions(sorted(p for p in (root / "bindings/fortran").iterdir()
                                    if p.suffix in (".f90", ".inc"))))
    if not bound:
        yield "no bound function was found: check_fortran.py does not know the sources any more"
    for name, (file, line, result, parameters) in bound:
        where = f"{file}:{line}: {name}"
        if name not in declared:
            yield f"{where} is declared by no header"
            continue
        c_result, c_parameters = declared[name]
        if not same(c_result, result):
            yield f"{where} returns {c_result} in C, {result} in Fortran"
        if len(c_parameters) != len(parameters):
            yield f"{where} has {len(c_parameters)} parameters in C, {len(parameters)} in Fortran"
            continue
        for number, (c, fortran) in enumerate(zip(c_parameters, parameters), 1):
            if not same(c, fortran):
                yield f"{where}: parameter {number} is {c} in C, {fortran} in Fortran"


HEADER = "QUIRE_EXPORT int f(db* d, const void* key, size_t size, uint64_t n, char** text);\n"
SOURCE = """  interface
    integer(c_int) function c_f(d, key, size, n, text) bind(c, name="f")
      type(c_ptr), value :: d
      character(kind=c_char), intent(in) :: key(*)
      integer(c_size_t), value :: size
      integer(c_int64_t), value :: n
      type(c_ptr), intent(inout) :: text
    end function c_f
  end interface
"""


def self_test():
    changes = [("", ""), ("uint64_t n", "int n"), ("uint64_t n", "uint64_t* n"),
               (", char** text", ""), ("int f(", "void f("), (" f(", " g("),
               ("char** text", "char* text"),
               ("size_t size, uint64_t n", "uint64_t n, size_t size"),
               ("const void* key", "const int* key")]
    for number, (old, new) in enumerate(changes):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "include").mkdir()
            (root / "bindings/fortran").mkdir(parents=True)
            (root / "include/c.h").write_text(HEADER.replace(old, new) if old else HEADER)
            (root / "bindings/fortran/m.inc").write_text(SOURCE)
            found = list(differences(root))
            if bool(found) != bool(number):
                sys.exit(f"self-test: {old!r} -> {new!r} gives {found}")
    print("check_fortran: its self-test passes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    found = list(differences(arguments.root))
    for difference in found:
        print(difference)
    print(f"check_fortran: {len(found)} differences")
    return sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
