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

build() {
	name=$1
	target=$out/$name.wasm
	if [ -f "$target" ] && [ -z "$(find "wasmtools/guests/$name" wasmtools/sdk/go wasmtools/guests/build.sh go.mod -newer "$target" -not -name '*_test.go' -not -path '*/testdata/*' -type f | head -n 1)" ]; then
		return
	fi
	echo "building $name.wasm"
	temporary=$out/.$name.wasm.$$
	if GOOS=wasip1 GOARCH=wasm go build -trimpath -ldflags='-s -w' -buildmode=c-shared -o "$temporary" "./wasmtools/guests/$name"; then
		mv "$temporary" "$target"
	else
		rm -f "$temporary"
		return 1
	fi
}

# Side by side: each spends most of its time in the linker, which uses one processor.
pids=
for name in text_stats json_query csv_query diff run_javascript; do
	build "$name" &
	pids="$pids $!"
done
failed=0
for pid in $pids; do
	wait "$pid" || failed=1
done
exit "$failed"
