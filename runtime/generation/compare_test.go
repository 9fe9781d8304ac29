package generation_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/generation"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden holds a value against testdata/name.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, diff)
	}
}

// next is what rich becomes: something of every action and every kind.
func next() map[string]string {
	files := rich()
	main := strings.NewReplacer(
		`max_body = "1MiB"`, `max_body = "2MiB"`,
		`role   = "admin"`, `role   = "user"`,
		"max_runs = 8", "max_runs = 8\n  drain_timeout = \"30s\"",
		`{ X-Team = "blue" }`, `{ X-Team = "green", X-Key = secret_env("TEAM_KEY", "k") }`,
		`"It is ${result.time}."`, `"It is ${result.time}, ${result.weekday}."`,
		"iterations = 5", "iterations = 6",
	).Replace(files["agents/main.hcl"])
	files["agents/main.hcl"] = main
	files["agents/prompt.md"] = "Be brief, and kind.\n"
	files["tools.d/tools.hcl"] = strings.NewReplacer(
		`"The time, for ${agent.name}."`, `"The time for ${agent.name}."`,
		`"Which one"`, `"Which one, as listed"`, "max_length  = 20", "default = \"first\"",
		`timeout = "5s"`, `timeout = "60s"`,
		`https://api.example.com/items`, `https://api.example.org/things`,
		`toolset "web"`, `toolset "net"`,
	).Replace(files["tools.d/tools.hcl"])
	files["tools.d/guest.hcl"] = guest("csv", `
    grant "http" {
      hosts   = ["https://*.example.com"]
      methods = ["GET", "POST"]
      headers = { Authorization = secret_env("API_KEY", "k") }
    }
    grant "files" {
      path  = "../data"
      mount = "/data"
      mode  = "rw"
    }
    grant "env" {
      values = { REGION = "eu", TOKEN = secret_env("API_KEY", "k") }
    }
    grant "kv" {
      namespace = "notes"
    }
    grant "tools" {
      allow     = ["clock"]
      max_depth = 2
    }
    grant "progress" {}
`)
	files["tools.d/csv.wasm"] = "bytes of a module"
	return files
}

func guest(name, grants string) string {
	return fmt.Sprintf("tool %q {\n  description = \"Of a module.\"\n  handler \"wasm\" {\n    module = \"%s.wasm\"\n%s\n  }\n}\n", name, name, grants)
}

func TestGolden(t *testing.T) {
	p := newProject(t, rich())
	before := p.manifest(nil)
	for name, text := range next() {
		p.write(name, text)
	}
	after := p.manifest(before)
	d := generation.Compare(before, after)
	d.Inputs = generation.CompareInputs(map[string]string{"a": "1", "b": "1", "c": "1"}, map[string]string{"a": "1", "b": "2", "d": "1"})
	golden(t, "diff.json", d)
	golden(t, "tool.json", after.Objects["tool.csv"])
	if got, want := d.Summary().String(), "2 added, 8 changed, 1 removed"; got != want {
		t.Errorf("summary = %q, want %q", got, want)
	}
	if back := generation.Compare(after, before); back.Summary().Removed != 2 || back.Summary().Added != 1 || len(back.Changes) != len(d.Changes) {
		t.Errorf("the way back is %s", back.Summary())
	}
}

func TestWhatIsNoChange(t *testing.T) {
	start := func() map[string]string {
		files := rich()
		files["tools.d/late.hcl"] = "locals {\n  host = \"https://a.example\"\n}\n"
		files["tools.d/late2.hcl"] = "tool \"late\" {\n  description = \"d\"\n  handler \"native\" {\n    function = \"http.request\"\n    config = {\n      url = \"${local.host}/${call.id}\"\n    }\n  }\n}\n"
		return files
	}
	for _, tt := range []struct {
		name  string
		alter func(files map[string]string)
	}{
		{"a local in another file", func(f map[string]string) {
			f["tools.d/other.hcl"], f["tools.d/late.hcl"] = f["tools.d/late.hcl"], ""
		}},
		{"nothing", func(map[string]string) {}},
		{"a comment and space before a block", func(f map[string]string) {
			f["agents/main.hcl"] = "# a comment\n\n\n" + f["agents/main.hcl"]
			f["tools.d/tools.hcl"] = "\n\n" + f["tools.d/tools.hcl"]
		}},
		{"a default that is written", func(f map[string]string) {
			f["tools.d/tools.hcl"] = strings.Replace(f["tools.d/tools.hcl"], `rate    = "10/s"`, "rate    = \"10/s\"\n    concurrency = 8", 1)
		}},
		{"another spelling of a value", func(f map[string]string) {
			f["agents/main.hcl"] = strings.Replace(f["agents/main.hcl"], `"1MiB"`, `"1024KiB"`, 1)
		}},
		{"a block in another file", func(f map[string]string) {
			at := strings.Index(f["tools.d/tools.hcl"], "toolset \"web\"")
			f["tools.d/more.hcl"] = f["tools.d/tools.hcl"][at:]
			f["tools.d/tools.hcl"] = f["tools.d/tools.hcl"][:at]
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, files := newProject(t, start()), start()
			before := p.manifest(nil)
			tt.alter(files)
			for name, text := range files {
				p.write(name, text)
			}
			if d := generation.Compare(before, p.manifest(before)); !d.Empty() {
				t.Errorf("diff = %s", encoded(t, d))
			}
		})
	}
}

