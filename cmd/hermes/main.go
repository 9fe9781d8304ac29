// Command hermes declares, serves and operates agents. One file holds one subcommand;
// the parts it joins are in package runtime.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set when the binary is linked.
var version = "dev"

func main() {
	os.Exit(Main())
}

// Main runs the command line and gives the exit code.
func Main() int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	return a.run(os.Args[1:])
}

// interruptible is a context that the first SIGINT or SIGTERM cancels; the second
// ends the process as if nobody handled it.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
