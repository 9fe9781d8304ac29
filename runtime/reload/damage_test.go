package reload

import (
	"context"
	"database/sql"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store"
)

// tamper changes the database behind the back of whoever has it open.
func (s *state) tamper(statement string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "hermes.db"))
	must(s.t, err)
	_, err = db.ExecContext(s.t.Context(), statement)
	must(s.t, err)
	must(s.t, db.Close())
}

// damages are what can have happened to the record of the last generation.
var damages = map[string]string{
	"what it listed": "UPDATE generation_bodies SET body = x'00' WHERE digest IN (SELECT meta FROM generations)",
	"it is gone":     "DELETE FROM generation_bodies WHERE digest IN (SELECT meta FROM generations)",
	"an object":      "UPDATE generation_objects SET body = x'00' WHERE id = 'tool.a'",
	"all objects":    "UPDATE generation_objects SET packed = 1 - packed",
}

// What is damaged of the record keeps no start from going live: it is told, numbers go on
// above those that were used, and what is live is recorded anew.
func TestAStartOnADamagedRecordRecordsAnew(t *testing.T) {
	for name, statement := range damages {
		t.Run(name, func(t *testing.T) {
			p, st := good(t)
			st.tamper(statement)
			p, out := st.again(p)
			diff(t, []any{out.Generation, out.Result, p.r.Status().Unrecorded}, []any{int64(2), Swapped, ""})
			st.holds(p)
			diff(t, st.rows(), []string{"1<0 start operator", "2<1 start operator"})
			if log := p.log.String(); !strings.Contains(log, "damaged") {
				t.Errorf("the log does not say so:\n%s", log)
			}
			p.write("tools.d/a.hcl", "tool \"a\" {")
			p = st.restart(p)
			diff(t, slices.Collect(maps.Keys(p.stale(p.lenient()))), []string{"tools.d/a.hcl"})
			diff(t, p.offered()["a"], "One.")
			st.holds(p)
		})
	}
}

// The record of a generation that was prepared and never confirmed may be damaged too.
func TestAStartOnADamagedRecordOfWhatWasPrepared(t *testing.T) {
	for name, statement := range damages {
		t.Run(name, func(t *testing.T) {
			st := newState(t)
			p := crashed(t, st)
			st.tamper(statement)
			p, out := st.again(p)
			diff(t, out.Generation, int64(3))
			st.holds(p)
		})
	}
}

