#!/usr/bin/env bash
# A Redis Cluster of six nodes on loopback (three masters, a replica each), to try things on:
#
#   scripts/cluster.sh start                                             # prints the URL
#   REDIS_URL=$(scripts/cluster.sh url) cargo run --example send_code
#   scripts/cluster.sh stop
#
# The nodes listen on CLUSTER_PORT (7000 unless set) and the five ports above, and for each other 10,000 above those. They keep
# nothing on disk but what they know of each other, in a folder below target/, where only the user who builds can write.
set -euo pipefail

first=${CLUSTER_PORT:-7000}
server=${RATELIMIT_TEST_REDIS_BIN:-redis-server}
dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/target/cluster-$first
ports=$(seq "$first" "$((first + 5))")

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

cli() { redis-cli -h 127.0.0.1 -p "$@"; }

# The same to a node that may be frozen.
node() { timeout 2 redis-cli -h 127.0.0.1 -p "$@"; }

url() {
    local seeds
    seeds=$(printf '127.0.0.1:%s,' $ports)
    printf 'redis+cluster://%s\n' "${seeds%,}"
}

start() {
    command -v "$server" >/dev/null || fail "there is no $server here: install redis-server, or name one by RATELIMIT_TEST_REDIS_BIN"
    command -v redis-cli >/dev/null || fail 'there is no redis-cli here: install redis-tools'
    [ "$((first + 10005))" -le 65535 ] || fail "CLUSTER_PORT is at most 55530, not $first"
    [ ! -e "$dir" ] || fail "it is running already, or was not stopped: scripts/cluster.sh stop"
    mkdir -p "${dir%/*}"
    mkdir -m 700 "$dir"
    for port in $ports; do
        mkdir "$dir/$port"
        "$server" --port "$port" --bind 127.0.0.1 --daemonize yes --dir "$dir/$port" --logfile log --pidfile "$dir/$port/pid" \
            --save '' --appendonly no --cluster-enabled yes --cluster-node-timeout 2000 >/dev/null
    done
    for port in $ports; do
        answers "$port" || {
            stop
            fail "no node listens on port $port: is it taken? CLUSTER_PORT chooses other ports"
        }
    done
    cli "$first" --cluster create $(printf '127.0.0.1:%s ' $ports) --cluster-replicas 1 --cluster-yes >"$dir/created" || {
        cat "$dir/created" >&2
        stop
        fail 'the nodes did not become a cluster'
    }
    for port in $ports; do
        serves "$port" || fail "the node on port $port does not serve: see $dir/$port/log"
    done
    url
}

# Whether the server on a port is the node that was started here, and not another server.
is_ours() { [ "$(node "$1" config get dir 2>/dev/null | tail -n 1)" = "$dir/$1" ]; }

answers() {
    for _ in $(seq 100); do
        [ -s "$dir/$1/pid" ] && is_ours "$1" && return
        sleep 0.1
    done
    return 1
}

serves() {
    for _ in $(seq 100); do
        cli "$1" cluster info | grep -q cluster_state:ok && return
        sleep 0.1
    done
    return 1
}

# A node is told to end, never a number out of a file: what has that number now may be another process.
stop() {
    local left=()
    for port in $ports; do
        if is_ours "$port"; then
            node "$port" shutdown nosave >/dev/null 2>&1 || true
            for _ in $(seq 50); do [ -e "$dir/$port/pid" ] || continue 2; sleep 0.1; done
        fi
        [ -e "$dir/$port/pid" ] || continue
        # A node that was killed leaves its file behind, and no server on its port.
        [[ $(node "$port" ping 2>&1 || true) == *refused* ]] || left+=("$port")
    done
    [ "${#left[@]}" -eq 0 ] || fail "the nodes on these ports do not end: ${left[*]}; end them by hand, then remove $dir"
    rm -rf -- "$dir"
}

case ${1:-} in
start) start ;;
stop) stop ;;
url) url ;;
*) fail 'usage: scripts/cluster.sh start | stop | url' ;;
esac
