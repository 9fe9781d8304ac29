package wasmtools

import (
	"context"
	"log/slog"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// An ordinary panic in a host function makes the engine walk the stack of the guest, frame
// by frame, for the error's text. A guest that has recursed a million times deep would
// end a tenth of a second late. A snapshot of an execution elsewhere, when it is restored,
// passes through all engines but its own unseen: so one is taken at the first need, and
// its panic ends every guest that has to end at once.

// aborter makes the value to panic with, or nil if there is none; then an ordinary panic
// has to do.
func aborter(log *slog.Logger) func() any {
	return func() any {
		v, err := foreignSnapshot(context.Background())
		if err != nil {
			log.Warn("guests may end late", "err", err)
		}
		return v
	}
}

// snapshotModule is (module (import "h" "f" (func)) (func (export "g") call 0)).
const snapshotModule = "\x00asm\x01\x00\x00\x00" +
	"\x01\x04\x01\x60\x00\x00" + // one type, () -> ()
	"\x02\x07\x01\x01h\x01f\x00\x00" +
	"\x03\x02\x01\x00" +
	"\x07\x05\x01\x01g\x00\x01" +
	"\x0a\x06\x01\x04\x00\x10\x00\x0b"

// foreignSnapshot runs a module that exists for nothing else, and gives what restoring a
// snapshot of it panics with.
func foreignSnapshot(ctx context.Context) (v any, err error) {
	engine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithDebugInfoEnabled(false))
	defer func() { _ = engine.Close(ctx) }() // nothing runs in it
	f := func(ctx context.Context) {
		s := experimental.GetSnapshotter(ctx).Snapshot()
		defer func() { v = recover() }()
		s.Restore(nil)
	}
	if _, err := engine.NewHostModuleBuilder("h").NewFunctionBuilder().WithFunc(f).Export("f").Instantiate(ctx); err != nil {
		return nil, err
	}
	mod, err := engine.Instantiate(ctx, []byte(snapshotModule))
	if err != nil {
		return nil, err
	}
	_, err = mod.ExportedFunction("g").Call(experimental.WithSnapshotter(ctx))
	return v, err
}
