package api

import (
	"path"
	"path/filepath"
	"testing"
)

// FuzzPlainPath: whatever is accepted as a path of a plan stays inside the project, and
// has one spelling.
func FuzzPlainPath(f *testing.F) {
	for _, p := range []string{"agents/main.hcl", "a", "..", "a/../b", "/a", "a//b", "./a", "a/.", `..\a`, "C:a", "a\x00", "\xff", "…", "..a", "a/...", ""} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if !plainPath(p) {
			return
		}
		if !filepath.IsLocal(p) || path.Clean(p) != p || filepath.Join("/project", p) == "/project" {
			t.Errorf("%q is accepted", p)
		}
	})
}
