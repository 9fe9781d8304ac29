package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/redact"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

func setOf(values ...string) *redact.Set {
	s := &redact.Set{}
	var list []secret.Value
	for _, v := range values {
		list = append(list, secret.New(v))
	}
	s.Hold(list)
	return s
}

func TestFormsOfAValue(t *testing.T) {
	const value = "p\"ss wörd/\\+&<1>"
	s := setOf(value, "Bearer tok-0123456789")
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"as it is": value, "in JSON": string(quoted), "in a query": url.QueryEscape(value), "in a path": url.PathEscape(value),
		"in base64": base64.StdEncoding.EncodeToString([]byte(value)), "in base64 for URLs": base64.URLEncoding.EncodeToString([]byte(value)),
		"in a longer base64":  base64.StdEncoding.EncodeToString([]byte("user:" + value + " and more")),
		"in another":          base64.StdEncoding.EncodeToString([]byte("user1:" + value)),
		"a token":             "tok-0123456789",
		"a whole credential":  "Authorization: Bearer tok-0123456789",
		"several, close by":   value + value,
		"in the middle":       "x" + value + "y",
		"as a credential has": base64.StdEncoding.EncodeToString([]byte("a:tok-0123456789")),
	} {
		got, n := s.Text(text)
		if n == 0 || strings.Contains(got, value) || strings.Contains(got, "0123456789") || !strings.Contains(got, redact.Blot) {
			t.Errorf("%s: %q became %q", name, text, got)
		}
		again, n := s.Text(got)
		if n != 0 || again != got {
			t.Errorf("%s: not the same a second time: %q", name, again)
		}
	}
}

func TestJSONStaysJSON(t *testing.T) {
	s := setOf("12345678", "a\",\"b\":\"", "back\\slash-here", "ünïcode-secret", "line\nbreak-secret")
	for _, v := range []any{
		map[string]any{"n": json.Number("912345678000"), "s": "x12345678y", "12345678": true},
		map[string]any{"a": "a\",\"b\":\"c", "b": "back\\slash-here", "u": "ünïcode-secret", "l": "line\nbreak-secret"},
		[]any{"12345678", json.Number("12345678")},
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, n := s.JSON(text)
		if n == 0 || !json.Valid(got) || bytes.Contains(got, []byte("12345678")) || bytes.Contains(got, []byte("secret")) || bytes.Contains(got, []byte("slash")) {
			t.Errorf("%s became %s", text, got)
		}
	}
	structure := []byte(`{"a":"a","b":"x"}`)
	if got, n := s.JSON(structure); n != 0 || string(got) != string(structure) {
		t.Errorf("what stands across quotes was taken out: %s", got)
	}
}

func TestKeysByTheirFormat(t *testing.T) {
	// Made up, and put together here so that none stands in this file.
	body := strings.Repeat("aB3dE6", 8)
	for _, key := range []string{
		"sk-" + body, "sk-ant-api03-" + body, "sk-proj-" + body, "ghp_" + body[:36], "github_pat_" + body, "glpat-" + body[:20], "AKIA" + strings.ToUpper(body[:16]), "AIza" + body[:35],
		"xoxb-" + body[:12] + "-" + body, "sk_live_" + body, "rk_test_" + body, "hf_" + body[:34], "npm_" + body[:36],
		"eyJ" + body + ".eyJ" + body + "." + body,
		"-----BEGIN PRIVATE KEY-----\n" + body + "\n" + body + "\n-----END PRIVATE KEY-----",
		"-----BEGIN RSA PRIVATE KEY-----\\n" + body + "\\n-----END RSA PRIVATE KEY-----",
	} {
		for _, text := range []string{key, "key=" + key, `{"key":"` + key + `"}`, "x " + key + " y", "\\n" + key} {
			got, n := (&redact.Set{}).Text(text)
			if n != 1 || strings.Contains(got, body[:20]) {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
}

// TestOrdinaryTexts has what looks like keys and is none.
func TestOrdinaryTexts(t *testing.T) {
	s := setOf("hunter2-hunter2")
	for _, text := range []string{
		"", "short", "sk-", "sk-learn and sk-image are libraries", "the risk-adjusted-return-of-the-portfolio-2024", "task-0123456789-abcdefghijklmnop",
		"3f786850e387550fdab836ed7e6dc881de23001b", "550e8400-e29b-41d4-a716-446655440000", "ghp_short", "AKIA", "AKIAISNOTAKEYBECAUSEITISTOOLONG",
		"eyJub3QiOiJhIHRva2VuIn0", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "https://example.com/a?b=c&d=e",
		"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk", "sk-this-is-a-sentence-with-dashes-and-no-digits", "hunter2-hunter", "xhunter2",
	} {
		if got, n := s.Text(text); n != 0 || got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestShortValuesAreNoSecrets(t *testing.T) {
	if got := setOf("true", "1234567").String("true 1234567"); got != "true 1234567" {
		t.Error(got)
	}
}

func TestHoldAndRelease(t *testing.T) {
	s := &redact.Set{}
	first := s.Hold([]secret.Value{secret.New("hunter2-hunter2")})
	second := s.Hold([]secret.Value{secret.New("hunter2-hunter2"), secret.New("another-secret")})
	first()
	first()
	if got := s.String("hunter2-hunter2 another-secret"); strings.Contains(got, "hunter2") || strings.Contains(got, "another") {
		t.Errorf("still held: %s", got)
	}
	second()
	if got := s.String("hunter2-hunter2 another-secret"); got != "hunter2-hunter2 another-secret" {
		t.Errorf("held by nobody: %s", got)
	}
}

func TestNothingFoundCopiesNothing(t *testing.T) {
	s := setOf("hunter2-hunter2")
	text := bytes.Repeat([]byte(`{"some":"text","n":12345}`), 100)
	if n := testing.AllocsPerRun(10, func() { s.JSON(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSetHammer(t *testing.T) {
	s := &redact.Set{}
	var wg sync.WaitGroup
	for p := range 8 {
		wg.Go(func() {
			for i := range 200 {
				value := fmt.Sprintf("secret-%d-%d", p, i)
				release := s.Hold([]secret.Value{secret.New(value), secret.New("shared-secret")})
				if got := s.String("x " + value + " shared-secret"); strings.Contains(got, "secret-") || strings.Contains(got, "shared") {
					t.Errorf("held, and shown: %s", got)
				}
				release()
			}
		})
	}
	wg.Wait()
}

func BenchmarkJSON(b *testing.B) {
	values := make([]string, 100)
	for i := range values {
		values[i] = fmt.Sprintf("secret-value-%d-0123456789", i)
	}
	s := setOf(values...)
	text := bytes.Repeat([]byte(`{"city":"Oslo","temperature":4.5,"note":"see the secrets of the season, and ask"},`), 1<<14)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.JSON(text)
	}
}
