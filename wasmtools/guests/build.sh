#!/bin/sh
# Builds the shipped guests into a directory, by default tools.d of the repository. What is
# newer than its sources is left alone; a finished build appears in one step, since a
# running server may be watching.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$root/tools.d}
cd "$root"
mkdir -p "$out"
out=$(cd "$out" && pwd)

build() { # name, further flags of go build
	name=$1
	shift
	target=$out/$name.wasm
	if [ -f "$target" ] && [ -z "$(find "wasmtools/guests/$name" wasmtools/sdk/go wasmtools/guests/build.sh go.mod -newer "$target" -not -name '*_test.go' -type f | head -n 1)" ]; then
		return
	fi
	echo "building $name.wasm"
	temporary=$out/.$name.wasm.$$
	if GOOS=wasip1 GOARCH=wasm go build -trimpath -ldflags='-s -w' -o "$temporary" "$@" "./wasmtools/guests/$name"; then
		mv "$temporary" "$target"
	else
		rm -f "$temporary"
		return 1
	fi
}

build text_stats -buildmode=c-shared
build json_query -buildmode=c-shared
build csv_query -buildmode=c-shared
build diff -buildmode=c-shared
build run_javascript -buildmode=c-shared
