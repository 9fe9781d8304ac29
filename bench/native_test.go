package bench

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"testing"

	"github.com/tetratelabs/wazero/sys"

	"github.com/hermes-runtime/hermes/bench/workload/go/count"
)

// native does the work in this process.
func native(testing.TB) (caller, func() int) {
	return func(_ context.Context, args []byte) ([]byte, error) { return count.JSON(args) }, nil
}

// program runs a program of this machine for each call.
func program(file string) func(tb testing.TB) (caller, func() int) {
	return func(testing.TB) (caller, func() int) {
		return func(ctx context.Context, args []byte) ([]byte, error) {
			cmd := exec.CommandContext(ctx, path(file))
			cmd.Stdin = bytes.NewReader(args)
			return cmd.Output()
		}, nil
	}
}

// exitCode is the code that a guest ended itself with; -1 for another error.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		return int(exit.ExitCode())
	}
	return -1
}
