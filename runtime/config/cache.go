package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/schema"
)

// Cache keeps parsed files by content and evaluated objects by what they depend on,
// between loads. What two loads in a row did not use is dropped. The zero Cache is
// ready; it is safe for concurrent use, though loads that share one are better run one
// after the other.
type Cache struct {
	mu      sync.Mutex
	load    int64 // number of the load that runs
	files   map[fileKey]*kept[parsedFile]
	objects map[objectKey]*kept[*evaluated]
	schemas map[string]*kept[compiled]
	copies  map[copyKey]*kept[*Tool]
	shapes  map[*schema.Schema]*kept[*shape]

	parses, evaluations, compiles atomic.Int64
}

// Stats count the work that a cache did not save, since it was made.
type Stats struct {
	Parses         int64 // files parsed
	Evaluations    int64 // blocks evaluated
	SchemaCompiles int64
}

// Stats gives the counts.
func (c *Cache) Stats() Stats {
	return Stats{c.parses.Load(), c.evaluations.Load(), c.compiles.Load()}
}

// Sizes are how many files, blocks and schemas it keeps.
func (c *Cache) Sizes() (files, blocks, schemas int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.files), len(c.objects), len(c.schemas)
}

type fileKey struct{ path, digest string }

// objectKey is where a block stands and what it says. It is hashed by the map alone: a
// load looks up every block there is.
type objectKey struct {
	context, path, block string
	tools                bool
}

type copyKey struct {
	tool *Tool
	pos  Pos
}

type kept[V any] struct {
	value V
	used  int64
}

type compiled struct {
	schema *schema.Schema
	err    error
}

// evaluated is one evaluated block: what it declares, what was found, what it depends on.
type evaluated struct {
	kind  string
	name  string // as other blocks refer to it
	value any    // *Tool and so on; partly filled if bad
	bad   bool
	off   bool // declared, but not enabled
	rng   hcl.Range
	at    hcl.Range // of the name
	attrs map[string]hcl.Range
	// elements are the places of the elements of list attributes, by dotted path.
	elements map[string][]hcl.Range
	file     string
	tools    bool
	deps     deps
	diags    hcl.Diagnostics
}

// NewCache makes an empty cache.
func NewCache() *Cache { return &Cache{} }

func (c *Cache) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.load++
	if c.files == nil {
		c.files = map[fileKey]*kept[parsedFile]{}
		c.objects = map[objectKey]*kept[*evaluated]{}
		c.schemas = map[string]*kept[compiled]{}
		c.copies = map[copyKey]*kept[*Tool]{}
		c.shapes = map[*schema.Schema]*kept[*shape]{}
	}
}

// end drops what neither this load nor the one before it used.
func (c *Cache) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	drop(c.files, c.load)
	drop(c.objects, c.load)
	drop(c.schemas, c.load)
	drop(c.copies, c.load)
	drop(c.shapes, c.load)
}

func drop[K comparable, V any](m map[K]*kept[V], load int64) {
	for k, e := range m {
		if e.used < load-1 {
			delete(m, k)
		}
	}
}

// find gives an entry and marks it as used.
func find[K comparable, V any](c *Cache, m map[K]*kept[V], key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := m[key]
	if !ok {
		var zero V
		return zero, false
	}
	e.used = c.load
	return e.value, true
}

func keep[K comparable, V any](c *Cache, m map[K]*kept[V], key K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m[key] = &kept[V]{v, c.load}
}

func (c *Cache) parsed(key fileKey, parse func() parsedFile) parsedFile {
	if p, ok := find(c, c.files, key); ok {
		return p
	}
	c.parses.Add(1)
	p := parse()
	keep(c, c.files, key, p)
	return p
}

// compile compiles a schema, or takes the one that was compiled from equal bytes.
func (c *Cache) compile(raw json.RawMessage) (*schema.Schema, error) {
	key := string(raw)
	if s, ok := find(c, c.schemas, key); ok {
		return s.schema, s.err
	}
	c.compiles.Add(1)
	s, err := schema.Compile(raw)
	keep(c, c.schemas, key, compiled{s, err})
	return s, err
}

// shape is the form of arguments that fit the schema: the same pointer in every load.
func (c *Cache) shape(s *schema.Schema) *shape {
	if of, ok := find(c, c.shapes, s); ok {
		return of
	}
	of := shapeOf(s)
	keep(c, c.shapes, s, of)
	return of
}

// overriding gives the tool with the place it replaces: the same copy in every load.
func (c *Cache) overriding(t *Tool, pos Pos) *Tool {
	key := copyKey{t, pos}
	if o, ok := find(c, c.copies, key); ok {
		return o
	}
	o := *t
	o.Overrides = pos
	keep(c, c.copies, key, &o)
	return &o
}

func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
