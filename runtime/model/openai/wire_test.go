package openai_test

import (
	"flag"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
)

var update = flag.Bool("update", false, "rewrite the outcomes in testdata/wire")

func TestWire(t *testing.T) {
	modeltest.RunRecordings(t, "testdata/wire", *update, func(t *testing.T, s *modeltest.Server) model.Provider {
		return open(t, s, openai.Options{Label: "main"})
	})
}

// outcome plays a recording and describes what came of it, one fact a line.
func outcome(t *testing.T, r modeltest.Recording) string {
	t.Helper()
	return modeltest.Outcome(t, open(t, modeltest.NewServer(t, r), openai.Options{Label: "main"}))
}

func definitions(names ...string) []chat.Definition { return modeltest.Definitions(names...) }
