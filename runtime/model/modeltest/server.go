package modeltest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// Request is one request that a Server got.
type Request struct {
	Method string
	URI    string // path and query
	Host   string
	Header http.Header
	Body   []byte
}

// Server answers requests with its handlers, one each, in order. Further requests
// fail the test.
type Server struct {
	// URL is the base URL of the API, for example "http://127.0.0.1:1234/v1".
	URL string
	// Transport reaches the server; nil: any does.
	Transport *http.Transport

	t testing.TB

	mu       sync.Mutex // guards what follows
	handlers []http.Handler
	requests []Request
}

// NewServer serves on loopback until the test ends.
func NewServer(t testing.TB, handlers ...http.Handler) *Server {
	s := &Server{t: t, handlers: handlers}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	s.URL = hs.URL + "/v1"
	return s
}

// NewPipeServer serves in memory until the test ends, so that it works inside a
// synctest bubble. Only Transport reaches it.
func NewPipeServer(t testing.TB, handlers ...http.Handler) *Server {
	listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &Server{
		URL: "http://model.test/v1", Transport: &http.Transport{DialContext: listener.dial},
		t: t, handlers: handlers,
	}
	hs := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}} //nolint:gosec // of a test
	hs.Start()
	t.Cleanup(func() {
		s.Transport.CloseIdleConnections()
		hs.Close()
	})
	return s
}

// Requests are the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller is gone
	}
	h := s.next(Request{r.Method, r.RequestURI, r.Host, r.Header.Clone(), body})
	if h == nil {
		s.t.Errorf("unexpected request: %s %s", r.Method, r.RequestURI)
		http.Error(w, "no answer left", http.StatusTeapot)
		return
	}
	h.ServeHTTP(w, r)
}

func (s *Server) next(r Request) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if len(s.handlers) == 0 {
		return nil
	}
	h := s.handlers[0]
	s.handlers = s.handlers[1:]
	return h
}

// ServeHTTP gives the answer as a stream of OpenAI's chat completions, the way OpenAI
// itself does: the role first, one delta each piece, the arguments of a call in two.
func (a Answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.Status != 0 {
		a.refuse(w)
		return
	}
	s := &stream{w: w}
	w.Header().Set("Content-Type", "text/event-stream")
	s.delta(map[string]any{"role": "assistant", "content": ""})
	for _, piece := range a.Reasoning {
		s.delta(map[string]any{"reasoning_content": piece})
	}
	for _, piece := range a.Text {
		s.delta(map[string]any{"content": piece})
	}
	for i, c := range a.Calls {
		s.call(i, c)
	}
	switch {
	case a.Hold:
		<-r.Context().Done()
	case a.Cut:
		panic(http.ErrAbortHandler)
	default:
		s.end(a.Finished(), a.Usage)
	}
}

func (a Answer) refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if a.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(a.RetryAfter.Seconds())))
	}
	w.WriteHeader(a.Status)
	body, _ := json.Marshal(map[string]any{"error": map[string]any{ // strings always encode
		"message": a.Message, "type": "test_error", "param": nil, "code": nil,
	}})
	_, _ = w.Write(body) // a caller that is gone is no concern of the test
}

// stream writes chunks.
type stream struct{ w http.ResponseWriter }

func (s *stream) send(choices []any, usage any) {
	chunk, _ := json.Marshal(map[string]any{ // plain values always encode
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test",
		"choices": choices, "usage": usage,
	})
	s.raw("data: " + string(chunk) + "\n\n")
}

func (s *stream) raw(text string) {
	_, _ = io.WriteString(s.w, text) // see refuse
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (s *stream) delta(delta map[string]any) {
	s.send([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}, nil)
}

// halfOf is where the middle of a text is, not inside of a character: JSON could not carry
// that.
func halfOf(text string) int {
	half := len(text) / 2
	for half > 0 && text[half]&0xc0 == 0x80 {
		half--
	}
	return half
}

func (s *stream) call(index int, c chat.Call) {
	half := halfOf(c.Arguments)
	first := map[string]any{
		"index": index, "id": c.ID, "type": "function",
		"function": map[string]any{"name": c.Name, "arguments": c.Arguments[:half]},
	}
	rest := map[string]any{"index": index, "function": map[string]any{"arguments": c.Arguments[half:]}}
	for _, d := range []any{first, rest} {
		s.delta(map[string]any{"tool_calls": []any{d}})
	}
}

func (s *stream) end(finish model.Finish, usage chat.Usage) {
	s.send([]any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}}, nil)
	if usage != (chat.Usage{}) {
		s.send([]any{}, map[string]any{
			"prompt_tokens": usage.Input, "completion_tokens": usage.Output, "total_tokens": usage.Total(),
			"prompt_tokens_details":     map[string]any{"cached_tokens": usage.CacheRead, "cache_write_tokens": usage.CacheWrite},
			"completion_tokens_details": map[string]any{"reasoning_tokens": usage.Reasoning},
		})
	}
	s.raw("data: [DONE]\n\n")
}

// Recording is a response given byte for byte.
type Recording struct {
	Status int // default 200
	Header map[string]string
	Body   string
	// Pieces cuts the body into pieces of this many bytes, each sent alone; 0: whole.
	Pieces int
	Cut    bool // the connection breaks after the body
	Hold   bool // the connection stays open after the body, until the caller gives up
}

// ServeHTTP gives the recording.
func (r Recording) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for name, value := range r.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(cmp.Or(r.Status, http.StatusOK))
	s := &stream{w: w}
	for body := r.Body; body != ""; {
		n := len(body)
		if r.Pieces > 0 {
			n = min(n, r.Pieces)
		}
		s.raw(body[:n])
		body = body[n:]
	}
	switch {
	case r.Hold:
		<-req.Context().Done()
	case r.Cut:
		panic(http.ErrAbortHandler)
	}
}

// pipeListener accepts connections of net.Pipe.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("dialing the test server: %w", ctx.Err())
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
