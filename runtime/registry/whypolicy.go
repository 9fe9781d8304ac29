package registry

import (
	"fmt"

	"github.com/hermes-runtime/hermes/runtime/policy"
)

// WhyPolicies says what policies do to the calls of a tool. They do not decide whether it
// is offered.
func WhyPolicies(rules []*policy.Rule) []Reason {
	var out []Reason
	for _, r := range rules {
		what := map[policy.Action]string{policy.Deny: "denies", policy.Ask: "wants an approval for", policy.Allow: "allows"}[r.Action]
		which := "every call"
		if r.When != nil {
			which = "calls for which its condition holds"
		}
		detail := fmt.Sprintf("policy %q %s %s", r.Name, what, which)
		if r.Reason != "" {
			detail += ": " + r.Reason
		}
		out = append(out, Reason{Rule: "policy", Offers: r.Action != policy.Deny, Detail: detail, Pos: r.Pos})
	}
	return out
}
