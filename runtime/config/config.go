package config

import (
	"regexp"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/check"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// Config is everything the files declare, evaluated and linked, as plain Go values.
// It is immutable. An object that did not change since the previous load is the same
// pointer as there, so that what was built from it can be kept.
type Config struct {
	Paths     Paths
	Runtime   Runtime
	Server    Server
	Providers map[string]*Provider // by "kind.name"
	Models    map[string]*Model
	Agents    map[string]*Agent
	Tools     map[tool.Name]*Tool // enabled ones, overrides resolved
	Toolsets  map[string]*Toolset // declared ones only
	Policies  map[string]*Policy
	// Rules are the policies as they concern each tool, in order of their names.
	Rules map[tool.Name][]*policy.Rule
	// Secrets are all sensitive values that the load met, whether or not something uses them.
	Secrets []secret.Value
	// Off are the tools that are declared with enabled = false, and where that stands.
	Off map[tool.Name]Pos
	// Inputs are all files the load read, by absolute path as named.
	Inputs map[string]Input
	// Reads are what functions read of the environment and of files, also what is not there.
	Reads map[Read]bool
	// Removed maps "tool.NAME" and "toolset.NAME" to the generation that removed them,
	// while an unchanged file still names them.
	Removed map[string]int64

	// declared is the file of every name: where the next load puts the blame when one is
	// gone.
	declared map[declaration]string
}

// declaration is a name: of a local, a var, a tool and so on.
type declaration struct{ kind, name string }

// Paths are the absolute directories of a project, see language.md section 1.
type Paths struct {
	Project   string
	ConfigDir string
	ToolsDirs []string
	State     string
}

// Input is one file a configuration was built from.
type Input struct {
	// Digest is the hex sha256 of Content.
	Digest  string
	Content []byte
	// Absent says that the load asked for the file and it did not exist.
	Absent bool
}

// Read is one thing that a function read.
type Read struct {
	Func string // for example "env" or "file"; "var" for a variable that is not sensitive
	Name string // of a variable, or the absolute path of a file as named
}

// Decl says where an object was declared and what it was built from, for diagnostics
// that later stages raise about it.
type Decl struct {
	// Range is the block's header.
	Range hcl.Range
	// Attrs are the ranges of its attributes and nested blocks, by dotted path, for
	// example "handler.module" or "handler.config.url".
	Attrs map[string]hcl.Range
	// Elements are the ranges of the elements of its list attributes, by the same paths;
	// of a list that is no literal, the one range of its expression.
	Elements map[string][]hcl.Range
	// Depends are the inputs, other than the file itself, that its value depends on:
	// files read by functions, modules, files of locals, variables and named objects.
	Depends []string
	// Hidden are the dotted paths of attributes whose keys are as sensitive as their
	// values, since a map as a whole was; nil if there are none.
	Hidden map[string]bool
}

// Pos is "file:line" with the file relative to the project where it is inside.
type Pos string

// Text is a string that may be late.
type Text struct {
	Static string
	Late   late.Expr // nil: Static is the value
}

// Tool is one tool block.
type Tool struct {
	Decl
	Pos         Pos
	Name        tool.Name
	Description Text
	Toolset     string
	Emoji       string
	Override    bool
	// Overrides is where the declaration stands that this one replaces; "" if none.
	Overrides Pos
	// Schema is compiled once per change of the tool; param descriptions that are late
	// are absent from it and stand in ParamText.
	Schema    *schema.Schema
	ParamText map[string]late.Expr
	Traits    tool.Traits
	Checks    []check.Spec
	Limits    tool.Limits
	Bounds    tool.Bounds
	// Exactly one of the two is set.
	Native *Native
	Wasm   *Wasm
	// Digest covers every evaluated value, secrets included (hashed).
	Digest string

	project string // absolute; see Capabilities
	// native are the capabilities of a native handler.
	native []string
}

// Native is a native handler.
type Native struct {
	Function string
	Config   hostfuncs.Values
	// ReadsResults is what the function says of itself.
	ReadsResults bool
	// RunsAgents is too.
	RunsAgents bool

	types map[string]hostfuncs.AttrType
}

// Type is the type of an attribute of Config, "" if the function has none of that name.
func (n *Native) Type(attr string) hostfuncs.AttrType { return n.types[attr] }

// Wasm is a wasm handler.
type Wasm struct {
	Module string // absolute path of the module, an input
	SHA256 string // pin, lower-case hex; empty: none
	Tool   string // name inside the module; empty: the tool's own
	// Isolation is snapshot, fresh or "": snapshot where the module allows it.
	Isolation string
	Optional  bool
	Limits    WasmLimits
	Grants    WasmGrants
}

// WasmLimits bound one call; sizes in bytes.
type WasmLimits struct {
	Fuel                        int64 // 0: no limit
	Memory, Input, Output, Logs int64
	HostCalls, OpenFiles, Table int
}

// WasmGrants are what the module may do; nil: nothing.
type WasmGrants struct {
	HTTP     []HTTPGrant
	Files    []FilesGrant
	Env      map[string]any // string or secret.Value
	KV       *KVGrant
	Tools    *ToolsGrant
	Progress bool
}

// KVGrant gives a namespace of the key-value store.
type KVGrant struct {
	Namespace string
	Write     bool
	Quota     int64 // bytes, for each principal
}

// ToolsGrant allows calls of other tools.
type ToolsGrant struct {
	Allow    []string // names
	MaxDepth int
}

// HTTPGrant allows requests to the hosts.
type HTTPGrant struct {
	Hosts        []string // origins as declared
	Methods      []string // default GET
	MaxResponse  int64
	AllowPrivate bool
	Headers      map[string]any // string or secret.Value, added by the host
}

// FilesGrant mounts a directory.
type FilesGrant struct {
	Path  string // absolute
	Mount string
	Write bool
}

// Toolset is one toolset block.
type Toolset struct {
	Decl
	Pos         Pos
	Name        string
	Description string
	Tools       []string
	Includes    []string
	Exclude     []string
	Aliases     []string
	Checks      []check.Spec
}

// Provider is one provider block.
type Provider struct {
	Decl
	Pos     Pos
	Kind    string // anthropic | openai | script
	Name    string
	BaseURL string
	APIKey  secret.Value // empty: no header for it
	Headers map[string]any
	Digest  string
}

// Model is one model block.
type Model struct {
	Decl
	Pos           Pos
	Label         string
	Provider      string // key of Config.Providers
	Name          string // on the wire
	ContextWindow int
	MaxOutput     int
	Retry         Retry
	Timeouts      Timeouts
	Price         *Price
	Temperature   *float64
	TopP          *float64
	Reasoning     string
	ParallelCalls *bool
	Cache         string // auto | off
	Extra         map[string]any
	Fallbacks     []string // keys of Config.Models
	// Delay and Rules are for provider script.
	Delay  time.Duration
	Rules  []Rule
	Digest string
}

// Retry is how often and how fast a failed model call is repeated.
type Retry struct {
	Attempts  int
	Base, Max time.Duration
}

// Timeouts bound a model call.
type Timeouts struct {
	Connect, FirstToken, Idle, Total time.Duration
}

// Price is per million tokens.
type Price struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Rule is one rule of a script model.
type Rule struct {
	Pos   Pos
	Match *regexp.Regexp
	Calls []RuleCall // sorted by step, then order of declaration
	Reply late.Expr  // nil: the last result as JSON
	Fail  *RuleFail
	// Offered says that an expression of the rule uses the variable offered.
	Offered bool
}

// RuleCall is one scripted tool call.
type RuleCall struct {
	Tool string
	Step int
	Args late.Expr // nil: {}
}

// RuleFail imitates a provider's error.
type RuleFail struct {
	Status     int
	RetryAfter time.Duration
	AfterWords int
	Times      int // 0: always
}

// Agent is one agent block.
type Agent struct {
	Decl
	Pos              Pos
	Name             string
	Description      string
	Model            string // key of Config.Models
	Instructions     string
	Toolsets         []string
	Tools            []string
	DisabledToolsets []string
	DisabledTools    []string
	Agents           []string // keys of Config.Agents, and names of agents that were removed
	ToolRefresh      string   // step | turn
	Parallel         int
	Budget           Budget
	Results          AgentResults
	Guardrails       Guardrails
	Compaction       Compaction
	OnDisconnect     string // "" (as the client's protocol says) | continue | cancel
	OnBusy           string // queue | reject
	Digest           string
}

// Budget bounds one turn; 0: no limit.
type Budget struct {
	Iterations int           `json:"iterations"`
	ToolCalls  int           `json:"tool_calls"`
	Tokens     int           `json:"tokens"`
	Cost       float64       `json:"cost"`
	Wall       time.Duration `json:"wall"`
}

// AgentResults bounds what the results of one turn take of the context.
type AgentResults struct {
	PerTurnChars int `json:"per_turn_chars"` // characters; a small window lowers it
}

// Compaction says when the middle of a long conversation is replaced by a summary, and how
// much is kept around it.
type Compaction struct {
	Threshold float64 `json:"threshold"`  // share of the model's window that a request may take; 0: never
	KeepFirst int     `json:"keep_first"` // messages
	KeepLast  float64 `json:"keep_last"`  // share of the window
	Model     string  `json:"model"`      // key of Config.Models; empty: the agent's
}

// Guardrails end a loop of calls within one turn; 0: never.
type Guardrails struct {
	SameFailure Guard `json:"same_failure"` // the same call fails again
	ToolFailure Guard `json:"tool_failure"` // a tool fails again, with any arguments
	SameResult  Guard `json:"same_result"`  // the same idempotent call has the same result again
}

// Guard is how many times something may happen before the model is warned, and before
// the call is refused.
type Guard struct {
	Warn  int `json:"warn"`
	Block int `json:"block"`
}

// Policy is one policy block.
type Policy struct {
	Decl
	policy.Policy
	Tools []string // names, globs, toolset/tool

	when          *condition // nil: always
	once          sync.Once
	unconditional *policy.Rule // see always
}

// Runtime is the runtime block with its defaults.
type Runtime struct {
	Decl
	Watch                bool
	MaxRuns              int
	RequirePinnedModules bool
	DrainTimeout         time.Duration // 0: wait without limit
	ShutdownTimeout      time.Duration
	ToolsEnv             []string // nil: all
	AllowPaths           []string
	Wasm                 WasmSettings
	Results              ResultSettings

	toolsDirs []string
	elements  map[string][]hcl.Range // see evaluated
}

// ResultSettings bound what is kept of oversized results.
type ResultSettings struct {
	TTL   time.Duration // how long a handle lives; 0: for ever
	Quota int64         // bytes for each principal; 0: no limit
}

// WasmSettings are what all modules have to share, and what any of them may be.
type WasmSettings struct {
	MemoryBudget   int64 // bytes of all instances together; 0: what suits the machine
	CacheSize      int64 // bytes of compiled code on disk
	CompileTimeout time.Duration
	Limits         module.Limits
}

// Server is the server block with its defaults.
type Server struct {
	Decl
	Listen      string
	Keys        []Key
	TLSCert     string // absolute path; empty: no TLS
	TLSKey      string
	MaxBody     int64
	Hosts       []string
	CORSOrigins []string

	elements map[string][]hcl.Range // see evaluated
}

// Key is one API key.
type Key struct {
	Name   string
	Secret secret.Value
	Role   principal.Role
	Agents []string
	Rate   tool.Rate
}
