package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func (a *app) serveCommand() *cobra.Command {
	var listen string
	var lenient bool
	watch := true
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve agents over HTTP, and reload them as their files change",
		Long: "Loads the project, serves it over HTTP, and watches its files.\n\n" +
			"SIGHUP reloads. SIGTERM and Ctrl-C let runs finish within runtime.shutdown_timeout; a\n" +
			"second one ends now. Exit code 2 if the files have errors (see --lenient), 1 if the\n" +
			"address or the state cannot be had.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.options()
			if err != nil {
				return err
			}
			o.Listen, o.Lenient, o.NoWatch = listen, lenient, !watch
			return a.serve(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "listen on `ADDRESS` (default server.listen, else 127.0.0.1:8420)")
	cmd.Flags().BoolVar(&lenient, "lenient", false, "run on the last good version of files that do not load, instead of exiting")
	cmd.Flags().BoolVar(&watch, "watch", true, "reload when files change")
	return cmd
}

// refusal says why serve did not start on files with errors, and what would let it.
func refusal(o runtime.Options, err error) string {
	if o.Lenient {
		return err.Error()
	}
	return "hermes serve starts only with files that load; --lenient runs on the last good version of those that do not"
}

func (a *app) serve(ctx context.Context, o runtime.Options) error {
	sys, err := runtime.New(o)
	if err != nil {
		return err
	}
	defer sys.Close()
	diags, err := sys.Load(ctx)
	if len(diags) > 0 {
		a.renderStart(ctx, sys.Config(), diags, err != nil)
	}
	if err != nil {
		if diags.HasErrors() && fault.KindOf(err) == fault.Invalid {
			a.note(refusal(o, err))
			return exitError(exitUsage)
		}
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	return sys.Serve(ctx, hup)
}
