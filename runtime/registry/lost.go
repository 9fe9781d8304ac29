package registry

import "github.com/hermes-runtime/hermes/runtime/tool"

// Lost are the tools, sorted, that v is given and next is not.
func (v *View) Lost(next *View) []tool.Name {
	var out []tool.Name
	for i := range v.members {
		name := v.members[i].tool.Name
		if _, ok := next.position[name]; !ok {
			out = append(out, name)
		}
	}
	return out
}