func TestWhatIsAChange(t *testing.T) {
	for _, tt := range []struct {
		name  string
		alter func(p *project)
		want  string // objects, attributes
	}{
		{"a secret of a header", func(p *project) { p.env["API_KEY"] = "rotated" }, "tool.fetch handler.config.headers.Authorization"},
		{"the secret of a key", func(p *project) { p.env["OPS_KEY"] = "another-secret-of-some-length" }, "key.ops secret"},
		{"the key of a provider", func(p *project) { p.env["MODEL_KEY"] = "rotated" }, "provider.openai.remote api_key"},
		{"the end of a long text", func(p *project) {
			p.write("agents/prompt.md", strings.Repeat("x", 4000)+"b")
		}, "agent.main instructions"},
		{"a local that an expression uses", func(p *project) {
			p.write("tools.d/late.hcl", "locals {\n  item = \"b\"\n}\n")
		}, "tool.late handler.config.url"},
		{"the content of a module", func(p *project) { p.write("tools.d/csv.wasm", "other") }, "tool.csv handler.module.sha256"},
		{"a removed attribute", func(p *project) {
			p.write("tools.d/guest.hcl", guest("csv", ""))
		}, "tool.csv handler.grant.progress"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := rich()
			files["agents/prompt.md"] = strings.Repeat("x", 4000) + "a"
			files["tools.d/guest.hcl"], files["tools.d/csv.wasm"] = guest("csv", `grant "progress" {}`), "bytes"
			files["tools.d/late.hcl"] = "locals {\n  item = \"a\"\n}\n"
			files["tools.d/late2.hcl"] = "tool \"late\" {\n  description = \"d\"\n  handler \"native\" {\n    function = \"http.request\"\n    config = {\n      url = \"https://a.example/${local.item}/${call.id}\"\n    }\n  }\n}\n"
			p := newProject(t, files)
			before := p.manifest(nil)
			tt.alter(p)
			var got []string
			for _, c := range generation.Compare(before, p.manifest(before)).Changes {
				got = append(got, c.Object)
				for _, a := range c.Attrs {
					got = append(got, a.Name)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("changes = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDigestsDoNotDependOnThePlace(t *testing.T) {
	one, other := newProject(t, next()).manifest(nil), newProject(t, next()).manifest(nil)
	if diff := cmp.Diff(one, other, ignored()); diff != "" {
		t.Errorf("(-one +other):\n%s", diff)
	}
}

func TestDigestsDependOnTheKey(t *testing.T) {
	p := newProject(t, next())
	one := p.manifest(nil)
	other := p.describe([]byte("another key, of more bytes"), nil)
	for id, o := range one.Objects {
		if o.Digest == other.Objects[id].Digest {
			t.Errorf("%s has one digest under two keys", id)
		}
	}
	if _, err := generation.Of(nil, nil, nil, generation.Options{}); err == nil {
		t.Error("a manifest was made without a key")
	}
}

func TestNarrowingGainsNothing(t *testing.T) {
	files := rich()
	files["tools.d/csv.wasm"] = "bytes"
	files["tools.d/guest.hcl"] = guest("csv", "grant \"http\" {\n hosts = [\"*.example.com\"]\n}\ngrant \"kv\" {\n namespace = \"notes\"\n mode = \"rw\"\n}")
	p := newProject(t, files)
	before := p.manifest(nil)
	p.write("tools.d/guest.hcl", guest("csv", "grant \"http\" {\n hosts = [\"api.example.com\"]\n}\ngrant \"kv\" {\n namespace = \"notes\"\n}"))
	after := p.manifest(before)
	lost := []string{"http GET https://*.example.com", "kv rw notes"}
	if c := generation.Compare(before, after).Changes[0]; len(c.Gained) > 0 || !slices.Equal(c.Lost, lost) {
		t.Errorf("narrowed: gained %q, lost %q; want %q lost", c.Gained, c.Lost, lost)
	}
	if c := generation.Compare(after, before).Changes[0]; len(c.Lost) > 0 || !slices.Equal(c.Gained, lost) {
		t.Errorf("widened: gained %q, lost %q; want %q gained", c.Gained, c.Lost, lost)
	}
}
