package wasmtools

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	enc "github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// bombs is the table: processor, memory, tables, compiler, output, descriptors.
func bombs() []bomb {
	return slices.Concat(processorBombs(), hostBombs(), memoryBombs(), outputBombs(), fileBombs(), compileBombs())
}

// late are the kinds of a call that its deadline ended.
func late() []fault.Kind { return []fault.Kind{fault.Timeout} }

func broke() []fault.Kind { return []fault.Kind{fault.Internal} }

func processorBombs() []bomb {
	command := func(code func(h *hostile) []byte, more ...func(h *hostile) enc.Func) func(*testing.T) ([]byte, Spec) {
		return func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			var funcs []enc.Func
			for _, f := range more {
				funcs = append(funcs, f(h))
			}
			return h.command(code(h), funcs...), Spec{}
		}
	}
	forever := func(*hostile) []byte { return enc.Forever() }
	return []bomb{
		{name: "endless loop", make: command(forever), kinds: late(), says: "ran out"},
		{name: "endless loop in the start section", make: func(*testing.T) ([]byte, Spec) {
			h, start := hostileGuest(), 1
			h.Start = &start
			return h.command(nil, enc.Func{Body: enc.Forever()}), Spec{}
		}, kinds: late()},
		{name: "endless loop of memory.grow", make: command(func(*hostile) []byte {
			return enc.Forever(append(enc.Const(1<<16), 0x40, 0, enc.Drop)...)
		}), kinds: late(), says: "ran out"},
		{name: "recursion without loops", make: command(func(h *hostile) []byte {
			return append(enc.Call(h.own(1), 90), enc.Drop)
		}, func(h *hostile) enc.Func { return fibonacci(h.own(1)) }), kinds: late(), says: "ran out"},
		{name: "endless recursion", make: command(func(h *hostile) []byte { return enc.Call(h.own(0)) }),
			kinds: []fault.Kind{fault.Internal, fault.Timeout}, grows: 600},
		{name: "tail calls", make: command(func(h *hostile) []byte { return append([]byte{0x12}, enc.U(h.own(0))...) }), refused: "tail"},
		{name: "large memory.fill in a loop", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Pages = 1000
			fill := slices.Concat(enc.Const(0), enc.Const(7), enc.Const(1000<<16), []byte{0xfc, 11, 0})
			return h.command(enc.Forever(fill...)), Spec{}
		}, kinds: late(), says: "ran out", grows: 300},
		{name: "large memory.copy in a loop", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Pages = 1000
			move := slices.Concat(enc.Const(1), enc.Const(0), enc.Const(999<<16), []byte{0xfc, 10, 0, 0})
			return h.command(enc.Forever(move...)), Spec{}
		}, kinds: late(), says: "ran out", grows: 300},
	}
}

// hostBombs stay in the host.
func hostBombs() []bomb {
	return []bomb{
		{name: "host function that blocks", make: func(t *testing.T) ([]byte, Spec) {
			hung := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-hung:
				case <-r.Context().Done():
				}
			}))
			t.Cleanup(func() { close(hung); s.Close() })
			h := hostileGuest("hermes_http.fetch")
			h.Data = `{"url":"` + s.URL + `/"}`
			return h.command(h.drop("hermes_http.fetch", 0, len(h.Data))),
				Spec{HTTP: []HTTPGrant{{Hosts: []string{s.URL}, AllowPrivate: true}}}
		}, kinds: late(), says: "ran out"},
		{name: "sleep", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("poll_oneoff")
			h.Data = clock(1 << 62)
			return h.command(h.drop("poll_oneoff", 0, 1024, 1, 2048)), Spec{}
		}, kinds: late(), says: "ran out"},
		{name: "sleeps without end", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("poll_oneoff")
			h.Data = clock(1)
			return h.command(enc.Forever(h.drop("poll_oneoff", 0, 1024, 1, 2048)...)), Spec{}
		}, kinds: late(), says: "ran out"},
		{name: "sleep with a count that wraps", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("poll_oneoff")
			h.Data = strings.Repeat("\x00", 8) + "\x02"                             // until a file can be written to
			return h.command(h.drop("poll_oneoff", 0, 1024, 1<<28+1, 2048)), Spec{} // times 48 is 48, in 32 bits
		}, kinds: broke()},
		{name: "random numbers without end", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("random_get")
			h.Pages = 1000
			return h.command(enc.Forever(h.drop("random_get", 0, 16<<20)...)), Spec{}
		}, kinds: late(), says: "ran out", grows: 300},
		{name: "yields without end", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("sched_yield")
			return h.command(enc.Forever(h.drop("sched_yield")...)), Spec{}
		}, kinds: late(), says: "ran out"},
	}
}

