// Package sdktest finds the compilers of guest languages and builds guests with them. It is
// for tests.
//
// A guest is built as its author would build it: from the files that hermes tools new writes,
// with their Makefile and a source of the test's own.
package sdktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/wasmtools/sdk"
)

// Missing says what to install so that tools in a language can be built here; empty: nothing.
func Missing(l sdk.Language) string {
	if _, err := exec.LookPath("make"); err != nil {
		return "make is not installed"
	}
	switch l {
	case sdk.C:
		return missingC()
	case sdk.Rust:
		return missingRust()
	case sdk.AssemblyScript:
		if asc() == "" {
			return "the AssemblyScript compiler is not installed: run npm ci in wasmtools/sdk/testdata/npm"
		}
	case sdk.Go, sdk.Native: // the test itself was built by it
	}
	return ""
}

func missingC() string {
	dir, err := os.MkdirTemp("", "sdktest")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "x.wasm")
	cmd := exec.Command("clang", "--target=wasm32-wasi", "-mexec-model=reactor", "-o", out, "-x", "c", "-") //nolint:gosec // a name of ours
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\nint x(void) { return abs(1); }\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("clang cannot build for wasm32-wasi (Debian: clang lld wasi-libc libclang-rt-dev-wasm32): %v %s", err, out)
	}
	return ""
}

// missingRust looks where the Makefile of a new tool does.
func missingRust() string {
	for _, rustc := range []string{"rustc", "/usr/bin/rustc"} {
		root, err := exec.Command(rustc, "--print", "sysroot").Output() //nolint:gosec // names of ours
		if err != nil {
			continue
		}
		for _, target := range []string{"wasm32-wasip1", "wasm32-wasi"} {
			if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(root)), "lib/rustlib", target, "lib")); err == nil {
				return ""
			}
		}
	}
	return "no rustc has the target wasm32-wasip1 or wasm32-wasi (Debian: rustc libstd-rust-dev-wasm32)"
}

// asc finds the AssemblyScript compiler: the one of the test data, or one on the path.
func asc() string {
	if root, err := moduleRoot(); err == nil {
		local := filepath.Join(root, "wasmtools/sdk/testdata/npm/node_modules/.bin/asc")
		if _, err := os.Stat(local); err == nil {
			return local
		}
	}
	path, err := exec.LookPath("asc")
	if err != nil {
		return ""
	}
	return path
}

// moduleRoot is the folder of this module's go.mod, above the package that is tested.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // above this package
		if err == nil && strings.HasPrefix(string(b), "module github.com/hermes-runtime/hermes\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the test runs outside of the module")
		}
		dir = filepath.Dir(dir)
	}
}

// Environ are the variables that the Makefile of a tool needs here, as NAME=VALUE: which
// compiler to use, and where Go keeps what it builds, for a test that hides the home directory.
func Environ() ([]string, error) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("asking go for its folders: %w", err)
	}
	dirs := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(dirs) != 2 {
		return nil, fmt.Errorf("go env says %q", out)
	}
	env := []string{"GOCACHE=" + dirs[0], "GOMODCACHE=" + dirs[1], "GOPROXY=off", "GOFLAGS=", "GOWORK=off"}
	if path := asc(); path != "" {
		env = append(env, "ASC="+path)
	}
	return env, nil
}

// Source is the name of the file that a tool's own code stands in.
func Source(l sdk.Language) string {
	switch l {
	case sdk.C:
		return "tool.c"
	case sdk.Rust:
		return "tool.rs"
	case sdk.AssemblyScript:
		return "tool.ts"
	case sdk.Go, sdk.Native:
	}
	return "main.go"
}

// Build builds a guest from the text of a source file. In Go it imports its library as
// example.com/guest/guest. A test without the compiler is skipped and says what to install.
func Build(tb testing.TB, l sdk.Language, source string) []byte {
	tb.Helper()
	if m := Missing(l); m != "" {
		tb.Skip(m)
	}
	dir := tb.TempDir()
	files, err := sdk.New(l, "guest")
	if err != nil {
		tb.Fatal(err)
	}
	files = append(files, sdk.File{Name: Source(l), Content: []byte(source)})
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	env, err := Environ()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command("make", "guest.wasm")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("building a guest in %s: %v\n%s", l, err, out)
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "guest.wasm")) //nolint:gosec // a folder of the test
	if err != nil {
		tb.Fatal(err)
	}
	return wasm
}
