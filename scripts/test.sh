#!/usr/bin/env bash
# Builds and tests what a change may break:
#
#   scripts/test.sh              # some minutes
#   scripts/test.sh --all        # and what takes longer: faults, floods, costs, lints, the examples as processes
#   scripts/test.sh --engines    # and, at the end, the tests on Redis on every other engine that can be had here
#
# It needs Rust and, for the tests on Redis, a redis-server; with --all also valgrind, which counts instructions, and
# libnss-wrapper, for names that move. On Debian and Ubuntu it installs these packages; elsewhere it says what to do. The
# tests start and stop servers of their own, on free ports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
all=false with_engines=false
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

# Installs a package of Debian's or Ubuntu's, or says what to do elsewhere.
install() {
    local package=$1 purpose=$2 by_hand=$3
    command -v apt-get >/dev/null || fail "$purpose need $package, and there is no apt-get here: $by_hand"
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "$purpose need $package, and there is no sudo here: $by_hand"
        as_root=(sudo)
    fi
    step "installing $package with apt-get, for $purpose"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$package" ||
        fail "apt-get could not install $package: $by_hand"
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
    # Names that move are tried with this library; without it those cases are skipped, and say so.
    if command -v apt-get >/dev/null && ! compgen -G '/usr/lib*/*/libnss_wrapper.so' >/dev/null; then
        (install libnss-wrapper 'the tests of names that move' 'those tests are skipped') || true
    fi
fi
step "the tests run on $("$redis" --version)"

# Most of what the tests do is to wait, for servers above all: on few processors more of them can do so at a time.
if [ "$(getconf _NPROCESSORS_ONLN)" -lt 4 ]; then
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}
fi
logs=$(mktemp -d)
log=$logs/last
trap 'rm -rf -- "$logs"' EXIT
passed=0 ignored=0
again=()

count() {
    awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
        END { printf "%d passed, %d failed, %d ignored", passed, failed, ignored }' "$1"
}

# add COUNTS: to those of all tests.
add() {
    local ok bad left
    read -r ok _ bad _ left _ <<<"$1"
    passed=$((passed + ok + bad)) ignored=$((ignored + left))
}

# run TITLE ARGUMENT...: the tests that `cargo test ARGUMENT...` runs, but for those in `skipped`.
#
# Servers that are killed and calls that have deadlines depend on what else the machine does. Up to three tests that fail are
# tried once more by themselves, and are named at the end; more are not the machine's.
run() {
    step "$1"
    shift
    local tests=("${cargo_test[@]}" --no-fail-fast "$@") status=0 counts failed
    "${tests[@]}" -- "${skipped[@]}" 2>&1 | tee "$log" || status=$?
    counts=$(count "$log")
    if [ "$status" -ne 0 ]; then
        # Again at the end, where it is looked for.
        step 'what failed'
        grep -E '^(test [^ ]+ \.\.\. FAILED|error)' "$log" || true
        awk '/^---- .* ----$/ { lines = 30 } lines-- > 0' "$log" | head -n 120
        mapfile -t failed < <(sed -n 's/^test \([^ ]*\) \.\.\. FAILED.*$/\1/p' "$log" | sort -u)
        case $counts in *" ${#failed[@]} failed,"*) ;; *) fail "not all tests are green: $counts" ;; esac
        [ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le 3 ] || fail "not all tests are green: $counts"
        step "again, by themselves: ${failed[*]}"
        status=0
        # Without targets of their own, all that are tests; the documentation is not tried again.
        case " $* " in *' --test '*) ;; *) tests+=(--tests) ;; esac
        "${tests[@]}" -- --exact --test-threads 1 "${failed[@]}" 2>&1 | tee "$log" | grep -v '^$' || status=$?
        case $status/$(count "$log") in
            "0/${#failed[@]} passed, 0 failed, 0 ignored") ;;
            *) fail "not all tests are green: $counts; by themselves: $(count "$log")" ;;
        esac
        again+=("${failed[@]}")
    fi
    add "$counts"
}

cargo_test=(cargo test --workspace --all-features --locked)
[ "$all" = true ] || cargo_test+=(--exclude ratelimit-cost --exclude ratelimit-examples)

step 'building'
"${cargo_test[@]}" --no-run

# Hundreds of programs that must not compile keep the processors busy, and most other tests wait: both at a time, and
# those that wait go first.
nice -n 10 "${cargo_test[@]}" --test ui -- --exact fail >"$logs/compiled" 2>&1 &
compiling=$!
skipped=(--exact --skip fail)
if [ "$all" = true ]; then
    run 'what a change may break, what a check costs, and the code blocks of the documentation'
else
    run 'what a change may break, and the code blocks of the documentation'
fi
step 'what must not compile'
status=0
wait "$compiling" || status=$?
cat "$logs/compiled"
[ "$status" -eq 0 ] || fail "not all tests are green: $(count "$logs/compiled")"
add "$(count "$logs/compiled")"

if [ "$all" = true ]; then
    skipped=()
    # By themselves: they measure, or put the machine under load.
    run 'what takes longer' --test examples --test neutrality --test bounds --test flood --test faults
    step 'half a minute of random faults on a cluster'
    cargo test --quiet --workspace --all-features --locked --test soak -- 0.5
fi

printf '\nAll tests are green: %d passed, 0 failed, %d ignored.\n' "$passed" "$ignored"
if [ "${#again[@]}" -gt 0 ]; then
    printf 'These passed at the second try only, which is a defect: %s\n' "${again[*]}"
fi

if [ "$with_engines" = true ]; then
    scripts/engines.sh
fi
