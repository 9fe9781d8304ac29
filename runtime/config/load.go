package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config/funcs"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// load is one load in progress.
type load struct {
	src       Source
	o         Options
	cache     *Cache
	lang      *language
	paths     Paths
	pure      *hcl.EvalContext
	lookupEnv func(string) (string, bool)
	natives   map[string]*hostfuncs.Func

	// Set once the runtime block is evaluated, before tools directories are.
	allow    []string
	toolsEnv []string
	runtime  Runtime
	server   Server
	context  string // key of everything that is the same for all blocks
	funcs    string // the part of it that the native functions are

	listed map[string]listing
	units  []unit
	half   []string // see parsedFile
	diags  hcl.Diagnostics

	mu       sync.Mutex // guards below
	inputs   map[string]*reading
	resolved map[string]error
	secrets  map[string]struct{}
	asked    map[Read]bool
	// shown is what the live configuration shows to strangers.
	shown shown
}

// Load reads, decodes, evaluates and links what src holds. The configuration has
// everything that is whole; with errors among the diagnostics it is partial and must
// not be run. It is never nil. When ctx ends, Load returns early with an error
// diagnostic.
func Load(ctx context.Context, src Source, o Options) (*Config, hcl.Diagnostics) {
	ld := newLoad(src, o)
	ld.cache.begin()
	defer ld.cache.end()

	main := ld.parseDir(ld.paths.ConfigDir, ld.outsideTools())
	top := ld.variables(main)
	ld.allowEarly(main, top)
	ld.diags = append(ld.diags, ld.locals(top, main)...)
	top.seal()
	ld.singletons(main, top)
	work := []unit{{main, top}}
	for _, dir := range ld.paths.ToolsDirs {
		work = append(work, ld.toolsUnit(dir, top))
	}
	hideLocals(work)
	ld.units = work
	objects := ld.evaluate(ctx, work)
	cfg := ld.link(objects)
	if err := ctx.Err(); err != nil {
		at := hcl.Range{Filename: ld.paths.ConfigDir, Start: hcl.InitialPos, End: hcl.InitialPos}
		ld.diags = append(ld.diags, blamed(hcl.Diagnostics{diagnostic(hcl.DiagError, at, "Invalid load", "The load was cancelled.")}, nil)...)
	}
	return cfg, ordered(ld.diags)
}

func newLoad(src Source, o Options) *load {
	ld := &load{
		src: src, o: o, cache: o.Cache, lang: newLanguage(), paths: o.Paths, lookupEnv: o.LookupEnv,
		pure: &hcl.EvalContext{Functions: funcs.Pure()}, asked: map[Read]bool{},
		natives: map[string]*hostfuncs.Func{}, inputs: map[string]*reading{},
		listed: map[string]listing{}, resolved: map[string]error{}, secrets: map[string]struct{}{},
	}
	if o.Stranger {
		ld.pure.Functions, ld.shown = funcs.Sealed(), shownBy(o.Previous)
	}
	if ld.cache == nil {
		ld.cache = NewCache()
	}
	if ld.lookupEnv == nil {
		ld.lookupEnv = os.LookupEnv
	}
	for i := range o.Funcs {
		ld.natives[o.Funcs[i].Name] = &o.Funcs[i]
	}
	return ld
}

// listing is what a source answered for a directory.
type listing struct {
	paths []string
	err   error
}

// unit is the files of one directory with what their expressions see.
type unit struct {
	files []*file
	scope *scope
}

func (ld *load) toolsUnit(dir string, top *scope) unit {
	files := ld.parseDir(dir, nil)
	s := &scope{ld: ld, vars: top.vars, locals: maps.Clone(top.locals)}
	ld.diags = append(ld.diags, ld.locals(s, files)...)
	s.seal()
	return unit{files, s}
}

// hideLocals tells each scope of the locals that others have, for its messages.
func hideLocals(work []unit) {
	all := map[string]hcl.Range{}
	for _, u := range work[1:] {
		for name, n := range u.scope.locals {
			if work[0].scope.locals[name] == nil {
				all[name] = n.rng
			}
		}
	}
	for _, u := range work {
		u.scope.hidden = all
	}
}

