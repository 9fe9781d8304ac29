package file_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/file"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// bench is a root folder with a secret beside it, and the four functions over it.
type bench struct {
	t      *testing.T
	root   string
	config hostfuncs.Values
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, root: filepath.Join(dir, "root"), config: hostfuncs.Values{"root": filepath.Join(dir, "root")}}
	for _, name := range []string{"root", "root2"} { // root2 has the other's name as its beginning
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "secret"), []byte("hunter2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(b.root, "secret")); err != nil {
		t.Fatal(err)
	}
	b.put("../secret", "hunter2\n")
	return b
}

func (b *bench) put(p, content string) {
	b.t.Helper()
	at := filepath.Join(b.root, p)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) link(target, p string) {
	b.t.Helper()
	if err := os.Symlink(target, filepath.Join(b.root, p)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(p string) string {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.root, p))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(content)
}

// call runs a function and gives its decoded answer.
func (b *bench) call(ctx context.Context, name, args string) (map[string]any, error) {
	b.t.Helper()
	for _, f := range file.Funcs() {
		if f.Name != name {
			continue
		}
		h, err := f.New(hostfuncs.Binding{Config: b.config})
		if err != nil {
			b.t.Fatal(err)
		}
		res, err := h.Call(ctx, &tool.Call{Arguments: json.RawMessage(args)})
		if err != nil {
			if _, ok := errors.AsType[*fault.Error](err); !ok {
				b.t.Errorf("%s %s: %v is not a fault", name, args, err)
			}
			return nil, err
		}
		var out map[string]any
		if err := json.Unmarshal(res.JSON, &out); err != nil {
			b.t.Fatal(err)
		}
		return out, nil
	}
	b.t.Fatalf("no function %q", name)
	return nil, nil
}

func (b *bench) must(name, args string) map[string]any {
	b.t.Helper()
	out, err := b.call(b.t.Context(), name, args)
	if err != nil {
		b.t.Fatalf("%s %s: %v", name, args, err)
	}
	return out
}

func (b *bench) fails(kind fault.Kind, contains, name, args string) {
	b.t.Helper()
	out, err := b.call(b.t.Context(), name, args)
	if err == nil {
		b.t.Errorf("%s %s: got %v, want %s", name, args, out, kind)
		return
	}
	if fault.KindOf(err) != kind || !strings.Contains(fault.Message(err), contains) {
		b.t.Errorf("%s %s: got %s %q, want %s with %q", name, args, fault.KindOf(err), fault.Message(err), kind, contains)
	}
	if strings.Contains(fault.Message(err), b.root) {
		b.t.Errorf("%s %s: the message shows where the root is: %s", name, args, fault.Message(err))
	}
}

func TestNothingOutsideIsReached(t *testing.T) {
	b := newBench(t)
	outside := filepath.Dir(b.root)
	b.put("in/file", "inside\n")
	b.link("../secret", "up")
	b.link(filepath.Join(outside, "secret"), "abs")
	b.link("..", "parent")
	b.link(outside, "absdir")
	b.link("in/../../secret", "through")
	b.link("loop", "loop")
	b.link("../not-there-yet", "future")
	b.link("in/file", "good")
	for _, p := range []string{
		"../secret", "in/../../secret", "../root2/secret", outside + "/secret", "/etc/passwd", "up", "abs", "parent/secret",
		"absdir/secret", "through", "parent/root/in/file", "parent/root2/secret", "loop", "future", "future/x", "a\x00b", "..", "in/../..",
	} {
		args, err := json.Marshal(map[string]string{"path": p, "content": "overwritten", "pattern": "hunter2"})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"file.read", "file.write", "file.list", "file.search"} {
			out, err := b.call(t.Context(), name, string(args))
			if err == nil {
				t.Errorf("%s %q: got %v", name, p, out)
				continue
			}
			if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(fault.Message(err), outside) && !strings.HasPrefix(p, "/") {
				t.Errorf("%s %q: %s", name, p, text)
			}
		}
	}
	if got := b.get("../secret") + b.get("../root2/secret"); got != "hunter2\nhunter2\n" {
		t.Errorf("a file outside was changed: %q", got)
	}
	if _, err := os.Lstat(filepath.Join(outside, "not-there-yet")); err == nil {
		t.Error("a file was made outside")
	}
	if got := b.must("file.read", `{"path":"good"}`)["content"]; got != "1|inside\n" {
		t.Errorf("a link within the root: %q", got)
	}
	if got := b.must("file.search", `{"pattern":"hunter2"}`); len(got["matches"].([]any)) != 0 {
		t.Errorf("the search followed a link: %v", got)
	}
}

