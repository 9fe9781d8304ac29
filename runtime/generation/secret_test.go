package generation_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/generation"
	"github.com/hermes-runtime/hermes/runtime/provision"
)

// places are all attributes, as files in which ‹› is where a value stands.
func places() map[string]map[string]string {
	tool := func(rest string) map[string]string {
		return map[string]string{"tools.d/t.hcl": "tool \"t\" {\n" + rest + "\n}\n"}
	}
	native := func(attr string) map[string]string {
		return tool("description = \"d\"\neffect = \"read\"\n" + attr + "\nhandler \"native\" {\n function = \"time.now\"\n}")
	}
	request := func(attr string) map[string]string {
		return tool("description = \"d\"\nparam \"q\" {\n type = string\n}\nhandler \"native\" {\n function = \"http.request\"\n config = {\n" + attr + "\n}\n}")
	}
	fetch := func(attr string) map[string]string { return request("url = \"https://a.example\"\n" + attr) }
	wasm := func(rest string) map[string]string {
		files := tool("description = \"d\"\nhandler \"wasm\" {\n module = \"m.wasm\"\n" + rest + "\n}")
		files["tools.d/m.wasm"] = "bytes"
		return files
	}
	agents := func(text string) map[string]string { return map[string]string{"agents/x.hcl": text} }
	model := func(attr string) map[string]string {
		return agents("provider \"script\" \"s\" {}\nmodel \"m\" {\n provider = \"script.s\"\n" + attr + "\n}\n")
	}
	agent := func(attr string) map[string]string {
		return agents("provider \"script\" \"s\" {}\nmodel \"m\" {\n provider = \"script.s\"\n}\nagent \"a\" {\n" + attr + "\n}\n")
	}
	return map[string]map[string]string{
		"tool.description":   tool("description = ‹›\nhandler \"native\" {\n function = \"time.now\"\n}"),
		"tool.toolset":       native("toolset = ‹›"),
		"tool.emoji":         native("emoji = ‹›"),
		"tool.effect":        native("effect = ‹›"),
		"tool.idempotent":    native("idempotent = ‹›"),
		"tool.requires_env":  native("requires_env = ‹›"),
		"tool.limits":        native("limits {\n timeout = ‹›\n}"),
		"tool.rate":          native("limits {\n rate = ‹›\n}"),
		"tool.result":        native("result {\n max_chars = ‹›\n}"),
		"check.env":          native("check \"env\" {\n vars = ‹›\n}"),
		"check.file":         native("check \"file\" {\n path = ‹›\n}"),
		"check.command":      native("check \"command\" {\n run = ‹›\n}"),
		"check.http":         native("check \"http\" {\n url = ‹›\n}"),
		"check.tcp":          native("check \"tcp\" {\n address = ‹›\n}"),
		"param.type":         request("url = \"https://a.example\"\n}\n}\nparam \"p\" {\n type = string\n description = ‹›\n}\nlimits {"),
		"native.function":    tool("description = \"d\"\nhandler \"native\" {\n function = ‹›\n}"),
		"native.timezone":    tool("description = \"d\"\nhandler \"native\" {\n function = \"time.now\"\n config = {\n timezone = ‹›\n}\n}"),
		"native.path":        tool("handler \"native\" {\n function = \"file.read\"\n config = {\n root = ‹›\n}\n}"),
		"native.size":        tool("handler \"native\" {\n function = \"file.read\"\n config = {\n root = \".\"\n max_size = ‹›\n}\n}"),
		"schema":             tool("description = \"d\"\nschema = ‹›\nhandler \"native\" {\n function = \"http.request\"\n config = {\n url = \"https://a.example\"\n}\n}"),
		"schema.default":     tool("description = \"d\"\nschema = { type = \"object\", properties = { q = { default = ‹› } } }\nhandler \"native\" {\n function = \"http.request\"\n config = {\n url = \"https://a.example\"\n}\n}"),
		"config":             tool("description = \"d\"\nhandler \"native\" {\n function = \"http.request\"\n config = ‹›\n}"),
		"config.url":         request("url = ‹›"),
		"config.url.host":    request("url = \"https://${‹›}.example/x\""),
		"config.url.path":    request("url = \"https://a.example/${‹›}?q=${args.q}\""),
		"config.headers":     fetch("headers = ‹›"),
		"config.header":      fetch("headers = { Authorization = ‹› }"),
		"config.header.key":  fetch("headers = { (‹›) = \"x\" }"),
		"config.header.late": fetch("headers = { Authorization = \"Bearer ${‹›} ${args.q}\" }"),
		"config.query":       fetch("query = { q = ‹› }"),
		"config.query.list":  fetch("query = { q = [args.q, ‹›] }"),
		"config.body":        fetch("method = \"POST\"\nbody = ‹›"),
		"config.json":        fetch("method = \"POST\"\njson = ‹›"),
		"config.json.deep":   fetch("method = \"POST\"\njson = { a = [1, { b = ‹›, c = args.q }] }"),
		"config.json.key":    fetch("method = \"POST\"\njson = { a = { (‹›) = 1 } }"),
		"config.json.late":   fetch("method = \"POST\"\njson = { a = args.q == ‹› ? 1 : 2 }"),
		"config.hosts":       fetch("hosts = ‹›"),
		"config.host":        fetch("hosts = [‹›]"),
		"config.method":      fetch("method = ‹›"),
		"config.timeout":     fetch("timeout = ‹›"),
		"wasm.module":        tool("description = \"d\"\nhandler \"wasm\" {\n module = ‹›\n}"),
		"wasm.sha256":        wasm("sha256 = ‹›"),
		"wasm.tool":          wasm("tool = ‹›"),
		"wasm.isolation":     wasm("isolation = ‹›"),
		"wasm.optional":      wasm("optional = ‹›"),
		"wasm.memory":        wasm("limits {\n memory = ‹›\n}"),
		"grant.http.hosts":   wasm("grant \"http\" {\n hosts = ‹›\n}"),
		"grant.http.host":    wasm("grant \"http\" {\n hosts = [\"https://${‹›}.example\"]\n}"),
		"grant.http.methods": wasm("grant \"http\" {\n hosts = [\"a.example\"]\n methods = [‹›]\n}"),
		"grant.http.headers": wasm("grant \"http\" {\n hosts = [\"a.example\"]\n headers = ‹›\n}"),
		"grant.http.header":  wasm("grant \"http\" {\n hosts = [\"a.example\"]\n headers = { X = ‹› }\n}"),
		"grant.http.key":     wasm("grant \"http\" {\n hosts = [\"a.example\"]\n headers = { (‹›) = \"x\" }\n}"),
		"grant.files.path":   wasm("grant \"files\" {\n path = ‹›\n mount = \"/d\"\n}"),
		"grant.files.mount":  wasm("grant \"files\" {\n path = \".\"\n mount = ‹›\n}"),
		"grant.env":          wasm("grant \"env\" {\n values = ‹›\n}"),
		"grant.env.value":    wasm("grant \"env\" {\n values = { A = ‹›, B = \"plain\" }\n}"),
		"grant.env.key":      wasm("grant \"env\" {\n values = { (‹›) = \"x\" }\n}"),
		"grant.env.merge":    wasm("grant \"env\" {\n values = merge({ A = \"1\" }, ‹›)\n}"),
		"grant.kv":           wasm("grant \"kv\" {\n namespace = ‹›\n}"),
		"grant.tools":        wasm("grant \"tools\" {\n allow = [‹›]\n}"),
		"toolset":            map[string]string{"tools.d/s.hcl": "toolset \"s\" {\n description = ‹›\n}\n"},
		"toolset.tools":      map[string]string{"tools.d/s.hcl": "toolset \"s\" {\n tools = [‹›]\n}\n"},
		"toolset.aliases":    map[string]string{"tools.d/s.hcl": "toolset \"s\" {\n aliases = ‹›\n}\n"},
		"provider.base_url":  agents("provider \"openai\" \"p\" {\n base_url = \"https://${‹›}.example\"\n}\n"),
		"provider.api_key":   agents("provider \"openai\" \"p\" {\n api_key = ‹›\n}\n"),
		"provider.headers":   agents("provider \"openai\" \"p\" {\n headers = ‹›\n}\n"),
		"provider.header":    agents("provider \"openai\" \"p\" {\n headers = { A = ‹› }\n}\n"),
		"provider.key":       agents("provider \"openai\" \"p\" {\n headers = { (‹›) = \"x\" }\n}\n"),
		"model.name":         model("name = ‹›"),
		"model.provider":     agents("provider \"script\" \"s\" {}\nmodel \"m\" {\n provider = ‹›\n}\n"),
		"model.reasoning":    model("reasoning = ‹›"),
		"model.temperature":  model("temperature = ‹›"),
		"model.extra":        model("extra = ‹›"),
		"model.extra.value":  model("extra = { a = [‹›] }"),
		"model.match":        model("rule {\n match = ‹›\n reply = \"x\"\n}"),
		"model.reply":        model("rule {\n match = \".*\"\n reply = ‹›\n}"),
		"model.reply.late":   model("rule {\n match = \".*\"\n reply = \"${‹›} ${input}\"\n}"),
		"model.args":         model("rule {\n match = \".*\"\n call \"t\" {\n  args = { a = ‹›, b = input }\n }\n}"),
		"agent.description":  agent("model = \"m\"\ninstructions = \"i\"\ndescription = ‹›"),
		"agent.instructions": agent("model = \"m\"\ninstructions = ‹›"),
		"agent.model":        agent("model = ‹›\ninstructions = \"i\""),
		"agent.toolsets":     agent("model = \"m\"\ninstructions = \"i\"\ntoolsets = [‹›]"),
		"agent.tools":        agent("model = \"m\"\ninstructions = \"i\"\ntools = ‹›"),
		"agent.budget":       agent("model = \"m\"\ninstructions = \"i\"\nbudget {\n iterations = ‹›\n}"),
		"server.listen":      agents("server {\n listen = ‹›\n}\n"),
		"server.hosts":       agents("server {\n hosts = [‹›]\n}\n"),
		"server.cors":        agents("server {\n cors_origins = ‹›\n}\n"),
		"server.tls":         agents("server {\n tls {\n cert = ‹›\n key = \"k.pem\"\n }\n}\n"),
		"key.secret":         agents("server {\n key \"k\" {\n secret = ‹›\n }\n}\n"),
		"key.agents":         agents("server {\n key \"k\" {\n secret = \"a secret of some length\"\n agents = [‹›]\n }\n}\n"),
		"key.role":           agents("server {\n key \"k\" {\n secret = \"a secret of some length\"\n role = ‹›\n }\n}\n"),
		"runtime.paths":      agents("runtime {\n allow_paths = [‹›]\n}\n"),
		"runtime.tools_env":  agents("runtime {\n tools_env = ‹›\n}\n"),
		"runtime.drain":      agents("runtime {\n drain_timeout = ‹›\n}\n"),
	}
}

