package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

func sum(s string) string {
	d := sha256.Sum256([]byte(s))
	return hex.EncodeToString(d[:])
}

// written is an input as it is prepared.
func written(path, content string) store.GenerationInput {
	return store.GenerationInput{Path: path, Digest: sum(content), Size: int64(len(content)), Body: []byte(content)}
}

// kept is an input as it is read.
func kept(path, content string) store.GenerationInput {
	in := written(path, content)
	in.Body = nil
	return in
}

func object(id, value string) store.GenerationObject {
	return store.GenerationObject{ID: id, Digest: sum(value), Body: json.RawMessage(fmt.Sprintf(`{"id":%q,"value":%q}`, id, value))}
}

func generation(number, parent int64) store.Generation {
	return store.Generation{
		Number: number, Parent: parent, Trigger: "file", Owner: ann, Prepared: at(int(number)),
		Inputs: sum(fmt.Sprint("inputs ", number)), Diff: json.RawMessage(fmt.Sprintf(`{"n":%d}`, number)), Meta: json.RawMessage(`{"lists":[]}`),
	}
}

func (f *fixture) prepare(c store.GenerationChange) {
	f.t.Helper()
	f.must("PrepareGeneration", f.store.PrepareGeneration(f.ctx, c))
}

func (f *fixture) confirm(number int64) {
	f.t.Helper()
	f.must("ConfirmGeneration", f.store.ConfirmGeneration(f.ctx, number, at(int(number))))
}

func (f *fixture) wantSet(number int64, inputs []store.GenerationInput, objects []store.GenerationObject) {
	f.t.Helper()
	gotInputs, err := f.store.GenerationInputs(f.ctx, number)
	f.must("GenerationInputs", err)
	f.same(fmt.Sprint("inputs of ", number), gotInputs, inputs, cmpopts.EquateEmpty())
	gotObjects, err := f.store.GenerationObjects(f.ctx, number)
	f.must("GenerationObjects", err)
	f.same(fmt.Sprint("objects of ", number), gotObjects, objects, cmpopts.EquateEmpty())
}

// wantLast checks the newest confirmed, the highest number, and the prepared one; 0: none.
func (f *fixture) wantLast(last, highest, pending int64) {
	f.t.Helper()
	g, gotHighest, err := f.store.LastGeneration(f.ctx)
	if last == 0 {
		f.wantKind("LastGeneration", err, fault.NotFound)
	} else {
		f.must("LastGeneration", err)
	}
	f.same("last", g.Number, last)
	f.same("highest", gotHighest, highest)
	g, err = f.store.PendingGeneration(f.ctx)
	if pending == 0 {
		f.wantKind("PendingGeneration", err, fault.NotFound)
	} else {
		f.must("PendingGeneration", err)
	}
	f.same("pending", g.Number, pending)
}

func testGenerations(_ *testing.T, f *fixture) {
	f.wantLast(0, 0, 0)
	first := store.GenerationChange{
		Generation: generation(1, 0),
		Changed: []store.GenerationInput{
			written("b.hcl", "b"), written("a.hcl", ""), {Path: "m.wasm", Digest: sum("m"), Size: 9, Module: true}, {Path: "x.md", Absent: true},
		},
		Objects: []store.GenerationObject{object("tool.b", "1"), object("agent.a", "1")},
	}
	f.prepare(first)
	f.wantLast(0, 1, 1)
	g, err := f.store.Generation(f.ctx, 1)
	f.must("Generation", err)
	f.same("prepared", g, first.Generation)
	f.confirm(1)
	f.wantLast(1, 1, 0)
	first.Live = at(1)
	g, _, err = f.store.LastGeneration(f.ctx)
	f.must("LastGeneration", err)
	f.same("confirmed", g, first.Generation)
	set := []store.GenerationInput{kept("a.hcl", ""), kept("b.hcl", "b"), {Path: "m.wasm", Digest: sum("m"), Size: 9, Module: true}, {Path: "x.md", Absent: true}}
	f.wantSet(1, set, []store.GenerationObject{object("agent.a", "1"), object("tool.b", "1")})

	f.prepare(store.GenerationChange{
		Generation: generation(3, 1),
		Changed:    []store.GenerationInput{written("x.md", "x"), {Path: "b.hcl", Removed: true}},
		Objects:    []store.GenerationObject{object("tool.b", "2"), object("tool.c", "1"), {ID: "agent.a", Removed: true}},
	})
	f.confirm(3)
	f.wantLast(3, 3, 0)
	f.wantSet(1, set, []store.GenerationObject{object("agent.a", "1"), object("tool.b", "1")})
	f.wantSet(3, []store.GenerationInput{set[0], set[2], kept("x.md", "x")}, []store.GenerationObject{object("tool.b", "2"), object("tool.c", "1")})
	for _, content := range []string{"", "b", "x"} {
		body, err := f.store.GenerationBody(f.ctx, sum(content))
		f.must("GenerationBody", err)
		f.same("body", string(body), content)
	}
	_, err = f.store.GenerationBody(f.ctx, sum("m"))
	f.wantKind("body of a module", err, fault.NotFound)
}

