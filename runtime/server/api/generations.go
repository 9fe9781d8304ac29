package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// maxGenerations bounds one page of the history.
const maxGenerations = 500

//nolint:gochecknoglobals // immutable
var (
	generationsParams = []route.Param{
		{Name: "before", Type: "integer", Doc: "Only generations with a lower number."},
		{Name: "limit", Type: "integer", Doc: "How many at most; default 50, at most 500."},
	}
	generationParams = []route.Param{
		{Name: "since", Type: "integer", Doc: "A generation: give the difference from this one instead of from the parent."},
	}
)

func (h *handler) generationRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodGet, Pattern: "/api/generations", Access: route.Admin, Handle: h.listGenerations,
			Doc: route.Doc{Summary: "Lists the generations that are remembered, newest first.", Query: generationsParams, Answer: GenerationList{}},
		},
		{
			Method: http.MethodGet, Pattern: "/api/generations/{n}", Access: route.Admin, Handle: h.getGeneration,
			Doc: route.Doc{Summary: "Shows one generation: what it changed, and the files it was built from.", Query: generationParams, Answer: GenerationDetail{}},
		},
	}
}

// Generations is what is remembered of generations; a [store.Generations] has it.
type Generations interface {
	PendingGeneration(ctx context.Context) (store.Generation, error)
	LastGeneration(ctx context.Context) (g store.Generation, highest int64, err error)
	Generation(ctx context.Context, number int64) (store.Generation, error)
	ListGenerations(ctx context.Context, before int64, limit int) ([]store.Generation, error)
	GenerationInputs(ctx context.Context, number int64) ([]store.GenerationInput, error)
	GenerationObjects(ctx context.Context, number int64) ([]store.GenerationObject, error)
}

// GenerationState says what became of a generation.
type GenerationState string

// The states. A prepared generation was written down and is not known to have gone live.
// The last one is the newest that is known to have been, while it is not: what a lenient
// start stands on.
const (
	StateLive     GenerationState = "live"
	StateDraining GenerationState = "draining"
	StateLast     GenerationState = "last"
	StateRetired  GenerationState = "retired"
	StatePrepared GenerationState = "prepared"
)

// GenerationList is the answer of GET /api/generations.
type GenerationList struct {
	Generations []GenerationRow `json:"generations"`
	// Next is the value of before for the next page; left out: this is the last.
	Next int64 `json:"next,omitempty"`
}

// GenerationRow is one generation of the list.
type GenerationRow struct {
	store.Generation
	State GenerationState `json:"state"`
	// Diff hides the one of the row: the list says how many objects it has.
	Diff    any `json:"diff,omitempty"`
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
	// FilesChanged are the inputs that differ from the parent's.
	FilesChanged int `json:"files_changed"`
}

// GenerationDetail is the answer of GET /api/generations/{n}.
type GenerationDetail struct {
	GenerationRow
	// Since is the generation that Diff compares with; 0: none, everything was added.
	Since int64           `json:"since"`
	Diff  generation.Diff `json:"diff"`
	// Files are all inputs, by path; the digest over them is Inputs.
	Files []GenerationFile `json:"files"`
}