// A lenient start says what it cannot read.
func TestALenientStartOnADamagedRecord(t *testing.T) {
	for name, statement := range map[string]string{
		"what it listed": damages["what it listed"],
		"a text":         "UPDATE generation_bodies SET body = x'00' WHERE digest NOT IN (SELECT meta FROM generations)",
	} {
		t.Run(name, func(t *testing.T) {
			p, st := good(t)
			st.tamper(statement)
			p.write("tools.d/a.hcl", "tool \"a\" {")
			p = st.restart(p)
			out := p.lenient()
			diff(t, []any{out.Generation, p.names()}, []any{int64(2), []string{"b", "noop"}})
			if log := p.log.String(); !strings.Contains(log, "no last good generation stands in") || !strings.Contains(log, "is damaged") {
				t.Errorf("the log does not say why:\n%s", log)
			}
			st.holds(p)
			p.write("agents/main.hcl", mainHCL+typo)
			st.tamper(statement)
			p = st.restart(p)
			_, err := p.r.Start(t.Context(), true)
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "is damaged") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A module that the state lost is the one on disk, if that is the same; and the state has
// it again.
func TestALenientStartTakesALostModuleFromTheDisk(t *testing.T) {
	p, st := good(t)
	must(t, st.modules.Keep(t.Context(), nil))
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p = st.restart(p)
	diff(t, slices.Collect(maps.Keys(p.stale(p.lenient()))), []string{"tools.d/a.hcl"})
	diff(t, p.offered(), map[string]string{"a": "One.", "b": "One.", "noop": "Runs noop.wasm."})
	st.holds(p)
	p.write("tools.d/noop.wasm", "no module")
	p = st.restart(p)
	diff(t, slices.Sorted(maps.Keys(p.stale(p.lenient()))), []string{"tools.d/a.hcl", "tools.d/noop.wasm"})
	diff(t, p.names(), []string{"a", "b", "noop"})
	must(t, st.modules.Keep(t.Context(), nil))
	p = st.restart(p)
	p.lenient()
	if log := p.log.String(); !strings.Contains(log, "no last good generation stands in") {
		t.Errorf("another module was taken for the lost one:\n%s", log)
	}
}

// hung is a history whose writes do not end, whatever their context says, until they may.
type hung struct {
	*state
	hang  chan struct{} // nil: they end
	limit []time.Duration
}

func (h *hung) PrepareGeneration(ctx context.Context, c store.GenerationChange) error {
	at, _ := ctx.Deadline()
	h.limit = append(h.limit, time.Until(at).Round(time.Second))
	if h.hang != nil {
		<-h.hang
	}
	return h.state.PrepareGeneration(ctx, c)
}

// A disk that hangs keeps no removal from going live, and holds up only the first reload.
func TestAHungHistoryKeepsNothingFromGoingLive(t *testing.T) {
	st := newState(t)
	h := &hung{state: st}
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/b.hcl": native("b", "One.")}, st.use, func(o *Options) {
		o.History = h
	})
	p.r.journal.o.patience.grace, p.r.journal.o.patience.usual = 0, time.Second
	h.hang = make(chan struct{})
	p.remove("tools.d/b.hcl")
	p.reload()
	diff(t, []any{p.names(), p.r.Status().Unrecorded}, []any{[]string{"a"}, errStuck.Error()})
	p.remove("tools.d/a.hcl")
	p.reload() // waits for nothing
	diff(t, len(p.names()), 0)
	close(h.hang)
	for p.r.Status().Unrecorded != "" {
		p.reload()
	}
	st.holds(p)
	diff(t, h.limit, []time.Duration{10 * time.Second, time.Second, time.Second})
}

// What is lost of the record is missing from it, and no file that was not there.
func TestALenientStartDoesNotTakeWhatIsLostForAbsent(t *testing.T) {
	st := newState(t)
	asking := strings.Replace(native("a", "One."), "handler", "enabled = fileexists(\"noop.wasm\")\n  handler", 1)
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": asking, "tools.d/b.hcl": native("b", "One."), "tools.d/noop.wasm": module("1")}, st.use)
	must(t, st.modules.Keep(t.Context(), nil))
	p.write("tools.d/noop.wasm", module("2"))
	p.write("tools.d/b.hcl", "tool \"b\" {")
	p = st.restart(p)
	p.lenient()
	if log := p.log.String(); !strings.Contains(log, "it is kept, and cannot be read") {
		t.Errorf("the log does not say what is lost:\n%s", log)
	}
	diff(t, p.names(), []string{"a"})
}

// An emptied config directory is a lost mount also where nothing stands in for it: without
// its keys the server would be open to everybody.
func TestALenientStartOnAnEmptiedDirectoryWithoutARecord(t *testing.T) {
	p, st := good(t)
	st.tamper(damages["what it listed"])
	p.remove("agents/main.hcl")
	p = st.restart(p)
	out, err := p.r.Start(t.Context(), true)
	if fault.KindOf(err) != fault.Invalid || len(out.Report) != 1 || !strings.Contains(out.Report[0].Detail, "no *.hcl file any more") {
		t.Errorf("got %v, %v", err, out.Report)
	}
	if n := p.holder.Number(); n != 0 {
		t.Errorf("generation %d is live", n)
	}
}

// A fault of ours over what was live once is no reason to end with every start.
func TestALenientStartWhoseRecordMeetsAFaultOfOurs(t *testing.T) {
	p, st := good(t)
	p.write("tools.d/a.hcl", "tool \"a\" {")
	p = st.restart(p, func(o *Options) {
		o.load = func(ctx context.Context, src config.Source, o config.Options) (*config.Config, hcl.Diagnostics) {
			if _, ok := src.(*recorded); ok {
				panic("no such luck")
			}
			return config.Load(ctx, src, o)
		}
	})
	p.lenient()
	diff(t, p.names(), []string{"b", "noop"})
	if log := p.log.String(); !strings.Contains(log, "no such luck") || !strings.Contains(log, "met a fault of hermes itself") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}
