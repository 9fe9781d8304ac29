package openai_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a provider of o that talks to s, closed at the end of the test.
func open(t *testing.T, s *modeltest.Server, o openai.Options) *openai.Provider {
	t.Helper()
	if o.Model == "" {
		o.Model = "test-model"
	}
	if o.BaseURL == "" {
		o.BaseURL = s.URL
	}
	if s.Transport != nil {
		o.Transport = s.Transport
	}
	p, err := openai.New(o)
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

func TestSuite(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, answers ...modeltest.Answer) model.Provider {
		var handlers []http.Handler
		for _, a := range answers {
			handlers = append(handlers, a)
		}
		return open(t, modeltest.NewServer(t, handlers...), openai.Options{Label: "main"})
	})
}
