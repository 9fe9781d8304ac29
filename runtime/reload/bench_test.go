package reload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/provision"
	"github.com/hermes-runtime/hermes/runtime/schema"
)

// hclString quotes a text for HCL.
func hclString(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.NewReplacer("${", "$${", "%{", "%%{", `\b`, `\u0008`, `\f`, `\u000c`).Replace(strings.TrimSpace(b.String()))
}

// manyTools are up to n tool files made from real tool definitions, and their schemas.
func manyTools(t testing.TB, n int) (files, []json.RawMessage) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "bfcl", "tools.jsonl"))
	if err != nil {
		t.Skipf("the tool definitions are not there: %v", err)
	}
	defer f.Close()
	fs, schemas := files{"agents/main.hcl": mainHCL}, []json.RawMessage(nil)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for i := 0; lines.Scan() && len(schemas) < n; i++ {
		var d struct {
			Description string
			Schema      json.RawMessage
		}
		must(t, json.Unmarshal(lines.Bytes(), &d))
		if _, err := schema.Compile(d.Schema); err != nil {
			continue
		}
		schemas = append(schemas, d.Schema)
		fs[fmt.Sprintf("tools.d/t%04d.hcl", i)] = manyTool(i, d.Description, d.Schema)
	}
	must(t, lines.Err())
	return fs, schemas
}

func manyTool(i int, description string, raw json.RawMessage) string {
	return fmt.Sprintf(`
tool "t%04d" {
  description = %s
  schema      = jsondecode(%s)
  handler "native" {
    function = "test.echo"
  }
}
`, i, hclString(description), hclString(string(raw)))
}

// settleClocks makes the disk look as if all was read long after it was written, as it
// is in a daemon that runs for a while.
func settleClocks(d *disk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, f := range d.seen {
		old := *f
		old.read = old.read.Add(racyWindow)
		d.seen[path] = &old
	}
}

// One changed file of 2,000 is parsed, and its schema compiled, and nothing else.
func TestReloadOfOneFileAmongManyDoesTheWorkOfOne(t *testing.T) {
	fs, schemas := manyTools(t, 300)
	p := start(t, fs)
	p.write("tools.d/t0000.hcl", manyTool(0, "Another.", json.RawMessage(`{"type":"object","properties":{"new":{"type":"string"}}}`)))
	before := p.cache.Stats()
	diff(t, p.reload().Changed, true)
	after := p.cache.Stats()
	diff(t, config.Stats{
		Parses: after.Parses - before.Parses, Evaluations: after.Evaluations - before.Evaluations, SchemaCompiles: after.SchemaCompiles - before.SchemaCompiles,
	}, config.Stats{Parses: 1, Evaluations: 1, SchemaCompiles: 1})
	diff(t, len(p.live().Registry.Names()), len(schemas))
}

// BenchmarkReloadOneOf2000 is the time from the end of the debounce to the swap, when
// one file of 2,000 changed.
func BenchmarkReloadOneOf2000(b *testing.B) { benchmarkReload(b) }

// BenchmarkRecordedReloadOneOf2000 is the same with a state, on the real disk: two
// commits.
func BenchmarkRecordedReloadOneOf2000(b *testing.B) { benchmarkReload(b, newState(b).use) }

func benchmarkReload(b *testing.B, options ...func(*Options)) {
	fs, schemas := manyTools(b, 2000)
	p := start(b, fs, options...)
	before, n := p.cache.Stats(), 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		n++
		settleClocks(p.r.disk)
		p.write("tools.d/t0000.hcl", manyTool(0, fmt.Sprintf("Version %d.", n), json.RawMessage(fmt.Sprintf(`{"type":"object","title":"v%d"}`, n))))
		b.StartTimer()
		out, err := p.r.Reload(b.Context(), TriggerAPI)
		must(b, err)
		if !out.Changed {
			b.Fatal(out.Report)
		}
		<-p.swaps
	}
	after := p.cache.Stats()
	b.ReportMetric(float64(after.Parses-before.Parses)/float64(n), "parses/op")
	b.ReportMetric(float64(after.SchemaCompiles-before.SchemaCompiles)/float64(n), "schemas/op")
	b.ReportMetric(float64(len(schemas)), "tools")
}

// BenchmarkIdlePollOf2000 is a poll that finds nothing.
func BenchmarkIdlePollOf2000(b *testing.B) {
	fs, _ := manyTools(b, 2000)
	p := start(b, fs)
	settleClocks(p.r.disk)
	b.ReportAllocs()
	for b.Loop() {
		out, err := p.r.Reload(b.Context(), TriggerPoll)
		must(b, err)
		if out.Changed {
			b.Fatal("changed")
		}
	}
}

// BenchmarkColdLoadOf2000 is a start with nothing cached: the language (of which the
// compilation of schemas is told apart) and the registry.
func BenchmarkColdLoadOf2000(b *testing.B) {
	fs, schemas := manyTools(b, 2000)
	p := newProject(b, fs)
	var language, compile, build time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		o := p.r.o.Load
		o.Cache = config.NewCache()
		r := newRound(&live{}, newDisk(config.Disk{}).view(o.Paths.ConfigDir, told{all: true}), &hold{})
		cfg, diags := config.Load(b.Context(), r, o)
		if diags.HasErrors() {
			b.Fatal(diags)
		}
		language += time.Since(begin)
		begin = time.Now()
		snap, diags := p.r.o.Build.Build(b.Context(), cfg, provision.Generation{Number: 1, Trigger: TriggerStart, Start: true})
		if diags.HasErrors() {
			b.Fatal(diags)
		}
		build += time.Since(begin)
		b.StopTimer()
		snap.Close()
		begin = time.Now()
		for _, raw := range schemas {
			if _, err := schema.Compile(raw); err != nil {
				b.Fatal(err)
			}
		}
		compile += time.Since(begin)
		b.StartTimer()
	}
	for name, d := range map[string]time.Duration{"language-ms": language, "schemas-alone-ms": compile, "registry-ms": build} {
		b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name)
	}
}
