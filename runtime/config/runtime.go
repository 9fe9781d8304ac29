package config

import (
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/secret"
	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

func runtimeBody() *body[Runtime] {
	return withHints(newBody("runtime", "Settings of the whole project.",
		filePaths("tools_dirs", "The tools directories, relative to this file; default: tools.d in the project. --tools wins over it.", func(r *Runtime) *[]string { return &r.toolsDirs }),
		allowPaths(filePaths("allow_paths", "Directories outside the project that files may read from and name, relative to this file. It may use variables, and no locals.", func(r *Runtime) *[]string { return &r.AllowPaths })),
		may("tools_env", stringsKind(), "Globs of the environment variables that env and secret_env may read below tools directories; default: all.", func(r *Runtime) *[]string { return &r.ToolsEnv }),
		opt("watch", boolKind(), true, "Whether changes on disk are loaded by themselves.", func(r *Runtime) *bool { return &r.Watch }),
		opt("max_runs", intKind(1, anyInt), 64, "How many runs may be at work at once.", func(r *Runtime) *int { return &r.MaxRuns }),
		opt("require_pinned_modules", boolKind(), false, "Whether every wasm handler must have a sha256.", func(r *Runtime) *bool { return &r.RequirePinnedModules }),
		opt("drain_timeout", durationKind(true), 0, "How long a replaced generation waits for its calls before they are cancelled; 0s: without limit.", func(r *Runtime) *time.Duration { return &r.DrainTimeout }),
		opt("shutdown_timeout", durationKind(false), 30*time.Second, "How long the server waits for running work when it is asked to end.", func(r *Runtime) *time.Duration { return &r.ShutdownTimeout }),
		single("wasm", wasmSettingsBody(), func(r *Runtime) *WasmSettings { return &r.Wasm }),
		single("results", resultSettingsBody(), func(r *Runtime) *ResultSettings { return &r.Results }),
	), map[string]string{"tools_dir": `Did you mean "tools_dirs"?`})
}

// wasmSettingsBody applies when the server starts: what is compiled and mapped by then
// was so under these settings.
func wasmSettingsBody() *body[WasmSettings] {
	return newBody("wasm", "What the modules of the whole project share, and what is accepted as a module. Applies when the server starts.",
		may("memory_budget", someSizeKind(), "Memory of all running modules together. Default: half of the machine's, or of what the process may use.", func(w *WasmSettings) *int64 { return &w.MemoryBudget }),
		opt("cache_size", someSizeKind(), 1<<30, "Compiled code on disk; what was not used for longest goes first.", func(w *WasmSettings) *int64 { return &w.CacheSize }),
		opt("compile_timeout", durationKind(false), 30*time.Second, "How long the compilation of one module may take.", func(w *WasmSettings) *time.Duration { return &w.CompileTimeout }),
		single("limits", moduleLimitsBody(), func(w *WasmSettings) *module.Limits { return &w.Limits }),
	)
}

// resultSettingsBody bounds the store of oversized results.
func resultSettingsBody() *body[ResultSettings] {
	return newBody("results", "What is kept of results that were too large for a model.",
		opt("ttl", durationKind(true), 7*24*time.Hour, "How long a handle can be read; 0s: for ever.", func(r *ResultSettings) *time.Duration { return &r.TTL }),
		opt("quota", sizeKind(), 1<<30, "Bytes of each principal; the oldest results of ended runs go first.", func(r *ResultSettings) *int64 { return &r.Quota }),
	)
}

// moduleLimitsBody holds the bounds that are checked before a module is compiled.
func moduleLimitsBody() *body[module.Limits] {
	type at = func(*module.Limits) *int
	standard, most := module.DefaultLimits(), module.MaxLimits()
	size := func(name, doc string, f at) *field[module.Limits] {
		return opt(name, memorySizeKind(*f(&most)), *f(&standard), doc, f)
	}
	count := func(name, doc string, f at) *field[module.Limits] {
		return opt(name, intKind(1, *f(&most)), *f(&standard), doc, f)
	}
	return newBody("limits", "Bounds on a module, checked before it is compiled. Raising them lets a module take more of the server's time and memory to compile.",
		size("module", "The file.", func(l *module.Limits) *int { return &l.Size }),
		size("code", "All functions together.", func(l *module.Limits) *int { return &l.Code }),
		size("body", "One function.", func(l *module.Limits) *int { return &l.Body }),
		count("nesting", "Blocks inside each other, in one function.", func(l *module.Limits) *int { return &l.Nesting }),
		count("blocks", "Blocks, loops and ifs of one function.", func(l *module.Limits) *int { return &l.Blocks }),
		count("branches", "Targets of all br_tables of one function.", func(l *module.Limits) *int { return &l.Branches }),
		count("locals", "Locals of one function, parameters included.", func(l *module.Limits) *int { return &l.Locals }),
		count("all_locals", "Locals of all functions together.", func(l *module.Limits) *int { return &l.AllLocals }),
		count("values", "Operands that calls, blocks and branches move, for each byte of a function.", func(l *module.Limits) *int { return &l.Values }),
		count("joins", "What joining the locals of one function may cost the compiler, in the units of the preflight; optimised code stays below 10000000.", func(l *module.Limits) *int { return &l.Joins }),
		count("functions", "Functions, imported ones included.", func(l *module.Limits) *int { return &l.Functions }),
		count("types", "Types.", func(l *module.Limits) *int { return &l.Types }),
		count("arity", "Parameters of a type, and results.", func(l *module.Limits) *int { return &l.Arity }),
		count("imports", "Imports.", func(l *module.Limits) *int { return &l.Imports }),
		count("exports", "Exports.", func(l *module.Limits) *int { return &l.Exports }),
		count("globals", "Globals.", func(l *module.Limits) *int { return &l.Globals }),
		count("names", "Debug names of functions and locals.", func(l *module.Limits) *int { return &l.Names }),
		count("data_segments", "Data segments.", func(l *module.Limits) *int { return &l.DataSegments }),
		count("element_segments", "Element segments.", func(l *module.Limits) *int { return &l.ElementSegments }),
		count("elements", "Entries of all element segments together.", func(l *module.Limits) *int { return &l.Elements }),
		count("tables", "Tables.", func(l *module.Limits) *int { return &l.Tables }),
		count("table_elements", "Elements that all tables have at the start, and to which each may grow.", func(l *module.Limits) *int { return &l.TableElements }),
	)
}

// allowPaths refuses locals: they may read files, so it must be known before them.
func allowPaths(f *field[Runtime]) *field[Runtime] {
	inner := f.attr
	f.attr = func(fr *frame, a *hclsyntax.Attribute, out *Runtime) {
		if usesAny(a.Expr, []string{"local"}) {
			fr.errorf(a.Expr.Range(), "Unsupported local", "allow_paths is needed before locals are evaluated, since they may read files. Write the paths out, or use a variable.")
			return
		}
		inner(fr, a, out)
	}
	return f
}

// filePaths is a list of paths relative to the file.
func filePaths[T any](name, doc string, at func(*T) *[]string) *field[T] {
	return custom(name, "list(path)", doc, func(f *frame, a *hclsyntax.Attribute, out *T) {
		list, ok := read(f, a, stringsKind())
		if !ok {
			return
		}
		abs := make([]string, len(list))
		for i, p := range list {
			abs[i] = f.abs(p)
		}
		*at(out) = abs
	})
}

func serverBody() *body[Server] {
	tls := newBody("tls", "A certificate to serve HTTPS with.",
		filePath("cert", "The certificate chain in PEM, relative to this file.", func(s *Server) *string { return &s.TLSCert }),
		filePath("key", "The private key in PEM, relative to this file.", func(s *Server) *string { return &s.TLSKey }),
	)
	return withHints(newBody("server", "The HTTP server.",
		opt("listen", stringKind(), "127.0.0.1:8420", "The address to listen on, host:port. Without keys it must be a loopback address.", func(s *Server) *string { return &s.Listen }),
		keyField(),
		single("tls", tls, func(s *Server) *Server { return s }),
		opt("max_body", sizeKind(), 10<<20, "The largest request body.", func(s *Server) *int64 { return &s.MaxBody }),
		may("hosts", stringsKind(), "Host names that requests may carry, besides the address and localhost.", func(s *Server) *[]string { return &s.Hosts }),
		may("cors_origins", stringsKind(), "Origins of browsers that may call the server.", func(s *Server) *[]string { return &s.CORSOrigins }),
	), map[string]string{"keys": `Write one block per key: key "NAME" { secret = secret_env("…")  role = "user" }.`, "port": "The port is part of listen: \"127.0.0.1:8420\"."})
}

func filePath[T any](name, doc string, at func(*T) *string) *field[T] {
	f := custom(name, "path", doc, func(f *frame, a *hclsyntax.Attribute, out *T) {
		if p, ok := read(f, a, stringKind()); ok {
			*at(out) = f.abs(p)
		}
	})
	f.required = true
	return f
}

func keyBody() *body[Key] {
	return newBody(`key "NAME"`, "A caller and its secret; NAME is the principal.",
		must("secret", keySecretKind(), "The bearer token. Read it from the environment or a file: secret_env, secret_file.", func(k *Key) *secret.Value { return &k.Secret }),
		opt("role", roleKind(), principal.User, "What it may do: admin sees all and operates the server, user sees what is its own.", func(k *Key) *principal.Role { return &k.Role }),
		may("agents", stringsKind(), "Names and globs of the agents it may use; default: all.", func(k *Key) *[]string { return &k.Agents }),
		may("rate", rateKind(), "How many requests it may make, for example \"5/s\"; default: no limit.", func(k *Key) *tool.Rate { return &k.Rate }),
	)
}

// keySecretKind is a secret of some length.
func keySecretKind() kind[secret.Value] {
	k := secretKind()
	conv := k.conv
	k.conv = func(v cty.Value, e hclsyntax.Expression) (secret.Value, *issue) {
		s, bad := conv(v, e)
		if bad == nil && len(s.Open()) < minSecret {
			bad = wrong("A key needs a secret of at least %d characters. Make one with: openssl rand -hex 32.", minSecret)
		}
		return s, bad
	}
	return k
}

func roleKind() kind[principal.Role] {
	k := enumKind("admin", "user")
	return kind[principal.Role]{
		name: k.name, show: func(r principal.Role) string { return k.show(string(r)) },
		conv: retype[principal.Role](k),
	}
}

func keyField() *field[Server] {
	b := keyBody()
	return many("key", b.describe(), func(f *frame, nb *hclsyntax.Block, s *Server) {
		if !f.labels(nb, `key "NAME"`, 1) {
			return
		}
		k := Key{Name: nb.Labels[0]}
		for _, o := range s.Keys {
			if o.Name == k.Name {
				f.errorf(nb.LabelRanges[0], fmt.Sprintf("Duplicate key %q", k.Name), "A key of this name is already declared in the block.")
			}
		}
		if !validName(k.Name) || k.Name == principal.LocalName {
			f.errorf(nb.LabelRanges[0], fmt.Sprintf("Invalid name %q", k.Name), "The name of a key starts with a letter and has letters, digits, - and _ after it, at most 64 characters in all, and is not %q.", principal.LocalName)
		}
		decode(f, b, nb, &k)
		s.Keys = append(s.Keys, k)
	})
}

// minSecret is the fewest characters a key may have: an empty variable must not open the
// server to everybody.
const minSecret = 16

// checkServer looks at what depends on several attributes.
func (f *frame) checkServer(b *hclsyntax.Block, s *Server) {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		f.errorf(attrRange(b, "listen"), "Invalid listen", `Write host and port, for example "127.0.0.1:8420".`)
		return
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || (ip != nil && ip.IsLoopback())
	if !loopback && len(s.Keys) == 0 {
		f.errorf(attrRange(b, "listen"), "Missing key", `Without a key the server listens on loopback only, since every caller is an admin. Add key "ops" { secret = secret_env("HERMES_OPS_KEY")  role = "admin" } to the server block, one attribute a line, or listen on "127.0.0.1:8420".`)
	}
	f.checkSecrets(b, s.Keys)
	for i, o := range s.CORSOrigins {
		if !validOrigin(o) {
			f.errorf(elementRange(b, "cors_origins", i), "Invalid origin", `%q is not an origin: write scheme, host and, if need be, port, for example "https://app.example.com".`, o)
		}
	}
}

// checkSecrets reports keys that cannot be told apart.
func (f *frame) checkSecrets(b *hclsyntax.Block, keys []Key) {
	owner := map[string]string{}
	for _, k := range keys {
		text := k.Secret.Open()
		if first, ok := owner[text]; ok && text != "" && first != k.Name {
			f.errorf(keySecret(b, k.Name), "Duplicate secret", "The keys %q and %q have the same secret, so a request does not say which one it is. Give each its own; make one with: openssl rand -hex 32.", first, k.Name)
			continue
		}
		owner[text] = k.Name
	}
}

func keySecret(server *hclsyntax.Block, name string) hcl.Range {
	for _, b := range server.Body.Blocks {
		if b.Type == "key" && len(b.Labels) > 0 && b.Labels[0] == name {
			return attrRange(b, "secret")
		}
	}
	return server.DefRange()
}
