package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// serializeBy takes over the arguments by which calls are kept apart; each must be
// declared.
func (f *frame) serializeBy(t *toolBlock) {
	names, known := t.argumentNames()
	for i, name := range t.serialize {
		at := elementRange(t.block, "serialize_by", i)
		switch {
		case slices.Contains(t.serialize[:i], name):
			f.errorf(at, fmt.Sprintf("Duplicate argument %q", name), "The list has this name already.")
		case known && !slices.Contains(names, name):
			f.errorf(at, fmt.Sprintf("Unknown argument %q", name), "The tool has no argument %q.%s %s", name, suggest(name, names), declaredText(names))
		}
	}
	t.out.Traits.SerializeBy = slices.Clone(t.serialize)
}

// argumentNames are the declared arguments, sorted; known says whether there can be no
// others.
func (t *toolBlock) argumentNames() (names []string, known bool) {
	if t.out.Schema == nil {
		return nil, false // the schema is reported, or a module's own
	}
	var root struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Additional json.RawMessage            `json:"additionalProperties"`
	}
	if json.Unmarshal(t.out.Schema.JSON(), &root) != nil {
		return nil, false
	}
	return slices.Sorted(maps.Keys(root.Properties)), string(root.Additional) == "false" || len(root.Properties) > 0
}

// maskedParams takes over which parameters are sensitive.
func (f *frame) maskedParams(t *toolBlock) {
	for _, p := range t.params {
		if p.sensitive {
			t.out.Traits.Sensitive = append(t.out.Traits.Sensitive, p.name)
		}
	}
	slices.Sort(t.out.Traits.Sensitive)
}
