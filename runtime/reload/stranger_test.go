package reload

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A plan of files that were handed over shows nothing of the server that its live
// configuration does not show: no value of its environment, of its variables, of its files,
// and no secret by way of a function that would uncover it.
func TestAPlanOfOtherFilesShowsNoSecrets(t *testing.T) {
	const hidden = "pw-4711"
	outside := tempDir(t)
	write(t, filepath.Join(outside, "key"), hidden)
	write(t, filepath.Join(outside, "known.md"), "Known.")
	write(t, filepath.Join(outside, "vars.hcl"), "password = \""+hidden+"\"\n")
	allow := fmt.Sprintf("runtime {\n  allow_paths = [%q]\n}\n", outside)
	declared := "variable \"password\" {\n  type      = string\n  sensitive = true\n}\nvariable \"name\" {\n  type = string\n}\n"
	main := strings.Replace(mainHCL, `"Help."`, fmt.Sprintf(`"${env("SHOWN")} ${file(%q)} ${var.name}"`, filepath.Join(outside, "known.md")), 1) +
		"locals {\n  key = secret_env(\"API_KEY\")\n  file = secret_file(\"" + filepath.Join(outside, "key") + "\")\n}\n"
	p := start(t, files{"agents/main.hcl": main + allow + declared, "agents/key": hidden + "!", "agents/more.hcl": "locals {\n  more = secret_file(\"key\")\n}\n"}, func(o *Options) {
		env := map[string]string{"SHOWN": "Shown.", "API_KEY": hidden, "OTHER": hidden, "HERMES_VAR_other": hidden, "HERMES_VAR_name": "Named."}
		o.Load.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
		o.Load.VarFiles = []string{filepath.Join(outside, "vars.hcl")}
	})
	for name, tt := range map[string]struct {
		text  string // an expression
		vars  string
		valid bool
	}{
		"what is shown":               {`"${env("SHOWN")}${var.name}"`, declared, true},
		"a file that is shown":        {fmt.Sprintf("file(%q)", filepath.Join(outside, "known.md")), declared, true},
		"what is not there":           {`env("NOT_THERE", "none")`, declared, true},
		"another variable":            {`env("OTHER")`, declared, false},
		"a secret variable":           {`env("API_KEY")`, declared, false},
		"a secret uncovered":          {`nonsensitive(secret_env("API_KEY"))`, declared, false},
		"another secret uncovered":    {`nonsensitive(secret_env("OTHER"))`, declared, false},
		"a list uncovered":            {`nonsensitive([secret_env("OTHER")])[0]`, declared, false},
		"a local uncovered":           {`nonsensitive(local.secret)`, declared + "locals {\n  secret = secret_env(\"API_KEY\")\n}\n", false},
		"in a template":               {`templatefile("t", { s = secret_env("API_KEY") })`, declared, false},
		"a secret file":               {fmt.Sprintf("file(%q)", filepath.Join(outside, "key")), declared, false},
		"a secret file as a template": {fmt.Sprintf("templatefile(%q, {})", filepath.Join(outside, "key")), declared, false},
		"a file known by its content": {`file("copy")`, declared, false},
		"a prompt of theirs":          {`file("prompt")`, declared, true},
		"its digest":                  {fmt.Sprintf("filesha256(%q)", filepath.Join(outside, "key")), declared, false},
		"a secret file uncovered":     {fmt.Sprintf("nonsensitive(secret_file(%q))", filepath.Join(outside, "key")), declared, false},
		"a var file":                  {fmt.Sprintf("file(%q)", filepath.Join(outside, "vars.hcl")), declared, false},
		"a variable not sensitive":    {"var.password", strings.Replace(declared, "true", "false", 1), false},
		"one of the environment":      {"var.other", declared + "variable \"other\" {\n}\n", false},
		"a guess":                     {`can(regex("^pw", secret_env("API_KEY"))) ? "yes" : "no"`, declared, false},
		"a guess by try":              {`try(regex("^pw", secret_env("API_KEY")), "no") == "no" ? "no" : "yes"`, declared, false},
		"a wrong guess by try":        {`try(regex("^no", secret_env("API_KEY")), "no")`, declared, false},
		"a guess of a loop":           {`join("", [for s in [secret_env("API_KEY")] : can(regex("^pw", s)) ? "yes" : "no"])`, declared, false},
		"an error that is shown":      {`regex("^no", secret_env("API_KEY"))`, declared, false},
	} {
		t.Run(name, func(t *testing.T) {
			main := strings.Replace(mainHCL, `"Help."`, tt.text, 1) + allow + tt.vars
			plan, err := p.r.Plan(t.Context(), handOver(files{"agents/main.hcl": main, "agents/t": "${nonsensitive(s)}", "agents/copy": hidden, "agents/prompt": "Theirs."}))
			must(t, err)
			diff(t, plan.Valid, tt.valid)
			answer, err := json.Marshal(plan)
			must(t, err)
			if text := string(answer); strings.Contains(text, hidden) {
				t.Errorf("the plan tells a secret: %s", text)
			}
			if t.Failed() {
				t.Logf("%+v", plan.Report)
			}
		})
	}
}

// What the live configuration shows is known also of blocks that a reload took over.
func TestAPlanOfOtherFilesAfterAReload(t *testing.T) {
	main := mainHCL
	shown := strings.Replace(native("a", "X"), `"X"`, `env("SHOWN")`, 1)
	p := start(t, files{"agents/main.hcl": main, "tools.d/a.hcl": shown}, func(o *Options) {
		o.Load.LookupEnv = func(name string) (string, bool) { return "Shown.", name == "SHOWN" }
	})
	for i := range 3 {
		p.write("tools.d/b.hcl", native("b", fmt.Sprint(i)))
		p.reload()
	}
	plan, err := p.r.Plan(t.Context(), handOver(files{"agents/main.hcl": main, "tools.d/a.hcl": "# moved\n" + shown}))
	must(t, err)
	diff(t, []any{plan.Valid, changes(&plan.Diff)}, []any{true, []string{"~agent.assistant", "-tool.b"}})
}
