package wasmtools

import (
	"fmt"
	"log/slog"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// Spec is one declaration of a module as a tool.
type Spec struct {
	Name tool.Name
	// InModule is the tool's name inside the module. Empty: the module's only tool, or
	// Name.
	InModule string
	// Optional binds a module though capabilities it imports are not granted; its calls
	// to them then answer EACCES.
	Optional bool
	// Isolation is how calls are kept apart; empty: Snapshot for a module that is
	// eligible, else Fresh.
	Isolation Isolation
	Limits    Limits
	HTTP      []HTTPGrant
	Files     []FilesGrant
	// Env is the environment of the guest, beside the names of package abi.
	Env      map[string]secret.Value
	KV       *KVGrant    // nil: none
	Tools    *ToolsGrant // nil: none
	Progress bool        // whether it may report progress
}

// Isolation says how the calls of a tool are kept apart.
type Isolation string

// The ways: every call starts from the module's state after its initialisation, restored
// from an image or made anew.
const (
	Snapshot Isolation = "snapshot"
	Fresh    Isolation = "fresh"
)

// Limits bound one call. Zero values take those of [DefaultLimits]; negative ones are
// errors.
type Limits struct {
	Memory    int64 // bytes of linear memory
	Input     int64 // bytes of the arguments
	Output    int64 // bytes of the result
	Logs      int64 // bytes of log records, and of what a command writes to stderr
	HostCalls int   // calls of capabilities
	OpenFiles int   // at once
	Fuel      int64 // units of package rewrite; 0 in DefaultLimits: none but the call's time
	Table     int   // elements that a table may grow to
}

// DefaultLimits are the limits of a declaration that sets none.
func DefaultLimits() Limits {
	return Limits{Memory: 64 << 20, Input: 1 << 20, Output: 4 << 20, Logs: 64 << 10, HostCalls: 1000, OpenFiles: 32, Table: 100_000}
}

// HTTPGrant allows requests to some origins.
type HTTPGrant struct {
	Hosts        []string // origins, as egress.ParseOrigin reads them
	Methods      []string // empty: GET
	MaxResponse  int64    // bytes; 0: egress.DefaultMaxResponse
	AllowPrivate bool
	Headers      map[string]secret.Value // added by the host, never visible to the guest
}

// FilesGrant shows a directory of the host to the guest.
type FilesGrant struct {
	Path  string // absolute, of the host; the directory must exist
	Mount string // absolute, as the guest sees it
	Mode  Mode   // empty: ReadOnly
}

// KVGrant gives a namespace of the key-value store. What lies in it belongs to the
// principal for whom the tool runs: other principals have other keys of the same names.
// Tools that are granted one namespace share it.
type KVGrant struct {
	Namespace string // letters, digits, - and _, at most 64
	Mode      Mode   // empty: ReadOnly
	Quota     int64  // bytes of keys and values of one principal; 0: DefaultKVQuota
}

// DefaultKVQuota is the quota of a grant that sets none.
const DefaultKVQuota = 4 << 20

// ToolsGrant allows calls of other tools.
type ToolsGrant struct {
	Allow    []tool.Name
	MaxDepth int // levels of calls below this tool's own; 0: 1
}

// Mode says what a guest may do in a directory or a namespace.
type Mode string

// The modes.
const (
	ReadOnly  Mode = "ro"
	ReadWrite Mode = "rw"
)

// BindError says why a declaration and a module do not fit. It is for the operator.
type BindError struct {
	Summary string // a few words
	Detail  string // full sentences, with the block to add where one is missing
	// Attr is the place below the handler block, for example "limits.memory"; empty: the
	// block itself.
	Attr string
}

// Error renders both.
func (e *BindError) Error() string { return e.Summary + ": " + e.Detail }

// Tool is one declaration of a module, ready to be called. It implements tool.Handler.
type Tool struct {
	name      tool.Name
	inModule  string
	entry     string // export that a call of an Extism plug-in runs
	module    *Module
	report    *module.Report
	egress    *egress.Guard // nil: there is none
	log       *slog.Logger
	isolation Isolation
	limits    Limits
	http      []httpGrant
	files     []FilesGrant
	env       map[string]secret.Value
	kv        *KVGrant
	tools     *ToolsGrant
	progress  bool
	warnings  []string
	closed    sync.Once
	instances // of the module, and what is known of starting them
}

type httpGrant struct{ policy egress.Policy }

// Bind checks what the module imports against what s grants, and makes the handler. The
// error is a *BindError. The Tool holds the module until its Close.
func (m *Module) Bind(s Spec) (*Tool, error) {
	t, err := m.rt.declare(&m.report, s)
	if err != nil {
		return nil, err
	}
	if t.kv != nil && m.rt.kv == nil {
		return nil, &BindError{"No key-value store", "This runtime was built without a store of keys and values, so kv cannot be granted.", "grant.kv"}
	}
	if err := m.acquire(); err != nil {
		return nil, &BindError{Summary: "Module released", Detail: fault.Message(err)}
	}
	t.module = m
	m.rt.writable.add(t.files, 1)
	return t, nil
}

// Check says what Compile and Bind would say, of a module that is not compiled yet:
// [Runtime.Inspect] makes the report. What the module says of itself is known only as far as
// a custom section does. The error is a *BindError, or that of [Runnable].
func (r *Runtime) Check(rep module.Report, s Spec) error {
	if err := Runnable(rep); err != nil {
		return err
	}
	_, err := r.declare(&rep, s)
	return err
}

func (r *Runtime) declare(rep *module.Report, s Spec) (*Tool, error) {
	t := &Tool{name: s.Name, inModule: s.InModule, report: rep, egress: r.egress, env: s.Env, isolation: s.Isolation, files: slices.Clone(s.Files)}
	t.rt = r
	t.log = r.log.With("tool", string(s.Name))
	t.nameInModule()
	for _, check := range []func(*Spec) error{t.setLimits, t.setHTTP, t.checkFiles, t.checkEnv, t.choosePlugin, t.checkIsolation, t.setKV, t.setTools, t.setProgress, t.checkImports} {
		if err := check(&s); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Close lets go of the module and of idle instances. Calls that run end as they would
// have; new ones fail.
func (t *Tool) Close() error {
	t.closed.Do(func() {
		t.finish()
		t.rt.writable.add(t.files, -1)
		t.module.Release()
	})
	return nil
}

// Warnings are remarks on the declaration that are no errors.
func (t *Tool) Warnings() []string { return t.warnings }

func (t *Tool) warn(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// nameInModule settles which tool of the module is meant.
func (t *Tool) nameInModule() {
	d := t.report.Descriptor
	switch {
	case t.inModule == "" && d != nil && len(d.Tools) == 1:
		t.inModule = d.Tools[0].Name
	case t.inModule == "":
		t.inModule = string(t.name)
	}
	if d == nil || len(d.Tools) == 0 {
		return
	}
	if _, ok := d.Tool(t.inModule); !ok {
		names := make([]string, 0, len(d.Tools))
		for _, x := range d.Tools {
			names = append(names, x.Name)
		}
		t.warn("The module says that it holds the tools %s, but not %q.", strings.Join(names, ", "), t.inModule)
	}
}

func (t *Tool) setLimits(s *Spec) error {
	l, def := s.Limits, DefaultLimits()
	for _, x := range []struct {
		attr string
		v    *int64
		def  int64
	}{
		{"memory", &l.Memory, def.Memory}, {"input", &l.Input, def.Input},
		{"output", &l.Output, def.Output}, {"logs", &l.Logs, def.Logs},
		{"fuel", &l.Fuel, def.Fuel},
	} {
		if err := limit(x.attr, x.v, x.def); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		attr string
		v    *int
		def  int
	}{{"host_calls", &l.HostCalls, def.HostCalls}, {"open_files", &l.OpenFiles, def.OpenFiles}, {"table", &l.Table, def.Table}} {
		v := int64(*x.v)
		if err := limit(x.attr, &v, int64(x.def)); err != nil {
			return err
		}
		*x.v = int(v)
	}
	t.limits = l
	if err := t.memoryFits(); err != nil {
		return err
	}
	return t.tablesFit()
}

// maxLimit is the size of the largest linear memory, and of what an i32 can count.
const maxLimit = 1<<31 - 1

func limit(attr string, v *int64, def int64) error {
	attr = "limits." + attr
	most := int64(maxLimit)
	shown := "2 GiB less a byte"
	switch attr {
	case "limits.memory":
		most, shown = 1<<32, "4 GiB"
	case "limits.fuel":
		most = math.MaxInt64
	case "limits.host_calls", "limits.open_files", "limits.table":
		shown = strconv.Itoa(maxLimit)
	}
	switch {
	case *v < 0:
		return &BindError{"Invalid limit", fmt.Sprintf("%s must be above zero. Leave it out to take the default.", attr), attr}
	case *v > most:
		return &BindError{"Invalid limit", fmt.Sprintf("%s can be at most %s.", attr, shown), attr}
	case *v == 0:
		*v = def
	}
	return nil
}

func (t *Tool) memoryFits() error {
	mem := t.report.Memory
	if mem == nil {
		return nil
	}
	if need := int64(mem.MinPages) * module.PageSize; need > t.limits.Memory {
		return &BindError{"Memory limit too low", fmt.Sprintf("The module needs %s of memory to start, and limits.memory is %s.",
			bytesText(need), bytesText(t.limits.Memory)), "limits.memory"}
	}
	return nil
}

// tablesFit holds what the tables of the module can grow to against the limit: the cap that
// the engine keeps is that of all declarations of the module.
func (t *Tool) tablesFit() error {
	if n := t.report.TableMax; n > t.limits.Table {
		return &BindError{"Table limit too low", fmt.Sprintf("A table of the module can have %d elements, and limits.table is %d. Raise it, or build the module with tables that do not grow.",
			n, t.limits.Table), "limits.table"}
	}
	return nil
}

func (t *Tool) setHTTP(s *Spec) error {
	for _, g := range s.HTTP {
		p, err := g.policy()
		if err != nil {
			return err
		}
		t.http = append(t.http, httpGrant{p})
	}
	if len(t.http) > 0 && t.egress == nil {
		return &BindError{"No outgoing HTTP", "This runtime was built without outgoing HTTP, so http cannot be granted.", "grant.http"}
	}
	t.unused(module.HTTP)
	return nil
}

func (g HTTPGrant) policy() (egress.Policy, error) {
	p := egress.Policy{MaxResponse: g.MaxResponse, AllowPrivate: g.AllowPrivate, Headers: g.Headers, Hide: true}
	if len(g.Hosts) == 0 {
		return p, &BindError{"Missing hosts", `A grant of http needs hosts, for example hosts = ["https://api.example.com"].`, "grant.http.hosts"}
	}
	if g.MaxResponse < 0 {
		return p, &BindError{"Invalid limit", "max_response must be above zero.", "grant.http.max_response"}
	}
	for _, h := range g.Hosts {
		o, err := egress.ParseOrigin(h)
		if err != nil {
			return p, &BindError{"Invalid origin", fault.Message(err), "grant.http.hosts"}
		}
		p.Origins = append(p.Origins, o)
	}
	for _, m := range g.Methods {
		p.Methods = append(p.Methods, strings.ToUpper(m))
	}
	return p, nil
}

func (t *Tool) checkFiles(*Spec) error {
	for i := range t.files {
		if err := t.checkMount(i); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tool) checkMount(i int) error {
	f := &t.files[i]
	if f.Mode == "" {
		f.Mode = ReadOnly
	}
	twice := slices.ContainsFunc(t.files[:i], func(o FilesGrant) bool { return o.Mount == f.Mount })
	switch {
	case f.Mode != ReadOnly && f.Mode != ReadWrite:
		return &BindError{"Invalid mode", fmt.Sprintf(`The mode of a files grant is "ro" or "rw", not %q.`, f.Mode), "grant.files.mode"}
	case !filepath.IsAbs(f.Path):
		return &BindError{"Invalid path", "The path of a files grant must be absolute here.", "grant.files.path"}
	case !path.IsAbs(f.Mount) || path.Clean(f.Mount) != f.Mount:
		return &BindError{"Invalid mount", fmt.Sprintf(`mount must be an absolute path without "..", such as "/data"; this is %q.`, f.Mount), "grant.files.mount"}
	case twice:
		return &BindError{"Duplicate mount", fmt.Sprintf("Two files grants are mounted at %q.", f.Mount), "grant.files.mount"}
	}
	root, err := t.rt.openMount(*f)
	if err != nil {
		return &BindError{"Unusable directory", fmt.Sprintf("The directory %q cannot be opened: %s.", f.Path, reason(err)), "grant.files.path"}
	}
	return root.Close()
}

func (t *Tool) checkEnv(s *Spec) error {
	for name, v := range s.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(v.Open(), "\x00"):
			return &BindError{"Invalid variable", fmt.Sprintf("%q cannot be an environment variable: names have no =, and neither names nor values have a NUL.", name), "grant.env.values"}
		case name == abi.EnvTool || name == abi.EnvCallID || name == abi.EnvABI:
			return &BindError{"Reserved variable", fmt.Sprintf("%s is set by hermes. Choose another name.", name), "grant.env.values"}
		}
	}
	return nil
}

// checkIsolation settles how calls are kept apart.
func (t *Tool) checkIsolation(*Spec) error {
	fits := t.report.Snapshot
	if fits.Eligible && t.entry == abi.ExportStart {
		fits = module.Snapshot{Reason: "its entry is _start, which runs once"}
	}
	switch {
	case t.isolation == Fresh:
	case t.isolation == "" && fits.Eligible, t.isolation == Snapshot && fits.Eligible:
		t.isolation = Snapshot
	case t.isolation == "":
		t.isolation = Fresh
	case t.isolation == Snapshot:
		return &BindError{"No snapshot possible", fmt.Sprintf(`isolation is "snapshot", but the module is not eligible: %s. Use isolation = "fresh", or leave it out.`, fits.Reason), "isolation"}
	default:
		return &BindError{"Invalid isolation", fmt.Sprintf(`isolation is "snapshot" or "fresh", not %q.`, t.isolation), "isolation"}
	}
	return nil
}

// bytesText renders a size as people write limits.
func bytesText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
