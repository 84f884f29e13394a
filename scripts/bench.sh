#!/usr/bin/env bash
# Measures this crate beside its peers, in one run on this machine, and writes the figures into
# benches/peers/RESULTS.md, three charts, and a sentence into each README. It takes some twenty minutes on two idle cores once
# everything is built, which takes five. No time here gates anything. All sides run with one worker and with two.
#
#   scripts/bench.sh            all of it
#   scripts/bench.sh --quick    all of it in five minutes, with figures to match; printed, not written
#   scripts/bench.sh --build    builds what it needs
#   scripts/bench.sh [--quick] throughput | callers | service | prefetch | open-loop | server-time | in-process | bytes | growth    one part, printed
#
# It needs redis-server; another one is named by RATELIMIT_TEST_REDIS_BIN.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Compilers that are asked about themselves read standard input, whatever that happens to be.
exec </dev/null

page=benches/peers/RESULTS.md
results=target/bench
mkdir -p "$results"

# A module that does not build leaves its row out, and says why.
if ! RATELIMIT_REDIS_CELL=$(scripts/redis-cell.sh target/redis-cell 2>"$results/redis-cell.log"); then
    printf 'redis-cell does not build:\n' >&2
    cat "$results/redis-cell.log" >&2
fi
export RATELIMIT_REDIS_CELL

# The lock file follows when the crates of the workspace get other dependencies.
CARGO_TARGET_DIR=$PWD/target/peers cargo build --quiet --release --manifest-path benches/peers/Cargo.toml
peers=$PWD/target/peers/release/ratelimit-peers


# written FILE TEXT: the lines below the mark, up to an empty one, become this text.
written() {
    [ -n "$2" ] || return 0
    TEXT=$2 awk '
        old && NF { next }
        { old = 0; print }
        /^<!-- written by scripts\/bench.sh -->$/ { print ENVIRON["TEXT"]; old = 1 }' "$1" >"$results/readme"
    cat "$results/readme" >"$1"
}

case "$*" in
'')
    cargo build --quiet --release --locked -p ratelimit-cost
    scripts/compile-cost.sh 500 3 >"$results/compile-cost"
    "$peers" all "$results" >"$results/figures.md"
    # Above the mark is what people wrote.
    { sed '/^<!-- generated/q' "$page"; printf '\n'; cat "$results/figures.md"; } >"$results/page"
    cat "$results/page" >"$page"
    cp "$results/performance.svg" "$results/callers.svg" "$results/open-loop.svg" docs/
    { read -r english && read -r chinese; } <"$results/headlines" || english='' chinese=''
    english=$(fold -s -w 138 <<<"$english" | sed 's/ *$//')
    written README.md "$english"
    written README.zh-CN.md "$chinese"
    ;;
--quick)
    scripts/compile-cost.sh 200 1 >"$results/compile-cost"
    "$peers" --quick all "$results"
    ;;
--build)
    cargo build --quiet --release --locked -p ratelimit-cost
    scripts/compile-cost.sh 1 1 >/dev/null
    ;;
*) "$peers" "$@" ;;
esac
