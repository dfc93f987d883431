"""Reads C++ well enough to measure it: comments and literals blanked, scopes and functions found.

Not a parser: it follows braces and judges each by the text before it, which is enough for code that
clang-format has laid out.
"""
import re
from dataclasses import dataclass, field

LITERAL = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>R"(?P<d>[^\s()\\]{0,16})\(.*?\)(?P=d)")'
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\")|(?P<char>(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')", re.S)


def blank(text):
    """The text with comments, strings and character literals replaced by spaces, lines kept."""
    def spaces(match):
        kept = re.sub(r"[^\n]", " ", match.group(0))
        return kept if match.group("comment") else '"' + kept[1:-1] + '"'
    return LITERAL.sub(spaces, text)


def drop_preprocessor(code):
    """Blanks preprocessor lines, with their continuations."""
    lines, inside = [], False
    for line in code.split("\n"):
        directive = inside or line.lstrip().startswith("#")
        inside = directive and line.rstrip().endswith("\\")
        lines.append("" if directive else line)
    return "\n".join(lines)


@dataclass
class Scope:
    kind: str          # namespace, type, function, other
    name: str
    head: str          # text before the brace, blanked, on one line
    first_line: int    # of the head
    last_line: int = 0
    body_start: int = 0
    body_end: int = 0
    public: bool = True
    children: list = field(default_factory=list)


def top_level(text, opening="(<[{", closing=")>]}"):
    """Yields (position, character) outside all brackets."""
    depth = 0
    for position, char in enumerate(text):
        if char in closing and not (char == ">" and text[position - 1:position] == "-"):
            depth = max(0, depth - 1)
        if depth == 0:
            yield position, char
        if char in opening:
            depth += 1


def parameter_group(head):
    """(start, end) of the parameter list in a function's head, or None."""
    depth, start, groups = 0, 0, []
    for position, char in enumerate(head):
        if char == "(":
            if depth == 0:
                start = position
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                groups.append((start, position + 1))
    attributes = ("alignas", "decltype", "noexcept", "__attribute__", "requires", "operator")
    for start, end in groups:
        before = re.search(r"([\w~]+|operator\s*\S+)\s*$", head[:start])
        if before and not any(before.group(1) == word for word in attributes):
            return start, end
    return None


def parameters(head):
    group = parameter_group(head)
    if group is None:
        return 0
    inside = head[group[0] + 1:group[1] - 1].strip()
    if inside in ("", "void"):
        return 0
    return 1 + sum(1 for _, char in top_level(inside) if char == ",")


def function_name(head):
    group = parameter_group(head)
    name = re.search(r"([\w~]+(?:::[\w~]+)*|operator\s*\S+)\s*$", head[:group[0]] if group else head)
    return name.group(1) if name else "?"


def is_member_initializer(head):
    """Whether a brace after this head initialises a member: Foo(int x) : a_{x}."""
    group = parameter_group(head)
    rest = head[group[1]:] if group else ""
    if not re.match(r"\s*(noexcept\s*)?:(?!:)", rest):
        return False
    return bool(re.search(r"[\w>]\s*$", rest))


def without_template(head):
    """The head after its template<...> prefixes and [[attributes]]."""
    head = re.sub(r"\[\[[^\]]*\]\]", " ", head).lstrip()
    while re.match(r"template\s*<", head):
        angle, paren = 0, 0
        for position, char in enumerate(head):
            paren += (char == "(") - (char == ")")
            angle += ((char == "<") - (char == ">")) if paren == 0 else 0
            if char == ">" and angle == 0 and paren == 0:
                head = head[position + 1:].lstrip()
                break
        else:
            return head
    return head


