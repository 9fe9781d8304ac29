package file

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const (
	listLimit = 200
	maxList   = 1000
	maxDepth  = 10
)

func listFunc() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "file.list",
		Description: "List what is in a folder: path, type (file, dir, link, other), size and time of change. " +
			"With depth above 1 folders below are listed too; links are not followed.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"depth":{"default":1,"description":"How many levels of folders","maximum":10,"minimum":1,"type":"integer"},` +
			`"limit":{"default":200,"description":"How many entries at most","maximum":1000,"minimum":1,"type":"integer"},` +
			`"offset":{"default":0,"description":"How many entries to pass over, to go on with a long list","minimum":0,"type":"integer"},` +
			`"path":{"default":".","description":"Folder, relative to the root; . is the root","minLength":1,"type":"string"}},` +
			`"type":"object"}`),
		Config:       []hostfuncs.Attr{rootAttr()},
		Capabilities: folderCapability("ro"),
		Traits:       tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		New: func(b hostfuncs.Binding) (tool.Handler, error) {
			return bind(b, func(ctx context.Context, t tree, args listArgs) (any, error) { return t.list(ctx, args) })
		},
	}
}

type listArgs struct {
	Path   string `json:"path"`
	Depth  int    `json:"depth"`
	Limit  int    `json:"limit"`
	Offset int    `json:"offset"`

	walked int // bound on entries; 0: maxWalked
}

type listEntry struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Size     *int64 `json:"size,omitempty"` // files
	Modified string `json:"modified"`       // RFC 3339, UTC
}

type listAnswer struct {
	Path    string      `json:"path"`
	Entries []listEntry `json:"entries"`
	// Total counts every entry, listed or not; with Incomplete it is a lower bound.
	Total      int    `json:"total"`
	Truncated  bool   `json:"truncated"`
	NextOffset int    `json:"next_offset,omitempty"`
	Unreadable int    `json:"unreadable,omitempty"`
	Incomplete string `json:"incomplete,omitempty"`
}

func (t tree) list(ctx context.Context, args listArgs) (*listAnswer, error) {
	p, err := locate(orRoot(args.Path))
	if err != nil {
		return nil, err
	}
	info, err := t.start(p)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fault.New(fault.Invalid, "%q is a file; give the folder it is in", p)
	}
	out := &listAnswer{Path: p, Entries: []listEntry{}}
	limit, depth := min(or(args.Limit, listLimit), maxList), min(or(args.Depth, 1), maxDepth)
	w := walk{t: t, max: args.walked}
	err = w.run(ctx, p, func(at string, info fs.FileInfo) (bool, error) {
		if out.Total >= args.Offset && len(out.Entries) < limit {
			out.Entries = append(out.Entries, describe(at, info))
		}
		out.Total++
		return levels(p, at) < depth, nil
	})
	if errors.Is(err, errWalked) {
		out.Incomplete, err = "there are more entries than one call looks at; list a folder further down", nil
	}
	if err != nil {
		return nil, err
	}
	if next := args.Offset + len(out.Entries); next < out.Total {
		out.Truncated, out.NextOffset = true, next
	}
	out.Unreadable = w.unreadable
	return out, nil
}

func orRoot(p string) string {
	if p == "" {
		return "."
	}
	return p
}

func describe(p string, info fs.FileInfo) listEntry {
	e := listEntry{Path: p, Type: kind(info), Modified: info.ModTime().UTC().Format(time.RFC3339)}
	if info.Mode().IsRegular() {
		size := info.Size()
		e.Size = &size
	}
	return e
}

// levels is how deep at lies below start: 1 for its own entries.
func levels(start, at string) int {
	if start == "." {
		return 1 + strings.Count(at, "/")
	}
	return strings.Count(at[len(start):], "/")
}
