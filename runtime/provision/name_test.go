package provision_test

import (
	"testing"

	"github.com/hermes-runtime/hermes/runtime/provision"
)

// TestInputName takes the quick way and the long one to the same names.
func TestInputName(t *testing.T) {
	for path, want := range map[string]string{
		"/p/tools.d/a.hcl": "tools.d/a.hcl", "/p/a": "a", "/p/.hidden/a": ".hidden/a", "/p/b/.a": "b/.a", "/p//a": "a", "/p/x/../a": "a", "/p/a/": "a",
		"/p/x/../../q/a": "/p/x/../../q/a", "/pq/a": "/pq/a", "/q/a": "/q/a", "/p": ".", "/p/..a": "..a", "/p/./a": "a",
	} {
		if got := provision.InputName(path, "/p"); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
