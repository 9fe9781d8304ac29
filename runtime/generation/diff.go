package generation

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Action is what became of something.
type Action string

// The actions.
const (
	Added   Action = "added"
	Changed Action = "changed"
	Removed Action = "removed"
)

// Diff is what one generation changes of another. All lists are sorted.
type Diff struct {
	Changes []Change      `json:"changes"`
	Inputs  []InputChange `json:"inputs"`
	// Tokens is about what the change costs in prompt caches: all definitions of the
	// agents for whom one changed, which their models read anew. A new agent had none.
	Tokens int `json:"tokens,omitempty"`
	// Sharing says how much of the generation was there before; nil: it was not built.
	Sharing *Sharing `json:"sharing,omitempty"`
}

// Change is what became of one object.
type Change struct {
	Object string `json:"object"` // its ID
	Action Action `json:"action"`
	Pos    string `json:"pos,omitempty"` // where it stands, or stood
	// Attrs are those that differ; of an added or removed object, those that were written.
	Attrs []AttrChange `json:"attrs,omitempty"`
	// Definition says that what models are sent differs: that of the tool, or what this
	// agent's model is sent.
	Definition bool `json:"definition,omitempty"`
	// Tokens and TokensBefore are of the definitions, see [Object].
	Tokens       int `json:"tokens,omitempty"`
	TokensBefore int `json:"tokens_before,omitempty"`
	// Gained and Lost are capabilities; one that a wider one covers is neither.
	Gained []string `json:"gained,omitempty"`
	Lost   []string `json:"lost,omitempty"`
}

// AttrChange is an attribute before and after, without its name; nil: it is not there.
// A sensitive one has no value on either side.
type AttrChange struct {
	Name      string `json:"name"`
	Before    *Attr  `json:"before,omitempty"`
	After     *Attr  `json:"after,omitempty"`
	Sensitive bool   `json:"sensitive,omitempty"`
}

// InputChange is what became of one file.
type InputChange struct {
	Path   string `json:"path"` // relative to the project where it lies in it
	Action Action `json:"action"`
	// SHA256 is the digest of the content it has now, in hex; empty: it is gone.
	SHA256 string `json:"sha256,omitempty"`
}

// Sharing counts what a generation has of the one before, and what was built for it.
type Sharing struct {
	Handlers Count `json:"handlers"`
	Modules  Count `json:"modules"`
	Models   Count `json:"models"`
	Checks   Count `json:"checks"`
}

// Count is how many of a kind are shared and how many were built.
type Count struct {
	Shared int `json:"shared"`
	Built  int `json:"built"`
}

// Summary counts the changes of a diff.
type Summary struct {
	Added       int `json:"added"`
	Changed     int `json:"changed"`
	Removed     int `json:"removed"`
	Definitions int `json:"definitions"` // tools whose definition changed
}

// String is the summary in words, for logs and people.
func (s Summary) String() string {
	return fmt.Sprintf("%d added, %d changed, %d removed", s.Added, s.Changed, s.Removed)
}

// Empty says whether no object differs. Files may: a comment is no change.
func (d Diff) Empty() bool { return len(d.Changes) == 0 }

// Summary counts.
func (d Diff) Summary() Summary {
	var s Summary
	for _, c := range d.Changes {
		switch c.Action {
		case Added:
			s.Added++
		case Changed:
			s.Changed++
		case Removed:
			s.Removed++
		}
		if c.Definition && strings.HasPrefix(c.Object, "tool.") {
			s.Definitions++
		}
	}
	return s
}

// Compare gives what to changes of from. Both were made with one key; nil is a manifest
// without objects. An object that only stands elsewhere is no change; a renamed one is
// gone, and another is there.
func Compare(from, to *Manifest) Diff {
	var was, is map[string]*Object
	if from != nil {
		was = from.Objects
	}
	if to != nil {
		is = to.Objects
	}
	d := Diff{Changes: []Change{}, Inputs: []InputChange{}}
	for id, o := range is {
		switch old := was[id]; {
		case old == nil:
			d.Changes = append(d.Changes, whole(o, Added))
		case old != o && old.Digest != o.Digest:
			d.Changes = append(d.Changes, between(old, o))
		}
	}
	for id, o := range was {
		if is[id] == nil {
			d.Changes = append(d.Changes, whole(o, Removed))
		}
	}
	slices.SortFunc(d.Changes, func(a, b Change) int { return strings.Compare(a.Object, b.Object) })
	for _, c := range d.Changes {
		if c.Action == Changed && c.Definition && strings.HasPrefix(c.Object, "agent.") {
			d.Tokens += c.Tokens
		}
	}
	return d
}

