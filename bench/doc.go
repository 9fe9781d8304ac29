// Package bench measures hermes' way of running WebAssembly tools against the others, on
// the same work in one run: a tool that takes JSON, counts words, hashes, and answers
// JSON, in Go, C, Rust and AssemblyScript.
//
// It is a module of its own so that what it compares with, the Extism SDK above all, is no
// dependency of hermes. README.md has the commands.
package bench
