package openai_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hermes-runtime/hermes/internal/pgtest"
)

// pg is the PostgreSQL of the tests of this package.
var pg = pgtest.New(pgtest.Options{})

func TestMain(m *testing.M) { os.Exit(pg.Closing(m).Run()) }

// TestNPMClients runs OpenAI's own client, the AI SDK and LangChain against the real binary,
// with its state in each database, through a proxy that records: every answer and every
// chunk must also be what OpenAI's schemas say. HERMES_TEST_URL names a running server to use
// instead of the binary.
func TestNPMClients(t *testing.T) {
	if testing.Short() {
		t.Skip("the clients drive a binary of their own, which short runs have no use for")
	}
	npm := filepath.Join("testdata", "npm")
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat(filepath.Join(npm, "node_modules", "langchain")); err != nil {
		t.Skip("the clients are not installed: run npm ci in runtime/server/openai/testdata/npm")
	}
	for name, state := range map[string]func() string{
		"sqlite": func() string { return "" }, "postgres": func() string { return pg.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			target := os.Getenv("HERMES_TEST_URL")
			if target == "" {
				target = serveBinary(t, filepath.Join(npm, "project"), state())
			}
			for _, script := range []string{"client.mjs", "ai.mjs", "langchain.mjs"} {
				t.Run(script, func(t *testing.T) { runClient(t, npm, script, target) })
			}
		})
	}
}

// runClient runs one script of scenarios, all of which must pass.
func runClient(t *testing.T, npm, script, target string) {
	t.Helper()
	proxy := newRecorder(t, target)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Dir = npm
	cmd.Env = append(os.Environ(), "HERMES_BASE_URL="+proxy.url+"/v1", "LANGCHAIN_TRACING=false", "AI_SDK_LOG_WARNINGS=false")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("client: %v\n%s", err, out)
	}
	source, err := os.ReadFile(filepath.Join(npm, script))
	if err != nil {
		t.Fatal(err)
	}
	if passed, all := strings.Count(string(out), "ok "), strings.Count(string(source), "\n  async '"); passed != all {
		t.Errorf("%d of %d scenarios passed:\n%s", passed, all, out)
	}
	proxy.check(t, script == "client.mjs")
}

// serveBinary builds the program, serves a copy of the project, and gives its address.
func serveBinary(t *testing.T, project, state string) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "hermes")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/hermes-runtime/hermes/cmd/hermes").CombinedOutput(); err != nil {
		t.Fatalf("building hermes: %v\n%s", err, out)
	}
	work := filepath.Join(dir, "project")
	if err := os.CopyFS(work, os.DirFS(project)); err != nil {
		t.Fatal(err)
	}
	// Not of the test's context, which ends before the cleanup: a second interrupt would
	// end the server on the spot.
	args := []string{"serve", "--config", work, "--listen", "127.0.0.1:0", "--log-format", "json"}
	if state != "" {
		args = append(args, "--state", state)
	}
	cmd := exec.Command(bin, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := &serverLog{address: make(chan string, 1)}
	read := make(chan struct{})
	go func() { defer close(read); log.follow(stderr) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("hermes serve: %v\n%s", err, log.text())
		}
	})
	select {
	case address := <-log.address:
		return address
	case <-read:
		t.Fatalf("hermes serve ended:\n%s", log.text())
	case <-time.After(time.Minute):
		t.Fatalf("hermes serve says no address:\n%s", log.text())
	}
	return ""
}

// serverLog is what the program wrote, and the address that it said it serves.
type serverLog struct {
	mu      sync.Mutex // guards lines
	lines   []string
	address chan string
}

func (l *serverLog) follow(r io.Reader) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		l.mu.Lock()
		l.lines = append(l.lines, scanner.Text())
		l.mu.Unlock()
		var line struct{ Msg, Address string }
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "serving" {
			l.address <- line.Address
		}
	}
}

func (l *serverLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// recorder is a proxy that keeps what passes through.
type recorder struct {
	url string

	mu      sync.Mutex // guards answers
	answers []*answer
}

type answer struct {
	method, path, kind string
	status             int
	request            []byte

	mu   sync.Mutex // guards body
	body bytes.Buffer
}

// tee is a body that is kept while it is read.
type tee struct {
	io.ReadCloser
	to *answer
}

func (r tee) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.body.Write(p[:n])
	return n, err
}

type requestKey struct{}

func newRecorder(t *testing.T, target string) *recorder {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to) },
		FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			request, _ := resp.Request.Context().Value(requestKey{}).([]byte)
			a := &answer{method: resp.Request.Method, path: resp.Request.URL.Path, kind: resp.Header.Get("Content-Type"), status: resp.StatusCode, request: request}
			resp.Body = tee{resp.Body, a}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.answers = append(r.answers, a)
			return nil
		},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), requestKey{}, body)))
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// check validates what was recorded; all says that there must be an answer of each kind.
func (r *recorder) check(t *testing.T, all bool) {
	t.Helper()
	schemas, err := compile("ListModelsResponse", "Model", "ErrorResponse", "CreateChatCompletionResponse", "CreateChatCompletionStreamResponse")
	if os.IsNotExist(err) {
		t.Skip("OpenAI's schemas are not here: answers are not validated against them")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	checked := map[string]int{}
	for _, a := range r.answers {
		for _, part := range a.parts() {
			checked[part.schema]++
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(part.body))
			if err == nil {
				err = schemas[part.schema].Validate(v)
			}
			if err != nil {
				t.Errorf("%s %s: not a %s: %v\n%s\nasked with %s", a.method, a.path, part.schema, err, part.body, a.request)
			}
		}
	}
	for name := range schemas {
		if checked[name] == 0 && all {
			t.Errorf("no %s was recorded", name)
		}
	}
	t.Logf("validated: %v", checked)
}

// part is a piece of an answer and what it must be.
type part struct{ schema, body string }

func (a *answer) parts() []part {
	a.mu.Lock()
	defer a.mu.Unlock()
	body := a.body.String()
	switch {
	case a.status >= 400:
		return []part{{"ErrorResponse", body}}
	case a.path == "/v1/models":
		return []part{{"ListModelsResponse", body}}
	case strings.HasPrefix(a.path, "/v1/models/"):
		return []part{{"Model", body}}
	case strings.HasPrefix(a.kind, "text/event-stream"):
		return chunks(body)
	}
	return []part{{"CreateChatCompletionResponse", body}}
}

// chunks are the events of a stream that arrived whole.
func chunks(body string) []part {
	var out []part
	for line := range strings.SplitAfterSeq(body, "\n\n") {
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n\n"), "data: ")
		switch {
		case !ok || data == "[DONE]" || !strings.HasSuffix(line, "\n\n"):
		case strings.HasPrefix(data, `{"error"`):
			out = append(out, part{"ErrorResponse", data})
		default:
			out = append(out, part{"CreateChatCompletionStreamResponse", data})
		}
	}
	return out
}

// compile reads OpenAI's description of its API.
func compile(names ...string) (map[string]*jsonschema.Schema, error) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "data", "openai", "schemas.json"))
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openai.json", doc); err != nil {
		return nil, err
	}
	out := map[string]*jsonschema.Schema{}
	for _, name := range names {
		if out[name], err = c.Compile("openai.json#/$defs/" + name); err != nil {
			return nil, err
		}
	}
	return out, nil
}
