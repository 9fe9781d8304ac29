package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/reload"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

// Bounds of what a plan is given: bytes of the body, files, bytes of a path, and paths
// that one message names.
const (
	maxPlanBody = 128 << 20
	maxPlanned  = 20_000
	maxPath     = 1024
	maxNamed    = 5
)

func (h *handler) planRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodPost, Pattern: "/api/plan", Access: route.Admin, Handle: h.plan, MaxBody: maxPlanBody,
		Doc: route.Doc{
			Summary: "Says what the files on the server's disk, or the given ones instead of them, would change; changes nothing. " +
				"A file whose content the server has needs only its hash; the answer 400 lists in `detail.missing` those that it lacks.",
			Body: PlanBody{}, Answer: reload.Plan{},
		},
	}}
}

// PlanBody is the body of POST /api/plan.
type PlanBody struct {
	// Inputs are the files to plan with instead of those of the project; left out: what is
	// on the server's disk.
	Inputs []PlannedFile `json:"inputs,omitempty"`
}

// PlannedFile is one file of a plan.
type PlannedFile struct {
	// Path is relative to the project, with slashes.
	Path string `json:"path"`
	// SHA256 is the digest of the content, in hex.
	SHA256 string `json:"sha256"`
	// Content, in base64, is left out (null) where the server has it.
	Content []byte `json:"content,omitempty"`
}

// Missing is the detail of the error when the server lacks contents.
type Missing struct {
	Missing []string `json:"missing"` // paths, as they were given
}

func (h *handler) plan(w http.ResponseWriter, r *http.Request) error {
	var body PlanBody
	if err := route.DecodeOptional(w, r, &body); err != nil {
		return err
	}
	files, err := h.planned(body.Inputs)
	if err != nil {
		return err
	}
	plan, err := h.Reloader.Plan(r.Context(), files)
	if err != nil {
		return err
	}
	plan.Diff.Changes, plan.Diff.Inputs = list(plan.Diff.Changes), list(plan.Diff.Inputs)
	return route.WriteJSON(w, http.StatusOK, plan)
}

// planned gives the content of each file by its path; nil if no file is given.
func (h *handler) planned(inputs []PlannedFile) (map[string][]byte, error) {
	if inputs == nil {
		return nil, nil
	}
	if len(inputs) > maxPlanned {
		return nil, fault.New(fault.TooLarge, "inputs: %d files are over the limit of %d", len(inputs), maxPlanned)
	}
	held := h.Reloader.Bodies()
	files, missing := make(map[string][]byte, len(inputs)), []string{}
	for i, in := range inputs {
		if err := in.check(fmt.Sprintf("inputs[%d]", i)); err != nil {
			return nil, err
		}
		if _, twice := files[in.Path]; twice {
			return nil, route.Invalid(fmt.Sprintf("inputs[%d].path", i), "%q is given twice", in.Path)
		}
		content, ok := in.Content, in.Content != nil || in.SHA256 == digestOf(nil)
		if !ok {
			content, ok = held[in.SHA256]
		}
		if !ok {
			missing = append(missing, in.Path)
		}
		files[in.Path] = content
	}
	if err := nested(files); err != nil {
		return nil, err
	}
	return files, lacking(missing)
}

// lacking is the error that lists what the server has no content of.
func lacking(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	named := strings.Join(missing[:min(len(missing), maxNamed)], ", ")
	if len(missing) > maxNamed {
		named += fmt.Sprintf(" and %d more", len(missing)-maxNamed)
	}
	e := fault.New(fault.Invalid, "the server does not have the content of %s: send it", named)
	e.Detail = Missing{missing}
	return e
}

var digests = regexp.MustCompile(`^[0-9a-f]{64}$`)

// check refuses what is no file of a project, or not what it is said to be.
func (f PlannedFile) check(at string) error {
	switch {
	case !plainPath(f.Path):
		return route.Invalid(at+".path", "%q is no path of a file in the project: write it relative to the project, with slashes, and without . and .. elements", fault.Cut(f.Path, 200))
	case !digests.MatchString(f.SHA256):
		return route.Invalid(at+".sha256", "must be 64 hex digits in lower case")
	case f.Content != nil && digestOf(f.Content) != f.SHA256:
		return route.Invalid(at+".content", "the content of %q does not have this sha256: was the file written meanwhile?", f.Path)
	}
	return nil
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// plainPath says that p names a file inside the project, in its one spelling.
func plainPath(p string) bool {
	return len(p) <= maxPath && utf8.ValidString(p) && fs.ValidPath(p) && p != "." &&
		!strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == utf8.RuneError })
}

// nested refuses files that would have to be directories too.
func nested(files map[string][]byte) error {
	for p := range files {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, ok := files[dir]; ok {
				return route.Invalid("inputs", "%q cannot be a file and the directory of %q", dir, p)
			}
		}
	}
	return nil
}
