#!/usr/bin/env bash
# Builds the Redis module redis-cell from its published source, for tests/redis/redis_cell.rs, and prints where it is. The
# only argument is the folder to build in. What is there already is not built again.
set -euo pipefail

mkdir -p "${1:?usage: scripts/redis-cell.sh FOLDER}"
dir=$(cd "$1" && pwd)
version=0.2.2
module=$dir/redis-cell-$version/libredis_cell.so
[ -f "$module" ] && { printf '%s\n' "$module"; exit; }

# One build at a time; a second caller waits and finds it done.
exec 9>"$dir/lock"
command -v flock >/dev/null && flock 9
[ -f "$module" ] && { printf '%s\n' "$module"; exit; }

# cargo fetches the source as that of a dependency, and copies it here; a dylib cannot be used as one.
mkdir -p "$dir/fetch/src"
: >"$dir/fetch/src/lib.rs"
printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nredis-cell = "=%s"\n[workspace]\n' \
    "$version" >"$dir/fetch/Cargo.toml"
cd "$dir/fetch"
cargo vendor -q vendor >/dev/null
rm -rf source
cp -R vendor/redis-cell source
# Not a member of the workspace around it, if there is one.
printf '\n[workspace]\n' >>source/Cargo.toml
cargo build -q --release --manifest-path source/Cargo.toml --target-dir build --lib >&2
mkdir -p "$(dirname "$module")"
cp build/release/libredis_cell.so "$module.new"
mv "$module.new" "$module"
printf '%s\n' "$module"
