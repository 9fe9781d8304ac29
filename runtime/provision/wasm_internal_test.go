package provision

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
	"github.com/hermes-runtime/hermes/wasmtools/module/moduletest"
)

// TestDroppedWhileCompiling gives up a handler whose module goes on compiling: nobody
// who lets a generation go waits for that.
func TestDroppedWhileCompiling(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	c := &compiled{done: make(chan struct{})} // never ends
	p := &pending{dropped: make(chan struct{}), done: make(chan struct{})}
	go p.bind(c, wasmtools.Spec{}, log)
	if h, _ := p.health(); h != registry.Compiling {
		t.Errorf("health = %s", h)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Call(ctx, &tool.Call{Tool: "x"}); err == nil {
		t.Error("a call was answered by a module that is not there")
	}
	p.close(log)
	if h, _ := p.health(); h != registry.Failed {
		t.Errorf("health = %s", h)
	}
}

// TestReleaseEndsTheWait lets a module go that waits for a place to compile in.
func TestReleaseEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &compiled{done: make(chan struct{}), cancel: cancel, begun: true}
	go func() {
		<-ctx.Done()
		c.err = ctx.Err()
		close(c.done)
	}()
	c.release()
}

// TestCompileTriesAgain after the time ran out, in the background of a start only.
func TestCompileTriesAgain(t *testing.T) {
	host, err := wasmtools.Open(wasmtools.Options{CompileTimeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := host.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	wasm := moduletest.Module{Funcs: []moduletest.Func{{Export: "_start"}}}.Bytes()
	for _, c := range []struct {
		background bool
		again      int
	}{{true, compileTries - 1}, {false, 0}} {
		var text bytes.Buffer
		b := &build{Provisioner: &Provisioner{o: Options{Wasm: host, Log: slog.New(slog.NewTextHandler(&text, nil))}}}
		_, err := b.compile(t.Context(), wasm, c.background)
		if fault.KindOf(err) != fault.Timeout {
			t.Errorf("background %v: %v", c.background, err)
		}
		if got := strings.Count(text.String(), "compiling module again"); got != c.again {
			t.Errorf("background %v: tried again %d times", c.background, got)
		}
	}
}
