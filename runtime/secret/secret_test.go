package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"github.com/hermes-runtime/hermes/runtime/secret"
)

const plain = "hunter2"

type holder struct {
	Public  secret.Value
	Pointer *secret.Value
	List    []secret.Value
	Map     map[string]secret.Value
	Any     any
	hidden  secret.Value
}

// TestNeverPrints tries every way that a value is turned into text.
func TestNeverPrints(t *testing.T) {
	v := secret.New(plain)
	h := holder{Public: v, Pointer: &v, List: []secret.Value{v}, Map: map[string]secret.Value{"k": v}, Any: v, hidden: v}
	texts := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%10s", "%-10.2v", "%U", "%c", "%e"} {
		for name, x := range map[string]any{"value": v, "pointer": &v, "struct": h, "to struct": &h, "list": h.List, "map": h.Map} {
			texts[verb+" of "+name] = fmt.Sprintf(verb, x)
		}
	}
	texts["Sprint"], texts["Sprintln"] = fmt.Sprint(v, h), fmt.Sprintln(&h)
	texts["Errorf"] = fmt.Errorf("reading %v: %w", v, errors.New("x")).Error()
	texts["String"], texts["GoString"] = v.String(), v.GoString()
	for name, x := range map[string]any{"value": v, "pointer": &v, "struct": h, "key": map[string]any{"k": v}} {
		b, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		texts["json of "+name] = string(b)
	}
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"slog text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"slog json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var buf bytes.Buffer
		slog.New(handler(&buf)).With("with", v).Info("m", "v", v, "p", &v, "h", h, slog.Group("g", "v", v))
		texts[name] = buf.String()
	}
	var buf bytes.Buffer
	if err := template.Must(template.New("t").Parse("{{.}} {{printf \"%s\" .}}")).Execute(&buf, v); err != nil {
		t.Fatal(err)
	}
	texts["template"] = buf.String()
	for how, text := range texts {
		if strings.Contains(text, plain) || strings.Contains(text, fmt.Sprintf("%x", plain)) || strings.Contains(text, fmt.Sprintf("%X", plain)) {
			t.Errorf("%s prints the secret: %s", how, text)
		}
	}
	if got := fmt.Sprintf("%v", v); got != secret.Redacted {
		t.Errorf("%%v = %q", got)
	}
	if h.hidden.Open() != plain {
		t.Error("a copy lost its content")
	}
}

func TestOpenEmptyEqual(t *testing.T) {
	var zero secret.Value
	v := secret.New(plain)
	switch {
	case v.Open() != plain, zero.Open() != "":
		t.Error("Open does not give the content")
	case v.Empty(), !zero.Empty(), !secret.New("").Empty():
		t.Error("Empty is wrong")
	case !v.Equal(secret.New(plain)), v.Equal(zero), !zero.Equal(secret.New("")):
		t.Error("Equal is wrong")
	}
}
