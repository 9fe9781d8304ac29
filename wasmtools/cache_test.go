package wasmtools

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/module"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// answer is a reactor that answers n in decimal, as an error code.
func answer(n int32) []byte {
	return enc.Module{Funcs: []enc.Func{{Export: "hermes_abi_v1"},
		{Export: "hermes_call", Results: []byte{enc.I32}, Body: enc.Const(n)}}}.Bytes()
}

// big is a module that takes a while to compile.
func big() []byte {
	m := enc.Module{Funcs: []enc.Func{{Export: "_start"}}, Pages: 1}
	body := bytes.Repeat(append(enc.Call(0), append(append(enc.Const(0), enc.Const(7)...), 0x36, 2, 0)...), 40)
	for range 3000 {
		m.Funcs = append(m.Funcs, enc.Func{Body: body})
	}
	return m.Bytes()
}

// works compiles and calls a module whose hermes_call returns 9.
func works(t *testing.T, r *Runtime, wasm []byte) {
	t.Helper()
	tl := bind(t, r, wasm, Spec{})
	defer tl.Close()
	_, err := invoke(t.Context(), t, tl, `{}`)
	wantFault(t, err, fault.Internal, "returned 9")
}

func code(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*", "wazero-*", "*"))
	if err != nil || len(all) != 1 {
		t.Fatalf("cache holds %v, %v", all, err)
	}
	return all[0]
}

func TestCacheIsUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	wasm := answer(9)
	var before os.FileInfo
	for i := range 3 {
		r := open(t, Options{CacheDir: dir})
		if got := r.Cached(module.Digest(wasm)); got != (i > 0) {
			t.Errorf("round %d: cached %v", i, got)
		}
		works(t, r, wasm)
		if !r.Cached(module.Digest(wasm)) {
			t.Error("not cached after it was compiled")
		}
		if st := r.Stats(); st.Compiled != int64(1-min(i, 1)) || st.FromCache != int64(min(i, 1)) {
			t.Errorf("round %d: %d compiled, %d from the cache", i, st.Compiled, st.FromCache)
		}
		now, err := os.Stat(code(t, dir))
		check(t, err)
		if before != nil && !os.SameFile(before, now) {
			t.Error("compiled again")
		}
		before = now
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("cache has mode %v, %v", st.Mode(), err)
	}
}

func TestCacheIsMadePrivate(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o755))
	open(t, Options{CacheDir: dir})
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("cache has mode %v, %v", st.Mode(), err)
	}
	check(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	if _, err := Open(Options{CacheDir: filepath.Join(dir, "file")}); err == nil {
		t.Error("a file is taken for a cache directory")
	}
}

// TestBrokenCache damages an entry in every way: the module works, and the entry is whole
// again after.
func TestBrokenCache(t *testing.T) {
	wasm := answer(9)
	for name, damage := range map[string]func(t *testing.T, code, seal string){
		"flipped byte in the code": func(t *testing.T, code, _ string) {
			b, err := os.ReadFile(code)
			check(t, err)
			b[len(b)/2] ^= 0xff
			check(t, os.WriteFile(code, b, 0o600))
		},
		"flipped byte in the header": func(t *testing.T, code, _ string) {
			b, err := os.ReadFile(code)
			check(t, err)
			b[1] ^= 0xff
			check(t, os.WriteFile(code, b, 0o600))
		},
		"cut off":    func(t *testing.T, code, _ string) { check(t, os.Truncate(code, 20)) },
		"empty":      func(t *testing.T, code, _ string) { check(t, os.Truncate(code, 0)) },
		"no code":    func(t *testing.T, code, _ string) { check(t, os.Remove(code)) },
		"no seal":    func(t *testing.T, _, seal string) { check(t, os.Remove(seal)) },
		"empty seal": func(t *testing.T, _, seal string) { check(t, os.Truncate(seal, 0)) },
		"foreign seal": func(t *testing.T, _, seal string) {
			check(t, os.WriteFile(seal, []byte("nonsense"), 0o600))
		},
		"directory for code": func(t *testing.T, code, _ string) {
			check(t, errors.Join(os.Remove(code), os.Mkdir(code, 0o700)))
		},
		"file for directory": func(t *testing.T, _, seal string) {
			entry := filepath.Dir(seal)
			check(t, errors.Join(os.RemoveAll(entry), os.WriteFile(entry, nil, 0o600)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			works(t, open(t, Options{CacheDir: dir}), wasm)
			at := code(t, dir)
			damage(t, at, filepath.Join(filepath.Dir(filepath.Dir(at)), "seal"))
			works(t, open(t, Options{CacheDir: dir}), wasm)
			before, err := os.Stat(code(t, dir))
			check(t, err)
			works(t, open(t, Options{CacheDir: dir}), wasm)
			if after, err := os.Stat(code(t, dir)); err != nil || !os.SameFile(before, after) {
				t.Error("the entry was not whole again")
			}
		})
	}
}

// TestSealedNonsense: an entry with a right seal over wrong code, which can only be an
// accident of ours, still costs no module.
func TestSealedNonsense(t *testing.T) {
	dir, wasm := t.TempDir(), answer(9)
	var l logs
	works(t, open(t, Options{CacheDir: dir}), wasm)
	check(t, os.WriteFile(code(t, dir), []byte("nonsense"), 0o600))
	e := &cacheEntry{dir: filepath.Dir(filepath.Dir(code(t, dir)))}
	check(t, e.seal())
	works(t, open(t, Options{CacheDir: dir, Log: l.logger()}), wasm)
	if !strings.Contains(l.String(), "compile cache unusable") {
		t.Errorf("nothing is said: %s", l.String())
	}
	works(t, open(t, Options{CacheDir: dir}), wasm)
	code(t, dir)
}

// TestUnwritten: a disk without room is not told as a module that is not valid.
func TestUnwritten(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/state/x.tmp", Err: syscall.ENOSPC}
	if got := unwritten(fault.Wrap(fault.Invalid, full, "is not valid WebAssembly: %s", full)); got.Error() != full.Error() {
		t.Errorf("got %v", got)
	}
	if bad := fault.New(fault.Invalid, "is not valid WebAssembly"); !errors.Is(unwritten(bad), bad) {
		t.Errorf("got %v", unwritten(bad))
	}
}

// TestCacheSize: what was used last is kept.
func TestCacheSize(t *testing.T) {
	dir := t.TempDir()
	digests := []string{}
	for n := range 4 {
		wasm := append(answer(9), enc.Custom(strings.Repeat("x", n+1), nil)...)
		digests = append(digests, module.Digest(wasm))
		works(t, open(t, Options{CacheDir: dir}), wasm)
		old := time.Now().Add(-time.Hour * time.Duration(10-n))
		check(t, os.Chtimes(filepath.Join(dir, digests[n]+"-"+formOf(100_000), sealName), old, old))
	}
	works(t, open(t, Options{CacheDir: dir}), append(answer(9), enc.Custom("x", nil)...)) // the first one is used again
	r := open(t, Options{CacheDir: dir, CacheSize: 3 * sizeOf(filepath.Join(dir, digests[0]+"-"+formOf(100_000)))})
	works(t, r, answer(9))
	for n, want := range []bool{true, false, false, true} {
		if got := r.Cached(digests[n]); got != want {
			t.Errorf("module %d: cached %v", n, got)
		}
	}
}

// TestUnwritableCache: no space, no permission: modules run all the same.
func TestUnwritableCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	r := open(t, Options{CacheDir: dir})
	check(t, os.RemoveAll(dir))
	check(t, os.WriteFile(dir, nil, 0o600)) // now nothing can be made below it
	works(t, r, answer(9))
}

