package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// printReport prints what is known of a module without running it.
func (a *app) printReport(r module.Report) error {
	var capabilities []string
	for _, c := range r.Capabilities {
		capabilities = append(capabilities, string(c))
	}
	rows := [][]string{
		{"sha256", r.Digest},
		{"size", fmt.Sprintf("%d bytes, %d of them code in %d functions", r.Size, r.Code, r.Functions)},
		{"kind", string(r.Kind)},
		{"abi", string(r.ABI)},
		{"capabilities", orNone(strings.Join(capabilities, ", "))},
	}
	if m := r.Memory; m != nil {
		rows = append(rows, []string{"memory", fmt.Sprintf("%d KiB at the start", m.MinPages*module.PageSize/1024)})
	}
	if err := a.table(nil, rows); err != nil {
		return err
	}
	a.printDescriptor(r)
	imports := make([]string, len(r.Imports))
	for i, imp := range r.Imports {
		imports[i] = imp.String()
	}
	slices.Sort(imports)
	a.say("\nimports:")
	for _, imp := range slices.Compact(imports) {
		a.say("  %s", imp)
	}
	return nil
}

func (a *app) printDescriptor(r module.Report) {
	switch {
	case r.DescriptorErr != nil:
		a.say("\ndescriptor: cannot be read: %v", r.DescriptorErr)
	case r.Descriptor == nil:
		a.say("\ndescriptor: none in the file (a module may still describe itself when it is asked)")
	default:
		a.say("\ntools:")
		for _, t := range r.Descriptor.Tools {
			a.say("  %s: %s", t.Name, oneLine(t.Description, 80))
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
