package archtest

// ranks is the architecture: a package imports only packages of a strictly lower
// rank. Changing it is a design decision; docs/architecture.md explains it.
var ranks = map[string]int{
	"runtime/fault":     0,
	"runtime/principal": 0,
	"runtime/secret":    0,
	"runtime/late":      0,
	"wasmtools/abi":     0,
	"wasmtools/binary":  0,
	"agents":            0,
	"tools.d":           0,

	"runtime/tool":            1, // principal
	"runtime/redact":          1,
	"runtime/rooted":          1,
	"runtime/kv":              1,
	"runtime/store/lock":      1,
	"runtime/store/search":    1,
	"runtime/store/pack":      1,
	"runtime/store/migration": 1,
	"wasmtools/module":        1,
	"wasmtools/sdk/go":        1,

	"runtime/chat":                    2,
	"runtime/policy":                  2,
	"runtime/result":                  2,
	"runtime/schema":                  2,
	"runtime/toolset":                 2,
	"runtime/check":                   2,
	"runtime/egress":                  2,
	"runtime/artifact":                2,
	"runtime/config/funcs":            2,
	"runtime/telemetry":               2,
	"hostfuncs":                       2,
	"wasmtools/sdk":                   2,
	"wasmtools/rewrite":               2,
	"wasmtools/guests/csv_query":      2,
	"wasmtools/guests/diff":           2,
	"wasmtools/guests/json_query":     2,
	"wasmtools/guests/run_javascript": 2,
	"wasmtools/guests/text_stats":     2,

	"runtime/model":   3,
	"runtime/session": 3,
	"runtime/run":     3,

	"runtime/model/lower": 3,

	"runtime/store":               4, // embeds session.Store
	"runtime/config":              4,
	"runtime/registry":            4,
	"runtime/model/wire":          4,
	"runtime/model/script":        4,
	"runtime/model/modeltest":     4,
	"runtime/session/sessiontest": 4,
	"wasmtools":                   4,
	"hostfuncs/file":              4,
	"hostfuncs/web":               4,
	"hostfuncs/clock":             4,
	"hostfuncs/state":             4,
	"hostfuncs/orchestrate":       4,

	"runtime/model/openai":    5,
	"runtime/model/anthropic": 5,
	"runtime/snapshot":        5,
	"runtime/generation":      5,
	"runtime/dispatch":        5,
	"runtime/events":          5,
	"runtime/store/sqlite":    5,
	"runtime/store/postgres":  5,
	"runtime/store/storetest": 5,
	"hostfuncs/result":        5, // reads rows of store

	"runtime/approval": 5,

	"runtime/agent":     6,
	"runtime/provision": 6,
	"hostfuncs/std":     6,

	"runtime/reload":       7,
	"runtime/server/route": 7,

	"runtime/server":        8,
	"runtime/server/openai": 8,
	"runtime/server/api":    8,

	"runtime": 9,

	"cmd/hermes": 10,
}

// support is test support: it may import what it tests, and production never imports
// it.
var support = map[string]bool{
	"internal/archtest":           true,
	"internal/pgtest":             true,
	"wasmtools/guests/guesttest":  true,
	"wasmtools/module/moduletest": true,
	"wasmtools/sdk/sdktest":       true,
	"runtime/model/modeltest":     true,
	"runtime/session/sessiontest": true,
	"runtime/store/storetest":     true,
}

// places says which package may import a dependency, by the dependency's prefix. Test
// files may import anything.
var places = map[string][]string{
	"github.com/tetratelabs/wazero":            {"wasmtools"},
	"github.com/hashicorp/hcl/v2":              {"runtime/config", "runtime/config/funcs"},
	"github.com/zclconf":                       {"runtime/config", "runtime/config/funcs"},
	"modernc.org/sqlite":                       {"runtime/store/sqlite"},
	"github.com/jackc":                         {"runtime/store/postgres"},
	"github.com/sashabaranov/go-openai":        {"runtime/model/openai"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"runtime/schema"},
	"github.com/spf13/afero":                   {"hostfuncs/file", "runtime/artifact", "runtime/rooted"},
	"github.com/fsnotify/fsnotify":             {"runtime/reload"},
	"github.com/spf13/cobra":                   {"cmd/hermes"},
	"go.opentelemetry.io":                      {"runtime/telemetry"},
	"github.com/prometheus":                    {"runtime/telemetry"},
}

// diagnostics may travel up from the language: hcl itself (not its subpackages) may
// also be imported here.
var diagnostics = []string{"runtime/provision", "runtime/reload", "runtime", "cmd/hermes"}
