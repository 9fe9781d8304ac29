package generation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
)

// many is a project with n tools, ten of them in a file.
func many(n int) map[string]string {
	files := map[string]string{"agents/main.hcl": rich()["agents/main.hcl"], "agents/prompt.md": "x",
		"tools.d/clock.hcl": "tool \"clock\" {\n  handler \"native\" {\n    function = \"time.now\"\n  }\n}\n"}
	for i := 0; i < n; i += 10 {
		var b strings.Builder
		for j := i; j < min(i+10, n); j++ {
			fmt.Fprintf(&b, `
tool "t%d" {
  description = "The tool of number %d."
  param "q" {
    type        = string
    description = "What to ask for."
  }
  handler "native" {
    function = "http.request"
    config   = { url = "https://api.example.com/%d?q=${urlencode(args.q)}" }
  }
}
`, j, j, j)
		}
		files[fmt.Sprintf("tools.d/f%d.hcl", i/10)] = b.String()
	}
	return files
}

// made counts the objects that are not those of another manifest.
func made(was, is *generation.Manifest) int {
	n := 0
	for id, o := range is.Objects {
		if was.Objects[id] != o {
			n++
		}
	}
	return n
}

func TestUnchangedObjectsAreTakenOver(t *testing.T) {
	p := newProject(t, many(200))
	first := p.manifest(nil)
	if n := made(first, p.manifest(first)); n != 0 {
		t.Errorf("%d objects were made for no change", n)
	}
	p.write("tools.d/f3.hcl", strings.Replace(many(200)["tools.d/f3.hcl"], "The tool of number 35.", "The tool of numero 35.", 1))
	second := p.manifest(first)
	if n := made(first, second); n != 2 { // the tool, and the agent that is offered it
		t.Errorf("%d objects were made for one tool that changed", n)
	}
	p.env["API_KEY"] = "unused"
	p.write("tools.d/f4.hcl", "# moved down by a line\n"+many(200)["tools.d/f4.hcl"])
	third := p.manifest(second)
	if n := made(second, third); n != 10 { // they stand elsewhere, which is no change
		t.Errorf("%d objects were made for ten that moved", n)
	}
	if d := generation.Compare(second, third); !d.Empty() {
		t.Errorf("moving is a change: %s", encoded(t, d))
	}
}

func BenchmarkOf(b *testing.B) {
	for _, n := range []int{10, 2000} {
		p := newProject(b, many(n))
		first := p.manifest(nil)
		p.write("tools.d/f0.hcl", strings.Replace(many(n)["tools.d/f0.hcl"], "The tool of number 5.", "The tool of numero 5.", 1))
		second := p.manifest(first)
		reg, views, _ := provision.Describe(p.live, p.check)
		for name, previous := range map[string]*generation.Manifest{"cold": nil, "one changed": first, "none changed": second} {
			b.Run(fmt.Sprintf("%d tools, %s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m, err := generation.Of(p.live, reg, views, generation.Options{Key: key(), Previous: previous})
					if err != nil {
						b.Fatal(err)
					}
					generation.Compare(previous, m)
				}
			})
		}
	}
}