// singletons evaluates the blocks that stand once, and what later stages need of them.
func (ld *load) singletons(files []*file, s *scope) {
	ld.context = ld.contextKey() // relative paths of these blocks need no more
	ld.lang.runtime.defaults(&ld.runtime)
	ld.lang.server.defaults(&ld.server)
	var found struct{ runtime, server *hclsyntax.Block }
	for _, f := range files {
		for _, b := range f.blocks("runtime") {
			ld.once(f, s, b, &found.runtime, func(fr *frame) {
				decode(fr, ld.lang.runtime, b, &ld.runtime)
				ld.runtime.Decl, ld.runtime.elements = fr.decl(b), fr.elements
			})
		}
		for _, b := range f.blocks("server") {
			ld.once(f, s, b, &found.server, func(fr *frame) {
				decode(fr, ld.lang.server, b, &ld.server)
				fr.checkServer(b, &ld.server)
				ld.server.Decl, ld.server.elements = fr.decl(b), fr.elements
			})
		}
	}
	ld.settle()
}

// allowEarly reads allow_paths before locals are evaluated, which may read files there.
// What is wrong with it is reported when the block is decoded.
func (ld *load) allowEarly(files []*file, s *scope) {
	for _, f := range files {
		for _, b := range f.blocks("runtime") {
			a := b.Body.Attributes["allow_paths"]
			if a == nil || usesAny(a.Expr, []string{"local"}) {
				continue
			}
			fr := ld.frame(f, s, "the block runtime")
			if list, ok := read(fr, a, stringsKind()); ok && ld.allow == nil {
				for _, p := range list {
					ld.allow = append(ld.allow, fr.abs(p))
				}
			}
		}
	}
	ld.resolved = map[string]error{}
}

func (ld *load) once(f *file, s *scope, b *hclsyntax.Block, first **hclsyntax.Block, do func(*frame)) {
	fr := ld.frame(f, s, "the block "+b.Type)
	if *first != nil {
		fr.all.addFile((*first).TypeRange.Filename)
		fr.errorf(b.DefRange(), fmt.Sprintf("Duplicate block %q", b.Type), "There is one block %q for the whole project; it stands at %s.", b.Type, fr.pos((*first).DefRange()))
	} else {
		*first = b
		fr.noLabels(b)
		do(fr)
	}
	ld.diags = append(ld.diags, fr.diags...)
}

// settle takes from the runtime block what the rest of the load needs.
func (ld *load) settle() {
	ld.toolsEnv = ld.runtime.ToolsEnv
	if ld.paths.ToolsDirs == nil {
		ld.paths.ToolsDirs = ld.runtime.toolsDirs
	}
	if ld.paths.ToolsDirs == nil {
		ld.paths.ToolsDirs = []string{}
		dir := filepath.Join(ld.paths.Project, "tools.d")
		if _, err := ld.list(dir); !errors.Is(err, fs.ErrNotExist) {
			ld.paths.ToolsDirs = []string{dir} // another error is reported when it is read
		}
	}
	ld.overlaps()
	ld.context = ld.contextKey()
}

// outsideTools says which files of the configuration directory are its own: it may hold
// the tools directory, and the state.
func (ld *load) outsideTools() func(path string) bool {
	others := append([]string{ld.paths.State}, ld.paths.ToolsDirs...)
	if ld.paths.ToolsDirs == nil {
		others = append(others, filepath.Join(ld.paths.Project, "tools.d"))
	}
	return func(path string) bool {
		return !slices.ContainsFunc(others, func(dir string) bool {
			return dir != "" && dir != ld.paths.ConfigDir && within(ld.paths.ConfigDir, dir) && within(dir, path)
		})
	}
}

