package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Format gives HCL source its canonical layout. The error of text that does not parse is
// a *fault.Error of kind Invalid that names the line.
func Format(src []byte) ([]byte, error) {
	if len(src) > maxFile {
		return nil, fault.New(fault.TooLarge, "the file is larger than %s", ShowSize(maxFile))
	}
	if err := funcs.CheckNesting(src, false); err != nil {
		return nil, fault.New(fault.Invalid, "%s", err)
	}
	if _, diags := hclsyntax.ParseConfig(src, "", hcl.InitialPos); diags.HasErrors() {
		d := diags[0]
		explainSyntax(d, src)
		return nil, fault.New(fault.Invalid, "line %d: %s: %s", d.Subject.Start.Line, d.Summary, d.Detail)
	}
	return hclwrite.Format(src), nil
}
