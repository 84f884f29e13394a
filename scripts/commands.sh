#!/usr/bin/env bash
# Checks that what the documents say to run is there to run, and that each feature of the runtime builds by itself: tests
# build with all features at once, and hide what lacks one.
#
#   scripts/commands.sh
#
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Compilers that are asked about themselves read standard input, whatever that happens to be.
exec </dev/null

documents=(README.md README.zh-CN.md CONTRIBUTING.md examples/README.md ratelimit-runtime/src/guide/*.md)

# Programs that serve do not end, so they are built as they would be to run.
grep -ohE 'cargo (run|install)( [^`#|]*)?' "${documents[@]}" | sed -E 's/ -- .*//; s/ --( *)$//; s/ +$//' | sort -u |
    while read -r command; do
        printf '\n==> %s\n' "$command"
        read -r -a words <<<"$command"
        arguments=()
        for word in "${words[@]:2}"; do
            case $word in
            # `cargo install` names a package by its folder, or by its name once that is published.
            --path) arguments+=(-p) ;;
            examples) arguments+=(ratelimit-examples) ;;
            --locked | --release) ;;
            *) arguments+=("$word") ;;
            esac
        done
        if [ "${words[1]}" = install ] && [ "${arguments[0]:-}" != -p ]; then
            arguments=(-p "${arguments[@]}")
        fi
        cargo check --quiet --locked "${arguments[@]}"
    done

# Every script that is named is one that can be run.
grep -ohE '(^|[ `(])scripts/[a-z-]+\.sh' "${documents[@]}" | grep -oE 'scripts/.*' | sort -u |
    while read -r script; do
        [ -x "$script" ] || { printf 'error: %s is named, and cannot be run\n' "$script" >&2; exit 1; }
    done

sed -n '/^\[features\]/,/^\[/p' ratelimit-runtime/Cargo.toml | grep -oE '^[a-z][a-z-]*' | grep -v '^default$' |
    while read -r feature; do
        printf '\n==> the runtime with %s alone\n' "$feature"
        cargo check --quiet --locked -p ratelimit-runtime --no-default-features --features "$feature"
    done