// forms are expressions that carry the secret.
func forms() map[string]string {
	return map[string]string{
		"environment":  `secret_env("CANARY")`,
		"default":      `secret_env("NOT_SET", "` + canary + `")`,
		"file":         `secret_file("canary.txt")`,
		"literal":      `sensitive("` + canary + `")`,
		"local":        `local.canary`,
		"variable":     `var.canary`,
		"text":         `"x${local.canary}y"`,
		"changed":      `replace(upper(lower(local.canary)), "-", "_")`,
		"object":       `{ A = local.canary }`,
		"object key":   `{ (local.canary) = "x" }`,
		"list":         `[local.canary]`,
		"deep":         `{ A = [{ B = local.canary }], C = "c" }`,
		"sensitive":    `sensitive({ ` + canary + ` = "x" })`,
		"decoded":      `jsondecode(local.json)`,
		"decoded part": `jsondecode(local.json)["list"]`,
		"encoded":      `jsonencode({ a = local.canary })`,
		"template":     `templatefile("t.tpl", { x = local.canary })`,
		"tried":        `try(local.none.x, local.canary)`,
		"chosen":       `true ? local.canary : "x"`,
		"loop":         `[for x in [local.canary] : x]`,
		"loop keys":    `{ for x in [local.canary] : x => "v" }`,
		"merged":       `merge({ B = "b" }, jsondecode(local.json))`,
		"keys":         `keys(jsondecode(local.json))`,
		"late":         `"${local.canary}${args.q}"`,
		"late literal": `"${sensitive("` + canary + `")}${args.q}"`,
		"late choice":  `args.q == "" ? local.canary : "x"`,
		"late table":   `{ A = args.q, B = local.canary }`,
		"late secret":  `args.q == "" ? sensitive("` + canary + `") : args.q`,
	}
}

