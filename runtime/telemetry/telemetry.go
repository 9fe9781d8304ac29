// Package telemetry is what hermes says about itself to those who watch it: metrics, in
// Prometheus' text form.
//
// It knows the names and shapes of figures. It does not know where they come from: the
// runtime gives a [Reading] at each scrape, and tells of each reload.
//
//	scrape ─► Handler ─► Read() ─► gauges ┐
//	reload ─► Reload() ─► counters ───────┴─► text
//
// # Invariants
//
// A figure that something else keeps is read when it is asked for, and kept nowhere here.
// Labels take few values that are known in advance: nothing that an operator, a model or
// a client names is one. There is no global provider: every Metrics is its own.
//
// # Concurrency
//
// A [Metrics] is safe for concurrent use. It starts no goroutine.
//
// # Errors
//
// [New] fails when two metrics have one name, which is a programming error. A scrape that
// cannot be gathered whole answers 500 with no part of it.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
)

const scope = "github.com/hermes-runtime/hermes"

// Options are what Metrics work with.
type Options struct {
	// Version is the program's.
	Version string
	// Read gives the figures as they are now; it is called once a scrape, possibly by
	// several at once.
	Read func() Reading
	// Triggers and Results are the values that the labels of reloads take: all series
	// exist from the start, so that the first event is already an increase.
	Triggers, Results []string
	Log               *slog.Logger // nil: discarded
}

// Metrics are the metrics of one runtime.
type Metrics struct {
	provider *sdk.MeterProvider
	handler  http.Handler
	reloads  metric.Int64Counter
	took     metric.Float64Histogram
	phases   metric.Float64Histogram
	calls    metric.Float64Histogram
	verdicts metric.Int64Counter
}

// New makes metrics. Close them.
func New(o Options) (*Metrics, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, fmt.Errorf("making metrics exporter: %w", err)
	}
	m := &Metrics{
		provider: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithExemplarFilter(exemplar.AlwaysOffFilter)),
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelError), ErrorHandling: promhttp.HTTPErrorOnError,
		}),
	}
	err = errors.Join(
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		m.observe(o), m.record(o),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("declaring metrics: %w", err), m.Close())
	}
	return m, nil
}

// ServeHTTP answers a scrape. Who may ask is the caller's to decide.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Close forgets everything: scrapes after it show the process alone, and reloads are not
// counted.
func (m *Metrics) Close() error { return m.provider.Shutdown(context.Background()) }

// observe declares what is read at a scrape: all of it is of one Reading.
func (m *Metrics) observe(o Options) error {
	meter := m.provider.Meter(scope)
	var asked []metric.Observable
	var shows []func(metric.Observer, Reading)
	for _, g := range readings(o.Version) {
		i, err := g.declare(meter)
		if err != nil {
			return err
		}
		asked = append(asked, i)
		shows = append(shows, func(to metric.Observer, r Reading) {
			for _, p := range g.points(r) {
				to.ObserveFloat64(i, p.value, metric.WithAttributes(p.labels...))
			}
		})
	}
	_, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		r := o.Read()
		for _, show := range shows {
			show(to, r)
		}
		return nil
	}, asked...)
	return err
}

// record declares what is counted as it happens.
func (m *Metrics) record(o Options) error {
	meter := m.provider.Meter(scope)
	var errs [5]error
	m.reloads, errs[0] = meter.Int64Counter("hermes.reloads",
		metric.WithDescription("Reloads that came to an outcome, by what asked for them and what came of it."))
	m.took, errs[1] = meter.Float64Histogram("hermes.reload.duration", metric.WithUnit("s"),
		metric.WithDescription("Time a reload took, from its first look at the disk to the swap."), metric.WithExplicitBucketBoundaries(buckets()...))
	m.phases, errs[2] = meter.Float64Histogram("hermes.reload.phase.duration", metric.WithUnit("s"),
		metric.WithDescription("Time each phase of a reload took, over all of its rounds."), metric.WithExplicitBucketBoundaries(buckets()...))
	m.calls, errs[3] = meter.Float64Histogram("hermes.tool.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of tool calls, waiting included, by tool and how they ended: ok or the kind of error."), metric.WithExplicitBucketBoundaries(buckets()...))
	m.verdicts, errs[4] = meter.Int64Counter("hermes.policy.verdicts",
		metric.WithDescription("Verdicts of policies over tool calls, by policy and what it did."))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	for _, trigger := range o.Triggers {
		for _, result := range o.Results {
			m.reloads.Add(context.Background(), 0, of("trigger", trigger, "outcome", result))
		}
	}
	return nil
}

// buckets are bounds in seconds: a reload of one file takes milliseconds, one that
// compiles large modules a minute.
func buckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .15, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// Reload is one reload that came to an outcome.
type Reload struct {
	Trigger, Result string
	Took            time.Duration
	// Phases are how long its parts took, by name; absent: not gone through.
	Phases map[string]time.Duration
}

// Reload counts one.
func (m *Metrics) Reload(r Reload) {
	ctx := context.Background()
	m.reloads.Add(ctx, 1, of("trigger", r.Trigger, "outcome", r.Result))
	m.took.Record(ctx, r.Took.Seconds(), of("outcome", r.Result))
	for phase, took := range r.Phases {
		m.phases.Record(ctx, took.Seconds(), of("phase", phase))
	}
}

// Call is one tool call that has ended.
type Call struct {
	Tool    string // a declared one, or "" for a name that is none
	Outcome string // ok, or the kind of the error
	Took    time.Duration
	// Verdict is what the policies By said: deny, ask or allow.
	Verdict string
	By      []string
}

// Call counts one.
func (m *Metrics) Call(c Call) {
	ctx := context.Background()
	m.calls.Record(ctx, c.Took.Seconds(), of("tool", c.Tool, "outcome", c.Outcome))
	for _, p := range c.By {
		m.verdicts.Add(ctx, 1, of("policy", p, "action", c.Verdict))
	}
}

// of makes labels of names and values in turn.
func of(pairs ...string) metric.MeasurementOption { return metric.WithAttributes(labels(pairs...)...) }

func labels(pairs ...string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, attribute.String(pairs[i], pairs[i+1]))
	}
	return out
}
