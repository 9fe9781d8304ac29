package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, read func() telemetry.Reading) *telemetry.Metrics {
	t.Helper()
	m, err := telemetry.New(telemetry.Options{
		Version: "1.2.3", Read: read, Triggers: []string{"start", "file"}, Results: []string{"swapped", "refused"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// scrape gives all families by name; the text has to be exactly what a Prometheus takes.
func scrape(t *testing.T, m http.Handler) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value gives one series: its labels are name and value in turn.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		var got []string
		for _, l := range m.GetLabel() {
			got = append(got, l.GetName(), l.GetValue())
		}
		if !slices.Equal(got, labels) {
			continue
		}
		switch {
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		}
	}
	t.Errorf("no %s%v", name, labels)
	return -1
}

// TestEveryFigureIsShown: each field of a reading has its series, under its name.
func TestEveryFigureIsShown(t *testing.T) {
	live := time.UnixMilli(1_700_000_000_500)
	m := open(t, func() telemetry.Reading {
		return telemetry.Reading{
			Generation: telemetry.Generation{Number: 7, Live: live, Inputs: 11, Pending: 2, RestartOnly: 3, LastGood: 23, Unrecorded: true, Lenient: true, Holders: 4},
			Stale:      telemetry.Stale{Own: 5, With: 6, Refused: 8},
			Drain:      telemetry.Drain{Generations: 9, Holders: 10, Oldest: 1500 * time.Millisecond},
			Runs:       12,
			Wasm: telemetry.Wasm{
				Modules: 13, Compiling: 14, Compiled: 15, FromCache: 16, Running: 17, Idle: 18, Slots: 19,
				Memory: 20, MemoryBudget: 21, MemoryRefused: 22,
			},
		}
	})
	families := scrape(t, m)
	for _, tt := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{7, "hermes_generation", nil},
		{1_700_000_000.5, "hermes_generation_timestamp_seconds", nil},
		{11, "hermes_generation_inputs", nil},
		{4, "hermes_generation_holders", []string{"state", "live"}},
		{10, "hermes_generation_holders", []string{"state", "draining"}},
		{9, "hermes_generations_draining", nil},
		{1.5, "hermes_generations_draining_oldest_seconds", nil},
		{1, "hermes_generations_unrecorded", nil},
		{23, "hermes_generation_last_good", nil},
		{1, "hermes_lenient", nil},
		{5, "hermes_stale_changes", []string{"reason", "own"}},
		{6, "hermes_stale_changes", []string{"reason", "with"}},
		{8, "hermes_stale_changes", []string{"reason", "refused"}},
		{2, "hermes_pending_changes", nil},
		{3, "hermes_restart_only_settings", nil},
		{12, "hermes_runs", nil},
		{13, "hermes_wasm_modules", nil},
		{14, "hermes_wasm_modules_compiling", nil},
		{15, "hermes_wasm_compilations_total", []string{"source", "compiler"}},
		{16, "hermes_wasm_compilations_total", []string{"source", "cache"}},
		{17, "hermes_wasm_instances", []string{"state", "running"}},
		{18, "hermes_wasm_instances", []string{"state", "idle"}},
		{19, "hermes_wasm_slots", nil},
		{20, "hermes_wasm_memory_bytes", nil},
		{21, "hermes_wasm_memory_budget_bytes", nil},
		{22, "hermes_wasm_memory_refused_total", nil},
		{1, "hermes_build_info", []string{"version", "1.2.3"}},
		{0, "hermes_reloads_total", []string{"outcome", "refused", "trigger", "file"}},
	} {
		if got := value(t, families, tt.name, tt.labels...); got != tt.want {
			t.Errorf("%s%v = %v, want %v", tt.name, tt.labels, got, tt.want)
		}
	}
	for name, f := range families {
		if strings.HasPrefix(name, "hermes_") && f.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
	}
	for _, name := range []string{"go_goroutines", "go_memstats_alloc_bytes", "process_open_fds"} {
		if families[name] == nil {
			t.Errorf("no %s", name)
		}
	}
}

func TestReloadsAreCounted(t *testing.T) {
	m := open(t, func() telemetry.Reading { return telemetry.Reading{} })
	m.Reload(telemetry.Reload{Trigger: "file", Result: "swapped", Took: 3 * time.Millisecond, Phases: map[string]time.Duration{"build": 2 * time.Millisecond}})
	m.Reload(telemetry.Reload{Trigger: "file", Result: "swapped", Took: 2 * time.Minute})
	families := scrape(t, m)
	for name, want := range map[string]float64{"swapped": 2, "refused": 0} {
		if got := value(t, families, "hermes_reloads_total", "outcome", name, "trigger", "file"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := value(t, families, "hermes_reload_duration_seconds", "outcome", "swapped"); got != 2 {
		t.Errorf("%v durations", got)
	}
	h := families["hermes_reload_duration_seconds"].GetMetric()[0].GetHistogram()
	within := map[float64]uint64{}
	for _, b := range h.GetBucket() {
		within[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	if diff := cmp.Diff([]uint64{0, 1, 1}, []uint64{within[.0025], within[.005], within[60]}); diff != "" {
		t.Errorf("buckets (-want +got):\n%s", diff)
	}
	if got := value(t, families, "hermes_reload_phase_duration_seconds", "phase", "build"); got != 1 {
		t.Errorf("%v phases", got)
	}
}

// TestNoMetricsAreShared: two runtimes of one process count apart.
func TestNoMetricsAreShared(t *testing.T) {
	a, b := open(t, func() telemetry.Reading { return telemetry.Reading{Runs: 1} }), open(t, func() telemetry.Reading { return telemetry.Reading{Runs: 2} })
	a.Reload(telemetry.Reload{Trigger: "file", Result: "swapped"})
	for i, m := range []*telemetry.Metrics{a, b} {
		f := scrape(t, m)
		got := []float64{value(t, f, "hermes_runs"), value(t, f, "hermes_reloads_total", "outcome", "swapped", "trigger", "file")}
		if diff := cmp.Diff([]float64{float64(i + 1), float64(1 - i)}, got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", i, diff)
		}
	}
}

// TestAScrapeAfterClose shows the process alone, and reads nothing of a runtime that is gone.
func TestAScrapeAfterClose(t *testing.T) {
	reads := 0
	m, err := telemetry.New(telemetry.Options{Read: func() telemetry.Reading { reads++; return telemetry.Reading{} }})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m.Reload(telemetry.Reload{})
	families := scrape(t, m)
	if families["go_goroutines"] == nil || families["hermes_runs"] != nil || reads != 0 {
		t.Errorf("%d families, %d readings", len(families), reads)
	}
}
