package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
	"github.com/hermes-runtime/hermes/runtime/model/openai"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

func chunkOf(text string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

const (
	stopChunk = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	doneLine  = "data: [DONE]\n\n"
)

// go-openai ends a stream after 300 lines that are no data.
func TestKeepAlives(t *testing.T) {
	alive := strings.Repeat(": keep-alive\n\n", 1000)
	body := alive + chunkOf("Hel") + alive + chunkOf("lo") + alive + stopChunk + alive + doneLine
	want := "text: \"Hello\"\nfinish: stop\n"
	if got := outcome(t, modeltest.Recording{Body: body}); got != want {
		t.Errorf("outcome:\n%s\nwant:\n%s", got, want)
	}
}

func TestBounds(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	call := func(i int) string {
		return fmt.Sprintf(`data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"name":"f","arguments":"{}"}}]}}]}`+"\n\n", i)
	}
	var calls strings.Builder
	for i := range 600 {
		calls.WriteString(call(i))
	}
	tests := []struct{ name, body, want string }{
		{"one line", "data: " + strings.Repeat(big, 5), `model "main": one event of the provider is over 4 MiB`},
		{"one comment", ":" + strings.Repeat(big, 5), `model "main": one event of the provider is over 4 MiB`},
		{"one event of many lines", strings.Repeat("data: "+big+"\n", 5), `model "main": one event of the provider is over 4 MiB`},
		{"one object", "{" + strings.Repeat(big+"\n", 5), `model "main": one event of the provider is over 4 MiB`},
		{"the answer", strings.Repeat(chunkOf(big), 9), `model "main": the answer of the provider is over 8 MiB`},
		{"calls", calls.String(), `model "main": the answer has more than 512 tool calls`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := "error: too_large: " + tt.want + "\nretryable: false\n"
			if got := outcome(t, modeltest.Recording{Body: tt.body}); got != want {
				t.Errorf("outcome:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// Long calls in many deltas take time in proportion to their length: these take minutes
// if the arguments are validated at each delta.
func TestLongCallsAreLinear(t *testing.T) {
	var body strings.Builder
	delta := func(index int, arguments string) {
		fmt.Fprintf(&body, `data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"name":"f","arguments":"%s"}}]}}]}`+"\n\n", index, arguments)
	}
	many := func(index int, arguments string) {
		for range 10_000 {
			delta(index, arguments)
		}
	}
	delta(0, `{\"a\":[`)
	many(0, `{\"b\":\"xxxx\"},`)
	delta(0, "0]}")
	many(0, " ")
	delta(1, `{\"a\":\"`+strings.Repeat("x", 1<<20)+`\"}x`)
	many(1, "}")
	body.WriteString(stopChunk + doneLine)
	got := outcome(t, modeltest.Recording{Body: body.String()})
	if !strings.HasPrefix(got, `call: "" "f" "{\"a\":[{\"b\"`) || strings.Count(got, "call:") != 2 || strings.Contains(got, "malformed") {
		t.Errorf("outcome: %.200s", got)
	}
}

func TestResponseHeadersAreBounded(t *testing.T) {
	got := outcome(t, modeltest.Recording{
		Header: map[string]string{"X-Big": strings.Repeat("x", 100<<10)}, Body: stopChunk,
	})
	want := "error: unavailable: model \"main\": the connection to the provider failed\nretryable: true\n"
	if got != want {
		t.Errorf("outcome:\n%s\nwant:\n%s", got, want)
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := modeltest.Answer{Text: []string{"Hello"}}
		s := modeltest.NewPipeServer(t, answer, answer, answer)
		dial, dials := s.Transport.DialContext, 0
		s.Transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++ // of one caller, one after the other
			return dial(ctx, network, address)
		}
		p := open(t, s, openai.Options{})
		for range 3 {
			if _, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore); err != nil {
				t.Fatal(err)
			}
		}
		if dials != 1 {
			t.Errorf("%d connections for 3 calls, want 1", dials)
		}
	})
}

// Cancelling in the middle reaches the server: nothing goes on behind the caller.
func TestCancelReachesTheServer(t *testing.T) {
	released := make(chan struct{})
	hold := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		modeltest.Answer{Text: []string{"one "}, Hold: true}.ServeHTTP(w, r)
		close(released)
	})
	p := open(t, modeltest.NewServer(t, hold), openai.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("generation 7 is drained")
	_, err := p.Stream(ctx, &model.Request{Messages: hi()}, func(model.Delta) error {
		cancel(reason)
		return nil
	})
	if fault.KindOf(err) != fault.Canceled || !errors.Is(err, reason) || !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled because of %v", err, reason)
	}
	<-released
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached = append(reached, r.Header.Get("Api-Key"))
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := modeltest.NewServer(t, modeltest.Recording{Status: status, Header: map[string]string{"Location": other.URL}})
		p := open(t, s, openai.Options{Headers: map[string]any{"api-key": secret.New("k")}})
		_, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("status %d: error = %v, want invalid", status, err)
		}
	}
	if len(reached) > 0 {
		t.Errorf("the other host was reached with keys %q", reached)
	}
}

