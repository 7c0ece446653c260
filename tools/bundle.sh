#!/bin/sh
# Puts programs and the shared libraries they need, but for the C library's own, side by side, so that
# they run on any x86-64 Linux with a C library as new as this one's, with nothing installed:
#
#   tools/bundle.sh build/bundle build/rose build/rose_tests
#
# Programs look for libraries in lib/ beside them ($ORIGIN/lib, set when they are linked).
set -eu
out=$1
shift
rm -rf "$out"
mkdir -p "$out/lib"
for program in "$@"; do
  cp "$program" "$out/"
  strip "$out/$(basename "$program")"
  ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | while read -r library; do
    case $(basename "$library") in
      libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | ld-linux*) ;;
      *) cp -Ln "$library" "$out/lib/" ;;
    esac
  done
done
du -sh "$out"
