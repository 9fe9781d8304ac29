// Package config is the language: it loads HCL files, decodes, evaluates and links
// them, and explains what is wrong with them.
//
// Above it values are plain Go, secret.Value and late.Expr; only hcl.Diagnostics and
// hcl.Range travel up. It builds nothing: provision does.
//
//	files -> parse -> variables, locals -> runtime block -> tools directories
//	                                                             |
//	Config <- link names <- evaluate blocks, each alone, from the cache where it can be
//
// A block is described by a body of fields; the same value decodes it, gives it its
// defaults and writes its reference.
//
// # Invariants
//
// Every stage reports all of its errors and goes on with what is whole. Nothing is
// accepted and ignored. A sensitive value leaves as a secret.Value or not at all, and
// no diagnostic quotes one. An object whose inputs did not change is the same pointer as
// in the load before. Each path is read once in a load.
//
// # Concurrency
//
// Files are parsed and blocks evaluated on all cores. A Config is immutable. A Cache may
// be shared.
//
// # Errors
//
// What is wrong with the files is hcl.Diagnostics, each with a range and a [Blame]. Find
// and Format give a *fault.Error of kind Invalid or TooLarge.
package config
