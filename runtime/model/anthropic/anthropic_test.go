package anthropic_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a provider of o that talks to s, closed at the end of the test.
func open(t *testing.T, s *modeltest.Server, o anthropic.Options) *anthropic.Provider {
	t.Helper()
	if o.Model == "" {
		o.Model = "claude-sonnet-4-5"
	}
	if o.BaseURL == "" {
		o.BaseURL = s.URL
	}
	if s.Transport != nil {
		o.Transport = s.Transport
	}
	p, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func ignore(model.Delta) error { return nil }

func TestSuite(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, answers ...modeltest.Answer) model.Provider {
		var handlers []http.Handler
		for _, a := range answers {
			if a.Usage.Reasoning > 0 {
				return nil // this wire does not count it
			}
			handlers = append(handlers, modeltest.Messages(a))
		}
		return open(t, modeltest.NewServer(t, handlers...), anthropic.Options{Label: "main"})
	})
}
