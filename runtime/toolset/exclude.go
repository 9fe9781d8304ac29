package toolset

import (
	"slices"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Exclusion is a toolset that would hold a tool and excludes it.
type Exclusion struct {
	// Path are the toolsets from the one asked for to the one that excludes.
	Path []string
	// Element is the index of the first of its Exclude that stands for the tool.
	Element int
}

// Excluded finds the toolsets on the ways from the named ones that would hold a tool and
// exclude it: each once, by a shortest way to it, nearest first.
func (ix *Index) Excluded(t tool.Name, names ...string) []Exclusion {
	s := &search{Index: ix, tool: t, seen: map[string]bool{}}
	for _, name := range names {
		s.follow(name, nil, true)
	}
	for len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		s.visit(next)
	}
	return s.found
}

// search walks along includes, breadth first.
type search struct {
	*Index
	tool  tool.Name
	seen  map[string]bool
	queue []stop
	found []Exclusion
}

// stop is one toolset on the way; all says whether an include of all adds something
// there, which it does not within another one.
type stop struct {
	trail []string
	all   bool
}

// follow queues what a name stands for.
func (s *search) follow(name string, trail []string, all bool) {
	canonical, ok := s.Canonical(name)
	switch {
	case !ok:
	case canonical != Star:
		s.add(canonical, trail, all)
	case all:
		for _, n := range s.names {
			s.add(n, trail, len(trail) == 0)
		}
	}
}

func (s *search) add(name string, trail []string, all bool) {
	if !s.seen[name] {
		s.seen[name] = true
		s.queue = append(s.queue, stop{append(slices.Clone(trail), name), all})
	}
}

func (s *search) visit(at stop) {
	name := at.trail[len(at.trail)-1]
	d := s.decls[name]
	if i := s.first(d.Exclude); i >= 0 && s.holds(name, d) {
		s.found = append(s.found, Exclusion{at.trail, i})
	}
	for _, include := range d.Includes {
		s.follow(include, at.trail, at.all)
	}
}

// first is the index of the first pattern that stands for the tool, or -1.
func (s *search) first(patterns []string) int {
	return slices.IndexFunc(patterns, func(p string) bool { return slices.Contains(s.Match(p), s.tool) })
}

// holds says whether a set would have the tool if it excluded nothing.
func (s *search) holds(name string, d Decl) bool {
	if slices.Contains(s.homes[name], s.tool) || s.first(d.Tools) >= 0 {
		return true
	}
	return slices.ContainsFunc(d.Includes, func(include string) bool {
		canonical, ok := s.Canonical(include)
		switch {
		case !ok, canonical == name:
			return false
		case canonical == Star:
			return slices.ContainsFunc(s.names, func(n string) bool { return n != name && s.in(n) })
		}
		return s.in(canonical)
	})
}

// in says whether a set has the tool.
func (s *search) in(name string) bool {
	return slices.ContainsFunc(s.memo[name], func(m Member) bool { return m.Tool == s.tool })
}