// overlaps drops tools directories whose files would be read twice, and reports them.
func (ld *load) overlaps() {
	var kept []string
	own := filepath.Join(ld.paths.Project, "tools.d")
	for _, dir := range ld.paths.ToolsDirs {
		other := ""
		for _, k := range kept {
			if within(k, dir) || within(dir, k) {
				other = k
			}
		}
		if within(dir, ld.paths.ConfigDir) || (within(ld.paths.ConfigDir, dir) && dir != own && ld.o.Paths.ToolsDirs == nil) {
			other = ld.paths.ConfigDir
		}
		if other == "" {
			kept = append(kept, dir)
			continue
		}
		d := diagnostic(hcl.DiagError, ld.dirRange(dir), "Conflicting directories", fmt.Sprintf("The tools directory %s and the directory %s lie in each other, so that files would be read twice. Keep them beside each other.",
			relative(ld.paths.Project, dir), relative(ld.paths.Project, other)))
		ld.diags = append(ld.diags, blamed(hcl.Diagnostics{d}, nil)...)
	}
	ld.paths.ToolsDirs = append([]string{}, kept...)
}

// list lists a directory, once in a load.
func (ld *load) list(dir string) ([]string, error) {
	if l, ok := ld.listed[dir]; ok {
		return l.paths, l.err
	}
	paths, err := ld.src.Files(dir)
	ld.listed[dir] = listing{paths, err}
	return paths, err
}

func (ld *load) contextKey() string {
	if ld.funcs == "" {
		ld.funcs = funcsKey(ld.o.Funcs)
	}
	return hashOf(ld.funcs, ld.paths.Project, strings.Join(ld.allow, "\x00"), fmt.Sprint(ld.toolsEnv == nil), strings.Join(ld.toolsEnv, "\x00"), fmt.Sprint(ld.runtime.RequirePinnedModules))
}

func funcsKey(list []hostfuncs.Func) string {
	var parts []string
	for _, f := range list {
		parts = append(parts, f.Name, f.Description, string(f.Params), fmt.Sprint(f.Open, f.Config, f.Traits))
	}
	return hashOf(parts...)
}

// evaluate evaluates the blocks of all files, on all cores; the result is in the order
// of files and blocks.
func (ld *load) evaluate(ctx context.Context, work []unit) []*evaluated {
	type job struct {
		file  *file
		scope *scope
	}
	var jobs []job
	for _, u := range work {
		for _, f := range u.files {
			jobs = append(jobs, job{f, u.scope})
		}
	}
	results := make([][]*evaluated, len(jobs))
	parallel(len(jobs), func(i int) {
		if ctx.Err() == nil {
			results[i] = ld.evaluateFile(jobs[i].file, jobs[i].scope)
		}
	})
	all := slices.Concat(results...)
	for _, o := range all {
		ld.diags = append(ld.diags, o.diags...)
	}
	return all
}

func (ld *load) evaluateFile(f *file, s *scope) []*evaluated {
	if f.body == nil {
		return nil
	}
	var list []*evaluated
	for _, a := range inOrder(f.body.Attributes) {
		fr := ld.frame(f, s, "the file")
		fr.errorf(a.NameRange, fmt.Sprintf("Unknown attribute %q", a.Name), "A file holds blocks only. A value with a name is a local: locals { %s = … }.%s", a.Name, ld.lang.blockHint(a.Name))
		list = append(list, &evaluated{diags: fr.diags, file: f.path})
	}
	for _, b := range f.body.Blocks {
		switch b.Type {
		case "locals", "variable", "runtime", "server":
			if f.tools && b.Type != "locals" {
				list = append(list, ld.misplaced(f, s, b))
			}
			continue
		}
		list = append(list, ld.evaluateBlock(f, s, b))
	}
	return list
}

// evaluateBlock evaluates a block, or takes it from the cache.
func (ld *load) evaluateBlock(f *file, s *scope, b *hclsyntax.Block) *evaluated {
	key := objectKey{ld.context, f.path, f.hashes[b], f.tools}
	if o, ok := find(ld.cache, ld.cache.objects, key); ok && ld.current(o, s) {
		for r := range o.deps.asked {
			ld.ask(r)
		}
		return o
	}
	ld.cache.evaluations.Add(1)
	fr := ld.frame(f, s, blockName(b))
	o := ld.lang.evaluate(fr, b)
	o.rng, o.file, o.tools, o.attrs, o.elements = b.DefRange(), f.path, f.tools, fr.ranges, fr.elements
	o.deps, o.diags = fr.all, fr.diags
	o.bad = fr.bad || fr.poisoned
	keep(ld.cache, ld.cache.objects, key, o)
	return o
}

