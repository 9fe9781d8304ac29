package main

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// files does file operations by name.
func files(a args) (any, error) {
	switch a.Do {
	case "read":
		b, err := os.ReadFile(a.Path)
		return string(b), err
	case "write":
		return nil, os.WriteFile(a.Path, []byte(a.Text), 0o644)
	case "append":
		f, err := os.OpenFile(a.Path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		_, err = f.WriteString(a.Text)
		return nil, err
	case "symlink":
		return nil, os.Symlink(a.To, a.Path)
	case "link":
		return nil, os.Link(a.To, a.Path)
	case "readlink":
		return os.Readlink(a.Path)
	case "rename":
		return nil, os.Rename(a.Path, a.To)
	case "remove":
		return nil, os.Remove(a.Path)
	case "mkdir":
		return nil, os.Mkdir(a.Path, 0o755)
	case "truncate":
		return nil, os.Truncate(a.Path, int64(a.N))
	case "touch":
		t := time.Unix(1_000_000_000, 0)
		return nil, os.Chtimes(a.Path, t, t)
	case "stat":
		st, err := os.Stat(a.Path)
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(st.Size(), st.IsDir()), nil
	case "list":
		names := []string{}
		err := fs.WalkDir(os.DirFS(a.Path), ".", func(p string, _ fs.DirEntry, err error) error {
			names = append(names, p)
			return err
		})
		return names, err
	case "open":
		var open []*os.File
		for range a.N {
			f, err := os.Open(a.Path)
			if err != nil {
				return len(open), err
			}
			open = append(open, f)
		}
		return len(open), nil
	case "raw":
		return rawOpen(a.Path), nil
	}
	return nil, fmt.Errorf("cannot do %q", a.Do)
}
