package anthropic_test

import (
	"flag"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
)

var update = flag.Bool("update", false, "rewrite the outcomes in testdata/wire")

func TestWire(t *testing.T) {
	modeltest.RunRecordings(t, "testdata/wire", *update, func(t *testing.T, s *modeltest.Server) model.Provider {
		return open(t, s, anthropic.Options{Label: "main"})
	})
}
