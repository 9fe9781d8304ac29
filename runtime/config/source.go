package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
)

// Source gives a load the bytes of files. Paths are absolute, as named (links not
// resolved). A load asks for each path once and remembers the answer as an [Input].
type Source interface {
	// ReadFile reads a file; the error of an absent one is fs.ErrNotExist.
	ReadFile(path string) ([]byte, error)
	// Files lists the *.hcl files below dir that the language reads (language rules for
	// hidden names, editor leftovers, tests and links), sorted.
	Files(dir string) ([]string, error)
	// Resolve follows links, for the check that a path does not leave the project.
	// For an absent file it resolves the deepest directory that exists.
	Resolve(path string) (string, error)
}

// Options say what to load and with what.
type Options struct {
	Paths Paths // from Find; ToolsDirs may be nil: the runtime block or tools.d decide
	// Vars and VarFiles are --var and --var-file.
	Vars      map[string]string
	VarFiles  []string
	LookupEnv func(name string) (string, bool) // nil: os.LookupEnv
	Funcs     []hostfuncs.Func                 // native functions that may be declared
	Cache     *Cache                           // nil: nothing is kept between loads

	// Previous is the live configuration, nil at start-up. Generation is the number the
	// result will have. Changed says whether an input differs from the live one; nil:
	// everything did.
	Previous   *Config
	Generation int64
	Changed    func(path string) bool
	// Stranger says that the files are not the server's own, and that what they come to is
	// shown to whoever sent them. Then what Previous does not show of the environment, the
	// variables and the files of the server stays hidden: functions read it as sensitive or
	// not at all, and none takes a mark off.
	Stranger bool
	// LeftOut says that files which do not load are left out of a start: what names a
	// tool or toolset that nothing declares gets a warning, since it may be in one of
	// them.
	LeftOut bool
}

// Blame is the Extra of every diagnostic of a load and of provisioning: which input
// it stands in, and which other inputs the faulty value depends on (transitively:
// files read by functions, modules, files of locals, variables, named objects).
type Blame struct {
	Input   string
	Depends []string
}

// BlameOf gives the blame of a diagnostic.
func BlameOf(d *hcl.Diagnostic) (Blame, bool) {
	b, ok := d.Extra.(Blame)
	return b, ok
}
