#!/usr/bin/env bash
# This crate beside its peers, in one run on this machine. Nothing here gates anything.
#
#   scripts/bench.sh [--quick] [part]     parts: throughput, server-time
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

export CARGO_TARGET_DIR=$PWD/target/peers
# A module that does not build leaves its row out, and says why.
RATELIMIT_REDIS_CELL=$(scripts/redis-cell.sh target/redis-cell 2>target/redis-cell.log) || cat target/redis-cell.log >&2
export RATELIMIT_REDIS_CELL
cargo build --quiet --release --locked --manifest-path benches/peers/Cargo.toml
"$CARGO_TARGET_DIR/release/ratelimit-peers" "$@"