// GenerationFile is one input of a generation. Module and Absent say what it is: one of
// the last is a file that was looked for and was not there.
type GenerationFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size"`
	Module bool   `json:"module,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

func (h *handler) listGenerations(w http.ResponseWriter, r *http.Request) error {
	q := route.QueryOf(r, generationsParams)
	before, limit := q.Int("before", 0), int(min(max(q.Int("limit", 50), 1), maxGenerations))
	if err := q.Err(); err != nil {
		return err
	}
	out, err := ListGenerations(r.Context(), h.History, before, limit)
	if err != nil {
		return err
	}
	states := h.generationStates()
	for i, row := range out.Generations {
		out.Generations[i].State = cmp.Or(states[row.Number], row.State)
	}
	return route.WriteJSON(w, http.StatusOK, out)
}

// generationStates are those of the generations that are in use.
func (h *handler) generationStates() map[int64]GenerationState {
	out := map[int64]GenerationState{}
	for _, d := range h.Holder.Draining() {
		out[d.Generation] = StateDraining
	}
	out[h.Holder.Number()] = StateLive
	return out
}

func (h *handler) getGeneration(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil || n < 1 {
		return fault.New(fault.NotFound, "there is no generation %q: they are numbered from 1", fault.Cut(r.PathValue("n"), 40))
	}
	q := route.QueryOf(r, generationParams)
	since := q.Int("since", -1)
	if err := q.Err(); err != nil {
		return err
	}
	out, err := ShowGeneration(r.Context(), h.History, n, since)
	if err != nil {
		return err
	}
	out.State = cmp.Or(h.generationStates()[n], out.State)
	return route.WriteJSON(w, http.StatusOK, out)
}

// ListGenerations gives one page of a history; the states are those of a history that
// nobody runs. The first page begins with the generation that is prepared, if one is.
func ListGenerations(ctx context.Context, g Generations, before int64, limit int) (GenerationList, error) {
	pending, err := g.PendingGeneration(ctx)
	if pending.Number == 0 && err != nil && fault.KindOf(err) != fault.NotFound {
		return GenerationList{}, err // else its Meta is damaged, which is not shown
	}
	first := before == 0 && pending.Number > 0
	rows, err := g.ListGenerations(ctx, before, limit)
	if err != nil {
		return GenerationList{}, err
	}
	out := GenerationList{Generations: []GenerationRow{}}
	if len(rows) > 0 {
		if out.Next, err = olderThan(ctx, g, rows[len(rows)-1].Number); err != nil {
			return GenerationList{}, err
		}
	}
	if first && (len(rows) == 0 || rows[0].Number < pending.Number) { // else it was confirmed meanwhile
		rows = append([]store.Generation{pending}, rows...)
	}
	last, err := lastGood(ctx, g)
	if err != nil {
		return GenerationList{}, err
	}
	for _, row := range rows {
		diff, err := diffOf(row)
		if err != nil {
			return GenerationList{}, err
		}
		out.Generations = append(out.Generations, rowOfGeneration(row, diff, last))
	}
	return out, nil
}

// lastGood is the number of the newest generation that is known to have been live; 0:
// none is.
func lastGood(ctx context.Context, g Generations) (int64, error) {
	last, _, err := g.LastGeneration(ctx)
	if err != nil && last.Number == 0 && fault.KindOf(err) != fault.NotFound {
		return 0, err
	}
	return last.Number, nil
}

// olderThan is number if the history has older generations, else 0.
func olderThan(ctx context.Context, g Generations, number int64) (int64, error) {
	if number <= 1 {
		return 0, nil
	}
	older, err := g.ListGenerations(ctx, number, 1)
	if err != nil || len(older) == 0 {
		return 0, err
	}
	return number, nil
}

// ShowGeneration gives one generation of a history, compared with another (since; 0: with
// nothing) or, if that is negative, with its parent.
func ShowGeneration(ctx context.Context, g Generations, number, since int64) (GenerationDetail, error) {
	row, err := g.Generation(ctx, number)
	if err != nil && row.Number == 0 {
		return GenerationDetail{}, err // else its Meta is damaged, which is not shown
	}
	diff, err := diffOf(row)
	if err != nil {
		return GenerationDetail{}, err
	}
	inputs, err := g.GenerationInputs(ctx, number)
	if err != nil {
		return GenerationDetail{}, err
	}
	last, err := lastGood(ctx, g)
	if err != nil {
		return GenerationDetail{}, err
	}
	out := GenerationDetail{GenerationRow: rowOfGeneration(row, diff, last), Since: row.Parent, Diff: diff, Files: []GenerationFile{}}
	for _, in := range inputs {
		out.Files = append(out.Files, GenerationFile{Path: in.Path, SHA256: in.Digest, Size: in.Size, Module: in.Module, Absent: in.Absent})
	}
	if since >= 0 {
		out.Since = since
		out.Diff, err = compareGenerations(ctx, g, since, number)
	}
	return out, err
}

// compareGenerations gives what one generation changes of another (0: of nothing).
func compareGenerations(ctx context.Context, g Generations, from, to int64) (generation.Diff, error) {
	was, wasFiles, err := remembered(ctx, g, from)
	if err != nil {
		return generation.Diff{}, err
	}
	is, isFiles, err := remembered(ctx, g, to)
	if err != nil {
		return generation.Diff{}, err
	}
	d := generation.Compare(was, is)
	d.Inputs = generation.CompareInputs(wasFiles, isFiles)
	return d, nil
}

// remembered is what a generation declared, and its files with their digests; nothing of
// generation 0.
func remembered(ctx context.Context, g Generations, number int64) (*generation.Manifest, map[string]string, error) {
	files := map[string]string{}
	m, err := Remembered(ctx, g, number)
	if err != nil || number == 0 {
		return m, files, err
	}
	inputs, err := g.GenerationInputs(ctx, number)
	for _, in := range inputs {
		if !in.Absent {
			files[in.Path] = in.Digest
		}
	}
	return m, files, err
}

// Remembered is what a generation of a history declared; generation 0 declared nothing.
func Remembered(ctx context.Context, g Generations, number int64) (*generation.Manifest, error) {
	m := &generation.Manifest{Objects: map[string]*generation.Object{}}
	if number == 0 {
		return m, nil
	}
	rows, err := g.GenerationObjects(ctx, number)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		var o generation.Object
		if json.Unmarshal(row.Body, &o) != nil {
			o = generation.Object{} // written in another form; its name and digest still say whether it changed
		}
		o.ID, o.Digest = row.ID, row.Digest
		m.Objects[o.ID] = &o
	}
	return m, nil
}

func diffOf(row store.Generation) (generation.Diff, error) {
	d := generation.Diff{Changes: []generation.Change{}, Inputs: []generation.InputChange{}}
	if len(row.Diff) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(row.Diff, &d); err != nil {
		return d, fmt.Errorf("reading the diff of generation %d: %w", row.Number, err)
	}
	d.Changes, d.Inputs = list(d.Changes), list(d.Inputs)
	return d, nil
}

func rowOfGeneration(row store.Generation, d generation.Diff, last int64) GenerationRow {
	out := GenerationRow{Generation: row, State: StateRetired, FilesChanged: len(d.Inputs)}
	switch {
	case row.Live.IsZero():
		out.State = StatePrepared
	case row.Number == last:
		out.State = StateLast
	}
	s := d.Summary()
	out.Added, out.Changed, out.Removed = s.Added, s.Changed, s.Removed
	return out
}
