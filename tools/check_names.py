"""A file's own names (anonymous namespace, macros) stand nowhere else in its folder: the tests, and the library
under sanitizers, are compiled eight files at a time. Reads the beginnings of lines, as clang-format leaves them."""
import collections
import pathlib
import re
import sys

NAMED = re.compile(r"(?:struct|class|union|enum class|enum|#define) (\w+)|(?:using|namespace) (\w+) =|"
                   r"(?:[\w:<>,*& \[\]-]+?[ *&>])?(\w+)(?:\(|\[| =|;|\{)")  # a type; an alias; a function, a constant
UNNAMED = re.compile(r"[ )}/]|[A-Z_]+\(|#(?!define)|template|using (?!\w+ =)")
APART = ("main", "_bench", "_avx2", "_avx512")  # compiled one by one, as is testing/

bad = []
places = collections.defaultdict(list)  # of a name in a namespace of a folder
for path in sorted(p for root in ("src", "tests") for p in pathlib.Path(root).rglob("*") if p.suffix in {".cc", ".h"}):
    if path.stem.endswith(APART) or path.parts[1] == "testing":
        continue
    inside, text = [], path.read_text()
    for number, line in enumerate(text.splitlines(), 1):
        line = re.sub(r"^\[\[.*?\]\] |^inline |\([^()]*\)(?=>)", "", line)
        if match := re.match(r"namespace ?([\w:]*) ?\{", line):
            inside.append(match[1])
        elif line.startswith("}  // namespace"):
            inside = inside[:-1]
        elif not UNNAMED.match(line) and (match := NAMED.match(line)):
            name, macro = match[match.lastindex], line.startswith("#")
            if not (macro and f"#undef {name}\n" in text):
                space = "macro" if macro else "::".join(filter(None, inside))
                places["/".join(path.parts[:2]), space, name].append(
                    (path, number, line, path.suffix == ".cc" and (macro or "" in inside)))
    if "" in inside:
        bad.append(f"{path}: the end of its anonymous namespace is not marked `}}  // namespace`")


def together(path, other):
    in_tests = [p.parts[0] == "tests" or p.stem.endswith("_test") for p in (path, other)]
    return path.with_suffix("") != other.with_suffix("") and (other.suffix == ".h" or in_tests[0] == in_tests[1])


for (_, _, name), found in places.items():
    for i, (path, number, line, own) in enumerate(found):
        for k, (other, at, text, others_own) in enumerate(found if own else []):
            alias = text == line and NAMED.match(line)[2]  # may be said twice
            if (k < i or not others_own) and together(path, other) and not alias:
                bad.append(f"{path}:{number}: {name} is a name of {other}:{at} too, and files of one folder are "
                           f"compiled together: rename one of them")
                break
print("\n".join(bad), file=sys.stderr)
sys.exit(bool(bad) or not places)
