#!/usr/bin/env bash
# What the attribute costs the compiler and a future, beside #[tracing::instrument]: the time to check 500 functions, the
# size of what is generated for one, and the size of its future, as tables. Nothing is downloaded.
#
#   scripts/compile-cost.sh [functions] [runs]
#
# Both crates, and one without attributes, depend on the same crates, which are built beforehand; times are medians.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Compilers that are asked about themselves read standard input, whatever that happens to be.
exec </dev/null

functions=${1:-500}
runs=${2:-3}
checkout=$PWD
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
export CARGO_TARGET_DIR=$checkout/target/compile-cost CARGO_INCREMENTAL=0

cat >"$folder/Cargo.toml" <<TOML
[workspace]
members = ["*"]
exclude = ["target"]
resolver = "3"
TOML
cp Cargo.lock "$folder/Cargo.lock"

# crate NAME: an empty one.
crate() {
    mkdir -p "$folder/$1/src"
    cat >"$folder/$1/Cargo.toml" <<TOML
[package]
name = "$1"
version = "0.0.0"
edition = "2024"

[dependencies]
ratelimit-runtime = { path = "$checkout/ratelimit-runtime" }
tokio = { version = "1", features = ["macros", "rt", "time"] }
tracing = { version = "0.1", features = ["attributes"] }
TOML
}

# functions_with ATTRIBUTE: what users write, so many times; N in the attribute is the number of the function.
functions_with() {
    local n
    for n in $(seq "$functions"); do
        cat <<RUST
${1//N/$n}
pub async fn send_$n(email: &str, attempt: u32) -> Result<u32, ratelimit_runtime::RateLimitError> {
    tokio::task::yield_now().await;
    Ok(attempt + u32::from(email.is_empty()))
}
RUST
    done
}

declare -A attributes=(
    [bare]=''
    [instrument]='#[tracing::instrument(skip(attempt))]'
    [rate_limit]='#[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3)]'
)
for kind in "${!attributes[@]}"; do
    crate "$kind"
    functions_with "${attributes[$kind]}" >"$folder/$kind/src/lib.rs"
done

# The sizes, measured by a program.
crate sizes
cat >"$folder/sizes/src/main.rs" <<'RUST'
type Outcome = Result<u32, ratelimit_runtime::RateLimitError>;

macro_rules! sizes {
    ($($name:ident $(#[$attribute:meta])*;)*) => {
        $($(#[$attribute])* async fn $name(email: &str, attempt: u32) -> Outcome {
            tokio::task::yield_now().await;
            Ok(attempt + u32::from(email.is_empty()))
        })*
        fn main() {
            $(println!("{:<28} {:>6}", stringify!($name), std::mem::size_of_val(&$name("a", 1)));)*
        }
    };
}

sizes! {
    bare;
    instrument #[tracing::instrument(skip(attempt))];
    rate_limit #[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3)];
    rate_limit_with_wait #[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3, wait = "1s")];
    rate_limit_counting_errors #[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3, count = "err")];
    two_rate_limits
        #[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3, name = "a")]
        #[ratelimit_runtime::rate_limit(key = "<attempt>", window = "60s", max = 3, name = "b")];
}
RUST

cd "$folder"
cargo check --offline --quiet --workspace --lib
printf 'bytes of a future\n'
cargo run --offline --quiet --package sizes

# expanded KIND: the bytes of source that the compiler sees, all macros expanded, which stable compilers do not show.
expanded() {
    RUSTC_BOOTSTRAP=1 cargo rustc --offline --quiet --package "$1" --lib --profile check -- -Zunpretty=expanded | wc -c
}

bare=$(expanded bare)
printf '\nbytes of source generated per function\n'
for kind in instrument rate_limit; do
    printf '%-28s %6d\n' "$kind" "$((($(expanded "$kind") - bare) / functions))"
done

# median KIND: the seconds to check the crate, its dependencies ready.
median() {
    local start end
    for _ in $(seq "$runs"); do
        touch "$1/src/lib.rs"
        start=$(date +%s%N)
        cargo check --offline --quiet --package "$1"
        end=$(date +%s%N)
        printf '%d\n' "$((end - start))"
    done | sort -n | awk '{ all[NR] = $1 } END { printf "%.2f", all[int((NR + 1) / 2)] / 1e9 }'
}

printf '\nseconds of cargo check, %s functions, median of %s\n' "$functions" "$runs"
declare -A seconds
for kind in bare instrument rate_limit; do
    seconds[$kind]=$(median "$kind")
    printf '%-28s %6s\n' "$kind" "${seconds[$kind]}"
done
awk -v a="${seconds[rate_limit]}" -v b="${seconds[instrument]}" -v c="${seconds[bare]}" 'BEGIN {
    printf "rate_limit / instrument %.2f; above bare %.2f\n", a / b, (a - c) / (b - c)
}'
