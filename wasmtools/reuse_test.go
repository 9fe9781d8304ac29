package wasmtools

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// harm is what a guest does in one call that the next must not notice.
type harm struct {
	name    string
	imports []string
	do      func(h *hostile) []byte // leaves nothing on the stack
	// check leaves an i32 that is 0 if all is as it should be.
	check func(h *hostile) []byte
	limit Limits
}

// whole is a check of what every call needs: standard streams, mounts, host functions.
func whole(h *hostile) []byte {
	return either(
		h.do("fd_write", 2, 64, 0, 128), // nothing, to stderr
		h.do("fd_prestat_get", 3, 128),
		h.do("path_open", 3, 0, 0, 1, 0, rights, rights, 0, 128),
		differs(word(128), 4), // the first free descriptor
		h.do("fd_close", word(128)),
	)
}

// either is the bitwise or of codes that push an i32 each.
func either(codes ...[]byte) []byte {
	out := enc.Const(0)
	for _, c := range codes {
		out = slices.Concat(out, c, []byte{0x72})
	}
	return out
}

// differs pushes 0 if the code gives n.
func differs(code []byte, n int32) []byte { return slices.Concat(code, enc.Const(n), []byte{0x47}) }

const badDescriptor = 8

func harms() []harm {
	opened := func(h *hostile) []byte { return h.drop("path_open", 3, 0, 0, 1, 0, rights, rights, 0, 128) }
	return []harm{
		{name: "closes its streams", imports: []string{"fd_close"}, do: func(h *hostile) []byte {
			return slices.Concat(h.drop("fd_close", 0), h.drop("fd_close", 1), h.drop("fd_close", 2))
		}},
		{name: "closes its mount", do: func(h *hostile) []byte { return h.drop("fd_close", 3) }},
		{name: "leaves files open", do: func(h *hostile) []byte { return slices.Concat(opened(h), opened(h)) }},
		{name: "renumbers a file", imports: []string{"fd_renumber", "fd_fdstat_get"}, do: func(h *hostile) []byte {
			return slices.Concat(opened(h), h.drop("fd_renumber", word(128), 9))
		}, check: func(h *hostile) []byte { return differs(h.do("fd_fdstat_get", 9, 128), badDescriptor) }},
		{name: "renumbers a file over its streams", imports: []string{"fd_renumber"}, do: func(h *hostile) []byte {
			return slices.Concat(h.drop("fd_close", 1), opened(h), h.drop("fd_renumber", word(128), 2), h.drop("fd_renumber", 2, 1))
		}},
		{name: "changes flags of its streams and its mount", imports: []string{"fd_fdstat_set_flags", "fd_fdstat_get"}, do: func(h *hostile) []byte {
			var code []byte
			for fd := range 4 {
				code = append(code, h.drop("fd_fdstat_set_flags", fd, 5)...)
			}
			return code
		}, check: func(h *hostile) []byte {
			var all [][]byte
			for fd := range 4 {
				all = append(all, h.do("fd_fdstat_get", fd, 256), slices.Concat(word(256), enc.Const(16), []byte{0x76})) // flags
			}
			return either(all...)
		}},
		{name: "lists its mount to the end", imports: []string{"fd_readdir"}, do: func(h *hostile) []byte {
			return slices.Concat(h.drop("fd_readdir", 3, 4096, 4096, int64(0), 128), h.drop("fd_readdir", 3, 4096, 24, int64(3), 128))
		}, check: func(h *hostile) []byte {
			return either(h.do("fd_readdir", 3, 4096, 4096, int64(0), 128), slices.Concat(word(128), []byte{0x45})) // nothing used
		}},
		{name: "keeps an answer", imports: []string{"hermes_http.fetch", "hermes.result_len"}, do: func(h *hostile) []byte {
			return h.drop("hermes_http.fetch", 16, 2)
		}, check: func(h *hostile) []byte { return differs(h.do("hermes.result_len", 1), -badDescriptor) }},
		{name: "uses up its host calls", imports: []string{"hermes_http.fetch"}, limit: Limits{HostCalls: 2}, do: func(h *hostile) []byte {
			return slices.Repeat(h.drop("hermes_http.fetch", 16, 2), 3)
		}, check: func(h *hostile) []byte {
			return slices.Concat(h.do("hermes_http.fetch", 16, 2), enc.Const(0), []byte{0x4c})
		}}, // <= 0
		{name: "uses up its logs", imports: []string{"hermes.log"}, do: func(h *hostile) []byte {
			return h.do("hermes.log", 1, 0, 60<<10)
		}, check: func(h *hostile) []byte { return append(h.do("hermes.log", 1, 0, 60<<10), enc.Const(0)...) }},
		{name: "uses up its fuel", limit: Limits{Fuel: 1_000_000}, do: func(*hostile) []byte { return enc.Forever() }},
		{name: "leaves an error and output behind", imports: []string{"hermes.error_set"}, do: func(h *hostile) []byte {
			return slices.Concat(h.do("hermes.error_set", 0, 1), h.drop("hermes.output_write", 0, 1), []byte{enc.Unreachable})
		}},
		{name: "exits with success", imports: []string{"proc_exit"}, do: func(h *hostile) []byte { return h.do("proc_exit", 0) }},
		{name: "grows", do: func(*hostile) []byte { return append(enc.Const(5), 0x40, 0, enc.Drop) },
			check: func(*hostile) []byte { return differs([]byte{0x3f, 0}, 16) }},
		{name: "overflows its stack", do: func(h *hostile) []byte { return append([]byte{0x10}, append(enc.U(h.own(1)), enc.Drop)...) }},
		{name: "writes all over its memory", do: func(*hostile) []byte {
			return slices.Concat(enc.Const(0), enc.Const(255), enc.Const(16<<16), []byte{0xfc, 11, 0})
		}, check: func(*hostile) []byte { return either(word(8192), word(16<<16-4), differs(word(16), 0x7d7b)) }},
	}
}

