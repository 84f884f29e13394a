#!/usr/bin/env bash
# Builds and tests what a change may break:
#
#   scripts/test.sh              # some eight minutes on two cores
#   scripts/test.sh --all        # and what takes longer: faults, floods, costs, lints, the examples as processes and in a browser
#   scripts/test.sh --engines    # and, at the end, the tests on Redis on every other engine that can be had here
#
# It needs Rust and, for the tests on Redis, a redis-server; with --all also valgrind, which counts instructions,
# libnss-wrapper, for names that move, the module redis-cell, which it builds, and Chromium. On Debian and Ubuntu it installs
# these packages; elsewhere it says what to do. Where no package has Chromium, its tests are left out, and the last line says
# so. The tests start and stop servers of their own, on free ports. A test that fails fails: it is not tried again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
all=false with_engines=false left_out=
for argument; do
    case $argument in
        --all) all=true ;;
        --engines) with_engines=true ;;
        *) printf 'usage: scripts/test.sh [--all] [--engines]\n' >&2; exit 2 ;;
    esac
done
# Compilers that are asked about themselves read standard input, whatever that happens to be.
exec </dev/null

step() { printf '\n==> %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs apt-get as root; fails where there is no way to be root.
apt_get() {
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

# Installs a package of Debian's or Ubuntu's, or says what to do elsewhere.
install() {
    local package=$1 purpose=$2 by_hand=$3
    command -v apt-get >/dev/null || fail "$purpose need $package, and there is no apt-get here: $by_hand"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || fail "$purpose need $package, and there is no sudo here: $by_hand"
    step "installing $package with apt-get, for $purpose"
    apt_get update -q || true
    apt_get install -qy --no-install-recommends "$package" || fail "apt-get could not install $package: $by_hand"
}

# The version of a package that apt-get would install; nothing where there is none.
candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}

# A browser that can be run, by the names that the tests look for.
has_browser() {
    local name
    for name in chromium chromium-browser google-chrome chrome; do
        "$name" --version >/dev/null 2>&1 && return
    done
    return 1
}

command -v cargo >/dev/null || fail 'there is no cargo here: install Rust first'
redis=${RATELIMIT_TEST_REDIS_BIN:-redis-server}
command -v "$redis" >/dev/null || {
    [ "$redis" = redis-server ] || fail "RATELIMIT_TEST_REDIS_BIN names $redis, which cannot be run"
    # The service that the package may start is not used: the tests start their own servers.
    install redis-server 'the tests on Redis' 'install redis-server by hand (Debian, Ubuntu: apt-get install redis-server; Fedora: dnf install redis or valkey; Arch: pacman -S valkey; macOS: brew install redis), or name one: RATELIMIT_TEST_REDIS_BIN=/path/to/redis-server scripts/test.sh'
}
if [ "$all" = true ]; then
    # Instructions are counted on Linux and x86-64 only; elsewhere that test is left out.
    if [ "$(uname -sm)" = 'Linux x86_64' ] && ! command -v valgrind >/dev/null; then
        install valgrind 'the tests of what a check costs' 'install valgrind by hand (Debian, Ubuntu: apt-get install valgrind; Fedora: dnf install valgrind; Arch: pacman -S valgrind)'
    fi
    if [ "$(uname -s)" = Linux ] && ! compgen -G '/usr/lib*/*/libnss_wrapper.so' >/dev/null; then
        install libnss-wrapper 'the tests of names that move' 'install nss_wrapper by hand (Fedora: dnf install nss_wrapper)'
    fi
    if ! has_browser; then
        # A fresh container has no lists of packages yet.
        [ -n "$(candidate chromium)" ] || ! command -v apt-get >/dev/null || apt_get update -q || true
        case $(candidate chromium) in
            # Ubuntu's packages are scripts that ask for the snap, which a container cannot run.
            '' | *snap*) ;;
            # What cannot be had here leaves these tests out; it does not end the others.
            *) (install chromium 'the tests of the playground' 'install Chromium by hand') || true ;;
        esac
        has_browser || left_out="the playground in a browser, because apt-get has none here: install Chromium (Ubuntu: snap install chromium; Fedora: dnf install chromium; Arch: pacman -S chromium)"
    fi
    RATELIMIT_TEST_REDIS_CELL=${RATELIMIT_TEST_REDIS_CELL:-$(scripts/redis-cell.sh target/redis-cell)} ||
        fail 'the module redis-cell could not be built: name its library in RATELIMIT_TEST_REDIS_CELL'
    export RATELIMIT_TEST_REDIS_CELL
