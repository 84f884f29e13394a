#!/usr/bin/env bash
# Checks what would be published: that the crates can be packaged, and that the packages, not the checkout, work for
# others. A few minutes; nothing is uploaded.
#
#   scripts/package.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Compilers that are asked about themselves read standard input, whatever that happens to be.
exec </dev/null

step() { printf '\n==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

checkout=$PWD
libraries=(ratelimit-macros ratelimit-runtime ratelimit-conformance)
crates=("${libraries[@]}" ratelimit-admin)
version=$(awk -F'"' '/^version = / { print $2; exit }' Cargo.toml)
msrv=$(awk -F'"' '/^rust-version = / { print $2; exit }' Cargo.toml)
mapfile -t features < <(awk '/^\[/ { on = $0 == "[features]" } on && /^[a-z-]+ = \[/ && $1 != "default" { print $1 }' ratelimit-runtime/Cargo.toml)
[ "${#features[@]}" -gt 8 ] || fail 'the features of the runtime are not where they were'
# Beside those of the checkout, which other flags would build anew.
export CARGO_TARGET_DIR=$checkout/target/package
packages=$(mktemp -d)
trap 'rm -rf -- "$packages"' EXIT

step "packaging ${crates[*]} $version"
# All at once: one that is not on a registry yet is taken from its package. What they build to is checked below.
cargo package --allow-dirty --no-verify $(printf -- '-p %s ' "${crates[@]}") 2>&1 | tee "$packages/log"
! grep -q '^warning' "$packages/log" || fail 'cargo package warns'
for crate in "${crates[@]}"; do
    tar -xzf "$CARGO_TARGET_DIR/package/$crate-$version.crate" -C "$packages"
    mv "$packages/$crate-$version" "$packages/$crate"
    for file in LICENSE-MIT LICENSE-APACHE; do
        [ -s "$packages/$crate/$file" ] || fail "$crate is packaged without $file"
    done
    [ -s "$packages/$crate/src/lib.rs" ] || [ -s "$packages/$crate/src/main.rs" ] || fail "$crate is packaged without its source"
    for file in LICENSE-MIT LICENSE-APACHE; do
        cmp "$file" "$packages/$crate/$file" || fail "$crate is packaged with another $file"
    done
    find "$packages/$crate" -type f | grep -vE '/(src|benches)/|/(Cargo\.(toml|toml\.orig|lock)|README\.md|LICENSE-(MIT|APACHE)|\.cargo_vcs_info\.json)$' &&
        fail "$crate is packaged with files that users do not need"
    printf '%s: %s files, %s bytes\n' "$crate" "$(find "$packages/$crate" -type f | wc -l)" \
        "$(stat -c %s "$CARGO_TARGET_DIR/package/$crate-$version.crate")"
done

step 'a crate of a user, with no feature, each alone, the default ones, and all'
reader=$packages/reader
mkdir -p "$reader/src"
{
    printf '[package]\nname = "reader"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[features]\n'
    for feature in default "${features[@]}"; do
        printf '%s = ["ratelimit-runtime/%s"]\n' "$feature" "$feature"
    done
    printf '\n[dependencies]\nratelimit-runtime = { version = "%s", default-features = false }\n' "$version"
    printf '\n[dev-dependencies]\nratelimit-conformance = "%s"\n' "$version"
    printf '\n[patch.crates-io]\n'
    for crate in "${libraries[@]}"; do printf '%s = { path = "%s/%s" }\n' "$crate" "$packages" "$crate"; done
} >"$reader/Cargo.toml"
cat >"$reader/src/lib.rs" <<'RUST'
use ratelimit_runtime::{Key, Limit, RateLimiter, Rule};
pub async fn limited() -> bool {
    RateLimiter::memory().acquire(&Rule::new("limited", Limit::per_minute(3)), &Key::of("alice")).await.is_ok()
}
#[cfg(feature = "macros")]
#[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn annotated(email: &str) -> Result<(), ratelimit_runtime::RateLimitError> {
    let _ = email;
    Ok(())
}
RUST
mkdir "$reader/tests"
cat >"$reader/tests/store.rs" <<'RUST'
use ratelimit_runtime::{MemoryStore, testkit::FakeClock};
ratelimit_conformance::conformance!(memory, async || {
    let clock = FakeClock::new();
    (MemoryStore::new().with_clock(clock.clone()), clock)
});
RUST
cp Cargo.lock "$reader/Cargo.lock"
check() { printf '%s\n' "$*"; cargo check --quiet --offline --manifest-path "$reader/Cargo.toml" "$@"; }
check --no-default-features
for feature in "${features[@]}"; do check --no-default-features --features "$feature"; done
check
check --all-features
printf 'the program for operators\n'
cargo check --quiet --offline --manifest-path "$packages/ratelimit-admin/Cargo.toml" \
    --config "patch.crates-io.ratelimit-macros.path='$packages/ratelimit-macros'" \
    --config "patch.crates-io.ratelimit-runtime.path='$packages/ratelimit-runtime'"
