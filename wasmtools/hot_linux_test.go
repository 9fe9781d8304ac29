package wasmtools

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestTouched: pages that were written to are found, and not those that were only read.
func TestTouched(t *testing.T) {
	page := unix.Getpagesize()
	im, err := newSharedImage(bytes.Repeat([]byte{1}, 100*page))
	check(t, err)
	defer im.close()
	mem, err := mapMemory(400 * page)
	check(t, err)
	defer func() { check(t, unmapMemory(mem)) }()
	check(t, im.mapInto(mem))
	sum := 0
	for i := 0; i < 100*page; i += page {
		sum += int(mem[i])
	}
	mem[5*page], mem[7*page+1], mem[50*page], mem[200*page] = 2, 2, 2, 2
	want := []span{{5 * page, 8 * page}, {50 * page, 51 * page}, {200 * page, 201 * page}}
	if diff := cmp.Diff(want, touched(mem), cmp.AllowUnexported(span{})); diff != "" || sum != 100 {
		t.Error(sum, diff)
	}
	for i := 0; i < 400*page; i += 6 * page {
		mem[i] = 2
	}
	if got := touched(mem); got != nil {
		t.Errorf("%d spans", len(got))
	}
}

// TestRemap: a reset restores what was written, in pages that are copied and in others, in
// the image and behind it.
func TestRemap(t *testing.T) {
	page := unix.Getpagesize()
	was := append(bytes.Repeat([]byte("hermes"), 30*page/6), make([]byte, 50*page)...)
	b := &budget{limit: 1 << 30}
	im, err := newImage(was, int64(len(was)), b, mapAlways)
	check(t, err)
	mem, err := mapMemory(len(was))
	check(t, err)
	l := &linear{budget: b, mapped: mem, size: int64(len(was))}
	check(t, l.begin(im))
	for round := range 6 {
		for i := round % 2 * 3; i < 80; i += 9 + 7*(round/3) {
			copy(mem[i*page+100:], "changed")
		}
		check(t, l.reset())
		if !bytes.Equal(mem, was) {
			t.Fatalf("round %d: not restored", round)
		}
		if (len(l.hot) > 0) != (round >= learnAt-1) {
			t.Errorf("round %d: %d spans are copied", round, len(l.hot))
		}
	}
	check(t, l.release())
	if b.used != 0 {
		t.Errorf("%d bytes are kept", b.used)
	}
}

// TestWithoutSharedImages: without a descriptor to spare, images are copied.
func TestWithoutSharedImages(t *testing.T) {
	var was unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: was.Max}))
	b := &budget{limit: 1 << 30}
	im, err := newImage([]byte("hermes"), 1<<20, b, mapAlways)
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	if err != nil || im.shared != nil || string(im.bytes) != "hermes" || b.used != 6 {
		t.Errorf("%+v, %v, %d bytes", im, err, b.used)
	}
	im.release()
}
