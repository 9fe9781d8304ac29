package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/sdk"
)

func (a *app) newToolCommand() *cobra.Command {
	var language, dir string
	languages := make([]string, 0, len(sdk.Languages()))
	for _, l := range sdk.Languages() {
		languages = append(languages, string(l))
	}
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Start a tool of your own", Args: cobra.ExactArgs(1),
		Long: "Writes the folder NAME with a tool that works: a source, the library it needs, its declaration,\n" +
			"a test and a Makefile. Nothing is downloaded, and no file is overwritten.",
		Example:           "  hermes tools new word_count --lang rust && make -C word_count test",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				dir = args[0]
			}
			return a.newTool(cmd.Context(), tool.Name(args[0]), sdk.Language(language), dir)
		},
	}
	cmd.Flags().StringVar(&language, "lang", string(sdk.Go), "write it in `LANGUAGE`: "+strings.Join(languages, ", "))
	cmd.Flags().StringVar(&dir, "dir", "", "write it to `DIR` (default NAME)")
	complete(cmd, "lang", languages...)
	must(cmd.MarkFlagDirname("dir"))
	return cmd
}

func (a *app) newTool(ctx context.Context, name tool.Name, language sdk.Language, dir string) error {
	files, err := sdk.New(language, name)
	if err != nil {
		return usageError{err}
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fault.New(fault.Exists, "%s is there already, and is no folder: choose another name, or another folder with --dir", dir)
	}
	cfg := a.project(ctx)
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if _, err := os.Lstat(path); err == nil {
			return fault.New(fault.Exists, "%s is there already, and nothing was written: choose another name, or another folder with --dir", path)
		}
	}
	for _, f := range files {
		if err := writeNew(filepath.Join(dir, filepath.FromSlash(f.Name)), f.Content); err != nil {
			return err
		}
	}
	a.note("%d files written to %s", len(files), dir)
	a.noteNext(name, language, dir, cfg)
	return nil
}

// noteNext says how to go on; cfg may be nil.
func (a *app) noteNext(name tool.Name, language sdk.Language, dir string, cfg *config.Config) {
	cd := "cd " + shellWord(dir)
	switch language {
	case sdk.Native:
		a.note("next: put the folder into the Go module of your program, and its Funcs() into runtime.Options.HostFuncs")
		a.note("then: %s && make test", cd)
		return
	case sdk.AssemblyScript:
		a.note("next: %s && npm install && make test", cd)
	default:
		a.note("next: %s && make test", cd)
	}
	if loaded(cfg, dir) {
		a.note("then: a running server takes it up as it is built")
	} else {
		a.note("then: put %s.hcl and %[1]s.wasm into tools.d; a running server takes them up", name)
	}
	if cfg != nil && cfg.Tools[name] != nil {
		a.note("mind: there is a tool %q already, at %s; two of one name do not load together", name, cfg.Tools[name].Pos)
	}
}

// loaded says whether the project loads what lies in dir.
func loaded(cfg *config.Config, dir string) bool {
	if cfg == nil {
		return false
	}
	abs, err := filepath.Abs(dir)
	return err == nil && slices.ContainsFunc(cfg.Paths.ToolsDirs, func(tools string) bool {
		rel, err := filepath.Rel(tools, abs)
		return err == nil && filepath.IsLocal(rel)
	})
}

// shellWord is s as a shell reads it back.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// writeNew writes a file that must not exist, with its folders.
func writeNew(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // sources are not secret
		return fault.Wrap(fault.Unavailable, err, "%s cannot be created: %s", filepath.Dir(path), reason(err))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // likewise
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s cannot be written: %s", path, reason(err))
	}
	_, err = f.Write(content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s cannot be written: %s", path, reason(err))
	}
	return nil
}