// whole is the change of an object that is new or gone.
func whole(o *Object, a Action) Change {
	c := Change{Object: o.ID, Action: a, Pos: o.Pos, Definition: o.Definition != ""}
	for i := range o.Attrs {
		if o.Attrs[i].Default {
			continue
		}
		change := AttrChange{Name: o.Attrs[i].Name, Sensitive: o.Attrs[i].Sensitive}
		if a == Added {
			change.After = shown(&o.Attrs[i])
		} else {
			change.Before = shown(&o.Attrs[i])
		}
		c.Attrs = append(c.Attrs, change)
	}
	if a == Added {
		c.Gained, c.Tokens = o.Capabilities, o.Tokens
	} else {
		c.Lost, c.TokensBefore = o.Capabilities, o.Tokens
	}
	return c
}

// between is the change of an object that is there before and after.
func between(was, is *Object) Change {
	c := Change{
		Object: is.ID, Action: Changed, Pos: is.Pos, Attrs: attrs(was.Attrs, is.Attrs), Definition: was.Definition != is.Definition,
		Gained: beyond(is.Capabilities, was.Capabilities), Lost: beyond(was.Capabilities, is.Capabilities),
	}
	if c.Definition {
		c.Tokens, c.TokensBefore = is.Tokens, was.Tokens
	}
	return c
}

// attrs merges two sorted lists, and gives what differs.
func attrs(was, is []Attr) []AttrChange {
	var out []AttrChange
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(is) == 0 || len(was) > 0 && was[0].Name < is[0].Name:
			out = append(out, AttrChange{Name: was[0].Name, Before: shown(&was[0]), Sensitive: was[0].Sensitive})
			was = was[1:]
		case len(was) == 0 || is[0].Name < was[0].Name:
			out = append(out, AttrChange{Name: is[0].Name, After: shown(&is[0]), Sensitive: is[0].Sensitive})
			is = is[1:]
		default:
			if !same(&was[0], &is[0]) {
				out = append(out, AttrChange{Name: is[0].Name, Before: shown(&was[0]), After: shown(&is[0]), Sensitive: was[0].Sensitive || is[0].Sensitive})
			}
			was, is = was[1:], is[1:]
		}
	}
	return out
}

// same says whether two attributes have one value; whether it was written is no matter.
func same(a, b *Attr) bool {
	return a.Digest == b.Digest && a.Late == b.Late && a.Sensitive == b.Sensitive && bytes.Equal(a.Value, b.Value)
}

// shown is an attribute as it stands in a change: the name is the change's, and a digest
// says nothing to a reader.
func shown(a *Attr) *Attr {
	out := *a
	out.Name, out.Digest = "", ""
	return &out
}

// beyond gives what list allows and other does not; both are sorted.
func beyond(list, other []string) []string { return tool.Uncovered(other, without(list, other)) }

// without gives what is in list and not in other.
func without(list, other []string) []string {
	var out []string
	for _, s := range list {
		if _, ok := slices.BinarySearch(other, s); !ok {
			out = append(out, s)
		}
	}
	return out
}

// CompareInputs gives what became of files, by path and digest.
func CompareInputs(from, to map[string]string) []InputChange {
	out := []InputChange{}
	for path, digest := range to {
		switch was, ok := from[path]; {
		case !ok:
			out = append(out, InputChange{path, Added, digest})
		case was != digest:
			out = append(out, InputChange{path, Changed, digest})
		}
	}
	for path := range from {
		if _, ok := to[path]; !ok {
			out = append(out, InputChange{path, Removed, ""})
		}
	}
	slices.SortFunc(out, func(a, b InputChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}