fi
step "the tests run on $("$redis" --version)"

# Most of what the tests do is to wait, for servers above all: on few processors more of them can do so at a time, but fewer
# of those that put the machine under load.
chosen=${RUST_TEST_THREADS-}
processors=$(getconf _NPROCESSORS_ONLN)
threads() { export RUST_TEST_THREADS=${chosen:-$(($1 > processors ? $1 : processors))}; }
threads 8
logs=$(mktemp -d)
log=$logs/last
trap 'rm -rf -- "$logs"' EXIT
passed=0 ignored=0

count() {
    awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
        END { printf "%d passed, %d failed, %d ignored", passed, failed, ignored }' "$1"
}

# tally LOG STATUS: adds the tests of a log to those of all; ends this where one has failed.
tally() {
    local counts ok bad left
    counts=$(count "$1")
    if [ "$2" -ne 0 ]; then
        # Again at the end, where it is looked for.
        step 'what failed'
        grep -E '^(test [^ ]+ \.\.\. FAILED|error)' "$1" || true
        awk '/^---- .* ----$/ { lines = 30 } lines-- > 0' "$1" | head -n 120
        fail "not all tests are green: $counts"
    fi
    read -r ok _ bad _ left _ <<<"$counts"
    passed=$((passed + ok)) ignored=$((ignored + left))
}

# run TITLE ARGUMENT...: the tests that `cargo test ARGUMENT...` runs.
run() {
    step "$1"
    shift
    local status=0
    "${cargo_test[@]}" --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?
    tally "$log" "$status"
}

cargo_test=(cargo test --workspace --all-features --locked)
[ "$all" = true ] || cargo_test+=(--exclude ratelimit-admin --exclude ratelimit-cost --exclude ratelimit-examples)

step 'building'
"${cargo_test[@]}" --no-run

# Hundreds of programs that must not compile keep the processors busy, and most other tests wait: both at a time, and
# those that wait go first.
nice -n 10 "${cargo_test[@]}" --test ui -- --exact fail >"$logs/compiled" 2>&1 &
compiling=$!
if [ "$all" = true ]; then
    run 'what a change may break, what a check costs, and the code blocks of the documentation' -- --exact --skip fail
else
    run 'what a change may break, and the code blocks of the documentation' -- --exact --skip fail
fi
step 'what must not compile'
status=0
wait "$compiling" || status=$?
cat "$logs/compiled"
tally "$logs/compiled" "$status"

if [ "$all" = true ]; then
    threads 4
    run 'the leaky bucket beside redis-cell' --test redis -- --ignored redis_cell
    # A sixth of the cases: all of them take a quarter of an hour.
    RATELIMIT_CASES=Restarted run 'units that processes take ahead, of which one is killed' --test prefetch -- --ignored in_any_case
    # By themselves: they measure, or put the machine under load.
    RATELIMIT_CASES='load 1.0' run 'how much is admitted by units that were taken ahead' --test prefetch -- --ignored any_load
    run 'what takes longer' --test examples --test neutrality --test bounds --test flood --test faults
    if [ -z "$left_out" ]; then
        run 'the playground in a browser' --test examples -- --ignored playground
    else
        step "left out: $left_out"
    fi
    step 'what the documents say to run, and each feature by itself'
    scripts/commands.sh
fi

printf '\nAll tests are green: %d passed, 0 failed, %d ignored.\n' "$passed" "$ignored"
[ -z "$left_out" ] || printf 'Left out: %s.\n' "$left_out"

if [ "$with_engines" = true ]; then
    scripts/engines.sh
fi
