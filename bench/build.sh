#!/usr/bin/env bash
# Builds the work of the benchmark in every language and shape, into bench/out. What is
# newer than its sources is left alone. Needs Go, and for the other languages what Debian
# calls clang, lld, wasi-libc, libclang-rt-14-dev-wasm32, rustc, libstd-rust-dev-wasm32,
# nodejs and npm.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p out
out=$PWD/out
rustc=${RUSTC:-/usr/bin/rustc} # the one with a standard library for wasm32-wasi

# stale OUTPUT SOURCES...: whether one of the sources is newer.
stale() {
  local target=$out/$1
  shift
  [ ! -f "$target" ] || [ -n "$(find "$@" build.sh -newer "$target" -type f -print -quit)" ]
}

go_wasm() { # output, package, flags
  stale "$1" workload/go ../wasmtools/sdk/go || return 0
  echo "go $1"
  GOOS=wasip1 GOARCH=wasm go build -trimpath -ldflags='-s -w' -o "$out/$1" "${@:3}" "$2"
}
go_wasm go-command.wasm ./workload/go/tool
go_wasm go-reactor.wasm ./workload/go/tool -buildmode=c-shared
go_wasm go-plugin.wasm ./workload/go/plugin -buildmode=c-shared
if stale go-native workload/go; then
  echo "go go-native"
  CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$out/go-native" ./workload/go/native
fi

c() { # output, source, flags
  stale "$1" workload/c || return 0
  echo "c $1"
  clang -O2 -Wall -Wextra -Werror -o "$out/$1" "workload/c/$2" "${@:3}"
}
wasi=(--target=wasm32-wasi -Wl,--strip-all)
c c-command.wasm command.c "${wasi[@]}"
c c-reactor.wasm reactor.c "${wasi[@]}" -mexec-model=reactor
c c-plugin.wasm plugin.c "${wasi[@]}" -mexec-model=reactor
c c-native command.c

rust() { # output, source, flags
  stale "$1" workload/rust || return 0
  echo "rust $1"
  "$rustc" --target wasm32-wasi -C opt-level=3 -C panic=abort -C strip=symbols -o "$out/$1" "workload/rust/$2" "${@:3}"
}
rust rust-command.wasm command.rs
# Without start-up code of its own a library would run its constructors in every call.
crt=$(clang --target=wasm32-wasi -print-file-name=crt1-reactor.o)
[ -f "$crt" ] || crt=/usr/lib/wasm32-wasi/crt1-reactor.o
rust rust-reactor.wasm reactor.rs -C link-arg="$crt" -C link-arg=--export=_initialize

if [ ! -x workload/as/node_modules/.bin/asc ] || [ workload/as/package-lock.json -nt workload/as/node_modules/.package-lock.json ]; then
  (cd workload/as && npm ci --silent --no-audit --no-fund)
fi
as() { # output, source, flags
  stale "$1" workload/as/assembly || return 0
  echo "assemblyscript $1"
  (cd workload/as && node_modules/.bin/asc "assembly/$2" -O3 --use abort= --outFile "$out/$1" "${@:3}")
}
as as-command.wasm command.ts
as as-reactor.wasm reactor.ts --exportStart _initialize
