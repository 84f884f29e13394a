#!/usr/bin/env bash
# What a decision on the log costs the server: the ring beside the sorted set, in one run, as a table.
#
#   scripts/ring-cost.sh [redis-server binary]
#
# Times are the server's own, from INFO commandstats, in microseconds per call: the average of many; of growing, steady
# and denied the best of three.
# growing  admitted into a log that fills up, on the server's clock
# steady   admitted into a full log from which one entry leaves per call, on a client's clock
# denied   refused by a full log, on the server's clock
# stale    the one call that finds all entries but the newest expired; steady, but for the time passed
# refund   of an entry in the middle of a full log
set -euo pipefail
cd "$(dirname "$0")/../ratelimit-runtime/src/store/redis/scripts"

server=${1:-redis-server}
dir=$(mktemp -d)
port=$((20000 + RANDOM % 20000))
"$server" --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$dir" >"$dir/log" 2>&1 &
pid=$!
trap 'kill "$pid"; wait "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cli() { redis-cli -p "$port" "$@"; }
until [ "$(cli ping 2>/dev/null)" = PONG ]; do sleep 0.05; done

declare -A sha
declare -A files=([zset]=zset.lua [ring]='ring_log.lua ring_write.lua ring.lua')
for kind in zset ring; do
  sha[$kind]=$(cli script load "$(cat common.lua ${files[$kind]}; echo "return $kind(KEYS[1], next_request())")")
done

# calls KIND COUNT MODE MAX WINDOW FIRST STEP TICKET EACH: calls of cost 1, EACH on one key (all), then on another. The
# clock shows FIRST, and STEP more at each call, or is the server's if FIRST is empty. Prints what a call took.
calls() {
  awk -v sha="${sha[$1]}" -v kind="$1" -v n="$2" -v mode="$3" -v max="$4" -v window="$5" -v first="$6" -v step="$7" \
    -v ticket="${8:-0}" -v each="${9:-$2}" 'BEGIN {
      for (i = 0; i < n; i++) {
        clock = first == "" ? "\"\"" : sprintf("%.0f", first + i * step)
        printf "EVALSHA %s 1 key%d %s %s %s 1 0 %.0f 1 %d %.0f %d\r\n",
          sha, i / each, clock, kind, mode, ticket, max, window, max
      }
    }' >"$dir/calls"
  cli config resetstat >/dev/null
  cli --pipe <"$dir/calls" | grep -q "errors: 0, replies: $2"
  stat evalsha
}

stat() { cli info commandstats | sed -n "s/^cmdstat_$1:.*usec_per_call=\([0-9.]*\).*/\1/p"; }

less() { printf '%s\n' "$1" "$2" | sort -g | head -n 1; }

echo "redis-server $(cli info server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p'), $(nproc) cores"
echo
echo "| layout | max | growing | steady | denied | stale | refund | bytes | bytes / entry | DEL |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
for max in 3 10 100 128 1000 10000 100000; do
  for kind in zset ring; do
    many=$((max < 5000 ? 5000 : max))
    growing=inf steady=inf denied=inf
    start=1800000000000000
    window=$((max * 10))
    for _ in 1 2 3; do
      cli flushall >/dev/null
      growing=$(less "$growing" "$(calls "$kind" $((many / max * max)) acquire "$max" 3600000000 '' 0 0 "$max")")
      bytes=$(cli memory usage key0 samples 0)
      denied=$(less "$denied" "$(calls "$kind" 5000 acquire "$max" 3600000000 '' 0)")
      cli flushall >/dev/null
      calls "$kind" "$max" acquire "$max" "$window" "$start" 10 >/dev/null
      steady=$(less "$steady" "$(calls "$kind" "$many" acquire "$max" "$window" $((start + window)) 10)")
    done
    newest=$((start + window + many * 10 - 10))
    middle=$((newest - max / 2 * 10))
    refund=$(calls "$kind" 1 refund "$max" "$window" "$newest" 10 "$middle")
    stale=$(calls "$kind" 1 acquire "$max" "$window" $((newest + window - 1)) 0)
    calls "$kind" "$max" acquire "$max" "$window" $((newest + 10 * window)) 10 >/dev/null
    cli config resetstat >/dev/null
    cli del key0 >/dev/null
    del=$(stat del)
    each=$(awk "BEGIN { printf \"%.1f\", $bytes / $max }")
    awk -v a="$kind" -v b="$max" -v c="$growing" -v d="$steady" -v e="$denied" -v f="$stale" -v g="$refund" \
      -v h="$bytes" -v i="$each" -v j="$del" 'BEGIN {
        printf "| %s | %d | %.1f | %.1f | %.1f | %.0f | %.0f | %d | %s | %.0f |\n", a, b, c, d, e, f, g, h, i, j
      }'
  done
done