func TestRead(t *testing.T) {
	b := newBench(t)
	var long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	b.put("long.txt", long.String())
	b.put("empty", "")
	b.put("bare", "one\ntwo")
	b.put("crlf", "a\r\nb\r\n")
	b.put("bom", "\uFEFFa\n")
	b.put("latin", "caf\xe9 is a word that is mostly ASCII\n")
	b.put("wide", strings.Repeat("🙂", 2500)+"\nnext\n")
	b.put("huge line", strings.Repeat("x", 300_000)+"\n")
	for args, want := range map[string]map[string]any{
		`{"path":"empty"}`: {"path": "empty", "content": "", "lines": 0.0, "offset": 1.0, "size": 0.0, "total_lines": 0.0, "truncated": false},
		`{"path":"bare"}`:  {"path": "bare", "content": "1|one\n2|two\n", "lines": 2.0, "offset": 1.0, "size": 7.0, "total_lines": 2.0, "truncated": false},
		`{"path":"./bare","offset":2,"limit":1}`: {
			"path": "bare", "content": "2|two\n", "lines": 1.0, "offset": 2.0, "size": 7.0, "total_lines": 2.0, "truncated": false,
		},
		`{"path":"bare","limit":1}`: {
			"path": "bare", "content": "1|one\n", "lines": 1.0, "offset": 1.0, "size": 7.0, "total_lines": 2.0, "truncated": true, "next_offset": 2.0,
		},
		`{"path":"crlf"}`: {
			"path": "crlf", "content": "1|a\n2|b\n", "lines": 2.0, "offset": 1.0, "size": 6.0, "total_lines": 2.0, "truncated": false, "note": "lines end in CRLF",
		},
		`{"path":"bom"}`: {"path": "bom", "content": "1|a\n", "lines": 1.0, "offset": 1.0, "size": 5.0, "total_lines": 1.0, "truncated": false},
		`{"path":"latin"}`: {
			"path": "latin", "content": "1|caf\uFFFD is a word that is mostly ASCII\n", "lines": 1.0, "offset": 1.0, "size": 36.0, "total_lines": 1.0,
			"truncated": false, "note": "bytes that are not UTF-8 are shown as \uFFFD",
		},
		`{"path":"wide","limit":1}`: {
			"path": "wide", "content": "1|" + strings.Repeat("🙂", 2000) + "… (500 more characters)\n", "lines": 1.0, "offset": 1.0, "size": 10006.0,
			"total_lines": 2.0, "truncated": true, "next_offset": 2.0, "cut_lines": 1.0,
		},
		`{"path":"huge line"}`: {
			"path": "huge line", "content": "1|" + strings.Repeat("x", 2000) + "… (298000 more characters)\n", "lines": 1.0, "offset": 1.0, "size": 300001.0,
			"total_lines": 1.0, "truncated": false, "cut_lines": 1.0,
		},
	} {
		if diff := cmp.Diff(want, b.must("file.read", args)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
	b.fails(fault.Invalid, `offset: 4 is past the end; "bare" has 2 lines`, "file.read", `{"path":"bare","offset":4}`)
	b.fails(fault.Invalid, "is a folder", "file.read", `{"path":"."}`)
	b.fails(fault.Invalid, "types", "file.read", `{"path":7}`)
}

func TestReadInPartsGivesTheWhole(t *testing.T) {
	b := newBench(t)
	b.config["max_chars"] = int64(2000)
	var want strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&want, "line %d with some text\n", i+1)
	}
	b.put("f", want.String())
	var got strings.Builder
	for offset, parts := 1, 0; offset != 0; parts++ {
		if parts > 100 {
			t.Fatal("no end")
		}
		out := b.must("file.read", fmt.Sprintf(`{"path":"f","offset":%d}`, offset))
		content := out["content"].(string)
		if n := len(content); n > 2000 {
			t.Errorf("a part has %d characters", n)
		}
		for line := range strings.Lines(content) {
			_, text, _ := strings.Cut(line, "|")
			got.WriteString(text)
		}
		next, _ := out["next_offset"].(float64)
		if out["truncated"] != (next != 0) {
			t.Errorf("truncated %v with next_offset %v", out["truncated"], next)
		}
		offset = int(next)
	}
	if got.String() != want.String() {
		t.Error("the parts are not the whole")
	}
}

