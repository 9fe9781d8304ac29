package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// RandomGenerations does steps random things to the history of an empty store and to a
// simple model of it, and compares the two after each. kept is how many generations the
// store keeps.
func RandomGenerations(t *testing.T, s store.Store, kept, steps int) {
	t.Helper()
	seed := rand.Uint64() //nolint:gosec // no secret
	t.Logf("seed %d", seed)
	h := &history{
		fixture: fixture{t: t, ctx: t.Context(), store: s}, kept: kept,
		r: rand.New(rand.NewPCG(seed, 0)), texts: map[string]string{}, //nolint:gosec // repeatable
	}
	for i := 0; i < steps && !t.Failed(); i++ {
		h.step()
		h.compare()
	}
}

// state is a generation with all that is in it.
type state struct {
	store.Generation

	inputs  map[string]store.GenerationInput
	objects map[string]store.GenerationObject
}

// history is the model: whole states, copied for each generation.
type history struct {
	fixture

	r         *rand.Rand
	kept      int
	confirmed []state
	pending   *state
	highest   int64
	texts     map[string]string // every text there ever was, by digest
}

func (h *history) last() state {
	if len(h.confirmed) == 0 {
		return state{}
	}
	return h.confirmed[len(h.confirmed)-1]
}

func (h *history) step() {
	switch h.r.IntN(8) {
	case 0, 1, 2:
		h.prepareNext()
	case 3:
		h.prepareWrong()
	case 4:
		if h.pending != nil {
			h.wantKind("confirming another", h.store.ConfirmGeneration(h.ctx, h.highest+1, at(1)), fault.NotFound)
		}
	default:
		h.confirmPending()
	}
}

// prepareNext changes a few of the inputs and objects of the last confirmed.
func (h *history) prepareNext() {
	last := h.last()
	number := h.highest + 1 + h.r.Int64N(3)
	next := state{generation(number, last.Number), maps.Clone(last.inputs), maps.Clone(last.objects)}
	if next.inputs == nil {
		next.inputs, next.objects = map[string]store.GenerationInput{}, map[string]store.GenerationObject{}
	}
	next.Meta = json.RawMessage(fmt.Sprint(h.r.IntN(3)))
	h.texts[sum(string(next.Meta))] = string(next.Meta)
	c := store.GenerationChange{Generation: next.Generation}
	for _, i := range h.r.Perm(6)[:h.r.IntN(4)] {
		c.Changed = append(c.Changed, h.changeInput(next, fmt.Sprint("path", i)))
		c.Objects = append(c.Objects, h.changeObject(next, fmt.Sprint("object", i)))
	}
	h.prepare(c)
	if h.r.IntN(4) == 0 {
		h.prepare(c)
	}
	h.pending, h.highest = &next, number
}

func (h *history) changeInput(next state, path string) store.GenerationInput {
	if _, ok := next.inputs[path]; ok && h.r.IntN(3) == 0 {
		delete(next.inputs, path)
		return store.GenerationInput{Path: path, Removed: true}
	}
	content := fmt.Sprint("text ", h.r.IntN(8))
	in := written(path, content)
	switch h.r.IntN(5) {
	case 0:
		in = store.GenerationInput{Path: path, Absent: true}
	case 1:
		in.Module, in.Body = true, nil
	default:
		h.texts[in.Digest] = content
	}
	next.inputs[path] = in
	return in
}

func (h *history) changeObject(next state, id string) store.GenerationObject {
	if _, ok := next.objects[id]; ok && h.r.IntN(3) == 0 {
		delete(next.objects, id)
		return store.GenerationObject{ID: id, Removed: true}
	}
	o := object(id, fmt.Sprint(h.r.IntN(5)))
	next.objects[id] = o
	return o
}

// prepareWrong: what was prepared stays, also if the refused one came to undoing it.
func (h *history) prepareWrong() {
	last := h.last()
	wrong := map[string]struct {
		c    store.GenerationChange
		kind fault.Kind
	}{
		"parent":  {store.GenerationChange{Generation: generation(h.highest+2, h.highest+1)}, fault.Invalid},
		"removal": {store.GenerationChange{Generation: generation(h.highest+1, last.Number), Objects: []store.GenerationObject{{ID: "nothing", Removed: true}}}, fault.Invalid},
	}
	if h.highest > last.Number {
		g := generation(h.highest, last.Number)
		g.Inputs = "others"
		wrong["number"] = struct {
			c    store.GenerationChange
			kind fault.Kind
		}{store.GenerationChange{Generation: g}, fault.Exists}
	}
	for name, w := range wrong {
		h.wantKind("a wrong "+name, h.store.PrepareGeneration(h.ctx, w.c), w.kind)
	}
}

func (h *history) confirmPending() {
	if h.pending == nil {
		return
	}
	h.confirm(h.pending.Number)
	h.pending.Live = at(int(h.pending.Number))
	h.confirmed = append(h.confirmed, *h.pending)
	h.pending = nil
	h.confirmed = h.confirmed[max(0, len(h.confirmed)-h.kept):]
}

// compare reads everything.
func (h *history) compare() {
	h.t.Helper()
	var pending int64
	all := slices.Clone(h.confirmed)
	if h.pending != nil {
		pending = h.pending.Number
		all = append(all, *h.pending)
	}
	h.wantLast(h.last().Number, h.highest, pending)
	list, err := h.store.ListGenerations(h.ctx, 0, 0)
	h.must("ListGenerations", err)
	h.same("generations in the list", len(list), len(h.confirmed))
	named := map[string]bool{}
	for _, want := range all {
		got, err := h.store.Generation(h.ctx, want.Number)
		h.must("Generation", err)
		h.same("generation", got, want.Generation)
		named[sum(string(want.Meta))] = true
		h.compareSet(want, named)
	}
	for digest, text := range h.texts {
		body, err := h.store.GenerationBody(h.ctx, digest)
		if !named[digest] {
			h.wantKind("text that nothing names", err, fault.NotFound)
			continue
		}
		h.must("GenerationBody", err)
		h.same("text", string(body), text)
	}
}

func (h *history) compareSet(want state, named map[string]bool) {
	h.t.Helper()
	var inputs []store.GenerationInput
	for _, path := range slices.Sorted(maps.Keys(want.inputs)) {
		in := want.inputs[path]
		named[in.Digest] = named[in.Digest] || !in.Module
		in.Body = nil
		inputs = append(inputs, in)
	}
	var objects []store.GenerationObject
	for _, id := range slices.Sorted(maps.Keys(want.objects)) {
		objects = append(objects, want.objects[id])
	}
	h.wantSet(want.Number, inputs, objects)
}
