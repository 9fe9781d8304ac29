package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// app is one invocation of the command line.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	flags

	lines    <-chan string // of stdin, once something asked for one
	session  string        // of the last turn
	chatting bool          // turns follow each other in one conversation
}

// flags are the global ones.
type flags struct {
	config    string
	tools     []string
	state     string
	vars      []string
	varFiles  []string
	logFormat string
	logLevel  string
	noColor   bool
	server    string
	token     string
	json      bool
}

// Exit codes, see the table of package fault for the rest.
const (
	exitDone  = 0
	exitUsage = 2
)

// exitError ends the process with a code; the message, if any, was printed already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func (a *app) run(args []string) int {
	ctx, stop := interruptible()
	defer stop()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return a.exit(ctx, err)
}

// exit prints what went wrong and chooses the exit code.
func (a *app) exit(ctx context.Context, err error) int {
	var code exitError
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		a.printError(usage.Error())
		return exitUsage
	case ctx.Err() != nil && fault.KindOf(err) == fault.Canceled:
		a.printError("interrupted")
		return fault.Canceled.ExitCode()
	}
	a.printError(explain(err))
	return fault.KindOf(err).ExitCode()
}

// explain gives the words of an error: its message if it was written for people, else
// all of it.
func explain(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return err.Error()
}

func (a *app) printError(message string) {
	_, _ = fmt.Fprintf(a.stderr, "%s %s\n", a.paint(red, "Error:"), message)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hermes",
		Short: "An agent runtime that is run like infrastructure",
		Long: "hermes serves agents, models and tools that are declared in HCL, and changes them\n" +
			"while they run. Start with: hermes init my-project && cd my-project && hermes serve",
		SilenceUsage: true, SilenceErrors: true,
		Version: version,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("hermes {{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	a.globals(root)
	group(root, "Run:", a.initCommand(), a.serveCommand(), a.runCommand(), a.chatCommand(), a.runsCommand(), a.sessionsCommand(), a.approvalsCommand())
	group(root, "Declare:", a.validateCommand(), a.fmtCommand(), a.agentsCommand(), a.toolsCommand(), a.toolsetsCommand(), a.hostfuncsCommand())
	group(root, "Operate:", a.statusCommand(), a.planCommand(), a.applyCommand(), a.reloadCommand(), a.generationsCommand(), a.whyCommand())
	root.AddCommand(a.versionCommand(), a.docsCommand())
	root.InitDefaultCompletionCmd()
	for _, sub := range root.Commands() {
		if sub.Name() == "completion" {
			// So that an unknown shell is an error, and not help.
			sub.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	usageArgs(root)
	return root
}

// group adds commands under a title of the help text.
func group(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// globals are the flags of every command: which project, and how to speak.
func (a *app) globals(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "read the agents in `DIR`, or those of the project DIR (default \"agents\")")
	f.StringArrayVar(&a.tools, "tools", nil, "read tools in `DIR`; may be repeated (default tools.d in the project)")
	f.StringVar(&a.state, "state", "", "keep the database and caches in `DIR` (default state in the project)")
	f.StringArrayVar(&a.vars, "var", nil, "set a variable, as `NAME=VALUE`; may be repeated")
	f.StringArrayVar(&a.varFiles, "var-file", nil, "read values of variables from `FILE`; may be repeated")
	f.StringVar(&a.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	f.StringVar(&a.logLevel, "log-level", "info", "`LEVEL` of the log: debug, info, warn or error")
	f.BoolVar(&a.noColor, "no-color", false, "plain output on terminals too, as with NO_COLOR")
	for _, dir := range []string{"config", "tools", "state"} {
		must(root.MarkPersistentFlagDirname(dir))
	}
	complete(root, "log-format", "text", "json")
	complete(root, "log-level", "debug", "info", "warn", "error")
}

// must ends the program on an error that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// serverFlags are those of a command, and of the ones below it, that can speak to a
// running server.
func (a *app) serverFlags(cmd *cobra.Command) *cobra.Command {
	f := cmd.PersistentFlags()
	f.StringVar(&a.server, "server", "", "use the server at `URL` (default: the one that owns the project's state, else "+defaultServer+")")
	f.StringVar(&a.token, "token", "", "API `KEY` for the server (default $HERMES_TOKEN)")
	return cmd
}

// jsonFlag is that of a command, and of the ones below it, with a list or a result.
func (a *app) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	return cmd
}

// variables parses --var.
func (a *app) variables() (map[string]string, error) {
	out := map[string]string{}
	for _, v := range a.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--var %q: write name=value", v)}
		}
		out[name] = value
	}
	return out, nil
}

// logger writes to stderr as the flags say.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %q: use debug, info, warn or error", a.logLevel)}
	}
	o := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(a.stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, o)), nil
	}
	return nil, usageError{fmt.Errorf("--log-format %q: use text or json", a.logFormat)}
}