func TestReadRefusesWhatIsNotText(t *testing.T) {
	b := newBench(t)
	for name, content := range map[string]string{
		"nul.txt": "text\x00text", "a.pdf": "%PDF-1.7 text", "a.txt": "PK\x03\x04text", "noise": strings.Repeat("\xff\xfe", 50),
		"utf16": "\xff\xfea\x00b\x00", "ctrl": strings.Repeat("a\x01", 20),
	} {
		b.put(name, content)
		b.fails(fault.Invalid, "is not text", "file.read", fmt.Sprintf(`{"path":%q}`, name))
	}
	b.put("cut", strings.Repeat("a", 8<<10-1)+"é\n") // the look ends within a character
	b.must("file.read", `{"path":"cut"}`)
	b.config["max_size"] = int64(10)
	b.put("big", strings.Repeat("a", 11))
	b.fails(fault.TooLarge, "files over 10 bytes are not read", "file.read", `{"path":"big"}`)
}

func TestMissSuggests(t *testing.T) {
	b := newBench(t)
	b.put("notes/todo.md", "x")
	b.put("notes/Tools.md", "x")
	b.put("README.txt", "x")
	if err := os.Mkdir(filepath.Join(b.root, "void"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.fails(fault.NotFound, `"notes/todos.md" does not exist. Did you mean "notes/todo.md" or "notes/Tools.md"?`, "file.read", `{"path":"notes/todos.md"}`)
	b.fails(fault.NotFound, `Did you mean "README.txt"?`, "file.read", `{"path":"readme.md"}`)
	b.fails(fault.NotFound, `Did you mean "notes"?`, "file.read", `{"path":"note/todo.md"}`)
	b.fails(fault.NotFound, `the folder "void" is empty`, "file.read", `{"path":"void/x"}`)
	b.fails(fault.NotFound, `"zzzzzzzz" does not exist`, "file.read", `{"path":"zzzzzzzz"}`)
	b.fails(fault.NotFound, `Did you mean "notes"?`, "file.list", `{"path":"nots"}`)
	b.fails(fault.NotFound, `Did you mean "notes"?`, "file.search", `{"path":"nots","pattern":"x"}`)
}

func TestWrite(t *testing.T) {
	b := newBench(t)
	want := map[string]any{"path": "a/b/c.txt", "created": true, "bytes": 8.0, "lines": 2.0}
	if diff := cmp.Diff(want, b.must("file.write", `{"path":"a/b/../b/c.txt","content":"one\n<two"}`)); diff != "" {
		t.Errorf("new file (-want +got):\n%s", diff)
	}
	if err := os.Chmod(filepath.Join(b.root, "a/b/c.txt"), 0o640); err != nil {
		t.Fatal(err)
	}
	want = map[string]any{"path": "a/b/c.txt", "created": false, "bytes": 0.0, "lines": 0.0, "replaced_bytes": 8.0}
	if diff := cmp.Diff(want, b.must("file.write", `{"path":"a/b/c.txt","content":"","overwrite":true}`)); diff != "" {
		t.Errorf("old file (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(b.root, "a/b/c.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("permissions changed: %v, %v", info.Mode(), err)
	}
	b.must("file.write", `{"path":"new","content":"x","overwrite":false}`)
	b.fails(fault.Exists, `"new" exists already`, "file.write", `{"path":"new","content":"y","overwrite":false}`)
	b.fails(fault.Invalid, "is a folder", "file.write", `{"path":"a","content":"y"}`)
	b.fails(fault.Invalid, "is a folder", "file.write", `{"path":".","content":"y"}`)
	b.fails(fault.Invalid, "names a folder", "file.write", `{"path":"fresh/","content":"y"}`)
	b.fails(fault.Invalid, "a folder on the way is a file", "file.write", `{"path":"new/below","content":"y"}`)
	b.link("new", "alias")
	b.fails(fault.Invalid, "is a symbolic link", "file.write", `{"path":"alias","content":"y"}`)
	b.config["max_size"] = int64(3)
	b.fails(fault.TooLarge, "limit of 3 bytes", "file.write", `{"path":"new","content":"four"}`)
	if got := b.get("new"); got != "x" {
		t.Errorf("a refused write changed the file: %q", got)
	}
	left, err := filepath.Glob(filepath.Join(b.root, "*", ".hermes-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestList(t *testing.T) {
	b := newBench(t)
	b.put("b.txt", "12345")
	b.put("a/x.txt", "1")
	b.put("a/deep/y.txt", "")
	b.put(".hidden", "")
	b.link("..", "out")
	paths := func(out map[string]any) (got []string) {
		for _, e := range out["entries"].([]any) {
			e := e.(map[string]any)
			got = append(got, fmt.Sprint(e["type"], " ", e["path"], " ", e["size"]))
		}
		return got
	}
	for args, want := range map[string][]string{
		`{}`:                            {"file .hidden 0", "dir a <nil>", "file b.txt 5", "link out <nil>"},
		`{"path":"a","depth":1}`:        {"dir a/deep <nil>", "file a/x.txt 1"},
		`{"path":"a/","depth":2}`:       {"dir a/deep <nil>", "file a/deep/y.txt 0", "file a/x.txt 1"},
		`{"depth":2,"offset":1}`:        {"dir a <nil>", "dir a/deep <nil>", "file a/x.txt 1", "file b.txt 5", "link out <nil>"},
		`{"depth":9,"limit":2}`:         {"file .hidden 0", "dir a <nil>"},
		`{"path":"a/deep","offset":99}`: nil,
	} {
		if diff := cmp.Diff(want, paths(b.must("file.list", args))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
	out := b.must("file.list", `{"depth":9,"limit":2,"offset":1}`)
	if out["total"] != 7.0 || out["truncated"] != true || out["next_offset"] != 3.0 {
		t.Errorf("got %v", out)
	}
	b.fails(fault.Invalid, "is a file", "file.list", `{"path":"b.txt"}`)
}

func TestRootIsMadeAndCheckedAtLoad(t *testing.T) {
	dir := t.TempDir()
	b := &bench{t: t, root: filepath.Join(dir, "made", "later"), config: hostfuncs.Values{"root": filepath.Join(dir, "made", "later")}}
	b.must("file.write", `{"path":"f","content":"x"}`)
	if got := b.get("f"); got != "x" {
		t.Errorf("got %q", got)
	}
	for name, config := range map[string]hostfuncs.Values{
		"root":      {},
		"max_chars": {"root": dir, "max_chars": int64(0)},
		"max_size":  {"root": dir, "max_size": int64(-1)},
	} {
		_, err := file.Funcs()[0].New(hostfuncs.Binding{Config: config})
		var at *hostfuncs.ConfigError
		if !errors.As(err, &at) || at.Attr != name {
			t.Errorf("%v: got %v, want an error at %s", config, err, name)
		}
	}
	_, err := file.Funcs()[0].New(hostfuncs.Binding{Config: hostfuncs.Values{"root": filepath.Join(dir, "made", "later", "f")}})
	var at *hostfuncs.ConfigError
	if !errors.As(err, &at) || !strings.Contains(at.Detail, "must be a folder") {
		t.Errorf("a file as root: got %v", err)
	}
}

func TestCanceledCallsStop(t *testing.T) {
	b := newBench(t)
	b.put("f", "x\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, args := range map[string]string{
		"file.read": `{"path":"f"}`, "file.write": `{"path":"f","content":"y"}`, "file.list": `{}`, "file.search": `{"pattern":"x"}`,
	} {
		if out, err := b.call(ctx, name, args); fault.KindOf(err) != fault.Canceled {
			t.Errorf("%s: got %v, %v", name, out, err)
		}
	}
	if b.get("f") != "x\n" {
		t.Error("a canceled write changed the file")
	}
}

func TestSchemasAreClosedObjects(t *testing.T) {
	for _, f := range file.Funcs() {
		var s struct {
			Type       string
			Additional *bool `json:"additionalProperties"`
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(f.Params, &s); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if s.Type != "object" || s.Additional == nil || *s.Additional {
			t.Errorf("%s: not a closed object", f.Name)
		}
		for name, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("%s: %s has no description", f.Name, name)
			}
		}
	}
}