printf 'the contract of a store\n'
cargo test --quiet --offline --manifest-path "$reader/Cargo.toml" --test store

step "the README's code, run with the packages and all features"
scripts/readme.sh --packages "$packages" "${features[@]}"

step 'each feature alone, without a warning'
lints=(-D warnings -D clippy::incompatible_msrv)
for feature in "${features[@]}"; do
    printf '%s\n' "$feature"
    cargo clippy --quiet --locked -p ratelimit-runtime --no-default-features --features "$feature" -- "${lints[@]}"
done
cargo clippy --quiet --locked -p ratelimit-macros -p ratelimit-runtime --all-features -- "${lints[@]}"

old=$(rustup toolchain list 2>/dev/null | sed -n "s/^\(${msrv//./\\.}[.-][^ ]*\).*/\1/p" | head -n 1)
if [ -n "$old" ]; then
    step "Rust $msrv, by a compiler of that age"
    cargo "+$old" check --quiet --locked -p ratelimit-runtime --all-features
else
    step "Rust $msrv: there is no such compiler here; clippy::incompatible_msrv has just found nothing that is newer"
fi

# What only a nightly compiler has, the pinned one is made to do where there is none.
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    nightly=(cargo +nightly) as='nightly'
else
    nightly=(env RUSTC_BOOTSTRAP=1 cargo) as='RUSTC_BOOTSTRAP=1'
fi
step "the oldest versions that the manifests allow (resolved with $as)"
oldest=$packages/oldest
mkdir "$oldest"
printf '[workspace]\nresolver = "3"\nmembers = ["ratelimit-macros", "ratelimit-runtime"]\n\n[patch.crates-io]\nratelimit-macros = { path = "ratelimit-macros" }\n' >"$oldest/Cargo.toml"
for crate in ratelimit-macros ratelimit-runtime; do
    mkdir "$oldest/$crate"
    cp -r "$packages/$crate/src" "$packages/$crate/README.md" "$oldest/$crate/"
    # Without what only our own tests and benchmarks need.
    awk '/^\[/ { off = /^\[(dev-dependencies|\[bench)/ } !off' "$packages/$crate/Cargo.toml" >"$oldest/$crate/Cargo.toml"
done
"${nightly[@]}" generate-lockfile --quiet -Z direct-minimal-versions --manifest-path "$oldest/Cargo.toml"
cargo check --quiet --locked --manifest-path "$oldest/Cargo.toml" --all-features

step "the documentation, as docs.rs builds it ($as)"
RUSTDOCFLAGS='--cfg docsrs -D warnings' "${nightly[@]}" doc --quiet --locked --no-deps -p ratelimit-runtime -p ratelimit-macros --all-features
for page in "struct.RedisStore.html redis" "struct.RateLimitLayer.html tower" "struct.Responses.html http"; do
    read -r file feature <<<"$page"
    grep -q "<code>$feature</code>" "$CARGO_TARGET_DIR/doc/ratelimit_runtime/$file" || fail "$file does not say that it is of the feature $feature"
done

last=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
if [ -z "$last" ]; then
    step 'semver: skipped, because there is no release (no tag v…) to compare with'
elif ! command -v cargo-semver-checks >/dev/null; then
    step "semver: skipped, because cargo-semver-checks is not installed: cargo install cargo-semver-checks"
else
    step "semver, against $last"
    cargo semver-checks --package ratelimit-runtime --baseline-rev "$last"
fi

printf '\nThe crates can be published.\n'
