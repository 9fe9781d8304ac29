package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/wasmtools/abi"
)

type greeting struct {
	Name string `json:"name"`
	N    any    `json:"n"`
}

func greet(ctx context.Context, g greeting) (any, error) {
	switch g.Name {
	case "":
		return nil, errors.New("name: required")
	case "panic":
		panic("boom")
	case "call":
		_, hasDeadline := ctx.Deadline()
		return []any{CallOf(ctx).ID, hasDeadline}, nil
	case "unencodable":
		return make(chan int), nil
	}
	return map[string]any{"hello": g.Name + "<&>", "n": g.N}, nil
}

func module() *Module {
	return &Module{Name: "m", Version: "1", Wants: []Want{{Capability: "http", Hosts: []string{"a.example"}}}, Tools: []Definition{
		Tool("greet", "Greets.", `{"type":"object"}`, greet),
		Tool("other", "", `{}`, func(context.Context, json.RawMessage) (any, error) { return nil, nil }),
	}}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		tool, args, want string
		code             int32
	}{
		{"greet", `{"name":"Ada","n":9007199254740993}`, `{"hello":"Ada<&>","n":9007199254740993}`, callOK},
		{"greet", `{"name":"call"}`, `["id-1",true]`, callOK},
		{"greet", `{}`, "name: required", callError},
		{"greet", `{"name":1}`, "the arguments do not fit", callError},
		{"greet", ``, "the arguments do not fit", callError},
		{"greet", `{"name":"unencodable"}`, "encoding the result", callError},
		{"greet", `{"name":"panic"}`, "panic: boom", callBroken},
		{"other", `{}`, `null`, callOK},
		{"none", `{}`, `no tool "none"`, callError},
	} {
		out, code := module().run(input{Tool: c.tool, Arguments: json.RawMessage(c.args), Call: Call{ID: "id-1", DeadlineMS: 60_000}})
		if code != c.code || !strings.Contains(string(out), c.want) || code == callOK && string(out) != c.want {
			t.Errorf("%s %s: %d, %s", c.tool, c.args, code, out)
		}
	}
}

func TestOnlyToolAnswersToAnyName(t *testing.T) {
	m := module()
	m.Tools = m.Tools[:1]
	if _, err := m.Call("renamed", []byte(`{"name":"x"}`)); err != nil {
		t.Error(err)
	}
}

func TestCommand(t *testing.T) {
	if err := command([]string{"m"}, strings.NewReader(""), &bytes.Buffer{}); err == nil {
		t.Error("a program without a module runs")
	}
	served = nil
	defer func() { served = nil }()
	m := Serve(*module())
	m.Tools = m.Tools[:1]
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a second module was accepted")
			}
		}()
		Serve(*module())
	}()
	var out bytes.Buffer
	if err := command([]string{"m"}, strings.NewReader(`{"name":"x"}`), &out); err != nil || out.String() != `{"hello":"x<&>","n":null}` {
		t.Error(out.String(), err)
	}
	if err := command([]string{"m"}, strings.NewReader(`{}`), &out); err == nil || err.Error() != "name: required" {
		t.Error(err)
	}
	out.Reset()
	if err := command([]string{"m", abi.ArgDescribe}, strings.NewReader(""), &out); err != nil {
		t.Error(err)
	}
	want := `{"abi":1,"name":"m","version":"1","tools":[{"name":"greet","description":"Greets.","input_schema":{"type":"object"}}],"wants":[{"capability":"http","hosts":["a.example"]}]}`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestContract: the library has the numbers of the contract as its own, so that it can be
// copied beside a tool; they agree.
func TestContract(t *testing.T) {
	got := []any{abiVersion, argDescribe, callOK, callError, int(Debug), int(Info), int(Warn), int(Error)}
	want := []any{abi.Version, abi.ArgDescribe, abi.CallOK, abi.CallError, abi.LogDebug, abi.LogInfo, abi.LogWarn, abi.LogError}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