// clock is a subscription of poll_oneoff to the monotonic clock.
func clock(ns uint64) string {
	b := make([]byte, 48)
	b[16] = 1
	for i := range 8 {
		b[24+i] = byte(ns >> (8 * i))
	}
	return string(b)
}

func memoryBombs() []bomb {
	// Grows by a page and writes to it, until it cannot.
	eat := slices.Concat([]byte{0x03, 0x40}, enc.Const(1), []byte{0x40, 0, 0x22, 0}, enc.Const(-1), []byte{0x47, 0x04, 0x40},
		[]byte{0x20, 0}, enc.Const(16), []byte{0x74}, enc.Const(7), enc.Const(1<<16), []byte{0xfc, 11, 0},
		[]byte{0x0c, 1, 0x0b, 0x0b})
	eater := func(then ...byte) func(*testing.T) ([]byte, Spec) {
		return func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Funcs = []enc.Func{{Export: "_start", Locals: enc.Vec(append(enc.U(1), enc.I32)), Body: append(slices.Clone(eat), then...)}}
			return h.Bytes(), Spec{Limits: Limits{Memory: 256 << 20}}
		}
	}
	table := func(grow int32) func(*testing.T) ([]byte, Spec) {
		return func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Tables = enc.Vec([]byte{0x70, 0, 0}, []byte{0x70, 0, 0}, []byte{0x70, 0, 0})
			var code []byte
			for i := range 3 {
				code = slices.Concat(code, []byte{0xd0, 0x70}, enc.Const(grow), []byte{0xfc, 15}, enc.U(i), []byte{enc.Drop})
			}
			return h.command(enc.Forever(code...)), Spec{}
		}
	}
	return []bomb{
		{name: "memory, all of it", make: eater(), fuse: 10 * time.Second, grows: 700},
		{name: "memory, all of it, and a loop", make: eater(enc.Forever()...), kinds: late(), says: "ran out", attackers: 3, grows: 900},
		{name: "memory, all of it, and a trap", make: eater(enc.Unreachable), kinds: []fault.Kind{fault.Exhausted}, says: "more memory than its limit", fuse: 10 * time.Second, grows: 700},
		{name: "smallest memory over the limit", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Pages = 2000
			return h.command(nil), Spec{}
		}, refused: "needs 125 MiB"},
		{name: "smallest memory of 4 GiB", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Pages = 65536
			return h.command(nil), Spec{}
		}, refused: "needs 4096 MiB"},
		{name: "table.grow by 4 billion", make: table(-1), kinds: late(), says: "ran out"},
		{name: "table.grow by 400 million", make: table(400_000_000), kinds: late(), says: "ran out"},
		{name: "table.grow one by one", make: table(1), kinds: late(), says: "ran out"},
		{name: "table of 4 billion", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Tables = enc.Vec([]byte{0x70, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
			return h.command(nil), Spec{}
		}, refused: "table"},
		{name: "4 billion locals", make: locals(enc.Vec([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, enc.I32})), refused: "locals"},
		{name: "50 million locals", make: locals(enc.Vec(append(enc.U(50_000_000), enc.I32))), refused: "locals"},
		{name: "a thousand groups of locals", make: locals(append(enc.U(1000), bytes.Repeat(append(enc.U(50_000), enc.I32), 1000)...)), refused: "locals"},
		{name: "100,001 data segments", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			segment := slices.Concat([]byte{0}, enc.Const(0), []byte{0x0b, 1, 'x'})
			wasm := h.command(nil)
			return insert(wasm, enc.Section(11, append(enc.U(100_001), bytes.Repeat(segment, 100_001)...))), Spec{}
		}, refused: "data segments"},
		{name: "100,000 data segments, all over each other", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			var segments []byte
			for i := range 100_000 {
				segments = append(append(append(segments, 0), enc.Const(int32(i%1000))...), 0x0b, 4, 'w', 'x', 'y', 'z')
			}
			return insert(h.command(nil), enc.Section(11, append(enc.U(100_000), segments...))), Spec{}
		}},
		{name: "data outside of the memory", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			return insert(h.command(nil), enc.Section(11, enc.Vec(slices.Concat([]byte{0}, enc.Const(-1), []byte{0x0b, 1, 'x'})))), Spec{}
		}, refused: "data segment 0 ends at"},
		{name: "elements without end", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			h.Tables = enc.Vec([]byte{0x70, 0, 10})
			wasm := h.command(nil)
			return insert(wasm, enc.Section(9, enc.Vec(slices.Concat([]byte{0}, enc.Const(0), []byte{0x0b, 0xff, 0xff, 0xff, 0x7f})))), Spec{}
		}, refused: "ele"},
	}
}

