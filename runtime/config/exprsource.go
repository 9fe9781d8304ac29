package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/late"
)

// ExprSource is what a late expression was made from.
type ExprSource struct {
	// Text is the expression as written; empty if Sensitive.
	Text string
	// Digest is of the text and of the values it uses, secrets included: it must not be
	// shown as it is.
	Digest string
	// Sensitive says that a secret may stand in the text itself. Secrets that it only
	// names do not count.
	Sensitive bool
}

// SourceOf gives what an expression of this package was made from. Of one that comes from
// elsewhere only the place is known.
func SourceOf(e late.Expr) ExprSource {
	switch e := e.(type) {
	case *lateExpr:
		return e.made
	case *lateTree:
		return e.made
	}
	return ExprSource{Digest: e.Pos(), Sensitive: true}
}

// madeFrom is the source of an expression. Where the values it uses were declared does
// not count, unlike in the keys of the cache.
func (f *frame) madeFrom(expr hclsyntax.Expression) ExprSource {
	s := ExprSource{Text: f.source(expr.Range())}
	s.Digest = hashOf(s.Text, f.scope.usedValues(expr))
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		s.Sensitive = s.Sensitive || ok && call.Name == "sensitive"
		return nil
	})
	if s.Sensitive {
		s.Text = ""
	}
	return s
}

// usedValues is a digest of the variables and locals that an expression names.
func (s *scope) usedValues(expr hclsyntax.Expression) string {
	h := sha256.New()
	for _, t := range expr.Variables() {
		root := t.RootName()
		if root != "var" && root != "local" {
			continue
		}
		table, names := s.table(root), []string(nil)
		if name, one := stepName(t); one {
			names = []string{name}
		} else {
			names = sortedKeys(table)
		}
		for _, name := range names {
			if n := table[name]; n != nil {
				fmt.Fprintf(h, "%s.%s=", root, name)
				feedValue(h, n.value)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sensitiveTable says whether a map in v is sensitive as a whole, and so are its keys.
func sensitiveTable(v cty.Value) bool {
	found := false
	_ = cty.Walk(v, func(_ cty.Path, e cty.Value) (bool, error) {
		ty := e.Type()
		found = found || e.IsMarked() && (ty.IsMapType() || ty.IsObjectType() || ty == cty.DynamicPseudoType)
		return !found, nil
	})
	return found
}
