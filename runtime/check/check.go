// Package check says whether what a tool needs is there: an environment variable, a
// file, a command that succeeds, an address that answers.
//
// It probes and remembers; what follows from a failed check is the registry's.
//
// # Concurrency
//
// A [Cache] outlives generations and is safe for concurrent use. After the first
// answer for a check, asking never probes on the calling goroutine: an expired entry
// is refreshed by a goroutine that the cache owns and Close ends.
package check

import (
	"time"
)

// Kind is what a check probes.
type Kind string

// The kinds.
const (
	Env     Kind = "env"
	File    Kind = "file"
	Command Kind = "command"
	HTTP    Kind = "http"
	TCP     Kind = "tcp"
)

// Spec is one check as declared. Only the fields of its kind are set.
type Spec struct {
	Kind    Kind
	Vars    []string // env: all set and not empty
	Path    string   // file: absolute, exists
	Run     []string // command: argv, exit 0, run in Dir
	Dir     string
	URL     string // http: answers Status
	Status  int
	Address string // tcp: host:port accepts

	TTL     time.Duration
	Timeout time.Duration
	Grace   time.Duration
	// Pos is "file:line" of the declaration; not part of the identity.
	Pos string
}
