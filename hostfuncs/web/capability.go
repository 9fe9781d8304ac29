package web

import (
	"maps"
	"slices"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// capabilities are the methods and hosts of a declaration, and the credentials that it
// sends; of one that cannot be bound there are none, since it is refused.
func capabilities(v hostfuncs.Values) []string {
	r, err := parse(v)
	if err != nil {
		return nil
	}
	var out []string
	for _, origin := range r.shownOrigins(v) {
		for _, m := range r.policy.Methods {
			out = append(out, "http "+m+" "+origin)
		}
		if r.policy.AllowPrivate {
			out = append(out, "http private "+origin)
		}
		for _, name := range slices.Sorted(maps.Keys(r.headers)) {
			if credential(r.headers[name]) {
				out = append(out, "http header "+name+" "+origin)
			}
		}
	}
	return out
}

// shownOrigins are where requests may go; a host that a secret names is not shown.
func (r *request) shownOrigins(v hostfuncs.Values) []string {
	if hosts, _ := v["hosts"].([]string); len(hosts) == 0 && credential(r.url) {
		return []string{tool.Hidden}
	}
	out := make([]string, len(r.policy.Origins))
	for i, o := range r.policy.Origins {
		out[i] = o.String()
	}
	return out
}

// credential says whether a value is a secret, or is made from one.
func credential(v any) bool {
	switch v := v.(type) {
	case secret.Value:
		return true
	case late.Guarded:
		return v.Sensitive()
	}
	return false
}
