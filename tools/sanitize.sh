#!/bin/sh
# Runs the tests of every op on the GPU under NVIDIA's compute-sanitizer: once for wrong addresses, once for races in
# shared memory. Of a kernel with clusters, as the sampler's, a launch takes racecheck most of a second, of all processes
# together: its tests solve many problems in one; the one that draws 8,000 times is left out.
#
#   tools/sanitize.sh build-cuda/rose_tests [processes [filter of tests]]
set -eu
tests=$1
shards=${2:-6}
ops='Embed*:RmsNorm*:RopeStore*:Attend*:Route*:Gather*:*Sampling*:Pack*:Experts*:Matmul*'
filter=${3:-"$ops-*draws_follow_the_distribution*"}
logs=$(mktemp -d)
for tool in memcheck racecheck; do
  for shard in $(seq 0 $((shards - 1))); do
    (
      export GTEST_TOTAL_SHARDS="$shards" GTEST_SHARD_INDEX="$shard"
      compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests" --gtest_filter="$filter" \
        >"$logs/$tool.$shard" 2>&1 || echo "FAILED: $tool, shard $shard" >>"$logs/$tool.$shard"
    ) &
  done
done
wait
for tool in memcheck racecheck; do
  echo "$tool: $(cat "$logs/$tool".* | grep -c '^\[       OK') tests passed"
  cat "$logs/$tool".* | grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' | sort | uniq -c
done
if grep -h -B12 -A12 -E '^FAILED|^\[  FAILED|^========= (Invalid|Error|Race)' "$logs"/* | head -200; then
  echo "sanitize: failed; everything is in $logs" >&2
  exit 1
fi
rm -r "$logs"
