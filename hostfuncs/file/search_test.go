package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// lines renders matches as path:line:text, with the lines around them.
func lines(out map[string]any) (got []string) {
	for _, m := range out["matches"].([]any) {
		m := m.(map[string]any)
		s := m["path"].(string)
		if m["line"] != nil {
			s = fmt.Sprintf("%s:%v:%v", s, m["line"], m["text"])
		}
		for _, side := range []string{"before", "after"} {
			if m[side] != nil {
				s += fmt.Sprintf(" %s%v", side, m[side])
			}
		}
		got = append(got, s)
	}
	return got
}

func TestSearch(t *testing.T) {
	b := newBench(t)
	b.put("a.go", "package a\n\nfunc Alpha() {}\nfunc beta() {}\nend")
	b.put("sub/b.go", "func Gamma() {}\r\nfunc x\r\n")
	b.put("sub/b.txt", "func in text\n")
	b.put("sub/deep/c.md", "nothing\n")
	for args, want := range map[string][]string{
		`{"pattern":"^func [A-Z]"}`:                               {"a.go:3:func Alpha() {}", "sub/b.go:1:func Gamma() {}"},
		`{"pattern":"(?i)FUNC","files":"*.go"}`:                   {"a.go:3:func Alpha() {}", "a.go:4:func beta() {}", "sub/b.go:1:func Gamma() {}", "sub/b.go:2:func x"},
		`{"pattern":"func","path":"sub","files":"sub/*.txt"}`:     {"sub/b.txt:1:func in text"},
		`{"pattern":"end$","path":"a.go"}`:                        {"a.go:5:end"},
		`{"pattern":"func","limit":1,"offset":2}`:                 {"sub/b.go:1:func Gamma() {}"},
		`{"pattern":"x$","context":1}`:                            {"sub/b.go:2:func x before[func Gamma() {}]"},
		`{"pattern":"func","path":"a.go","context":1}`:            {"a.go:3:func Alpha() {} before[] after[func beta() {}]", "a.go:4:func beta() {} before[func Alpha() {}] after[end]"},
		`{"pattern":"no such thing"}`:                             nil,
		`{"pattern":"*.go","target":"names"}`:                     {"a.go", "sub/b.go"},
		`{"pattern":"sub/**/*.md","target":"names"}`:              {"sub/deep/c.md"},
		`{"pattern":"**/b.*","target":"names"}`:                   {"sub/b.go", "sub/b.txt"},
		`{"pattern":"d??p","target":"names"}`:                     {"sub/deep/"},
		`{"pattern":"[!a].[gt]*","target":"names"}`:               {"sub/b.go", "sub/b.txt"},
		`{"pattern":"*","target":"names","path":"sub","limit":2}`: {"sub/b.go", "sub/b.txt"},
	} {
		if diff := cmp.Diff(want, lines(b.must("file.search", args))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
	b.fails(fault.Invalid, "regular expression (RE2", "file.search", `{"pattern":"a(?=b)"}`)
	b.fails(fault.Invalid, "bracket", "file.search", `{"pattern":"[a","target":"names"}`)
	b.fails(fault.Invalid, "files:", "file.search", `{"pattern":"a","files":"[z-a]"}`)
}

func TestSearchSaysWhatItLeftOut(t *testing.T) {
	b := newBench(t)
	b.config["max_size"] = int64(100)
	b.put("big", strings.Repeat("match\n", 50))
	b.put("bin", "match\x00")
	b.put(".git/config", "match\n")
	b.put("many", "match\nmatch\nmatch\n")
	b.link("many", "link")
	out := b.must("file.search", `{"pattern":"match","limit":2}`)
	want := map[string]any{
		"matches": []any{
			map[string]any{"path": "many", "line": 1.0, "text": "match"},
			map[string]any{"path": "many", "line": 2.0, "text": "match"},
		},
		"searched_files": 1.0, "truncated": true, "next_offset": 2.0,
		"skipped": map[string]any{"binary": 1.0, "too_large": 1.0, "links": 1.0, "git_folders": 1.0},
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out = b.must("file.search", `{"pattern":"match","limit":2,"offset":2}`)
	if len(out["matches"].([]any)) != 1 || out["truncated"] != false {
		t.Errorf("the rest: %v", out)
	}
	if os.Getuid() == 0 {
		return // root reads everything
	}
	if err := os.Chmod(filepath.Join(b.root, "many"), 0); err != nil {
		t.Fatal(err)
	}
	if got := b.must("file.search", `{"pattern":"match"}`)["skipped"].(map[string]any)["unreadable"]; got != 1.0 {
		t.Errorf("unreadable: %v", got)
	}
}

func TestLongLinesAreCutAroundTheMatch(t *testing.T) {
	b := newBench(t)
	b.put("min.js", strings.Repeat("é", 5000)+"NEEDLE"+strings.Repeat("é", 5000)+"\n")
	text := b.must("file.search", `{"pattern":"NEEDLE"}`)["matches"].([]any)[0].(map[string]any)["text"].(string)
	if len(text) > 520 || !strings.Contains(text, "NEEDLE") || !strings.HasPrefix(text, "…é") || !strings.HasSuffix(text, "é…") {
		t.Errorf("got %q", text)
	}
}
