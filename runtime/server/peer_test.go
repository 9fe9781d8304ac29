package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sashabaranov/go-openai"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/principal"
)

// TestGoClient drives the server with a client that is not ours.
func TestGoClient(t *testing.T) {
	w := newWorld(t)
	weather(w)
	w.rule("weather", says("It is 4 °C."), `1 get_weather {"city":"Oslo"}`)
	w.rule("look", says("Seen."), `1 look {"at":"sky"}`, `1 look {"at":"sea"}`)
	w.key("app", principal.User)
	w.start()
	conf := openai.DefaultConfig("app")
	conf.BaseURL = w.base + "/v1"
	client := openai.NewClientWithConfig(conf)
	ask := func(text string) openai.ChatCompletionRequest {
		return openai.ChatCompletionRequest{
			Model: "a", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: text}},
			Tools: []openai.Tool{{Type: "function", Function: &openai.FunctionDefinition{Name: "look", Parameters: map[string]any{"type": "object"}}}},
		}
	}
	whole, err := client.CreateChatCompletion(t.Context(), ask("weather"))
	if err != nil || whole.Choices[0].Message.Content != "It is 4 °C." {
		t.Fatalf("whole: %+v %v", whole, err)
	}
	req := ask("look")
	first, err := client.CreateChatCompletion(t.Context(), req)
	if err != nil || len(first.Choices[0].Message.ToolCalls) != 2 {
		t.Fatalf("calls: %+v %v", first, err)
	}
	req.Messages = append(req.Messages, first.Choices[0].Message)
	for _, c := range first.Choices[0].Message.ToolCalls {
		// An empty result goes out of this client without its content.
		req.Messages = append(req.Messages, openai.ChatCompletionMessage{Role: "tool", ToolCallID: c.ID})
	}
	second, err := client.CreateChatCompletion(t.Context(), req)
	if err != nil || second.Choices[0].Message.Content != "Seen." {
		t.Fatalf("answered: %+v %v", second, err)
	}
	_, err = client.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "nobody", Messages: req.Messages})
	if e, ok := err.(*openai.APIError); !ok || e.HTTPStatusCode != 404 || !strings.Contains(e.Message, "nobody") { //nolint:errorlint // as it came
		t.Errorf("unknown model: %v", err)
	}
}

// said is a model that answers as it is told.
type said struct {
	deltas []model.Delta
	resp   model.Response
	err    error
}

func (s said) Stream(_ context.Context, _ *model.Request, emit func(model.Delta) error) (*model.Response, error) {
	for _, d := range s.deltas {
		if err := emit(d); err != nil {
			return nil, err
		}
	}
	return &s.resp, s.err
}

