package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

func (a *app) fmtCommand() *cobra.Command {
	var check, diff bool
	cmd := &cobra.Command{
		Use:   "fmt [PATH…]",
		Short: "Rewrite HCL files in canonical layout",
		Long:  "Rewrites *.hcl files, given or found below the given directories (default: the\nproject's agents and tools). Prints the names of files that change.",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.format(args, check, diff)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; exit 1 if a file would change")
	cmd.Flags().BoolVar(&diff, "diff", false, "print the lines that change")
	return cmd
}

func (a *app) format(args []string, check, diff bool) error {
	files, err := a.hclFiles(args)
	if err != nil {
		return err
	}
	changed := 0
	for _, file := range files {
		did, err := a.formatFile(file, check, diff)
		if err != nil {
			return err
		}
		if did {
			changed++
		}
	}
	if check && changed > 0 {
		return exitError(1)
	}
	return nil
}

func (a *app) formatFile(file string, check, diff bool) (bool, error) {
	before, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return false, fault.Wrap(fault.Invalid, err, "%s cannot be read: %s", file, reason(err))
	}
	after, err := config.Format(before)
	if err != nil {
		return false, fault.Wrap(fault.Invalid, err, "%s: %v", file, err)
	}
	if bytes.Equal(before, after) {
		return false, nil
	}
	a.say("%s", file)
	if diff {
		a.lineDiff(string(before), string(after))
	}
	if check {
		return true, nil
	}
	return true, replaceFile(file, after)
}

// lineDiff prints lines that differ. Formatting keeps the number of lines, except at
// the end of a file.
func (a *app) lineDiff(before, after string) {
	b, f := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range max(len(b), len(f)) {
		var was, is string
		if i < len(b) {
			was = b[i]
		}
		if i < len(f) {
			is = f[i]
		}
		if was != is {
			a.say("%s", a.paintOut(red, fmt.Sprintf("-%d: %s", i+1, was)))
			a.say("%s", a.paintOut(green, fmt.Sprintf("+%d: %s", i+1, is)))
		}
	}
}

// replaceFile writes beside the file and renames, so that a watcher never sees half.
func replaceFile(file string, content []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("reading mode of %s: %w", file, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".hermes-fmt-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(info.Mode().Perm()), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", file, err), os.Remove(tmp.Name()))
	}
	return nil
}

// hclFiles lists the files that the arguments name.
func (a *app) hclFiles(args []string) ([]string, error) {
	if len(args) == 0 {
		paths, err := a.locate()
		if err != nil {
			return nil, err
		}
		args = append([]string{paths.ConfigDir}, paths.ToolsDirs...)
	}
	var out []string
	for _, arg := range args {
		err := filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			hidden := strings.HasPrefix(d.Name(), ".") && path != arg
			if d.IsDir() && hidden {
				return filepath.SkipDir
			}
			if !d.IsDir() && !hidden && strings.HasSuffix(path, ".hcl") {
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "%s cannot be read: %s", arg, reason(err))
		}
	}
	return out, nil
}