func locals(l []byte) func(*testing.T) ([]byte, Spec) {
	return func(*testing.T) ([]byte, Spec) {
		h := hostileGuest()
		h.Funcs = []enc.Func{{Export: "_start", Locals: l}}
		return h.Bytes(), Spec{}
	}
}

// insert puts a section in its place.
func insert(wasm, section []byte) []byte {
	order := func(id byte) int {
		return strings.IndexByte("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0c\x0a\x0b\x00", id)
	}
	at := 8
	for at < len(wasm) && order(wasm[at]) < order(section[0]) {
		n, shift, i := 0, 0, at+1
		for ; wasm[i]&0x80 != 0; i++ {
			n |= int(wasm[i]&0x7f) << shift
			shift += 7
		}
		at = i + 1 + (n | int(wasm[i])<<shift)
	}
	return slices.Insert(slices.Clone(wasm), at, section...)
}

func outputBombs() []bomb {
	flood := func(fd int) func(*testing.T) ([]byte, Spec) {
		return func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("fd_write")
			setup := slices.Concat(setWord(0, 64), setWord(4, 32<<10))
			return h.command(slices.Concat(setup, enc.Forever(h.drop("fd_write", fd, 0, 1, 16)...))), Spec{}
		}
	}
	endless := func(name string, args ...any) func(*testing.T) ([]byte, Spec) {
		return func(*testing.T) ([]byte, Spec) {
			h := hostileGuest(name)
			code := h.do(name, args...)
			if len(imported(name).Results) > 0 {
				code = append(code, enc.Drop)
			}
			return h.reactor(append(enc.Forever(code...), enc.Const(0)...)), Spec{Optional: true}
		}
	}
	over := []fault.Kind{fault.TooLarge}
	return []bomb{
		{name: "stdout flood", make: flood(1), kinds: over, says: "4 MiB of output"},
		{name: "stderr flood", make: flood(2), kinds: over, says: "64 KiB of logs"},
		{name: "stdout, the same 512 KiB a thousand times in one call", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("fd_write")
			return h.command(slices.Concat(vectors(1000, 512<<10), h.drop("fd_write", 1, 64, 1000, 0))), Spec{}
		}, kinds: over, says: "4 MiB of output"},
		{name: "output flood", make: endless("hermes.output_write", 0, 32<<10), kinds: over, says: "4 MiB of output"},
		{name: "flood of empty log records", make: endless("hermes.log", 1, 0, 0), kinds: over, says: "64 KiB of logs"},
		{name: "flood of error texts", make: endless("hermes.error_set", 0, 1<<20), kinds: late()},
		{name: "flood of refused requests", make: endless("hermes_http.fetch", 0, 2), kinds: append(late(), fault.TooLarge), grows: 200},
	}
}

// vectors fills memory from 64 on with n pairs of address 0 and length, by doubling.
func vectors(n, length int) []byte {
	code := slices.Concat(setWord(64, 0), setWord(68, length))
	for have := 1; have < n; have *= 2 {
		more := min(have, n-have)
		code = slices.Concat(code, enc.Const(int32(64+8*have)), enc.Const(64), enc.Const(int32(8*more)), []byte{0xfc, 10, 0, 0})
	}
	return code
}

