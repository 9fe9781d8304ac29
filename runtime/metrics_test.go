package runtime

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/reload"
)

// leakFree fails when the test, with its cleanups, leaves a goroutine.
func leakFree(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// serving serves s on a port of its own and gives the address.
func serving(t *testing.T, s *System) (base string) {
	t.Helper()
	srv := s.server()
	ln, err := srv.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// ask is a GET with a key; an empty one sends none.
func ask(t *testing.T, url, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// scraped are the figures of one scrape: "name" or "name label=value …" to value; of
// histograms the count.
func scraped(t *testing.T, base string) map[string]float64 {
	t.Helper()
	status, text := ask(t, base+"/metrics", secretText)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			out[series(name, m)] = figure(m)
		}
	}
	return out
}

func series(name string, m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		name += " " + l.GetName() + "=" + l.GetValue()
	}
	return name
}

func figure(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return -1
}

// wants compares the figures that matter.
func wants(t *testing.T, when string, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s: %s = %v (shown: %v), want %v", when, name, g, ok, v)
		}
	}
}

const timeTool = `
tool "clock" {
  handler "native" {
    function = "time.now"
  }
}
`

// TestMetrics follows a server through start, swap, withheld, refused, nothing to do, and
// drain; each figure is scraped over HTTP.
func TestMetrics(t *testing.T) {
	leakFree(t)
	dir := lifeProject(t)
	tools := filepath.Join(filepath.Dir(dir), "tools.d")
	put := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(tools, "clock.hcl"), timeTool)
	s := loaded(t, Options{ConfigDir: dir, NoWatch: true, Version: "test"})
	t.Cleanup(s.Close)
	base := serving(t, s)
	again := func() {
		t.Helper()
		if _, err := s.Reloader().Reload(t.Context(), reload.TriggerAPI); err != nil {
			t.Fatal(err)
		}
	}
	api := func(result string) string { return "hermes_reloads_total outcome=" + result + " trigger=api" }

	got := scraped(t, base)
	wants(t, "start", got, map[string]float64{
		"hermes_generation": 1, "hermes_reloads_total outcome=swapped trigger=start": 1, api("swapped"): 0,
		"hermes_reload_duration_seconds outcome=swapped": 1, "hermes_generations_draining": 0, "hermes_generations_draining_oldest_seconds": 0,
		"hermes_stale_changes reason=own": 0, "hermes_pending_changes": 0, "hermes_restart_only_settings": 0, "hermes_runs": 0,
		"hermes_build_info version=test": 1, "hermes_generation_last_good": 1, "hermes_generations_unrecorded": 0, "hermes_lenient": 0,
		"hermes_reload_phase_duration_seconds phase=record": 1, "hermes_reload_phase_duration_seconds phase=load": 1,
		"hermes_generation_inputs": 2,
	})
	if got["hermes_generation_timestamp_seconds"] <= got["process_start_time_seconds"]-1 {
		t.Errorf("live since %v, the process since %v", got["hermes_generation_timestamp_seconds"], got["process_start_time_seconds"])
	}

	put(filepath.Join(tools, "clock.hcl"), timeTool+"\n# a note\n")
	again()
	again()
	wants(t, "swap, and nothing to do", scraped(t, base), map[string]float64{
		"hermes_generation": 2, api("swapped"): 1, api("unchanged"): 1, "hermes_reload_duration_seconds outcome=unchanged": 1,
	})

	put(filepath.Join(tools, "broken.hcl"), `tool "x" {`)
	put(filepath.Join(tools, "more.hcl"), strings.Replace(timeTool, "clock", "more", 1))
	again()
	wants(t, "withheld alone", scraped(t, base), map[string]float64{
		"hermes_generation": 3, api("partial"): 1, "hermes_stale_changes reason=own": 1, "hermes_stale_changes reason=with": 0,
		"hermes_generation_inputs": 3,
	})

	main, err := os.ReadFile(filepath.Join(dir, "main.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	put(filepath.Join(dir, "main.hcl"), "agent {")
	put(filepath.Join(tools, "more.hcl"), timeTool[:len(timeTool)-2])
	again()
	wants(t, "refused", scraped(t, base), map[string]float64{
		"hermes_generation": 3, api("refused"): 1, "hermes_stale_changes reason=own": 3,
	})

	_, release, err := s.Holder().Acquire()
	if err != nil {
		t.Fatal(err)
	}
	wants(t, "held", scraped(t, base), map[string]float64{"hermes_generation_holders state=live": 1, "hermes_generation_holders state=draining": 0})
	put(filepath.Join(dir, "main.hcl"), strings.Replace(string(main), "server {", "server {\n  listen = \"127.0.0.1:1\"", 1))
	for _, gone := range []string{"broken.hcl", "more.hcl"} {
		if err := os.Remove(filepath.Join(tools, gone)); err != nil {
			t.Fatal(err)
		}
	}
	again()
	got = scraped(t, base)
	wants(t, "drain", got, map[string]float64{
		"hermes_generation": 4, "hermes_generations_draining": 1, "hermes_generation_holders state=draining": 1, "hermes_stale_changes reason=own": 0, "hermes_restart_only_settings": 1,
	})
	if got["hermes_generations_draining_oldest_seconds"] <= 0 {
		t.Error("the generation that drains has no age")
	}
	release()
	wants(t, "drained", scraped(t, base), map[string]float64{
		"hermes_generations_draining": 0, "hermes_generations_draining_oldest_seconds": 0,
	})
}

// TestPendingChangesAreCounted: with watching off they wait for somebody to ask.
func TestPendingChangesAreCounted(t *testing.T) {
	leakFree(t)
	dir := lifeProject(t)
	s := loaded(t, Options{ConfigDir: dir, NoWatch: true})
	t.Cleanup(s.Close)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.reloader.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	base := serving(t, s)
	wants(t, "before", scraped(t, base), map[string]float64{"hermes_pending_changes": 0})
	if err := os.WriteFile(filepath.Join(dir, "more.hcl"), []byte("# more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, seen := 0, 0.0; seen == 0; i++ {
		if i == 20_000 {
			t.Fatal("the change is not counted")
		}
		seen = scraped(t, base)["hermes_pending_changes"]
	}
	if _, err := s.Reloader().Reload(t.Context(), reload.TriggerAPI); err != nil {
		t.Fatal(err)
	}
	wants(t, "after", scraped(t, base), map[string]float64{"hermes_pending_changes": 0, "hermes_generation": 2})
}

// TestALenientStartShows that files are in force as they were, until they load.
func TestALenientStartShows(t *testing.T) {
	leakFree(t)
	dir := lifeProject(t)
	path := filepath.Join(dir, "main.hcl")
	main, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{ConfigDir: dir, NoWatch: true, Lenient: true}
	loaded(t, o).Close()
	if err := os.WriteFile(path, main[:len(main)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	s := loaded(t, o)
	t.Cleanup(s.Close)
	base := serving(t, s)
	wants(t, "on the last good version", scraped(t, base), map[string]float64{
		"hermes_lenient": 1, "hermes_generation": 1, "hermes_generation_last_good": 1, "hermes_stale_changes reason=own": 1,
		"hermes_reloads_total outcome=partial trigger=start": 1,
	})
	if err := os.WriteFile(path, main, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reloader().Reload(t.Context(), reload.TriggerAPI); err != nil {
		t.Fatal(err)
	}
	wants(t, "mended", scraped(t, base), map[string]float64{"hermes_lenient": 0, "hermes_stale_changes reason=own": 0})
}

// TestWhoMayScrape: whoever may see the status, that is, admins.
func TestWhoMayScrape(t *testing.T) {
	leakFree(t)
	t.Setenv("HERMES_TEST_APP_KEY", "app-of-the-test-which-is-long")
	dir := lifeProject(t)
	main, err := os.ReadFile(filepath.Join(dir, "main.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	with := strings.Replace(string(main), "server {", "server {\n  key \"app\" {\n    secret = secret_env(\"HERMES_TEST_APP_KEY\")\n    role = \"user\"\n  }\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "main.hcl"), []byte(with), 0o600); err != nil {
		t.Fatal(err)
	}
	s := loaded(t, Options{ConfigDir: dir, NoWatch: true})
	t.Cleanup(s.Close)
	base := serving(t, s)
	got := []int{}
	for _, key := range []string{"", "nobody", "app-of-the-test-which-is-long", secretText} {
		status, text := ask(t, base+"/metrics", key)
		got = append(got, status)
		if strings.Contains(text, "hermes_generation") != (status == http.StatusOK) {
			t.Errorf("status %d: %s", status, text)
		}
		if strings.Contains(text, secretText) || strings.Contains(text, "offline") {
			t.Error("the metrics name what is declared")
		}
	}
	if want := []int{401, 401, 403, 200}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
}
