#!/bin/sh
# Talks to `rose serve` with the demo model through the official clients of OpenAI and Anthropic.
#   tests/client/run.sh [BUILD FOLDER]
# The clients are installed into BUILD/client; they need node 18 or newer and npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)

for program in node npm; do
  if ! command -v $program >/dev/null; then
    echo "tests/client: $program is missing; install nodejs (18 or newer) and npm" >&2
    exit 1
  fi
done
if [ ! -x "$build/rose" ]; then
  echo "tests/client: $build/rose is missing; build it first" >&2
  exit 1
fi

mkdir -p "$build/client"
for file in "$here"/*.json "$here"/*.js; do
  cmp -s "$file" "$build/client/$(basename "$file")" || cp "$file" "$build/client/"
done
cd "$build/client"
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
fi
ROSE="$build/rose" exec node --test *.test.js
