// Package archtest holds the architecture as tests: the rank of every package, the one
// place of every heavy dependency, and the rules of the house that no linter knows.
package archtest
