"""Every test that docs/faults.md names must exist."""
import pathlib
import re
import sys

sources = {path.name: path.read_text() for folder in ("src", "tests") for path in pathlib.Path(folder).rglob("*")
           if path.name.endswith(("_test.cc", ".test.js"))}
known = {f"{suite}.{name}" for text in sources.values()
         for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.M)}

bad, rows = [], 0
for number, line in enumerate(pathlib.Path("docs/faults.md").read_text().splitlines(), 1):
    if not re.match(r"\| B\d+ ", line):
        continue
    rows += 1
    tests = re.findall(r"`([^`]+)`", line.split("|")[-2])
    for test in tests:
        file, _, title = test.partition(": ")
        if not (title in sources.get(file, "") if title else test in known):
            bad.append(f"docs/faults.md:{number}: there is no test {test}")
    if not tests:
        bad.append(f"docs/faults.md:{number}: no test")
print("\n".join(bad), file=sys.stderr)
sys.exit(bool(bad) or not rows)
