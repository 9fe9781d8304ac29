package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a wrong use of a command.
type usageError struct{ error }

// flagError words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	message := err.Error()
	switch {
	case errors.As(err, &value):
		message = fmt.Sprintf("--%s %q: it takes a value of type %s", value.GetFlag().Name, value.GetValue(), value.GetFlag().Value.Type())
	case errors.As(err, &unknown):
		message = unknownFlag(cmd, unknown)
	}
	return seeHelp(cmd, message)
}

// seeHelp is a usage error that points to the command's help.
func seeHelp(cmd *cobra.Command, message string) error {
	if strings.HasSuffix(message, "?") {
		return usageError{fmt.Errorf("%s See %s --help", message, cmd.CommandPath())}
	}
	return usageError{fmt.Errorf("%s; see %s --help", message, cmd.CommandPath())}
}

// unknownFlag says so, and names the nearest one if it differs by a slip.
func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) string {
	name := err.GetSpecifiedName()
	dashes := "--"
	if len(name) == 1 {
		dashes = "-"
	}
	message := fmt.Sprintf("%s has no flag %s%s", cmd.CommandPath(), dashes, name)
	best, distance := "", 3
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := editDistance(name, f.Name); d < distance && !f.Hidden {
			best, distance = f.Name, d
		}
	})
	if best != "" && len(name) > 2 {
		message += fmt.Sprintf(". Did you mean --%s?", best)
	}
	return message
}

// editDistance is the number of characters to insert, delete or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// usageArgs makes wrong arguments of any command a usage error.
func usageArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) != nil {
				return argsError(c, args)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		usageArgs(sub)
	}
}

// argsError says what a command takes, or which commands are near an unknown one.
func argsError(cmd *cobra.Command, args []string) error {
	if cmd.HasSubCommands() && len(args) > 0 {
		message := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), args[0])
		cmd.SuggestionsMinimumDistance = min(2, len(args[0])/2)
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			message += fmt.Sprintf(". Did you mean %s?", strings.Join(near, " or "))
		}
		return seeHelp(cmd, message)
	}
	_, takes, _ := strings.Cut(cmd.Use, " ")
	if takes == "" {
		takes = "no arguments"
	}
	return seeHelp(cmd, fmt.Sprintf("%s takes %s, and was given %s", cmd.CommandPath(), takes, count(len(args), "argument")))
}

// helpCommand is help, with an error for what does not exist.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return argsError(cmd, rest)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			cmd, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range cmd.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