func TestNoCacheDirectory(t *testing.T) {
	r, err := Open(Options{})
	check(t, err)
	works(t, r, answer(9))
	if r.Cached(module.Digest(answer(9))) {
		t.Error("cached without a cache")
	}
	check(t, r.Close(t.Context()))
}

// TestOneCompilation: those who ask at the same time for the same bytes share it.
func TestOneCompilation(t *testing.T) {
	r := open(t, Options{CacheDir: t.TempDir()})
	wasm := big()
	mods := make([]*Module, 8)
	var all sync.WaitGroup
	for i := range mods {
		all.Go(func() {
			var err error
			if mods[i], err = r.Compile(t.Context(), bytes.Clone(wasm)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for _, m := range mods {
		if m != mods[0] {
			t.Error("two modules of the same bytes")
		}
	}
	for _, m := range mods {
		m.Release()
	}
	if len(r.modules) != 0 {
		t.Errorf("%d modules are kept", len(r.modules))
	}
}

// TestCompileCanceled: who stops waiting gets an error; the others, and the cache, get
// the module.
func TestCompileCanceled(t *testing.T) {
	r := open(t, Options{CacheDir: t.TempDir()})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := r.Compile(ctx, big())
	wantFault(t, err, fault.Canceled, "waiting for a module")
	if !errors.Is(err, gone) {
		t.Errorf("the cause is lost: %v", err)
	}
	m, err := r.Compile(t.Context(), big())
	check(t, err)
	m.Release()
	if !r.Cached(module.Digest(big())) {
		t.Error("not cached")
	}
}

// TestCloseDuringCompile: closing ends compilations, and those who wait are told.
func TestCloseDuringCompile(t *testing.T) {
	r, err := Open(Options{})
	check(t, err)
	done := make(chan error, 1)
	go func() {
		m, err := r.Compile(context.Background(), big())
		if err == nil {
			m.Release()
		}
		done <- err
	}()
	for started := false; !started; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		started = len(r.modules) > 0
		r.mu.Unlock()
	}
	check(t, r.Close(t.Context()))
	if err := <-done; err != nil && fault.KindOf(err) != fault.Canceled {
		t.Error(err)
	}
	check(t, r.Close(t.Context()))
}

// TestCompileTimeout: a module that takes too long is an error of its own, and does not
// keep others from being compiled.
func TestCompileTimeout(t *testing.T) {
	r := open(t, Options{CacheDir: t.TempDir(), CompileTimeout: time.Microsecond})
	_, err := r.Compile(t.Context(), big())
	wantFault(t, err, fault.Timeout, "to compile")
	r = open(t, Options{CacheDir: t.TempDir()})
	works(t, r, answer(9))
}

// TestReleaseOfTheLast: a module is compiled anew after everybody has let go of it, and a
// module that failed is tried again.
func TestReleaseOfTheLast(t *testing.T) {
	r := open(t, Options{})
	a, err := r.Compile(t.Context(), answer(9))
	check(t, err)
	a.Release()
	b, err := r.Compile(t.Context(), answer(9))
	check(t, err)
	defer b.Release()
	if a == b {
		t.Error("a released module came back")
	}
	for range 2 {
		if _, err := r.Compile(t.Context(), []byte("(module)")); fault.KindOf(err) != fault.Invalid {
			t.Error(err)
		}
	}
}
