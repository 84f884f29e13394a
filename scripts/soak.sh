#!/usr/bin/env bash
# Keeps load on a Redis Cluster of six nodes while faults come at random: nothing that is promised may break. The seed is
# printed; given, the same faults come in the same order.
#
#   scripts/soak.sh MINUTES [SEED]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

[ $# -ge 1 ] && [ $# -le 2 ] || { printf 'usage: scripts/soak.sh MINUTES [SEED]\n' >&2; exit 2; }
[ $# -eq 1 ] || export RATELIMIT_SEED=$2
RATELIMIT_SOAK_MINUTES=$1 cargo test --quiet --package ratelimit-tests --test faults --locked -- cluster::random_faults
