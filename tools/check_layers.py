"""Every include must stay in its folder or point to one earlier in LAYERS."""
import pathlib
import re
import sys

LAYERS = ["base", "tensor", "device", "cache", "kernels", "layers", "model", "engine", "text", "api", "cli"]
MAY = {"cache": {"base", "tensor", "device"}, "text": {"base"},  # narrower than the order allows
       "testing": {"base", "tensor", "device", "cache", "kernels", "layers", "model"}}

bad = []
for path in sorted(p for p in pathlib.Path("src").rglob("*") if p.suffix in {".h", ".cc", ".cu", ".cuh"}):
    here = path.parts[1]
    allowed = {here} | (MAY[here] if here in MAY else set(LAYERS[:LAYERS.index(here)]))
    if path.stem.endswith(("_test", "_bench")):
        allowed |= {"testing"}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.match(r'#include "(\w+)/', line):
            if match[1] not in allowed:
                bad.append(f"{path}:{number}: {here}/ may not include {match[1]}/")
print("\n".join(bad), file=sys.stderr)
sys.exit(bool(bad))