def classify(head, parent):
    text = head
    if re.match(r'\s*(inline\s+)?namespace\b|\s*extern\s+"', text):
        return "namespace"
    if parent not in ("namespace", "type"):
        return "other"
    if re.match(r"\s*(typedef\s+)?(class|struct|union|enum)\b", text):
        return "type"
    group = parameter_group(head)
    if group is None or head.rstrip().endswith("=") or is_member_initializer(head):
        return "other"
    if re.search(r"=\s*[^=]*$", head[group[1]:]) or re.search(r"[^=!<>]=[^=]", head[:group[0]].replace(
            "operator=", "")):
        return "other"
    return "function"


def type_name(head):
    name = re.search(r"\b(?:class|struct|union|enum(?:\s+class)?)\s+(?:[A-Z_]+\s+)?(\w+)", head)
    return name.group(1) if name else ""


def scan(text):
    """The outermost scope of a file's text, with all scopes in it."""
    code = drop_preprocessor(blank(text))
    outer = Scope("namespace", "", "", 1)
    stack, start, line, start_line = [outer], 0, 1, 1
    for position, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "{":
            raw = code[start:position]
            label = re.match(r".*\b(?:public|private|protected)\s*:(?!:)", raw, re.S)
            skipped = label.end() if label else 0
            skipped += len(raw[skipped:]) - len(raw[skipped:].lstrip())
            first = start_line + raw[:skipped].count("\n")
            head = without_template(re.sub(r"\s+", " ", raw[skipped:]))
            kind = classify(head, stack[-1].kind)
            name = {"function": function_name, "type": type_name}.get(kind, lambda _: "")(head)
            scope = Scope(kind, name, head, first, body_start=position + 1)
            stack[-1].children.append(scope)
            stack.append(scope)
            if kind != "other":
                start, start_line = position + 1, line
        elif char == "}" and len(stack) > 1:
            scope = stack.pop()
            scope.last_line, scope.body_end = line, position
            # A brace in the middle of a declaration (a member's initializer) does not end it.
            if scope.kind != "other" or code[position + 1:].lstrip()[:1] not in tuple(",;){."):
                start, start_line = position + 1, line
        elif char == ";" and stack[-1].kind != "other":
            start, start_line = position + 1, line
    return outer, code


def functions(scope):
    for child in scope.children:
        if child.kind == "function":
            yield child
        else:
            yield from functions(child)


def types(scope):
    """The classes and structs in a scope, those within others, too."""
    for child in scope.children:
        if child.kind == "type" and not re.match(r"\s*(typedef\s+)?(enum|union)\b", child.head):
            yield child
        yield from types(child)


NO_MEMBER = re.compile(r"(using|friend|static_assert|typedef|enum|class|struct)\b")
TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")


def members(code, scope):
    """How many functions and how many variables a class declares, without those of other classes
    within it."""
    text = list(code[scope.body_start:scope.body_end])
    for child in scope.children:  # a function's head ends where its body does, as a declaration
        first, last = child.body_start - 1 - scope.body_start, child.body_end - scope.body_start
        text[first:last + 1] = " " * (last - first) + (";" if child.kind == "function" else " ")
    function_count, variable_count = 0, 0
    for declaration in "".join(text).split(";"):
        declaration = re.sub(r"\b(public|private|protected)\s*:(?!:)", " ", declaration).strip()
        if not declaration or NO_MEMBER.match(declaration):
            continue
        head = re.split(r"[={]", declaration)[0]
        while TEMPLATE_ARGUMENTS.search(head):
            head = TEMPLATE_ARGUMENTS.sub("", head)
        if "(" in head or "operator" in declaration:
            function_count += 1
        else:
            variable_count += 1
    return function_count, variable_count


DECISION = re.compile(r"\b(?:if|for|while|switch|catch)\b|&&|\|\||\?")


def complexity(code, function):
    """Cyclomatic: one, and one for each decision; a switch counts once. `&&` of an rvalue reference is none."""
    body = code[function.body_start:function.body_end]
    body = re.sub(r"(?<=[\w>])&&(?=[\s)])", " ", body)
    return 1 + len(DECISION.findall(body))
