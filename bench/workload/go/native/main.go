// Command native is the work as a program of the machine itself: arguments on stdin,
// result on stdout. Package os/exec runs it.
package main

import (
	"io"
	"os"

	"github.com/hermes-runtime/hermes/bench/workload/go/count"
)

func main() {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	out, err := count.JSON(in)
	if err != nil {
		fail(err)
	}
	if _, err := os.Stdout.Write(out); err != nil {
		fail(err)
	}
}

func fail(err error) {
	_, _ = os.Stderr.WriteString(err.Error() + "\n")
	os.Exit(1)
}
