#!/usr/bin/env bash
# Checks that the README's code builds for a reader: a crate outside the workspace, with exactly the README's
# dependencies (the path aside), and each of its code blocks as a program. Nothing is downloaded.
#
#   scripts/readme.sh
#   scripts/readme.sh --packages FOLDER FEATURE…   # with the crates in FOLDER and these features too, and run
#
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Compilers that are asked about themselves read standard input, whatever that happens to be.
exec </dev/null

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

checkout=$PWD
sources=$checkout
features=()
if [ "${1:-}" = --packages ]; then
    sources=$2
    features=("${@:3}")
fi
crate=$(mktemp -d)
web=$(mktemp -d)
trap 'rm -rf -- "$crate" "$web"' EXIT
mkdir "$crate/src" "$crate/examples" "$web/src"
printf '[package]\nname = "reader"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n' | tee "$crate/Cargo.toml" >"$web/Cargo.toml"

# block LANGUAGE N: the Nth code block in that language.
block() {
    awk -v open="\`\`\`$1" -v n="$2" '$0 == "```" { on = 0 } on { print } $0 == open { on = ++seen == n }' README.md
}

# set_up N FOLDER: the dependencies of the Nth block of them.
set_up() {
    block toml "$1" >>"$2/Cargo.toml"
    grep -q '^\[dependencies\]' "$2/Cargo.toml" || fail "toml block $1 of the README has no [dependencies]"
    if [ "${#features[@]}" -gt 0 ]; then
        # A second time, as a dependency of every target: the features of both are turned on.
        printf "\n[target.'cfg(all())'.dependencies.ratelimit-runtime]\nversion = \"0\"\nfeatures = [" >>"$2/Cargo.toml"
        printf '"%s", ' "${features[@]}" >>"$2/Cargo.toml"
        printf ']\n' >>"$2/Cargo.toml"
    fi
    printf '\n[patch.crates-io]\nratelimit-runtime = { path = "%s/ratelimit-runtime" }\n' "$sources" >>"$2/Cargo.toml"
    # The checkout finds the macros by itself; a package would look for them on the registry.
    if [ "$sources" != "$checkout" ]; then
        printf 'ratelimit-macros = { path = "%s/ratelimit-macros" }\n' "$sources" >>"$2/Cargo.toml"
    fi
    cp Cargo.lock "$2/Cargo.lock"
}
set_up 1 "$crate"
set_up 2 "$web"

count=$(grep -c '^```rust$' README.md)
for n in $(seq "$count"); do
    program=$crate/examples/block_$n.rs
    block rust "$n" >"$program"
done
block rust 1 >"$crate/src/main.rs"
block rust,no_run 1 >"$web/src/main.rs"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$checkout/target/readme}
printf '\n==> the first block, with the dependencies of the README\n'
cargo check --offline --quiet --manifest-path "$crate/Cargo.toml" --bin reader
printf '\n==> all %s blocks\n' "$count"
cargo check --offline --quiet --manifest-path "$crate/Cargo.toml" --examples
printf '\n==> the web service\n'
cargo check --offline --quiet --manifest-path "$web/Cargo.toml"

if [ "$sources" != "$checkout" ]; then
    for n in $(seq "$count"); do
        printf '\n==> block %s runs\n' "$n"
        cargo run --offline --quiet --manifest-path "$crate/Cargo.toml" --example "block_$n"
    done
fi