// testGenerationsRefused: what is refused changes nothing.
func testGenerationsRefused(t *testing.T, f *fixture) {
	f.prepare(store.GenerationChange{Generation: generation(2, 0), Changed: []store.GenerationInput{written("a", "1")}, Objects: []store.GenerationObject{object("o", "1")}})
	f.confirm(2)
	f.prepare(store.GenerationChange{Generation: generation(3, 2), Changed: []store.GenerationInput{written("a", "2")}})
	for name, c := range map[string]struct {
		kind    fault.Kind
		harm    func(*store.Generation)
		inputs  []store.GenerationInput
		objects []store.GenerationObject
	}{
		"a number that is used":      {kind: fault.Exists, harm: func(g *store.Generation) { g.Number, g.Parent = 2, 0 }},
		"a number below":             {kind: fault.Exists, harm: func(g *store.Generation) { g.Number, g.Parent = 1, 0 }},
		"a prepared number":          {kind: fault.Exists, harm: func(g *store.Generation) { g.Number = 3 }},
		"a parent that was replaced": {kind: fault.Invalid, harm: func(g *store.Generation) { g.Parent = 0 }},
		"a parent that is prepared":  {kind: fault.Invalid, harm: func(g *store.Generation) { g.Parent = 3 }},
		"no number":                  {kind: fault.Invalid, harm: func(g *store.Generation) { g.Number = 0 }},
		"its own parent":             {kind: fault.Invalid, harm: func(g *store.Generation) { g.Parent = 4 }},
		"no owner":                   {kind: fault.Invalid, harm: func(g *store.Generation) { g.Owner = "" }},
		"no inputs":                  {kind: fault.Invalid, harm: func(g *store.Generation) { g.Inputs = "" }},
		"diff":                       {kind: fault.Invalid, harm: func(g *store.Generation) { g.Diff = json.RawMessage(`{`) }},
		"meta":                       {kind: fault.Invalid, harm: func(g *store.Generation) { g.Meta = json.RawMessage(`{`) }},
		"no path":                    {kind: fault.Invalid, inputs: []store.GenerationInput{written("", "x")}},
		"an input twice":             {kind: fault.Invalid, inputs: []store.GenerationInput{written("b", "x"), written("b", "y")}},
		"removed input not there":    {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b", Removed: true}}},
		"another digest":             {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b", Digest: sum("x"), Size: 1, Body: []byte("y")}}},
		"another size":               {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b", Digest: sum("x"), Size: 2, Body: []byte("x")}}},
		"no digest":                  {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b"}}},
		"no sha256":                  {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b", Digest: "x", Module: true}}},
		"absent with a digest":       {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b", Digest: sum("x"), Absent: true}}},
		"absent module":              {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b", Module: true, Absent: true}}},
		"module with a body":         {kind: fault.Invalid, inputs: []store.GenerationInput{{Path: "b", Digest: sum("x"), Size: 1, Module: true, Body: []byte("x")}}},
		"a text that is not kept":    {kind: fault.Invalid, inputs: []store.GenerationInput{written("c", "new"), kept("b", "x")}},
		"no id":                      {kind: fault.Invalid, objects: []store.GenerationObject{object("", "x")}},
		"no object digest":           {kind: fault.Invalid, objects: []store.GenerationObject{{ID: "p", Body: json.RawMessage(`{}`)}}},
		"no object":                  {kind: fault.Invalid, objects: []store.GenerationObject{{ID: "p", Digest: "x"}}},
		"an object that is no JSON":  {kind: fault.Invalid, objects: []store.GenerationObject{{ID: "p", Digest: "x", Body: json.RawMessage(`{`)}}},
		"an object twice":            {kind: fault.Invalid, objects: []store.GenerationObject{object("p", "1"), object("p", "2")}},
		"removed object not there":   {kind: fault.Invalid, objects: []store.GenerationObject{{ID: "p", Removed: true}}},
	} {
		change := store.GenerationChange{Generation: generation(4, 2), Changed: c.inputs, Objects: c.objects}
		if c.harm != nil {
			c.harm(&change.Generation)
		}
		f.wantKind(name, f.store.PrepareGeneration(f.ctx, change), c.kind)
		if t.Failed() {
			break
		}
	}
	f.wantLast(2, 3, 3)
	f.wantSet(2, []store.GenerationInput{kept("a", "1")}, []store.GenerationObject{object("o", "1")})
	f.wantSet(3, []store.GenerationInput{kept("a", "2")}, []store.GenerationObject{object("o", "1")})
	_, err := f.store.GenerationBody(f.ctx, sum("new"))
	f.wantKind("a text that came with a refused one", err, fault.NotFound)
	f.wantKind("confirming no generation", f.store.ConfirmGeneration(f.ctx, 4, at(1)), fault.NotFound)
	for what, read := range map[string]func(number int64) error{
		"Generation":        func(n int64) error { _, err := f.store.Generation(f.ctx, n); return err },
		"GenerationInputs":  func(n int64) error { _, err := f.store.GenerationInputs(f.ctx, n); return err },
		"GenerationObjects": func(n int64) error { _, err := f.store.GenerationObjects(f.ctx, n); return err },
	} {
		for _, n := range []int64{-1, 0, 1, 4} {
			f.wantKind(fmt.Sprint(what, " ", n), read(n), fault.NotFound)
		}
	}
}

// testAbandoned: a generation that was never confirmed is undone by the next, and its
// number stays used.
func testAbandoned(_ *testing.T, f *fixture) {
	f.prepare(store.GenerationChange{Generation: generation(1, 0), Changed: []store.GenerationInput{written("gone", "first")}})
	f.prepare(store.GenerationChange{
		Generation: generation(2, 0),
		Changed:    []store.GenerationInput{written("a", "1"), written("b", "1")}, Objects: []store.GenerationObject{object("o", "1"), object("p", "1")},
	})
	f.wantLast(0, 2, 2)
	_, err := f.store.GenerationBody(f.ctx, sum("first"))
	f.wantKind("a text of the abandoned one", err, fault.NotFound)
	f.confirm(2)
	for n := int64(3); n < 6; n++ {
		f.prepare(store.GenerationChange{
			Generation: generation(n, 2),
			Changed:    []store.GenerationInput{written("a", fmt.Sprint("a", n)), {Path: "b", Removed: true}, written("c", "1")},
			Objects:    []store.GenerationObject{object("o", fmt.Sprint(n)), {ID: "p", Removed: true}, object("q", "1")},
		})
		f.wantSet(2, []store.GenerationInput{kept("a", "1"), kept("b", "1")}, []store.GenerationObject{object("o", "1"), object("p", "1")})
		f.wantSet(n, []store.GenerationInput{kept("a", fmt.Sprint("a", n)), kept("c", "1")}, []store.GenerationObject{object("o", fmt.Sprint(n)), object("q", "1")})
		f.wantLast(2, n, n)
	}
	f.prepare(store.GenerationChange{Generation: generation(7, 2)})
	f.confirm(7)
	f.wantLast(7, 7, 0)
	for n := int64(3); n < 6; n++ {
		_, err := f.store.Generation(f.ctx, n)
		f.wantKind("an abandoned one", err, fault.NotFound)
		f.wantKind("confirming an abandoned one", f.store.ConfirmGeneration(f.ctx, n, at(1)), fault.NotFound)
		f.wantKind("its number", f.store.PrepareGeneration(f.ctx, store.GenerationChange{Generation: generation(n, 2)}), fault.Exists)
	}
	f.wantSet(7, []store.GenerationInput{kept("a", "1"), kept("b", "1")}, []store.GenerationObject{object("o", "1"), object("p", "1")})
}

// testPreparedAgain: a caller who was not told that a generation is prepared, or
// confirmed, repeats that.
func testPreparedAgain(t *testing.T, f *fixture) {
	c := store.GenerationChange{Generation: generation(1, 0), Changed: []store.GenerationInput{written("a", "1")}, Objects: []store.GenerationObject{object("o", "1")}}
	f.prepare(c)
	c.Diff, c.Prepared = json.RawMessage(`{"other":true}`), at(9)
	f.prepare(c)
	f.wantLast(0, 1, 1)
	f.wantSet(1, []store.GenerationInput{kept("a", "1")}, []store.GenerationObject{object("o", "1")})
	f.confirm(1)
	f.must("confirming again", f.store.ConfirmGeneration(f.ctx, 1, at(20)))
	g, err := f.store.Generation(f.ctx, 1)
	f.must("Generation", err)
	c.Live = at(1)
	f.same("the last prepared, the first confirmed", g, c.Generation)
	f.wantKind("preparing a confirmed one", f.store.PrepareGeneration(f.ctx, c), fault.Exists)

	f.prepare(store.GenerationChange{Generation: store.Generation{Number: 2, Parent: 1, Owner: bob, Inputs: "x"}})
	f.must("confirming", f.store.ConfirmGeneration(f.ctx, 2, time.Time{}))
	g, err = f.store.Generation(f.ctx, 2)
	f.must("Generation", err)
	f.same("little given", g, store.Generation{Number: 2, Parent: 1, Owner: bob, Inputs: "x"}, ignoreTime())
	if g.Prepared.IsZero() || g.Live.Before(g.Prepared) || time.Since(g.Live) > time.Hour {
		t.Errorf("times set by the store: %v, %v", g.Prepared, g.Live)
	}
}

func testGenerationList(_ *testing.T, f *fixture) {
	list, err := f.store.ListGenerations(f.ctx, 0, 0)
	f.must("ListGenerations", err)
	f.same("an empty list", len(list), 0)
	var last int64
	for _, n := range []int64{2, 3, 5, 9} {
		f.prepare(store.GenerationChange{Generation: generation(n, last)})
		f.confirm(n)
		last = n
	}
	f.prepare(store.GenerationChange{Generation: generation(12, 9)})
	for _, c := range []struct {
		before int64
		limit  int
		want   []int64
	}{
		{0, 0, []int64{9, 5, 3, 2}},
		{-1, 1 << 40, []int64{9, 5, 3, 2}},
		{0, 2, []int64{9, 5}},
		{5, 1, []int64{3}},
		{4, 0, []int64{3, 2}},
		{2, 0, nil},
		{99, -1, []int64{9, 5, 3, 2}},
	} {
		list, err := f.store.ListGenerations(f.ctx, c.before, c.limit)
		f.must("ListGenerations", err)
		var got []int64
		for _, g := range list {
			got = append(got, g.Number)
		}
		f.same(fmt.Sprintf("before %d, limit %d", c.before, c.limit), got, c.want)
	}
	list, err = f.store.ListGenerations(f.ctx, 6, 1)
	f.must("ListGenerations", err)
	want := generation(5, 3)
	want.Live, want.Meta = at(5), nil
	f.same("a row", list, []store.Generation{want})
}

// testBodies: one text for all that have its content, for as long as any has.
func testBodies(_ *testing.T, f *fixture) {
	large := strings.Repeat("a large text, ", 1_000)
	change := func(n int64, inputs ...store.GenerationInput) {
		f.t.Helper()
		c := store.GenerationChange{Generation: generation(n, n-1), Changed: inputs, Objects: []store.GenerationObject{object("o", large[:int(n)*4000])}}
		c.Meta = json.RawMessage(fmt.Sprintf("%q", large[int(n):]))
		f.prepare(c)
		f.confirm(n)
		g, err := f.store.Generation(f.ctx, n)
		f.must("Generation", err)
		f.same("meta", g.Meta, c.Meta)
		objects, err := f.store.GenerationObjects(f.ctx, n)
		f.must("GenerationObjects", err)
		f.same("objects", objects, c.Objects)
	}
	odd := "a dir/ü\u2028 \"quoted\"/\xff.hcl"
	change(1, written(odd, large), written("b", large), written("c", "\x00\xff"))
	change(2, store.GenerationInput{Path: "b", Removed: true}, written("c", "2"))
	change(3, kept("d", large), kept("e", "\x00\xff"), store.GenerationInput{Path: "f", Digest: sum(""), Size: 0})
	set, err := f.store.GenerationInputs(f.ctx, 3)
	f.must("GenerationInputs", err)
	f.same("inputs", set, []store.GenerationInput{kept(odd, large), kept("c", "2"), kept("d", large), kept("e", "\x00\xff"), kept("f", "")})
	for _, text := range []string{large, "", "2", "\x00\xff"} {
		body, err := f.store.GenerationBody(f.ctx, sum(text))
		f.must("GenerationBody", err)
		f.same("text", string(body), text)
	}
	for _, digest := range []string{"", "x", sum("absent")} {
		_, err := f.store.GenerationBody(f.ctx, digest)
		f.wantKind("a text that is not there", err, fault.NotFound)
	}
}

func testHistoryKey(t *testing.T, f *fixture) {
	keys := make([]string, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := f.store.HistoryKey(f.ctx)
			if err != nil {
				t.Errorf("HistoryKey: %v", err)
			}
			keys[i] = string(key)
		})
	}
	wg.Wait()
	for _, key := range keys {
		if len(key) != 32 || key != keys[0] || key == strings.Repeat("\x00", 32) {
			t.Errorf("keys of %d bytes; one and the same of 32 is wanted", len(key))
		}
	}
}
