package file

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const writeMaxSize = 4 << 20

func writeFunc() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "file.write",
		Description: "Write a whole text file; folders on the way are made. An existing file is replaced, " +
			"so read it first if you mean to change it. Write the text itself, without line numbers.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"content":{"description":"The whole new content","type":"string"},` +
			`"overwrite":{"default":true,"description":"false: fail if the file exists","type":"boolean"},` +
			`"path":{"description":"File, relative to the root, for example notes/todo.md","minLength":1,"type":"string"}},` +
			`"required":["path","content"],"type":"object"}`),
		Config: []hostfuncs.Attr{
			rootAttr(),
			{Name: "max_size", Type: hostfuncs.Size, Default: int64(writeMaxSize), Doc: "Larger contents are refused."},
		},
		Capabilities: folderCapability("rw"),
		Traits:       tool.Traits{Effect: tool.Write, Idempotent: true},
		New:          newWrite,
	}
}

type writeArgs struct {
	Path      string `json:"path"`
	Content   string `json:"content"`
	Overwrite *bool  `json:"overwrite"`
}

type writeAnswer struct {
	Path    string `json:"path"`
	Created bool   `json:"created"`
	Bytes   int    `json:"bytes"`
	Lines   int    `json:"lines"`
	// Replaced is the size of what was there.
	Replaced *int64 `json:"replaced_bytes,omitempty"`
}

func newWrite(b hostfuncs.Binding) (tool.Handler, error) {
	maxSize, err := positive(b, "max_size", writeMaxSize)
	if err != nil {
		return nil, err
	}
	return bind(b, func(ctx context.Context, t tree, args writeArgs) (any, error) {
		if int64(len(args.Content)) > maxSize {
			return nil, fault.New(fault.TooLarge, "content: %s is more than the limit of %s; write it in several files", humanSize(int64(len(args.Content))), humanSize(maxSize))
		}
		if strings.HasSuffix(args.Path, "/") {
			return nil, fault.New(fault.Invalid, "path: %.200q names a folder; give the file as well", args.Path)
		}
		p, err := locate(args.Path)
		if err != nil {
			return nil, err
		}
		return t.write(ctx, p, args)
	})
}

func (t tree) write(ctx context.Context, p string, args writeArgs) (*writeAnswer, error) {
	old, err := t.target(p)
	if err != nil {
		return nil, t.explain(err, p)
	}
	if err := stopped(ctx); err != nil {
		return nil, err
	}
	if err := t.MkdirAll(path.Dir(p), folderMode); err != nil {
		return nil, t.explain(err, path.Dir(p))
	}
	if args.Overwrite != nil && !*args.Overwrite {
		err = t.create(p, args.Content)
	} else {
		err = t.replace(p, args.Content, old)
	}
	if err != nil {
		return nil, t.explain(err, p)
	}
	out := &writeAnswer{Path: p, Created: old == nil, Bytes: len(args.Content), Lines: countLines(args.Content)}
	if old != nil {
		size := old.Size()
		out.Replaced = &size
	}
	return out, nil
}

// target is the file that stands at p; nil if there is none.
func (t tree) target(p string) (fs.FileInfo, error) {
	info, _, err := t.lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // none is an answer
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fault.New(fault.Invalid, "%q is a symbolic link; write to the file it leads to", p)
	}
	return info, regular(info, p)
}

func (t tree) lstat(p string) (fs.FileInfo, bool, error) {
	if l, ok := t.Fs.(afero.Lstater); ok {
		return l.LstatIfPossible(p)
	}
	info, err := t.Stat(p)
	return info, false, err
}

// create makes a file that must not exist. The name is claimed first, so that of two
// callers one fails, and given back if the content cannot follow.
func (t tree) create(p, content string) error {
	claim, err := t.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	if err := claim.Close(); err != nil {
		return errors.Join(err, t.Remove(p))
	}
	if err := t.replace(p, content, nil); err != nil {
		return errors.Join(err, t.Remove(p))
	}
	return nil
}

// replace writes beside the file and renames over it, so that a reader, or a crash,
// finds the old content or the new one.
func (t tree) replace(p, content string, old fs.FileInfo) error {
	mode := fs.FileMode(fileMode)
	if old != nil {
		mode = old.Mode().Perm()
	}
	beside := path.Join(path.Dir(p), ".hermes-"+rand.Text()+".tmp")
	err := t.fill(beside, content, mode)
	if err == nil {
		err = t.Rename(beside, p)
	}
	if err != nil {
		// What could not even be made cannot be removed; the first error says why.
		if rerr := t.Remove(beside); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

func (t tree) fill(name, content string, mode fs.FileMode) error {
	f, err := t.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), t.Chmod(name, mode))
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