// TestSameAnswerBothWays: text, reasoning, calls and finish reason do not depend on
// streaming.
func TestSameAnswerBothWays(t *testing.T) {
	text := func(s string) chat.Message { return chat.Message{Role: chat.Assistant, Content: s} }
	for _, tt := range []struct {
		name   string
		model  said
		finish string
	}{
		{"stop", said{[]model.Delta{{Text: "a "}, {Text: "b"}}, model.Response{Message: text("a b"), Finish: model.Stop}, nil}, "stop"},
		{"length", said{[]model.Delta{{Text: "a "}}, model.Response{Message: text("a "), Finish: model.Length}, nil}, "length"},
		{"filtered", said{[]model.Delta{{Text: "a "}}, model.Response{Message: text("a "), Finish: model.ContentFilter}, nil}, "content_filter"},
		{"no reason", said{[]model.Delta{{Text: "a "}}, model.Response{Message: text("a ")}, nil}, "stop"},
		{"calls without any", said{[]model.Delta{{Text: "a "}}, model.Response{Message: text("a "), Finish: model.ToolCalls}, nil}, "stop"},
		{"no deltas", said{nil, model.Response{Message: text("all at once 🎉"), Finish: model.Stop}, nil}, "stop"},
		{"last delta lost", said{[]model.Delta{{Text: "a "}}, model.Response{Message: text("a b"), Finish: model.Stop}, nil}, "stop"},
		{"reasoning", said{[]model.Delta{{Reasoning: "hm "}, {Reasoning: "yes"}, {Text: "a"}}, model.Response{Message: chat.Message{Role: chat.Assistant, Content: "a", Reasoning: "hm yes"}, Finish: model.Stop}, nil}, "stop"},
		{"call that says stop", said{nil, model.Response{Message: chat.Message{Role: chat.Assistant, Calls: []chat.Call{{Name: "look", Arguments: `{"at":"sky"}`}}}, Finish: model.Stop}, nil}, "tool_calls"},
		{"call with text", said{[]model.Delta{{Text: "so"}}, model.Response{Message: chat.Message{Role: chat.Assistant, Content: "so", Calls: []chat.Call{{Name: "look"}}}, Finish: model.ToolCalls}, nil}, "tool_calls"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.models["a"] = tt.model
			w.start()
			// With a limit of the client's, an answer that reaches it is not continued.
			const ask = `{"model":"a","max_tokens":100,` + clientTool + `,"messages":[{"role":"user","content":"x"}]`
			c, r := w.chat(ask + `}`)
			s, _ := w.stream(ask + `,"stream":true}`)
			whole := c.Choices[0].Message
			content := ""
			if whole.Content != nil {
				content = *whole.Content
			}
			if content != tt.model.resp.Message.Content || s.text != content {
				t.Errorf("text %q, streamed %q", content, s.text)
			}
			if diff := cmp.Diff([]string{tt.finish}, append(s.finish[:0:0], *c.Choices[0].Finish)); diff != "" {
				t.Errorf("finish (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{tt.finish}, s.finish); diff != "" {
				t.Errorf("streamed finish (-want +got):\n%s", diff)
			}
			if len(whole.ToolCalls) != len(s.calls) || len(s.calls) != len(tt.model.resp.Message.Calls) {
				t.Errorf("calls %+v, streamed %+v", whole.ToolCalls, s.calls)
			}
			want := tt.model.resp.Message.Reasoning
			if got := reasoning(t, r.body); got != want || s.thought != want {
				t.Errorf("reasoning %q, streamed %q, want %q", got, s.thought, want)
			}
			if r.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("the answer may be sniffed")
			}
		})
	}
}

func reasoning(t *testing.T, body []byte) string {
	t.Helper()
	var c struct {
		Choices []struct {
			Message struct {
				Reasoning string `json:"reasoning_content"`
			}
		}
	}
	if err := json.Unmarshal(body, &c); err != nil {
		t.Fatal(err)
	}
	return c.Choices[0].Message.Reasoning
}

func TestRequestIDs(t *testing.T) {
	w := newWorld(t).start()
	for id, kept := range map[string]bool{"abc-1.2_3": true, "a b": false, "é": false, strings.Repeat("x", 65): false} {
		if got := w.do("GET", "/healthz", "", header("X-Request-Id", id)).Header.Get("X-Request-Id"); (got == id) != kept || got == "" {
			t.Errorf("%q is answered with %q", id, got)
		}
	}
}

// TestTLS serves HTTP/2 and HTTP/1.1 with the declared certificate.
func TestTLS(t *testing.T) {
	w := newWorld(t)
	cert, key, pool := selfSigned(t)
	w.conf.TLSCert, w.conf.TLSKey = cert, key
	w.rule(".*", says("hello"))
	w.start()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	resp, err := client.Get(strings.Replace(w.base, "http:", "https:", 1) + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Errorf("%s %s", resp.Proto, resp.Status)
	}
	w.conf.TLSKey = cert
	w.swap()
	if _, err := w.srv.Listen(t.Context(), "127.0.0.1:0"); fault.KindOf(err) != fault.Invalid || strings.Contains(fault.Message(err), cert) {
		t.Errorf("a key that does not fit: %v", err)
	}
}

func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pemCert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, content := range map[string][]byte{certFile: pemCert, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pemCert)
	return certFile, keyFile, pool
}