const canary = "canary-4f1c9a7e-canary"

// exposes says whether a text gives the secret away: written in some case, or as a digest
// that a guess can be held against.
func exposes(text []byte) bool {
	sum := sha256.Sum256([]byte(canary))
	folded := bytes.ReplaceAll(bytes.ToLower(text), []byte("_"), []byte("-"))
	return bytes.Contains(folded, []byte("4f1c9a7e")) || bytes.Contains(folded, []byte(hex.EncodeToString(sum[:8])))
}

func TestNoSecretIsInAManifest(t *testing.T) {
	loaded := 0
	for place, files := range places() {
		p := canaries(t)
		for form, expr := range forms() {
			if holds(p, place, form, files, expr) {
				loaded++
			}
		}
	}
	t.Logf("%d files load", loaded)
	if loaded < 150 {
		t.Errorf("only %d of the files load: the test proves little", loaded)
	}
}

// canaries is a project with the secret wherever an expression can take it from.
func canaries(t *testing.T) *project {
	p := newProject(t, map[string]string{
		"agents/z.hcl":      "variable \"canary\" {\n type = string\n sensitive = true\n default = \"" + canary + "\"\n}\n" + locals,
		"tools.d/z.hcl":     "locals {}\n",
		"agents/canary.txt": canary, "tools.d/canary.txt": canary,
		"agents/t.tpl": "<${x}>", "tools.d/t.tpl": "<${x}>",
	})
	p.env["CANARY"] = canary
	p.env["CANARY_JSON"] = fmt.Sprintf(`{%q: "x", "B": %q, "list": [%q]}`, canary, canary, canary)
	return p
}

