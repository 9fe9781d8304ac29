package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
	"github.com/hermes-runtime/hermes/runtime/store/pack"
	"github.com/hermes-runtime/hermes/runtime/store/storetest"
)

// TestRandomGenerations keeps few, so that many are dropped.
func TestRandomGenerations(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{1, 2, 5} {
		d := openTest(t, Options{Synchronous: Normal, kept: limits{kept, 1 << 40}})
		storetest.RandomGenerations(t, d, kept, 300/stride)
		checkWhole(t, d)
	}
}

// change is generation n of a life, replacing parent: all of its inputs and objects have
// the value, and those in without are removed.
func change(n, parent int64, value string, without ...string) store.GenerationChange {
	large := strings.Repeat(value, pack.Size)
	c := store.GenerationChange{Generation: store.Generation{
		Number: n, Parent: parent, Trigger: "file", Owner: "ann", Prepared: timeOf(n), Inputs: value,
		Diff: []byte(`{}`), Meta: fmt.Appendf(nil, "%q", large),
	}}
	for path, text := range map[string]string{"small.hcl": value, "large.hcl": large} {
		c.Changed = append(c.Changed, store.GenerationInput{
			Path: path, Digest: store.Digest([]byte(text)), Size: int64(len(text)), Body: []byte(text),
		})
	}
	c.Changed = append(c.Changed, store.GenerationInput{Path: "m.wasm", Digest: store.Digest([]byte(value)), Module: true})
	c.Objects = []store.GenerationObject{{ID: "tool.t", Digest: value, Body: fmt.Appendf(nil, "%q", value)}}
	for _, name := range without {
		c.Changed = append(c.Changed, store.GenerationInput{Path: name, Removed: true})
		c.Objects = append(c.Objects, store.GenerationObject{ID: name, Removed: true})
	}
	return c
}

// with adds an input and an object of a name.
func with(c store.GenerationChange, name string) store.GenerationChange {
	c.Changed = append(c.Changed, store.GenerationInput{Path: name, Absent: true})
	c.Objects = append(c.Objects, store.GenerationObject{ID: name, Digest: "d", Body: []byte(`{}`)})
	return c
}

// historyLife prepares, confirms, abandons and drops generations, and reads them.
func historyLife() []operation {
	prepare := func(name string, c store.GenerationChange) operation {
		return operation{name, func(ctx context.Context, d *DB) error { return d.PrepareGeneration(ctx, c) }}
	}
	confirm := func(n int64) operation {
		return operation{fmt.Sprint("confirm ", n), func(ctx context.Context, d *DB) error { return d.ConfirmGeneration(ctx, n, timeOf(n)) }}
	}
	return []operation{
		{"key", func(c context.Context, d *DB) error { _, err := d.HistoryKey(c); return err }},
		prepare("prepare", with(change(1, 0, "1"), "x")),
		confirm(1),
		prepare("to be abandoned", change(2, 1, "2", "x")),
		prepare("abandon", change(3, 1, "3", "x")),
		confirm(3),
		prepare("further", with(change(4, 3, "1"), "x")),
		confirm(4),
		{"last", func(c context.Context, d *DB) error {
			g, _, err := d.LastGeneration(c)
			return want(int(g.Number), 4, err)
		}},
		{"list", func(c context.Context, d *DB) error {
			list, err := d.ListGenerations(c, 0, 0)
			return want(len(list), 2, err)
		}},
		{"inputs", func(c context.Context, d *DB) error {
			list, err := d.GenerationInputs(c, 3)
			return want(len(list), 3, err)
		}},
		{"objects", func(c context.Context, d *DB) error {
			list, err := d.GenerationObjects(c, 4)
			return want(len(list), 2, err)
		}},
		{"body", func(c context.Context, d *DB) error {
			body, err := d.GenerationBody(c, store.Digest([]byte("3")))
			return want(len(body), 1, err)
		}},
		prepare("last prepared", change(7, 4, "7", "x")),
	}
}

// TestHistoryBytes drops generations that added more than may be kept, and never the
// last.
func TestHistoryBytes(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{Synchronous: Normal, kept: limits{1000, 20_000}})
	add := func(n int64, size int) {
		t.Helper()
		text := make([]byte, size)
		if _, err := rand.NewChaCha8([32]byte{byte(n)}).Read(text); err != nil { // does not deflate
			t.Fatal(err)
		}
		recordText(t, d, n, text)
	}
	for n := int64(1); n <= 8; n++ {
		add(n, 5_000)
	}
	if got, want := numbers(t, d), []int64{8, 7, 6}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	add(9, 50_000)
	add(10, 10)
	if got, want := numbers(t, d), []int64{10}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	for n := int64(11); n <= 90; n++ { // rows count too
		add(n, 0)
	}
	if got := len(numbers(t, d)); got < 40 || got > 60 {
		t.Errorf("kept %d small ones", got)
	}
	checkWhole(t, d)
}

