#!/usr/bin/env bash
# Installs what building (`build`) or testing (`test`) rose needs and this computer lacks: with apt on
# Debian 12 and Ubuntu 24.04; elsewhere it says plainly what is missing.
set -euo pipefail
for_what=${1:-build}

# Each need: what proves that it is there, then the Debian package. A header is looked for by the compiler.
needs=(
  "command g++                        g++"
  "command cmake                      cmake"
  "command ninja                      ninja-build"
  "command pkg-config                 pkg-config"
  "command python3                    python3"
  "boost   108100                     BOOST"
  "header  openssl/ssl.h              libssl-dev"
  "header  nlohmann/json.hpp          nlohmann-json3-dev"
  "header  CLI/CLI.hpp                libcli11-dev"
  "header  spdlog/spdlog.h            libspdlog-dev"
  "header  fmt/format.h               libfmt-dev"
  "header  prometheus/registry.h      prometheus-cpp-dev"
  "header  tl/expected.hpp            libexpected-dev"
  "header  pcre2.h                    libpcre2-dev"
  "header  sqlite3.h                  libsqlite3-dev"
  "header  zlib.h                     zlib1g-dev"
  "header  histedit.h                 libedit-dev"
)
if [ "$for_what" = test ]; then
  needs+=(
    "header  gtest/gtest.h            libgtest-dev"
    "header  benchmark/benchmark.h    libbenchmark-dev"
    "command node                     nodejs"
    "command npm                      npm"
    "command curl                     curl"
  )
  # For the tests of the pages, which say that they did not run where there is none: Ubuntu has but a snap.
  if command -v apt-get >/dev/null && grep -qs '^ID=debian' /etc/os-release; then
    needs+=("browser any                   chromium-headless-shell")
  fi
fi

probe() {  # the compiler's answer to a few lines of C++
  command -v g++ >/dev/null && printf '%s\n' "$@" | g++ -std=c++20 -DPCRE2_CODE_UNIT_WIDTH=8 -x c++ -fsyntax-only - 2>/dev/null
}
have() {
  case $1 in
    command) command -v "$2" >/dev/null ;;
    header) probe "#include <$2>" ;;
    browser) command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null ;;
    boost) probe '#include <boost/version.hpp>' "static_assert(BOOST_VERSION >= $2);" ;;
  esac
}

missing=()
for need in "${needs[@]}"; do
  read -r kind what package <<<"$need"
  have "$kind" "$what" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

plain="rose needs these Debian packages (or what your system calls them): ${missing[*]/BOOST/libboost-dev (1.81 or newer)}"
if ! command -v apt-get >/dev/null; then
  echo "$plain" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "$plain; install them as root, then try again" >&2
    exit 1
  fi
  sudo=(sudo)
fi

echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
# Boost's package carries its version: Debian 12 has 1.81 beside 1.74, Ubuntu 24.04 has 1.83.
for i in "${!missing[@]}"; do
  [ "${missing[$i]}" = BOOST ] || continue
  missing[i]=$(apt-cache search --names-only '^libboost1\.[0-9]+-dev$' | awk '{print $1}' |
    awk -F'[.-]' '$2 >= 81' | sort -V | head -n 1)
  if [ -z "${missing[$i]}" ]; then
    echo "rose needs Boost 1.81 or newer, and this system offers none" >&2
    exit 1
  fi
done
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