// The environment's proxies are read once a process, so the call is made in one of its
// own, to a host that only a proxy would accept: loopback is never proxied.
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	const child = "HERMES_TEST_PROXIED"
	if os.Getenv(child) != "" {
		p := open(t, &modeltest.Server{}, openai.Options{BaseURL: "http://model.invalid/v1"})
		_, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("error = %v, want unavailable", err)
		}
		return
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the proxy was reached")
	}))
	defer proxy.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Whatever goes wrong, nothing of the configuration is in the error, its chain
// included.
func TestErrorsHoldNoConfiguration(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	const key, header, query, extra = "sk-topsecret", "hdr-topsecret", "query-topsecret", "extra-topsecret"
	everything := strings.Join([]string{key, "Bearer " + key, header, query, extra, "sk-to****ret"}, " ")
	echo := func(status int, contentType, format string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			address := r.Host + r.URL.String()
			said := everything + " at http://" + address + " or http://user:pass-topsecret@" + address + " with pass-topsecret"
			modeltest.Recording{
				Status: status, Header: map[string]string{"Content-Type": contentType}, Body: fmt.Sprintf(format, said),
			}.ServeHTTP(w, r)
		})
	}
	jsonError := `{"error":{"message":"got %s","type":"x","code":"` + key + `"}}`
	tests := []struct {
		name    string
		base    string // empty: a server with handler
		handler http.Handler
		want    string // empty: any
	}{
		{name: "unknown host", base: "http://secret-host.invalid/v1"},
		{
			name: "nothing listens", base: "http://" + closed + "/v1",
			want: `model "main": nothing accepts connections at base_url; is the server running?`,
		},
		{
			name: "echo in JSON", handler: echo(400, "application/json", jsonError),
			want: `model "main": the provider answered with status 400 ((sensitive)): got (sensitive) Bearer (sensitive) (sensitive) (sensitive) (sensitive) (sensitive) at (sensitive)?key=(sensitive) or (sensitive) with (sensitive)`,
		},
		{name: "echo in text", handler: echo(500, "text/plain", "got %s")},
		{name: "echo in the stream", handler: echo(200, "text/event-stream", "data: "+jsonError+"\n\n")},
		{name: "echo in finish_reason", handler: echo(200, "text/event-stream", `data: {"choices":[{"finish_reason":"error","delta":{"content":"%s"}}]}`+"\n\n")},
		{name: "no HTTP", handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "SSH-2.0-"+everything+"\r\n")
				_ = conn.Close()
			}
		})},
		{name: "redirect", handler: modeltest.Recording{Status: 307, Header: map[string]string{"Location": "http://secret-host.invalid/" + query}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := tt.base
			if base == "" {
				base = modeltest.NewServer(t, tt.handler).URL
			}
			base = strings.Replace(base, "http://", "http://user:pass-topsecret@", 1) + "?key=" + query
			p := open(t, &modeltest.Server{}, openai.Options{
				Label: "main", BaseURL: base, APIKey: secret.New(key),
				Headers: map[string]any{"x-key": secret.New(header)},
				Extra:   map[string]any{"token": map[string]any{"list": []any{secret.New(extra)}}},
			})
			resp, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
			if resp != nil || err == nil {
				t.Fatalf("got %v, want an error", resp)
			}
			for text := range errorTexts(err) {
				for _, secret := range []string{"topsecret", "secret-host", "127.0.0.1", closed, "/v1", "sk-to"} {
					if strings.Contains(text, secret) {
						t.Errorf("%q is in %q", secret, text)
					}
				}
			}
			if got := fault.Message(err); tt.want != "" && got != tt.want {
				t.Errorf("message = %s\nwant      %s", got, tt.want)
			}
			if text := fmt.Sprintf("%+v %#v", p, p); strings.Contains(text, "topsecret") {
				t.Errorf("a printed provider shows %s", text)
			}
		})
	}
}

// errorTexts is every text in the chain of an error.
func errorTexts(err error) func(func(string) bool) {
	return func(yield func(string) bool) {
		for ; err != nil; err = errors.Unwrap(err) {
			if !yield(err.Error()) || !yield(fmt.Sprintf("%+v %#v", err, err)) {
				return
			}
		}
	}
}

func TestProvidersMessageIsBounded(t *testing.T) {
	long := strings.Repeat("日本", 5000)
	got := outcome(t, modeltest.Recording{Status: 400, Body: `{"error":{"message":"` + long + `"}}`})
	if len(got) > 700 || strings.Contains(got, "�") || !strings.Contains(got, "日…") && !strings.Contains(got, "本…") {
		t.Errorf("outcome of %d bytes: %s", len(got), got)
	}
}

// paced sends pieces, waiting before each; a negative wait holds the stream open.
type paced []struct {
	wait time.Duration
	text string
}

func (p paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, piece := range p {
		if piece.wait < 0 {
			<-r.Context().Done()
			return
		}
		select {
		case <-time.After(piece.wait):
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, piece.text)
		w.(http.Flusher).Flush()
	}
}