func numbers(t *testing.T, d *DB) (list []int64) {
	t.Helper()
	generations, err := d.ListGenerations(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range generations {
		list = append(list, g.Number)
	}
	return list
}

// wide is generation 1 of so many inputs and objects.
func wide(n int) store.GenerationChange {
	c := store.GenerationChange{Generation: store.Generation{Number: 1, Owner: "ann", Inputs: "1", Meta: []byte(`{}`)}}
	for i := range n {
		text := fmt.Appendf(nil, "tool \"t%04d\" { %s }", i, strings.Repeat("x", 500))
		c.Changed = append(c.Changed, store.GenerationInput{
			Path: fmt.Sprintf("tools.d/t%04d.hcl", i), Digest: store.Digest(text), Size: int64(len(text)), Body: text,
		})
		c.Objects = append(c.Objects, store.GenerationObject{
			ID: fmt.Sprintf("tool.t%04d", i), Digest: store.Digest(text), Body: fmt.Appendf(nil, `{"id":"tool.t%04d"}`, i),
		})
	}
	return c
}

func makeLive(tb testing.TB, d *DB, c store.GenerationChange) {
	tb.Helper()
	if err := d.PrepareGeneration(tb.Context(), c); err != nil {
		tb.Fatal(err)
	}
	if err := d.ConfirmGeneration(tb.Context(), c.Number, time.Time{}); err != nil {
		tb.Fatal(err)
	}
}

// oneChange changes input i of a wide generation.
func oneChange(n int64, i int) store.GenerationChange {
	text := fmt.Appendf(nil, "changed in %d", n)
	return store.GenerationChange{
		Generation: store.Generation{Number: n, Parent: n - 1, Owner: "ann", Inputs: fmt.Sprint(n), Diff: []byte(`{"changes":[]}`), Meta: []byte(`{}`)},
		Changed:    []store.GenerationInput{{Path: fmt.Sprintf("tools.d/t%04d.hcl", i), Digest: store.Digest(text), Size: int64(len(text)), Body: text}},
		Objects:    []store.GenerationObject{{ID: fmt.Sprintf("tool.t%04d", i), Digest: store.Digest(text), Body: []byte(`{}`)}},
	}
}

// rowsWritten is how many rows the writer has changed so far.
func rowsWritten(t *testing.T, d *DB) (n int64) {
	t.Helper()
	if err := d.writer.conn.QueryRowContext(t.Context(), "SELECT total_changes()").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestGenerationWritesTheChange counts rows: adding, abandoning and dropping a generation
// writes what it changed, however many inputs there are.
func TestGenerationWritesTheChange(t *testing.T) {
	t.Parallel()
	counts := map[int][]int64{}
	for _, size := range []int{10, 500} {
		d := openTest(t, Options{Synchronous: Normal, kept: limits{2, 1 << 40}})
		makeLive(t, d, wide(size))
		for n := int64(2); n < 6; n++ {
			before := rowsWritten(t, d)
			makeLive(t, d, oneChange(n, int(n)))
			counts[size] = append(counts[size], rowsWritten(t, d)-before)
		}
		abandoned := oneChange(6, 6)
		if err := d.PrepareGeneration(t.Context(), abandoned); err != nil {
			t.Fatal(err)
		}
		before := rowsWritten(t, d)
		next := oneChange(7, 7)
		next.Parent = 5
		makeLive(t, d, next)
		counts[size] = append(counts[size], rowsWritten(t, d)-before)
	}
	if diff := cmp.Diff(counts[10], counts[500]); diff != "" {
		t.Errorf("rows written with 10 inputs and with 500 differ:\n%s", diff)
	}
	t.Logf("rows written: %v", counts[500])
	for _, n := range counts[500] {
		if n > 20 {
			t.Errorf("%d rows were written for one change", n)
		}
	}
}

// TestDamagedHistory: what is damaged is not given to anybody, and preparing the text
// again heals it.
func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("large "), 2000)
	for name, statement := range map[string]string{
		"a bit":      "UPDATE generation_bodies SET body = zeroblob(length(body))",
		"half":       "UPDATE generation_bodies SET body = substr(body, 1, length(body) / 2)",
		"nothing":    "UPDATE generation_bodies SET body = x''",
		"not packed": "UPDATE generation_bodies SET packed = 1 - packed",
	} {
		for _, text := range [][]byte{[]byte("small"), large} {
			path := filepath.Join(t.TempDir(), "hermes.db")
			d := reopen(t, path, Options{})
			recordText(t, d, 1, text)
			tamper(t, path, statement, "UPDATE generation_objects SET body = x'7b'")
			_, err := d.GenerationBody(t.Context(), store.Digest(text))
			if fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err), "damaged") {
				t.Errorf("%s: body: %v", name, err)
			}
			objects, err := d.GenerationObjects(t.Context(), 1)
			if fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err), "damaged") {
				t.Errorf("%s: objects: %v", name, err)
			}
			for _, o := range objects {
				if o.ID == "" || o.Digest == "" || o.Body != nil {
					t.Errorf("%s: got the object %+v", name, o)
				}
			}
			recordText(t, d, 2, text)
			if got, err := d.GenerationBody(t.Context(), store.Digest(text)); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: after it was written again: %d bytes, %v", name, len(got), err)
			}
		}
	}
}

