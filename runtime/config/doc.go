// Package config is the language: it loads HCL files, decodes, evaluates and links
// them, and explains what is wrong with them.
//
// Above it values are plain Go, secret.Value and late.Expr; only hcl.Diagnostics and
// hcl.Range travel up. It builds nothing: provision does.
package config
