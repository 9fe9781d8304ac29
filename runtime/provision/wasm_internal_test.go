package provision

import (
	"context"
	"log/slog"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools"
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
	c := &compiled{done: make(chan struct{}), cancel: cancel}
	go func() {
		<-ctx.Done()
		c.err = ctx.Err()
		close(c.done)
	}()
	c.release()
}