// TestHistoryFullDisk: a generation that does not fit is not there, and says so; the
// next try works.
func TestHistoryFullDisk(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	recordText(t, d, 1, []byte("one"))
	before := tables(t, d)
	if _, err := d.writer.conn.ExecContext(t.Context(), "PRAGMA max_page_count = 60"); err != nil {
		t.Fatal(err)
	}
	c := wide(500)
	c.Number, c.Parent = 2, 1
	err := d.PrepareGeneration(t.Context(), c)
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "full") {
		t.Fatalf("PrepareGeneration: %v", err)
	}
	if diff := cmp.Diff(before, tables(t, d)); diff != "" {
		t.Errorf("something was stored (-want +got):\n%s", diff)
	}
	makeLive(t, d, c)
	checkWhole(t, d)
}

// TestHistoryAfterUpgrade: numbers begin above those that messages and runs have.
func TestHistoryAfterUpgrade(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(d *DB) error{
		"a message": func(d *DB) error {
			m := message("r", "1", "x")
			m.Generation = 41
			_, err := d.Append(t.Context(), "s", m)
			return err
		},
		"a run": func(d *DB) error {
			return d.write(t.Context(), func(x *tx) error { // as the binary of that time did
				_, err := x.exec(`INSERT INTO runs (id, session, owner, agent, status, generation, started, ended, iterations) VALUES ('r', 's', 'ann', '', 'running', 41, 1, 0, 0)`)
				return err
			})
		},
	} {
		path := filepath.Join(t.TempDir(), "hermes.db")
		d := reopen(t, path, Options{schema: upTo(t, historyVersion-1)})
		if err := errors.Join(d.CreateSession(t.Context(), sessionOf("s")), add(d), d.Close()); err != nil {
			t.Fatal(err)
		}
		d = reopen(t, path, Options{})
		if _, highest, err := d.LastGeneration(t.Context()); fault.KindOf(err) != fault.NotFound || highest != 41 {
			t.Errorf("%s: highest is %d, %v; want 41 and no generation", name, highest, err)
		}
		recordText(t, d, 42, []byte("x"))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path, Options{schema: upTo(t, historyVersion-1)})
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "newer hermes") {
			t.Errorf("%s: the older binary: %v", name, err)
		}
	}
}

// TestDamagedMeta: the generation is known all the same, so that numbers go on.
func TestDamagedMeta(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hermes.db")
	d := reopen(t, path, Options{})
	makeLive(t, d, change(3, 0, "3"))
	tamper(t, path, "UPDATE generation_bodies SET body = x'00'")
	g, highest, err := d.LastGeneration(t.Context())
	if fault.KindOf(err) != fault.Internal || !strings.Contains(fault.Message(err), "damaged") {
		t.Errorf("LastGeneration: %v", err)
	}
	if g.Number != 3 || g.Inputs != "3" || g.Live.IsZero() || g.Meta != nil || highest != 3 {
		t.Errorf("got %+v, highest %d", g, highest)
	}
	makeLive(t, d, change(4, 3, "4"))
	if g, _, err := d.LastGeneration(t.Context()); err != nil || g.Number != 4 {
		t.Errorf("after the next: %d, %v", g.Number, err)
	}
}

// TestHistoryPages: large diffs make small pages, and no generation is left out.
func TestHistoryPages(t *testing.T) {
	t.Parallel()
	d := openTest(t, Options{})
	large := []byte(`"` + strings.Repeat("x", store.PageBytes/2) + `"`)
	for n := range int64(5) {
		c := change(n+1, n, fmt.Sprint(n))
		if n > 0 {
			c.Diff = large
		}
		makeLive(t, d, c)
	}
	var pages [][]int64
	for before := int64(0); ; {
		list, err := d.ListGenerations(t.Context(), before, 4)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		var page []int64
		for _, g := range list {
			page = append(page, g.Number)
			before = g.Number
		}
		pages = append(pages, page)
	}
	if diff := cmp.Diff([][]int64{{5}, {4}, {3}, {2, 1}}, pages); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
