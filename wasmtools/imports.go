package wasmtools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// foreignImports names, all at once, what a module imports and the host does not offer,
// and says for each what to do. It needs the import list alone.
func foreignImports(imports []module.Import) error {
	var lines []string
	for _, im := range imports {
		if why := foreign(im); why != "" {
			lines = append(lines, fmt.Sprintf("  %s: %s", im, why))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "imports what hermes does not offer:\n%s\nIt offers %s.",
		strings.Join(lines, "\n"), "wasi_snapshot_preview1, hermes, the capability modules hermes_*, and for Extism plug-ins extism:host/env")
}

// foreign says what is wrong with an import, "" if nothing is.
func foreign(im module.Import) string {
	if im.Kind != "function" {
		return "a " + im.Kind + "; only functions can be imported" + notFunction(im)
	}
	offered := offers(im.Module)
	if offered == nil {
		return toolchain(im)
	}
	at := slices.IndexFunc(offered, func(f offer) bool { return f.name == im.Name })
	switch {
	case at < 0:
		return "no such function in the module" + thereAre(im.Module, offered)
	case offered[at].typ != im.Type:
		return fmt.Sprintf("imported as %s, but it is %s", im.Type, offered[at].typ)
	}
	return ""
}

func notFunction(im module.Import) string {
	switch im.Kind {
	case "memory":
		return ". Link so that the module has a memory of its own: without --import-memory, -sIMPORTED_MEMORY or importMemory"
	case "table":
		return ". Link so that the module has a table of its own: without --import-table"
	}
	return ""
}

// offer is a function that modules may import.
type offer struct {
	name string
	typ  module.FuncType
}

// offers are the functions of an import module; nil if there is no such module.
func offers(name string) []offer {
	var funcs []hostFunc
	switch name {
	case abi.ModuleWASI:
		return wasiFuncs()
	case abi.ModuleCore:
		funcs = coreFuncs()
	case abi.ModuleExtism:
		funcs = extismFuncs()
	case abi.ModuleUser:
		funcs = extismUserFuncs()
	default:
		c, ok := module.CapabilityOf(name)
		if !ok {
			return nil
		}
		funcs = capabilityFuncs(c)
	}
	out := make([]offer, 0, len(funcs))
	for _, f := range funcs {
		out = append(out, offer{f.name, f.typ})
	}
	return out
}

// thereAre names the functions of our own modules; those of WASI are known.
func thereAre(name string, offered []offer) string {
	if name == abi.ModuleWASI {
		return "; it is not part of preview 1"
	}
	names := make([]string, 0, len(offered))
	for _, f := range offered {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return "; there are " + strings.Join(names, ", ")
}

// toolchain recognises whose import it is, and says how to build the module instead.
func toolchain(im module.Import) string {
	own := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(im.Name, p) })
	}
	switch from := im.Module; {
	case strings.HasPrefix(from, "wasi:"), strings.Contains(from, "@"):
		return "an interface of the component model; build a core module for wasip1 (Go: GOOS=wasip1; Rust: --target wasm32-wasip1; C: --target=wasm32-wasi)"
	case from == "wasi_unstable", strings.HasPrefix(from, "wasi_"):
		return "another version of WASI; build with a toolchain for wasi_snapshot_preview1 (wasip1)"
	case from == "gojs", from == "go":
		return "Go for browsers; build with GOOS=wasip1 GOARCH=wasm in place of GOOS=js"
	case from == "wbg", from == "__wbindgen_placeholder__", strings.HasPrefix(from, "__wbindgen"), strings.HasPrefix(im.Name, "__wbg_"), strings.HasPrefix(im.Name, "__wbindgen"):
		return "wasm-bindgen's glue for JavaScript; build with --target wasm32-wasip1 and without wasm-bindgen or wasm-pack"
	case from == "env" && own("extism_"):
		return "from before Extism 1.0; build with a current plug-in kit"
	case from == "env" && own("emscripten_", "_emscripten_", "invoke_", "__syscall_", "_abort_js", "_mmap_js", "_munmap_js"), from == "a":
		return "Emscripten's glue for JavaScript; build with wasi-sdk (clang --target=wasm32-wasi), or with -sSTANDALONE_WASM and without what needs JavaScript"
	case from == "env" && own("abort", "seed", "trace", "console.log"):
		return "AssemblyScript's; build with the configuration of @assemblyscript/wasi-shim, or, for abort, with --use abort="
	case from == "env":
		return "a function that was declared and not found when the module was linked; link the library that defines it, and without --allow-undefined"
	}
	return "no such module; it may be of another host, whose tools cannot run here. Build a command for wasip1, or a reactor with the guest library"
}

// wasiFuncs are the functions of preview 1. All answer with an error number, but for
// proc_exit, which does not answer.
func wasiFuncs() []offer {
	table := wasiTable()
	out := make([]offer, 0, len(table))
	for name, params := range table {
		typ := module.FuncType{Params: strings.NewReplacer("i", "\x7f", "I", "\x7e").Replace(params), Results: "\x7f"}
		if name == "proc_exit" {
			typ.Results = ""
		}
		out = append(out, offer{name, typ})
	}
	return out
}

// wasiTable has the parameters: i for 32 bits, I for 64.
func wasiTable() map[string]string {
	return map[string]string{
		"args_get":                "ii",
		"args_sizes_get":          "ii",
		"clock_res_get":           "ii",
		"clock_time_get":          "iIi",
		"environ_get":             "ii",
		"environ_sizes_get":       "ii",
		"fd_advise":               "iIIi",
		"fd_allocate":             "iII",
		"fd_close":                "i",
		"fd_datasync":             "i",
		"fd_fdstat_get":           "ii",
		"fd_fdstat_set_flags":     "ii",
		"fd_fdstat_set_rights":    "iII",
		"fd_filestat_get":         "ii",
		"fd_filestat_set_size":    "iI",
		"fd_filestat_set_times":   "iIIi",
		"fd_pread":                "iiiIi",
		"fd_prestat_dir_name":     "iii",
		"fd_prestat_get":          "ii",
		"fd_pwrite":               "iiiIi",
		"fd_read":                 "iiii",
		"fd_readdir":              "iiiIi",
		"fd_renumber":             "ii",
		"fd_seek":                 "iIii",
		"fd_sync":                 "i",
		"fd_tell":                 "ii",
		"fd_write":                "iiii",
		"path_create_directory":   "iii",
		"path_filestat_get":       "iiiii",
		"path_filestat_set_times": "iiiiIIi",
		"path_link":               "iiiiiii",
		"path_open":               "iiiiiIIii",
		"path_readlink":           "iiiiii",
		"path_remove_directory":   "iii",
		"path_rename":             "iiiiii",
		"path_symlink":            "iiiii",
		"path_unlink_file":        "iii",
		"poll_oneoff":             "iiii",
		"proc_exit":               "i",
		"proc_raise":              "i",
		"random_get":              "ii",
		"sched_yield":             "",
		"sock_accept":             "iii",
		"sock_recv":               "iiiiii",
		"sock_send":               "iiiii",
		"sock_shutdown":           "ii",
	}
}