// files grants a new directory with a file in it.
func files(t *testing.T) Spec {
	t.Helper()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600))
	return Spec{Files: []FilesGrant{{Path: dir, Mount: "/d", Mode: ReadWrite}}}
}

// all rights, for path_open.
const rights = int64(1<<30 - 1)

func fileBombs() []bomb {
	return []bomb{
		{name: "open files without end", make: func(t *testing.T) ([]byte, Spec) {
			h := hostileGuest("path_open")
			h.Data = "f"
			return h.command(enc.Forever(h.drop("path_open", 3, 0, 0, 1, 0, rights, rights, 0, 16)...)), files(t)
		}, kinds: late(), says: "ran out"},
		{name: "directories listed without end", make: func(t *testing.T) ([]byte, Spec) {
			h := hostileGuest("fd_readdir")
			return h.command(enc.Forever(h.drop("fd_readdir", 3, 64, 1<<19, int64(0), 16)...)), files(t)
		}, kinds: late(), says: "ran out"},
		{name: "a file renumbered to two billion", make: func(t *testing.T) ([]byte, Spec) {
			h := hostileGuest("path_open", "fd_renumber")
			h.Data = "f"
			return h.command(slices.Concat(h.drop("path_open", 3, 0, 0, 1, 0, rights, rights, 0, 16),
				h.drop("fd_renumber", word(16), 1<<31-1))), files(t)
		}, kinds: broke(), says: "fd_renumber for 2147483647"},
		{name: "a file renumbered without end", make: func(t *testing.T) ([]byte, Spec) {
			h := hostileGuest("path_open", "fd_renumber")
			h.Data = "f"
			return h.command(enc.Forever(slices.Concat(h.drop("path_open", 3, 0, 0, 1, 0, rights, rights, 0, 16),
				h.drop("fd_renumber", word(16), 1000))...)), files(t)
		}, kinds: late(), says: "ran out"},
		{name: "64 MB of random numbers at once", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("random_get")
			h.Pages = 1000
			return h.command(h.drop("random_get", 0, 1000<<16)), Spec{}
		}, kinds: broke(), says: "random_get for 65536000 bytes"},
		{name: "a hundred thousand buffers at once", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest("fd_write")
			return h.command(h.drop("fd_write", 2, 64, 100_000, 0)), Spec{}
		}, kinds: broke(), says: "fd_write for 100000 buffers"},
		{name: "a path of ten million directories", make: func(t *testing.T) ([]byte, Spec) {
			h := hostileGuest("path_open", "path_filestat_get")
			h.Pages = 500
			code := slices.Concat(setWord(64, 0x2f2e2f61), setWord(68, 0x2f642f61)) // a/./a/d/
			for n := 8; n < 450<<16; n *= 2 {
				code = slices.Concat(code, enc.Const(int32(64+n)), enc.Const(64), enc.Const(int32(min(n, 450<<16-n))), []byte{0xfc, 10, 0, 0})
			}
			return h.command(slices.Concat(code, enc.Forever(slices.Concat(
				h.drop("path_open", 3, 0, 64, 450<<16, 0, rights, rights, 0, 16),
				h.drop("path_filestat_get", 3, 0, 64, 450<<16, 16))...))), files(t)
		}, kinds: broke(), says: "29491200 bytes of a path"},
		{name: "a file written a thousand times in one call", make: func(t *testing.T) ([]byte, Spec) {
			h := hostileGuest("path_open", "fd_pwrite")
			h.Data = "f"
			return h.command(slices.Concat(h.drop("path_open", 3, 0, 0, 1, 0, rights, rights, 0, 16), vectors(1000, 1<<20-16<<10),
				enc.Forever(h.drop("fd_pwrite", word(16), 64, 1000, int64(0), 32)...))), files(t)
		}, kinds: late(), says: "ran out"},
	}
}

