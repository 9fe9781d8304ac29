package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

func (a *app) chatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "chat [AGENT]", Short: "Talk with an agent, line by line", Args: cobra.MaximumNArgs(1),
		Long: "Each line is a message of one conversation; answers stream as they are made, and calls that need\n" +
			"an approval ask for it. /new begins another conversation, /session names this one, /quit or the\n" +
			"end of the input ends.",
		Example:           "  hermes chat\n  hermes chat assistant --session ses_k7",
		ValidArgsFunction: names(false, a.agentNames),
	}
	sessionID := cmd.Flags().String("session", "", "go on with the conversation `ID`")
	must(cmd.RegisterFlagCompletionFunc("session", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.sessionIDs(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}))
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.chat(cmd.Context(), args, *sessionID) }
	return a.serverFlags(cmd)
}

func (a *app) chat(ctx context.Context, args []string, sessionID string) error {
	name, err := a.partner(ctx, args)
	if err != nil {
		return err
	}
	turn, done, err := a.turns(ctx)
	if err != nil {
		return err
	}
	defer done()
	a.session, a.chatting = sessionID, true
	if a.attended() {
		a.note("%s", a.paint(dim, "talking with "+name+"; /help says more"))
	}
	for {
		if a.attended() {
			_, _ = fmt.Fprint(a.stderr, a.paint(green, "> "))
		}
		line, err := a.readLine(ctx)
		if err != nil {
			return a.chatEnds(ctx, err)
		}
		text := strings.TrimSpace(line)
		if text == "" {
			continue
		}
		if strings.HasPrefix(text, "/") {
			if over := a.chatWord(text); over {
				return nil
			}
			continue
		}
		if err := turn(ctx, runOptions{agent: name, text: text, session: a.session}); err != nil {
			if ctx.Err() != nil || !a.attended() {
				return err
			}
			a.printError(explain(err)) // the conversation goes on
		}
	}
}

// chatEnds is nil at the end of the input, which is how a chat ends.
func (a *app) chatEnds(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if a.attended() {
		a.note("")
	}
	return nil
}

// chatWord does what a line that begins with a slash says; over ends the chat.
func (a *app) chatWord(word string) (over bool) {
	switch word {
	case "/quit", "/exit", "/bye":
		return true
	case "/new":
		a.session = ""
		a.note("a new conversation begins")
	case "/session":
		if a.session == "" {
			a.note("nothing was said yet")
		} else {
			a.note("%s", a.session)
		}
	case "/help":
		a.note("/new begins another conversation, /session names this one, /quit ends; everything else is a message")
	default:
		a.note("there is no %s; /help says what there is", harmless(oneLine(word, 40)))
	}
	return false
}

// partner is the agent that was asked for, else the only one, else "assistant".
func (a *app) partner(ctx context.Context, args []string) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	c, ok, err := a.running()
	if err != nil {
		return "", err
	}
	agents := []string{}
	if ok {
		var out struct {
			Agents []struct {
				Name string `json:"name"`
			} `json:"agents"`
		}
		if err := c.get(ctx, "/api/agents", nil, &out); err != nil {
			return "", err
		}
		for _, ag := range out.Agents {
			agents = append(agents, ag.Name)
		}
	} else {
		cfg, err := a.loadValid(ctx)
		if err != nil {
			return "", err
		}
		agents = slices.Sorted(maps.Keys(cfg.Agents))
	}
	switch {
	case len(agents) == 1:
		return agents[0], nil
	case slices.Contains(agents, "assistant"):
		return "assistant", nil
	case len(agents) == 0:
		return "", fault.New(fault.NotFound, "no agent is declared: hermes init makes a project with one")
	}
	return "", usageError{fmt.Errorf("there are several agents: hermes chat %s", strings.Join(agents, " | "))}
}
