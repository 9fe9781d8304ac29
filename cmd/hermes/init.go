package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/agents"
	toolsd "github.com/hermes-runtime/hermes/tools.d"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "init [DIR]",
		Short:   "Write a working project",
		Long:    "Writes agents/, tools.d/ with the shipped tools, and a .gitignore into DIR (default\nthe current directory). A file that exists already is left as it is.",
		Example: "  hermes init my-project && cd my-project && hermes serve",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.initialize(dir)
		},
	}
}

const gitignore = "state/\nworkspace/\n"

func (a *app) initialize(dir string) error {
	var kept []string
	wrote := 0
	write := func(name string, content []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := writeNew(path, content)
		if errors.Is(err, fs.ErrExist) {
			kept = append(kept, name)
			return nil
		}
		if err == nil {
			wrote++
		}
		return err
	}
	modules := 0
	for prefix, files := range map[string]fs.FS{"agents": agents.Files(), "tools.d": toolsd.Files()} {
		n, err := copyTree(files, prefix, write)
		if err != nil {
			return err
		}
		modules += n
	}
	if err := write(".gitignore", []byte(gitignore)); err != nil {
		return err
	}
	a.reportInit(dir, wrote, kept, modules)
	return nil
}

func (a *app) reportInit(dir string, wrote int, kept []string, modules int) {
	a.note("%d files written to %s", wrote, dir)
	if len(kept) > 0 {
		slices.Sort(kept)
		a.note("kept as they are: %s", strings.Join(kept, ", "))
	}
	if modules == 0 {
		a.note("%s this binary was built without the WASM tools (run make build, not go build): the declarations in tools.d that use a .wasm will not load", a.paint(yellow, "Warning:"))
	}
	if dir != "." {
		a.note("next: cd %s && hermes serve", dir)
	} else {
		a.note("next: hermes serve")
	}
}

// copyTree writes the embedded files and counts the modules among them.
func copyTree(files fs.FS, prefix string, write func(string, []byte) error) (modules int, err error) {
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".go") {
			return err
		}
		if strings.HasSuffix(path, ".wasm") {
			modules++
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return fmt.Errorf("reading embedded %s: %w", path, err)
		}
		return write(prefix+"/"+path, content)
	})
	return modules, err
}
