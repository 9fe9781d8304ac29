// Package toolset resolves toolsets: which tools a name stands for, and by which path
// each came in.
//
// It is pure: it knows names only. Unknown names are the language's to report; here
// they resolve to nothing.
//
// # Invariants
//
// Resolution is sorted, deterministic, and independent of the order of declaration.
// exclude wins over everything else in its set. A cycle of includes contributes
// nothing twice and never hangs.
package toolset

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// All are the names that stand for every toolset.
const (
	All  = "all"
	Star = "*"
)

// Decl is one declared toolset.
type Decl struct {
	Name     string
	Tools    []string // names and globs
	Includes []string
	Exclude  []string // names and globs
	Aliases  []string
}

// Member is one tool of a resolution. Paths are the ways it came in, each the names
// of the toolsets from the one asked for to the one that holds the tool.
type Member struct {
	Tool  tool.Name
	Paths [][]string
}

// Index resolves names. It is immutable and safe for concurrent use.
type Index struct {
	decls map[string]Decl
	alias map[string]string
	homes map[string][]tool.Name // set -> tools whose home it is, sorted
	tools []tool.Name            // sorted
	names []string               // sorted: declared and home-only sets
	memo  map[string][]Member    // every set, resolved; complete when NewIndex returns
}

// NewIndex builds the index of the declared toolsets and of the home of each tool.
func NewIndex(decls []Decl, home map[tool.Name]string) *Index {
	ix := &Index{
		decls: map[string]Decl{}, alias: map[string]string{},
		homes: map[string][]tool.Name{},
		tools: slices.Sorted(maps.Keys(home)),
	}
	for _, d := range decls {
		ix.decls[d.Name] = d
		for _, a := range d.Aliases {
			ix.alias[a] = d.Name
		}
	}
	for _, t := range ix.tools {
		ix.homes[home[t]] = append(ix.homes[home[t]], t)
	}
	names := map[string]bool{}
	for n := range ix.decls {
		names[n] = true
	}
	for n := range ix.homes {
		names[n] = true
	}
	ix.names = slices.Sorted(maps.Keys(names))
	ix.memo = ix.resolveAll(ix.resolveAll(nil))
	return ix
}

// Names are all toolsets, declared or existing as the home of a tool, sorted.
func (ix *Index) Names() []string { return ix.names }

// Canonical gives the name of a toolset for a name or alias; All and Star give Star.
func (ix *Index) Canonical(name string) (string, bool) {
	if name == All || name == Star {
		return Star, true
	}
	if _, ok := slices.BinarySearch(ix.names, name); ok {
		return name, true
	}
	target, ok := ix.alias[name]
	return target, ok
}

// Resolve gives the tools that the named toolsets hold together, sorted by name.
func (ix *Index) Resolve(names ...string) []Member {
	acc := found{}
	for _, name := range names {
		canonical, ok := ix.Canonical(name)
		switch {
		case !ok:
		case canonical == Star:
			for _, n := range ix.names {
				acc.merge(ix.memo[n], nil)
			}
		default:
			acc.merge(ix.memo[canonical], nil)
		}
	}
	return acc.members()
}

// Match gives the tools that a name or glob stands for, sorted.
func (ix *Index) Match(pattern string) []tool.Name {
	if !strings.ContainsAny(pattern, "*?[") {
		if _, ok := slices.BinarySearch(ix.tools, tool.Name(pattern)); ok {
			return []tool.Name{tool.Name(pattern)}
		}
		return nil
	}
	var out []tool.Name
	for _, t := range ix.tools {
		if ok, err := path.Match(pattern, string(t)); err == nil && ok {
			out = append(out, t)
		}
	}
	return out
}

// pass resolves every set once. An include of all stands for what the sets hold
// without such includes, which an earlier pass found: else sets that include all would
// be parts of each other. It holds no less, since every tool has a home.
type pass struct {
	*Index
	all  map[string][]Member // nil: an include of all adds nothing
	memo map[string][]Member
}

func (ix *Index) resolveAll(all map[string][]Member) map[string][]Member {
	p := &pass{ix, all, map[string][]Member{}}
	for _, n := range ix.names {
		p.members(n)
	}
	return p.memo
}

// members resolves one declared or home set, once. While a set is being resolved it
// counts as empty, which cuts cycles and keeps the work linear in the includes.
func (p *pass) members(name string) []Member {
	if members, ok := p.memo[name]; ok {
		return members
	}
	p.memo[name] = nil
	acc := found{}
	own := []string{name}
	for _, t := range p.homes[name] {
		acc.add(t, own)
	}
	d := p.decls[name]
	for _, pattern := range d.Tools {
		for _, t := range p.Match(pattern) {
			acc.add(t, own)
		}
	}
	for _, include := range d.Includes {
		p.include(acc, include, name)
	}
	for _, pattern := range d.Exclude {
		for _, t := range p.Match(pattern) {
			delete(acc, t)
		}
	}
	p.memo[name] = acc.members()
	return p.memo[name]
}

// include adds what an include of the set name brings.
func (p *pass) include(acc found, include, name string) {
	own := []string{name}
	canonical, ok := p.Canonical(include)
	switch {
	case !ok, canonical == name:
	case canonical == Star:
		for _, n := range p.names {
			if n != name {
				acc.merge(p.all[n], own)
			}
		}
	default:
		acc.merge(p.members(canonical), own)
	}
}

// Cycle finds a cycle of includes through name and gives it as a path that ends where
// it began, or nil.
func Cycle(decls map[string]Decl, name string) []string {
	var walk func(at string, trail []string) []string
	seen := map[string]bool{}
	walk = func(at string, trail []string) []string {
		trail = append(slices.Clone(trail), at)
		for _, next := range decls[at].Includes {
			if next == name {
				return append(trail, next)
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if cycle := walk(next, trail); cycle != nil {
				return cycle
			}
		}
		return nil
	}
	return walk(name, nil)
}

type found map[tool.Name][][]string

// maxPaths bounds how many ways a tool came in are remembered: layered includes have
// exponentially many.
const maxPaths = 256

func (f found) add(t tool.Name, p []string) {
	if len(f[t]) >= maxPaths {
		return
	}
	for _, have := range f[t] {
		if slices.Equal(have, p) {
			return
		}
	}
	f[t] = append(f[t], p)
}

func (f found) merge(members []Member, prefix []string) {
	for _, m := range members {
		for _, p := range m.Paths {
			f.add(m.Tool, append(slices.Clone(prefix), p...))
		}
	}
}

func (f found) members() []Member {
	out := make([]Member, 0, len(f))
	for _, t := range slices.Sorted(maps.Keys(f)) {
		paths := f[t]
		slices.SortFunc(paths, slices.Compare[[]string])
		out = append(out, Member{Tool: t, Paths: paths})
	}
	return out
}