func compileBombs() []bomb {
	body := func(code []byte) func(*testing.T) ([]byte, Spec) {
		return func(*testing.T) ([]byte, Spec) { return hostileGuest().command(code), Spec{} }
	}
	repeat := func(n int, open, shut string) []byte {
		return []byte(strings.Repeat(open, n) + strings.Repeat(shut, n))
	}
	return []bomb{
		{name: "a body of 5 MB", make: body(bytes.Repeat(append(enc.Const(7), enc.Drop), 5<<20/3)), refused: "body"},
		{name: "a million empty functions", make: func(*testing.T) ([]byte, Spec) {
			h := hostileGuest()
			types := enc.Section(1, enc.Vec([]byte{0x60, 0, 0}))
			exports := enc.Section(7, enc.Vec(slices.Concat(enc.Name("_start"), []byte{0, 0})))
			funcs := enc.Section(3, append(enc.U(1_000_000), make([]byte, 1_000_000)...))
			code := enc.Section(10, append(enc.U(1_000_000), bytes.Repeat([]byte{2, 0, 0x0b}, 1_000_000)...))
			return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), types, funcs, exports, code, slices.Concat(h.Extra...)), Spec{}
		}, refused: "functions"},
		{name: "40,000 nested blocks", make: body(repeat(40_000, "\x02\x40", "\x0b")), refused: "nest"},
		{name: "40,000 blocks after each other", make: body(bytes.Repeat([]byte("\x02\x40\x0b"), 40_000)), refused: "block"},
		{name: "10,000 ifs", make: body(bytes.Repeat(append(enc.Const(1), 0x04, 0x40, 0x0b), 10_000)), refused: "block"},
		{name: "a br_table of 50,000", make: body(slices.Concat(enc.Const(0), []byte{0x0e}, enc.U(50_000), make([]byte, 50_001))), refused: "br_table"},
	}
}

// TestSlowCompilation: a module within all limits may still take too long to compile. It
// costs its deadline, the function that is being compiled then, and no memory to speak of.
func TestSlowCompilation(t *testing.T) {
	if raced {
		t.Skip("compiling for long is what is tested, and the race detector makes it ten times as long")
	}
	repeat := func(n int, codes ...[]byte) []byte { return bytes.Repeat(slices.Concat(codes...), n) }
	for name, body := range map[string][]byte{
		"loops":       repeat(3990, []byte{0x03, 0x40, 0x20, 0, 0x0d, 0, 0x0b}),
		"calls":       repeat(65_000, []byte{0x10, 0}),
		"truncations": repeat(26_000, []byte{0x20, 0, 0xb7, 0xab, enc.Drop}),
	} {
		t.Run(name, func(t *testing.T) {
			h := hostileGuest()
			f := enc.Func{Locals: enc.Vec([]byte{1, enc.I32}), Body: body}
			wasm := h.command(nil, slices.Repeat([]enc.Func{f}, 15<<20/len(body))...)
			before := takeStock(t)
			r, err := Open(Options{CacheDir: t.TempDir(), CompileTimeout: time.Second})
			check(t, err)
			begun := time.Now()
			_, err = r.Compile(t.Context(), wasm)
			check(t, r.Close(t.Context()))
			took := time.Since(begun)
			wantFault(t, err, fault.Timeout, "takes longer than 1s to compile")
			after := takeStock(t)
			t.Logf("%d bytes in %s; %s", len(wasm), took.Round(time.Millisecond), after.since(before))
			if took > time.Second+patience {
				t.Errorf("compiling ended after %s", took)
			}
			if left := after.resident - before.resident; left > 64 && !raced {
				t.Errorf("%d MiB are left", left)
			}
			if grew := after.peak - before.peak; grew > 1000 && !raced {
				t.Errorf("compiling took %d MiB", grew)
			}
		})
	}
}

// TestSlowDescription: a module that hangs when it is asked to describe itself costs the
// time that is set aside for that, and describes nothing.
func TestSlowDescription(t *testing.T) {
	h := hostileGuest()
	h.Extra = nil
	wasm := h.reactor(enc.Const(0), enc.Func{Export: "hermes_describe", Results: []byte{enc.I32}, Body: append(enc.Forever(), enc.Const(0)...)})
	m, err := open(t, Options{CompileTimeout: 3e9}).Compile(context.Background(), wasm)
	check(t, err)
	defer m.Release()
	if m.Report().Descriptor != nil || m.Report().DescriptorErr == nil {
		t.Error(fmt.Sprint(m.Report().Descriptor))
	}
}
