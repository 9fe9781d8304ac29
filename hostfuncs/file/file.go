// Package file is the family of native functions that read and write files below one
// folder: file.read, file.write, file.list and file.search.
//
// The folder is config.root; the paths a model gives are relative to it. It is no
// shell and watches nothing.
//
// # Invariants
//
//   - Nothing outside of the root is reached, whatever a path says and whatever links
//     stand in the folder: every access goes through an os.Root, which the kernel
//     resolves step by step. No path is checked as a string and then used as another.
//   - A file is replaced as a whole or not at all.
//   - What is left out of an answer is said in it, with the way to get the rest.
//   - Only regular files are opened; a pipe or device cannot make a call hang.
//
// # Concurrency
//
// Handlers keep no state between calls and are safe for concurrent use. Two writers of
// one file do not mix; the last one wins.
package file

import (
	"context"
	"encoding/json"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Funcs are the functions of the family.
func Funcs() []hostfuncs.Func {
	return []hostfuncs.Func{readFunc(), writeFunc(), listFunc(), searchFunc()}
}

func rootAttr() hostfuncs.Attr {
	return hostfuncs.Attr{
		Name: "root", Type: hostfuncs.Path, Required: true,
		Doc: "Folder that the paths of calls are relative to and cannot leave; made if it is missing.",
	}
}

// folderCapability is what a function of this family may do: read or write its folder.
func folderCapability(mode string) func(hostfuncs.Values) []string {
	return func(v hostfuncs.Values) []string {
		root, ok := v["root"].(string)
		if !ok || root == "" {
			return nil
		}
		return []string{"files " + mode + " " + root}
	}
}

// bind makes a handler whose calls get the opened root and their decoded arguments.
func bind[A any](b hostfuncs.Binding, call func(ctx context.Context, t tree, args A) (any, error)) (tool.Handler, error) {
	f, err := newFolder(b)
	if err != nil {
		return nil, err
	}
	return tool.HandlerFunc(func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		var args A
		if err := json.Unmarshal(c.Arguments, &args); err != nil {
			return tool.Result{}, fault.Wrap(fault.Invalid, err, "the arguments do not have the types this function expects")
		}
		t, err := f.open()
		if err != nil {
			return tool.Result{}, err
		}
		defer func() { _ = t.Close() }()
		out, err := call(ctx, t, args)
		if err != nil {
			return tool.Result{}, err
		}
		return tool.JSON(out)
	}), nil
}

// stopped is the context's error as a fault, nil while it goes on.
func stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s", fault.Message(err))
	}
	return nil
}

// or is n, or otherwise if the argument was left out.
func or(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}
