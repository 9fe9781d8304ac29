package config

import (
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
		return shown(e.text, e.source)
	case *lateTree:
		return shown(e.text, e.digest())
	}
	return ExprSource{Digest: e.Pos(), Sensitive: true}
}

// shown is a source; without a text, a sensitive one.
func shown(text, digest string) ExprSource {
	return ExprSource{Text: text, Digest: digest, Sensitive: text == ""}
}

// shownText is the text of an expression, "" if a secret may be written out in it.
func (f *frame) shownText(expr hclsyntax.Expression) string {
	secret := false
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		secret = secret || ok && call.Name == "sensitive"
		return nil
	})
	if secret {
		return ""
	}
	return f.source(expr.Range())
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