// TestReuse: whatever a guest does in one call, the next finds everything as it should be.
func TestReuse(t *testing.T) {
	r := open(t, Options{})
	for _, x := range harms() {
		for _, isolation := range []Isolation{Snapshot, Fresh} {
			t.Run(x.name+"/"+string(isolation), func(t *testing.T) {
				spec := files(t)
				spec.Isolation, spec.Limits = isolation, x.limit
				if slices.Contains(x.imports, "hermes_http.fetch") {
					spec.HTTP = []HTTPGrant{{Hosts: []string{"https://nowhere.invalid"}}}
				}
				tl := bind(t, r, x.guest(), spec)
				for range 3 {
					_, _ = invoke(t.Context(), t, tl, `{"long":"`+strings.Repeat("x", 1000)+`"}`) // how it ends is tested elsewhere
					if got, err := invoke(t.Context(), t, tl, `{}`); got != "7" || err != nil {
						t.Errorf("the next call: %s, %v", got, err)
					}
				}
			})
		}
	}
}

// guest does the harm when its input is long, and checks otherwise.
func (x harm) guest() []byte {
	imports := append([]string{"hermes.input_len", "hermes.output_write", "fd_write", "fd_prestat_get", "path_open", "fd_close"}, x.imports...)
	slices.Sort(imports)
	h := hostileGuest(slices.Compact(imports)...)
	h.Data = "f\x00\x00\x00" + strings.Repeat("\x00", 12) + "{}"
	check := whole(h)
	if x.check != nil {
		check = either(check, x.check(h))
	}
	return h.reactor(slices.Concat(
		h.do("hermes.input_len"), enc.Const(1000), []byte{0x4b, 0x04, 0x40}, x.do(h), []byte{0x05},
		check, []byte{0x04, 0x40, enc.Unreachable, 0x0b}, []byte{0x0b},
		setWord(512, 0x37), h.drop("hermes.output_write", 512, 1), enc.Const(0)))
}

// TestListingIsFresh: what was in a directory in an earlier call is not what is listed.
func TestListingIsFresh(t *testing.T) {
	spec := files(t)
	spec.Optional = true
	tl := bind(t, open(t, Options{}), built.reactor, spec)
	dir := spec.Files[0].Path
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, `[".","f"]`},
		{func() error { return os.WriteFile(filepath.Join(dir, "g"), nil, 0o600) }, `[".","f","g"]`},
		{func() error { return os.Remove(filepath.Join(dir, "f")) }, `[".","g"]`},
	} {
		check(t, step.do())
		if got, err := invoke(t.Context(), t, tl, op{"do": "list", "path": "/d"}); got != step.want || err != nil {
			t.Errorf("listed %s, %v; want %s", got, err, step.want)
		}
	}
}

// TestExitsEverywhere: a guest may end itself wherever it runs.
func TestExitsEverywhere(t *testing.T) {
	start := 2
	exit := func(h *hostile) []byte { return h.do("proc_exit", 0) }
	for name, make := range map[string]func(h *hostile) []byte{
		"in the start section": func(h *hostile) []byte {
			h.Start = &start
			start = h.own(2)
			return h.reactor(enc.Const(0), enc.Func{Body: exit(h)})
		},
		"in _initialize": func(h *hostile) []byte {
			return h.reactor(enc.Const(0), enc.Func{Export: "_initialize", Body: exit(h)})
		},
		"in hermes_describe": func(h *hostile) []byte {
			h.Extra = nil
			return h.reactor(enc.Const(0), enc.Func{Export: "hermes_describe", Results: []byte{enc.I32}, Body: append(exit(h), enc.Const(0)...)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			tl := bind(t, open(t, Options{}), make(hostileGuest("proc_exit")), Spec{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 3 {
				_, err := invoke(ctx, t, tl, `{}`)
				if name == "in hermes_describe" { // which no call needs
					check(t, err)
				} else if k := fault.KindOf(err); k != fault.Internal && k != fault.Unavailable {
					t.Errorf("%v (%s)", err, k)
				}
			}
		})
	}
}

// TestGoIsReused: an instance of a Go guest serves one call after another, though all have
// a deadline, which the guest makes a context of, and though they allocate.
func TestGoIsReused(t *testing.T) {
	tl := bind(t, open(t, Options{}), built.reactor, Spec{Optional: true})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	args := `{"do":"echo","value":"` + strings.Repeat("x", 50_000) + `"}`
	for range 10 {
		_, err := invoke(ctx, t, tl, args)
		check(t, err)
	}
	if s := tl.Stats(); s.Reused != 9 || s.Discarded["memory grew"] > 0 {
		t.Errorf("%+v", s)
	}
}
