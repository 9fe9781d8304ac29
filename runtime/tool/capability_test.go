package tool_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestCovers(t *testing.T) {
	tests := []struct {
		live, old string // separated by semicolons
		want      bool
	}{
		{"", "", true},
		{"progress", "", true},
		{"", "progress", false},
		{"progress;env A", "env A", true},
		{"http GET https://a.example", "http POST https://a.example", false},
		{"http GET https://*.example.com", "http GET https://api.example.com", true},
		{"http GET https://*.example.com", "http GET https://example.com", false},
		{"http GET https://*.example.com", "http GET https://notexample.com", false},
		{"http GET https://*.example.com", "http GET http://api.example.com", false},
		{"http GET https://*.example.com", "http GET https://api.example.com:8443", false},
		{"http GET https://*.example.com:8443", "http GET https://api.example.com:8443", true},
		{"http GET https://*.example.com", "http GET https://*.api.example.com", true},
		{"http GET https://api.example.com", "http GET https://*.example.com", false},
		{"http GET https://*", "http GET https://[2001:db8::1]", true},
		{"http GET https://*", "http GET https://a.example:8443", false},
		{"http GET https://*", "http GET https://[2001:db8::1]:8443", false},
		{"http GET https://*", "http private https://a.example", false},
		{"http private https://*.example", "http private https://a.example", true},
		{"http header A https://a.example", "http header B https://a.example", false},
		{"files rw data at /d", "files ro data at /d", true},
		{"files ro data at /d", "files rw data at /d", false},
		{"files rw data at /d", "files rw data/sub at /d", false},
		{"kv rw notes", "kv ro notes", true},
		{"kv rw notes", "files ro notes", false},
		{"tools depth 3", "tools depth 2", true},
		{"tools depth 2", "tools depth 3", false},
		{"tools depth 10", "tools depth 9", true},
		{"tools call a", "tools call b", false},
		{"env (sensitive)", "env (sensitive)", false},
		{"http GET (sensitive)", "http GET (sensitive)", false},
	}
	for _, tt := range tests {
		t.Run(tt.live+" covers "+tt.old, func(t *testing.T) {
			if got := tool.Covers(split(tt.live), split(tt.old)); got != tt.want {
				t.Errorf("Covers(%q, %q) = %v", tt.live, tt.old, got)
			}
		})
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ";")
}

// What covers allows no less, as what sends the requests decides.
func TestCoversAgreesWithWhatIsAllowed(t *testing.T) {
	var patterns []egress.Origin
	for _, text := range []string{"a.x", "b.a.x", "x", "*.x", "*.a.x", "http://a.x", "http://*.x", "a.x:8443", "*.x:8443", "192.0.2.1", "[2001:db8::1]", "[2001:db8::1]:8443"} {
		o, err := egress.ParseOrigin(text)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, o)
	}
	patterns = append(patterns, egress.AnyHost("https"))
	var urls []*url.URL
	for _, scheme := range []string{"http", "https"} {
		for _, host := range []string{"x", "a.x", "b.a.x", "c.x", "ax", "192.0.2.1", "[2001:db8::1]"} {
			for _, port := range []string{"", ":443", ":80", ":8443"} {
				u, err := url.Parse(scheme + "://" + host + port)
				if err != nil {
					t.Fatal(err)
				}
				urls = append(urls, u)
			}
		}
	}
	covered := 0
	for _, live := range patterns {
		for _, old := range patterns {
			if !tool.Covers([]string{fmt.Sprintf("http GET %s", live)}, []string{fmt.Sprintf("http GET %s", old)}) {
				continue
			}
			covered++
			for _, u := range urls {
				if old.Allows(u) && !live.Allows(u) {
					t.Errorf("%s is said to cover %s, but does not allow %s", live, old, u)
				}
			}
		}
	}
	if covered <= len(patterns) {
		t.Errorf("%d pairs are covered; want more than each by itself", covered)
	}
}

func TestUncoveredKeepsTheOrder(t *testing.T) {
	got := tool.Uncovered([]string{"env B"}, []string{"progress", "env B", "env A"})
	if strings.Join(got, ";") != "progress;env A" {
		t.Errorf("Uncovered = %q", got)
	}
}
