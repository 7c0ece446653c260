#!/bin/sh
# Opens the pages of `rose serve` with the demo model in a headless Chromium.
#   tests/web/run.sh [BUILD FOLDER]
# $CHROMIUM: the browser; $PICTURES: a folder for pictures of the pages.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)

if [ -z "${CHROMIUM:-}" ]; then
  for program in chromium-headless-shell chromium chromium-browser google-chrome; do
    if command -v $program >/dev/null; then CHROMIUM=$(command -v $program); break; fi
  done
fi
if [ -z "${CHROMIUM:-}" ]; then
  echo "tests/web: not run: no Chromium on this computer (looked for chromium-headless-shell, chromium, chromium-browser, google-chrome)" >&2
  exit 0
fi
if [ ! -x "$build/rose" ]; then
  echo "tests/web: $build/rose is missing; build it first" >&2
  exit 1
fi
ROSE="$build/rose" CHROMIUM="$CHROMIUM" exec node --test "$here/page.test.js"
