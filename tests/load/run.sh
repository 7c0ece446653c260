#!/bin/sh
# The full load test: rose serve --device mock under 2,000 streams, 100,000 short requests and clients
# that mean no good. Takes some five minutes; wants a quiet computer.
#   tests/load/run.sh [BUILD FOLDER]
# STREAMS, SECONDS_OPEN and SHORT make it smaller.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
streams=${STREAMS:-2000} seconds=${SECONDS_OPEN:-60} short=${SHORT:-100000}
work=$(mktemp -d)
server=
stop() { [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; server=; }
trap 'stop; rm -rf "$work"' EXIT

serve() {  # OPTIONS…: a server on a free port; sets $url and $server
  rm -f "$work/out"
  "$build/rose" serve --device mock --port 0 --max-model-len 4096 "$@" >"$work/out" 2>"$work/err" &
  server=$!
  for _ in $(seq 100); do
    url=$(sed -n 's/.* at \(http:[^ ]*\)$/\1/p' "$work/out" 2>/dev/null || true)
    [ -n "$url" ] && return
    sleep 0.1
  done
  cat "$work/err" >&2
  exit 1
}

echo "load average before: $(cut -d' ' -f1-3 /proc/loadavg)"
echo "--- $streams streams of 10 tokens/s, open for $seconds s"
serve --mock-speed 10 --mock-answer-tokens 3000 --max-num-seqs "$streams" --max-queued-requests "$streams"
"$build/rose" bench serve --url "$url" --num-prompts "$streams" --max-concurrency "$streams" \
  --input-len 16 --output-len $((seconds * 10)) --ramp 10 --expect-rate 10 --timeout $((seconds * 4 + 60))
stop

echo "--- $short short requests, 64 at a time"
serve --mock-speed 0 --mock-answer-tokens 100
"$build/rose" bench serve --url "$url" --num-prompts 2000 --max-concurrency 64 --input-len 16 \
  --output-len 8 >/dev/null  # warm: what is allocated once is allocated
"$build/rose" bench serve --url "$url" --num-prompts "$short" --max-concurrency 64 --input-len 16 \
  --output-len 8 --timeout 3600
stop

echo "--- clients that mean no good"
serve --mock-speed 50 --mock-answer-tokens 3000 --max-num-seqs 1024
python3 "$here/hostile.py" "$url" "$server"
stop
echo "load average after: $(cut -d' ' -f1-3 /proc/loadavg)"
