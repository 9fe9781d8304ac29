package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

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
