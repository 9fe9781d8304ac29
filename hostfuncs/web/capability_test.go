package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/web"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// guarded is a late text with a known beginning, made from a secret.
type guarded string

func (g guarded) Eval(*late.Scope) (any, error) { return string(g), nil }
func (g guarded) Pos() string                   { return "x.hcl:1" }
func (g guarded) Prefix() (string, bool)        { return string(g), false }
func (g guarded) Sensitive() bool               { return true }

func TestCapabilities(t *testing.T) {
	fn := web.Funcs(nil)[0]
	tests := []struct {
		name   string
		config hostfuncs.Values
		want   []string
	}{
		{"a fixed host", hostfuncs.Values{"url": "https://API.example.com:443/x"}, []string{"http GET https://api.example.com"}},
		{"a method, which a redirect may turn into a GET", hostfuncs.Values{"url": "https://a.example", "method": "post"}, []string{"http GET https://a.example", "http POST https://a.example"}},
		{"hosts win over the url's", hostfuncs.Values{"url": "https://a.example", "hosts": []string{"https://*.b.example", "https://a.example"}}, []string{"http GET https://*.b.example", "http GET https://a.example"}},
		{"private addresses", hostfuncs.Values{"url": "http://10.0.0.1:8080", "allow_private": true}, []string{"http GET http://10.0.0.1:8080", "http private http://10.0.0.1:8080"}},
		{"credentials, but not other headers", hostfuncs.Values{"url": "https://a.example", "headers": map[string]any{"Authorization": secret.New("s3cret"), "X-Key": guarded("s3cret"), "Accept": "x"}},
			[]string{"http GET https://a.example", "http header Authorization https://a.example", "http header X-Key https://a.example"}},
		{"a secret url", hostfuncs.Values{"url": secret.New("https://s3cret.example/x")}, []string{"http GET (sensitive)"}},
		{"a late url made from a secret", hostfuncs.Values{"url": guarded("https://s3cret.example/")}, []string{"http GET (sensitive)"}},
		{"a secret url with hosts", hostfuncs.Values{"url": secret.New("https://s3cret.example/x"), "hosts": []string{"*"}}, []string{"http GET https://*"}},
		{"one that cannot be bound", hostfuncs.Values{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.Sorted(slices.Values(fn.Capabilities(tt.config)))
			if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsDoNotShowASecretHost(t *testing.T) {
	fn := web.Funcs(nil)[0]
	for _, url := range []any{secret.New("https://s3cret.example/x"), guarded("https://s3cret.example/")} {
		_, err := fn.New(hostfuncs.Binding{Config: hostfuncs.Values{"url": url, "hosts": []string{"https://other.example"}}})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error = %v; want one without the host", err)
		}
	}
}