// holds says whether the file loads; if so nothing of the secret may show.
func holds(p *project, place, form string, files map[string]string, expr string) bool {
	t := p.t
	for name, text := range files {
		p.write(name, strings.ReplaceAll(text, "‹›", expr))
	}
	cfg, diags := p.load()
	if diags.HasErrors() {
		var b bytes.Buffer
		for _, d := range diags {
			fmt.Fprintln(&b, d.Summary, d.Detail)
		}
		if exposes(b.Bytes()) {
			t.Errorf("%s, %s: the diagnostics show the secret: %s", place, form, b.String())
		}
		return false
	}
	reg, views, diags := provision.Describe(cfg, p.check)
	if diags.HasErrors() {
		return false
	}
	m, err := generation.Of(cfg, reg, views, generation.Options{Key: key()})
	if err != nil {
		t.Fatal(err)
	}
	for what, v := range map[string]any{"manifest": m.Objects, "diff": generation.Compare(nil, m), "other diff": generation.Compare(m, nil)} {
		if raw := encoded(t, v); exposes([]byte(raw)) {
			t.Errorf("%s, %s: the %s shows the secret: %s", place, form, what, lineWith(raw))
		}
	}
	return true
}

const locals = `
locals {
  canary = secret_env("CANARY")
  json   = secret_env("CANARY_JSON")
  none   = {}
}
`

func lineWith(raw string) string {
	for line := range strings.SplitSeq(raw, "\n") {
		if exposes([]byte(line)) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
