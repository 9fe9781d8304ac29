// Package hostfuncs is the seam for native functions: what a Go function must say of
// itself to be declared as a tool.
//
// The families live in packages below; std is the explicit list of them. A program
// that embeds the runtime adds its own to that list. Functions are not registered
// anywhere: a list is passed to the runtime.
package hostfuncs

import (
	"encoding/json"
	"fmt"

	"github.com/hermes-runtime/hermes/runtime/tool"
)

// AttrType is the type of a config attribute and of its Go value in [Values].
type AttrType string

// The types and their Go values.
const (
	String   AttrType = "string"   // string
	Bool     AttrType = "bool"     // bool
	Integer  AttrType = "integer"  // int64
	Number   AttrType = "number"   // float64
	Duration AttrType = "duration" // time.Duration, from "30s"
	Size     AttrType = "size"     // int64 bytes, from "4MiB"
	// Path is an absolute path (string). As for every path in a file, a relative one is
	// relative to the declaring file and may not leave the project unless allow_paths
	// names the place. What it names need not exist.
	Path    AttrType = "path"
	Strings AttrType = "list(string)"
	Map     AttrType = "map(string)" // map[string]any with string, secret.Value or late.Expr leaves
	Any     AttrType = "any"         // nil, bool, string, json.Number, []any, map[string]any
)

// Attr describes one attribute of a function's config.
type Attr struct {
	Name     string
	Doc      string // one sentence
	Type     AttrType
	Required bool
	// Default is used when the attribute is left out, and documented.
	Default any
	// Late says that the value may use args and call, and is then a late.Expr (for Map
	// and Any: any leaf may be one).
	Late bool
}

// Values are the evaluated attributes of one declaration. A sensitive leaf is a
// secret.Value, a late one a late.Expr; the rest as said at [AttrType]. Attributes
// left out have their default, or are absent.
type Values map[string]any

// Binding is one declaration of a function as a tool.
type Binding struct {
	Tool tool.Name
	// Params is the tool's JSON Schema as declared, or the function's own.
	Params json.RawMessage
	Config Values
	// Project is the absolute path that relative paths of Config are relative to.
	Project string
}

// Func is one native function.
type Func struct {
	// Name is family.verb, for example "file.read".
	Name string
	// Description is what a model reads if the declaration says nothing.
	Description string
	// Params is the JSON Schema of the arguments it accepts: an object, closed.
	Params json.RawMessage
	// Open says that the declaration defines the parameters; Params is then ignored.
	Open   bool
	Config []Attr
	// Traits are the defaults of the declaration's effect, idempotent, untrusted and
	// parallel.
	Traits tool.Traits
	// Capabilities are what a declaration with this config may do to the world, in the
	// form that [tool.Covers] explains; paths in v are relative to the project where they
	// lie in it. Of a secret in v nothing may show. It must not block. Nil, or no
	// capabilities: "native NAME", which no other declaration narrows.
	Capabilities func(v Values) []string
	// ReadsResults says that it reads stored results: a tool of it is given to every agent
	// that does not deny it, and offered while there is a result to read.
	ReadsResults bool
	// RunsAgents says that it gives work to other agents: a tool of it is given to every agent
	// that declares some and does not deny it, and to no other.
	RunsAgents bool
	// New makes the handler of one declaration. A *ConfigError is shown at its
	// attribute. The handler may implement io.Closer; it is closed after its last call.
	New func(b Binding) (tool.Handler, error)
}

// ConfigError is a fault in one attribute of a function's config.
type ConfigError struct {
	Attr   string // the attribute; empty: the config as a whole
	Detail string // full sentences: the rule and the fix
}

// Error renders attribute and detail.
func (e *ConfigError) Error() string { return fmt.Sprintf("config.%s: %s", e.Attr, e.Detail) }
