package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/wasmtools/sdk"
	"github.com/hermes-runtime/hermes/wasmtools/sdk/sdktest"
)

const wasmPage = "../../docs/wasm.md"

// TestWasmPageSources holds the programs on the page to those that tools new writes, which
// the scripts build and call.
func TestWasmPageSources(t *testing.T) {
	shown := map[string]string{}
	for _, b := range fences(readPage(t, wasmPage)) {
		shown[b.info] = b.text
	}
	for info, l := range map[string]sdk.Language{"go": sdk.Go, "c": sdk.C, "rust": sdk.Rust, "ts": sdk.AssemblyScript} {
		files, err := sdk.New(l, "word_count")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Name == sdktest.Source(l) && string(f.Content) != shown[info] {
				t.Errorf("the page shows another program in %s than tools new writes:\n%s\nwant:\n%s", l, shown[info], f.Content)
			}
		}
	}
}

// TestWasmPageExamples loads the declarations of the page, each as the only file of a
// project.
func TestWasmPageExamples(t *testing.T) {
	examples := 0
	for _, b := range fences(readPage(t, wasmPage)) {
		if b.info != "hcl complete" {
			continue
		}
		examples++
		t.Run(fmt.Sprint(examples), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "agents")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			files := map[string]string{"main.hcl": b.text}
			for _, m := range regexp.MustCompile(`module += "(\S+)"`).FindAllStringSubmatch(b.text, -1) {
				files[m[1]] = readPage(t, "../../tools.d/text_stats.wasm")
			}
			for name, content := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if code, stdout, stderr := hermes("validate", "--config", dir); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
			if code, _, stderr := hermes("fmt", "--check", "--diff", dir); code != 0 {
				t.Errorf("the example is not in canonical layout\n%s", stderr)
			}
		})
	}
	if examples < 2 {
		t.Errorf("%d examples", examples)
	}
}

// TestWasmPageCommands runs the commands of the page in their order, and compares what they
// print with what the page says.
func TestWasmPageCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("modules are compiled, which takes minutes under the race detector")
	}
	if m := sdktest.Missing(sdk.Go); m != "" {
		t.Skip(m)
	}
	var script strings.Builder
	script.WriteString("set -e\n")
	var wants []*regexp.Regexp
	for _, b := range fences(readPage(t, wasmPage)) {
		switch b.info {
		case "sh":
			fmt.Fprintf(&script, "echo %q\n%s", blockMark, b.text)
			wants = append(wants, nil)
		case "text":
			wants[len(wants)-1] = outputRE(b.text)
		}
	}
	outputs := runTour(t, script.String())
	if len(outputs) != len(wants) || len(wants) < 4 {
		t.Fatalf("%d of %d steps were run", len(outputs), len(wants))
	}
	for i, want := range wants {
		if want != nil && !want.MatchString(outputs[i]) {
			t.Errorf("step %d prints what the page does not say:\n%s\nwant a match of %s", i+1, outputs[i], want)
		}
	}
}
