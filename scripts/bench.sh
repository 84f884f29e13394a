#!/usr/bin/env bash
# Measures this crate beside its peers, in one run on this machine, and writes the figures into
# guide/reference/performance.md and its chart. It takes a quarter of an hour on two cores once everything is built. No time
# here gates anything. All sides run with one worker and with two.
#
#   scripts/bench.sh            all of it
#   scripts/bench.sh --quick    all of it in three minutes, with figures to match; printed, not written
#   scripts/bench.sh [--quick] throughput | server-time | in-process | instructions | bytes | growth    one part, printed
#
# It needs redis-server (another one is named by RATELIMIT_TEST_REDIS_BIN), and valgrind to count instructions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Compilers that are asked about themselves read standard input, whatever that happens to be.
exec </dev/null

page=ratelimit-runtime/src/guide/reference/performance.md chart=docs/performance.svg
mkdir -p target

# A module that does not build leaves its row out, and says why.
if ! RATELIMIT_REDIS_CELL=$(scripts/redis-cell.sh target/redis-cell 2>target/redis-cell.log); then
    printf 'redis-cell does not build:\n' >&2
    cat target/redis-cell.log >&2
fi
export RATELIMIT_REDIS_CELL

# The lock file follows when the crates of the workspace get other dependencies.
CARGO_TARGET_DIR=$PWD/target/peers cargo build --quiet --release --manifest-path benches/peers/Cargo.toml
peers=$PWD/target/peers/release/ratelimit-peers

case "$*" in
'')
    scripts/compile-cost.sh 1000 3 >target/compile-cost.txt
    "$peers" all "$chart" target/compile-cost.txt >target/performance.md
    # Above the mark is what people wrote.
    { sed '/^<!-- generated/q' "$page"; printf '\n'; cat target/performance.md; } >target/performance.page
    mv target/performance.page "$page"
    ;;
--quick)
    scripts/compile-cost.sh 200 1 >target/compile-cost.txt
    "$peers" --quick all target/performance.svg target/compile-cost.txt
    ;;
*) "$peers" "$@" ;;
esac
