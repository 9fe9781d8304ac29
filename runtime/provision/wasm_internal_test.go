package provision

import (
	"bytes"
	"context"
	"errors"
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

// host says whether calls may still run.
type host struct {
	tool.Host
	err error
}

func (h *host) Allowed() error { return h.err }

// TestTakenAwayWhileCompiling: a call that waited for its module asks again before it runs.
func TestTakenAwayWhileCompiling(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	wasm, err := wasmtools.Open(wasmtools.Options{CacheDir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	c := &compiled{done: make(chan struct{})}
	p := &pending{dropped: make(chan struct{}), done: make(chan struct{})}
	go p.bind(c, wasmtools.Spec{Name: "x"}, log)
	gone := &host{}
	answers := make(chan error)
	call := func(h *host) {
		_, err := p.Call(t.Context(), &tool.Call{Tool: "x", Host: h})
		answers <- err
	}
	go call(gone)
	gone.err = fault.New(fault.Unavailable, "removed in generation 2")
	c.module, c.err = wasm.Compile(t.Context(), moduletest.Module{Funcs: []moduletest.Func{{Export: "_start"}}, Pages: 1}.Bytes())
	close(c.done)
	if err := <-answers; !errors.Is(err, gone.err) {
		t.Errorf("a call of a tool that is gone: %v", err)
	}
	go call(&host{})
	if err := <-answers; err != nil {
		t.Errorf("a call of a tool that is there: %v", err)
	}
	p.close(log)
	c.module.Release()
	if err := wasm.Close(t.Context()); err != nil {
		t.Error(err)
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
