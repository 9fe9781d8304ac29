// Package check says whether what a tool needs is there: an environment variable, a
// file, a command that succeeds, an address that answers.
//
// It probes and remembers; what follows from a failed check is the registry's.
//
//	State ── known? ── no ──> probe on the caller, all who ask meanwhile wait for it
//	           │ yes
//	           ├── expired and nobody refreshes it ──> a goroutine of the cache probes
//	           v
//	      the last answer, at once
//
// # Invariants
//
//   - Equal checks share one entry and are probed once, however many callers ask.
//   - After the first answer for a check, asking never probes on the calling
//     goroutine.
//   - A failure within the grace after a success leaves the answer at OK and is not
//     remembered: the next question probes again.
//
// # Concurrency
//
// A [Cache] outlives generations and is safe for concurrent use. Its goroutines end
// with [Cache.Close].
package check

import (
	"strconv"
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

// What a Spec that leaves a duration or the status at zero gets.
const (
	DefaultTTL     = 30 * time.Second
	DefaultTimeout = 2 * time.Second
	DefaultGrace   = 60 * time.Second
	DefaultStatus  = 200
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

// withDefaults fills what was left at zero.
func (s Spec) withDefaults() Spec {
	if s.TTL <= 0 {
		s.TTL = DefaultTTL
	}
	if s.Timeout <= 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Grace <= 0 {
		s.Grace = DefaultGrace
	}
	if s.Status == 0 {
		s.Status = DefaultStatus
	}
	return s
}

// Key is the identity of a check: equal for checks that probe the same in the same
// rhythm, wherever they are declared. It is not meant to be read.
func (s Spec) Key() string { return string(s.appendKey(nil)) }

// appendKey prefixes every string with its length, so that no two specs collide. It
// allocates nothing if b is large enough, since every request for definitions asks.
func (s *Spec) appendKey(b []byte) []byte {
	full := s.withDefaults()
	b = appendString(b, string(s.Kind))
	b = appendList(b, s.Vars)
	b = appendString(b, s.Path)
	b = appendList(b, s.Run)
	b = appendString(b, s.Dir)
	b = appendString(b, s.URL)
	b = appendString(b, s.Address)
	for _, n := range [...]int64{int64(full.Status), int64(full.TTL), int64(full.Timeout), int64(full.Grace)} {
		b = append(strconv.AppendInt(b, n, 36), ';')
	}
	return b
}

func appendList(b []byte, list []string) []byte {
	b = append(strconv.AppendInt(b, int64(len(list)), 36), '[')
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(s)), 36), ':'), s...)
}