func TestTimeouts(t *testing.T) {
	limits := model.Timeouts{Connect: 10 * time.Second, FirstToken: 60 * time.Second, Idle: 30 * time.Second, Total: 10 * time.Minute}
	role := `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	alive := func(n int) paced {
		var p paced
		for range n {
			p = append(p, paced{{5 * time.Second, ": keep-alive\n\n"}, {5 * time.Second, "data: {\"choices\":[]}\n\n"}, {5 * time.Second, role}}...)
		}
		return p
	}
	tests := []struct {
		name   string
		stream paced
		want   string // of the error; empty: a complete answer
		cause  error
		after  time.Duration
	}{
		{
			name: "no response at all", stream: paced{{wait: -1}}, after: time.Minute,
			want: `model "main": no token within 1m0s of the request (timeouts.first_token)`, cause: model.ErrFirstToken,
		},
		{
			name: "heartbeats only", stream: alive(100), after: time.Minute,
			want: `model "main": no token within 1m0s of the request (timeouts.first_token)`, cause: model.ErrFirstToken,
		},
		{
			name: "heartbeats after text", stream: append(paced{{50 * time.Second, chunkOf("a")}}, alive(100)...), after: 80 * time.Second,
			want: `model "main": the answer stalled for 30s (timeouts.idle)`,
		},
		{
			name: "endless", after: 10 * time.Minute,
			stream: func() (p paced) {
				for range 100 {
					p = append(p, paced{{20 * time.Second, chunkOf("a")}}...)
				}
				return p
			}(),
			want: `model "main": the answer was not complete after 10m0s (timeouts.total)`,
		},
		{
			name: "slow but alive", after: 59*time.Second + 29*time.Second + 29*time.Second,
			stream: paced{{59 * time.Second, chunkOf("a")}, {29 * time.Second, chunkOf("b")}, {29 * time.Second, stopChunk + doneLine}},
		},
		{
			name: "calls and reasoning are life", after: 84 * time.Second,
			stream: paced{
				{28 * time.Second, `data: {"choices":[{"delta":{"reasoning":"a"}}]}` + "\n\n"},
				{28 * time.Second, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"a"}}]}}]}` + "\n\n"},
				{28 * time.Second, stopChunk + doneLine},
			},
		},
		{
			name: "usage that never comes", after: 6 * time.Second,
			stream: paced{{time.Second, chunkOf("a") + stopChunk}, {wait: -1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, modeltest.NewPipeServer(t, tt.stream), openai.Options{Label: "main", Timeouts: limits})
				start := time.Now()
				resp, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				if tt.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if resp != nil || fault.KindOf(err) != fault.Timeout || fault.Message(err) != tt.want {
					t.Errorf("got %v, error %v, want a timeout: %s", resp, err, tt.want)
				}
				if retryable := tt.cause != nil; model.Retryable(err) != retryable || retryable && !errors.Is(err, tt.cause) {
					t.Errorf("cause of %v: want %v", err, tt.cause)
				}
			})
		})
	}
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &modeltest.Server{URL: "http://model.test/v1", Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}}
		p := open(t, s, openai.Options{Label: "main", Timeouts: model.Timeouts{Connect: 10 * time.Second, FirstToken: time.Second}})
		start := time.Now()
		_, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
		const want = `model "main": no connection within 10s (timeouts.connect)`
		if fault.Message(err) != want || !errors.Is(err, model.ErrConnect) || time.Since(start) != 10*time.Second {
			t.Errorf("error after %v: %v, want %s", time.Since(start), err, want)
		}
	})
}

// transport is an http.RoundTripper that is no http.Transport.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A transport of another make reports no connection and knows no causes.
func TestTimeoutOfForeignTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, &modeltest.Server{URL: "http://model.test"}, openai.Options{
			Label: "main", Timeouts: model.Timeouts{Connect: time.Second},
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}),
		})
		_, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
		if !errors.Is(err, model.ErrConnect) || fault.KindOf(err) != fault.Timeout {
			t.Errorf("error = %v, want a timeout of the connection", err)
		}
	})
}

// A reader that takes its time is not a model that stalls.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modeltest.NewPipeServer(t, modeltest.Answer{Text: []string{"a ", "b"}})
		p := open(t, s, openai.Options{Timeouts: model.Timeouts{FirstToken: time.Second, Idle: time.Second}})
		resp, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, func(model.Delta) error {
			time.Sleep(time.Minute)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("a b", resp.Message.Content); diff != "" {
			t.Errorf("content (-want +got):\n%s", diff)
		}
	})
}

func TestCallersDeadlineIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, modeltest.NewPipeServer(t, paced{{wait: -1}}), openai.Options{
			Timeouts: model.Timeouts{FirstToken: time.Minute},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Stream(ctx, &model.Request{Messages: hi()}, ignore)
		if fault.KindOf(err) != fault.Timeout || model.Retryable(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the caller's timeout", err)
		}
	})
}