func blockName(b *hclsyntax.Block) string {
	parts := []string{b.Type}
	for _, l := range b.Labels {
		parts = append(parts, strconv.Quote(l))
	}
	return strings.Join(parts, " ")
}

// current says whether everything that the object was made from is as it was.
func (ld *load) current(o *evaluated, s *scope) bool {
	for path, key := range o.deps.read {
		if in, err := ld.input(path); inputKey(in, err) != key {
			return false
		}
	}
	for path, inside := range o.deps.links {
		if (ld.allowed(path) == nil) != inside {
			return false
		}
	}
	for name, was := range o.deps.env {
		v, ok := ld.lookupEnv(name)
		if (!ok && was != "") || (ok && was != "="+v) {
			return false
		}
	}
	for name, key := range o.deps.named {
		if s.key(name) != key {
			return false
		}
	}
	return true
}

func (ld *load) misplaced(f *file, s *scope, b *hclsyntax.Block) *evaluated {
	fr := ld.frame(f, s, blockName(b))
	fr.errorf(b.DefRange(), fmt.Sprintf("Unsupported block %q", b.Type),
		"A tools directory holds only tool, toolset and locals blocks, so that a slip there cannot change agents, models or the server. Move this block to %s.", relative(ld.paths.Project, ld.paths.ConfigDir))
	return &evaluated{diags: fr.diags, file: f.path}
}

// sensitive remembers the secrets in a value, so that no message shows them.
func (ld *load) sensitive(v cty.Value) {
	if !v.ContainsMarked() {
		return
	}
	p, err := plain(v)
	if err != nil {
		return
	}
	ld.mu.Lock()
	defer ld.mu.Unlock()
	eachSecret(p, func(text string) {
		if len(text) >= 4 {
			ld.secrets[text] = struct{}{}
		}
	})
}

// eachSecret gives the sensitive texts of a plain value.
func eachSecret(p any, do func(text string)) {
	switch p := p.(type) {
	case secret.Value:
		do(p.Open())
	case []any:
		for _, e := range p {
			eachSecret(e, do)
		}
	case map[string]any:
		for _, e := range p {
			eachSecret(e, do)
		}
	}
}

// metSecrets are all sensitive texts that the load met, also those of blocks that did not
// change since an earlier one.
func (ld *load) metSecrets(objects []*evaluated) []secret.Value {
	all := maps.Clone(ld.secrets)
	for _, o := range objects {
		maps.Copy(all, o.deps.secrets)
	}
	for _, u := range ld.units {
		for _, table := range []map[string]*named{u.scope.vars, u.scope.locals} {
			for _, n := range table {
				maps.Copy(all, n.deps.secrets)
			}
		}
	}
	for _, k := range ld.server.Keys {
		all[k.Secret.Open()] = struct{}{}
	}
	out := make([]secret.Value, 0, len(all))
	for _, text := range slices.Sorted(maps.Keys(all)) {
		out = append(out, secret.New(text))
	}
	return out
}

// redact takes known secrets out of a message: functions quote their arguments.
func (ld *load) redact(s string) string {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	for sec := range ld.secrets {
		s = strings.ReplaceAll(s, sec, secret.Redacted)
	}
	return s
}

// previousFile is where the live configuration declared "kind.name", "" if it did not.
func (ld *load) previousFile(name string) string {
	if ld.o.Previous == nil {
		return ""
	}
	kind, rest, _ := strings.Cut(name, ".")
	return ld.o.Previous.declared[declaration{kind, rest}]
}

// parallel calls do for 0 to n-1, on all cores.
func parallel(n int, do func(i int)) {
	workers := min(goruntime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var first atomic.Pointer[panicked]
	for range workers {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					first.CompareAndSwap(nil, newPanicked(p))
				}
			}()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	wg.Wait()
	if p := first.Load(); p != nil {
		panic(p)
	}
}

// panicked is a panic of a worker, which goes on where the load was called: there it
// can be contained.
type panicked struct {
	value any
	stack []byte
}

func newPanicked(value any) *panicked { return &panicked{value, debug.Stack()} }

// String renders the panic with the worker's stack.
func (p *panicked) String() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

func toolName(s string) tool.Name { return tool.Name(s) }
