package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parse reads an event stream as the HTML standard says: the reader is not ours to
// choose, so it splits lines at CR, LF and CRLF.
func parse(stream string) []Event {
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	var out []Event
	var e Event
	var data []string
	for line := range strings.SplitSeq(stream, "\n") {
		if line == "" {
			if data != nil {
				e.Data = []byte(strings.Join(data, "\n"))
				out = append(out, e)
			}
			e, data = Event{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Name = value
		case "data":
			data = append(data, value)
		}
	}
	return out
}

// lines is data as a reader gets it: every line ending is LF.
func lines(data []byte) string {
	return strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")
}

// FuzzStream: whatever is sent arrives as that one event, and between two others.
func FuzzStream(f *testing.F) {
	f.Add("1", "run.started", `{"a":1}`)
	f.Add("", "", "")
	f.Add("1\n2", "a\r\nb\x00", "x\n\ndata: y\n\nevent: z")
	f.Add(":", "data: x", "\r\r\n\n\r")
	f.Add("é", "\ufeff", "a\rb\u2028c")
	f.Fuzz(func(t *testing.T, id, name, data string) {
		rec := httptest.NewRecorder()
		s := NewStream(rec)
		mark := Event{ID: "mark", Name: "mark", Data: []byte("mark")}
		for _, e := range []Event{mark, {ID: id, Name: name, Data: []byte(data)}, mark} {
			if err := errors.Join(s.Comment(data), s.Send(e)); err != nil {
				t.Fatal(err)
			}
		}
		got := parse(rec.Body.String())
		if len(got) != 3 || got[0].Name != "mark" || got[2].ID != "mark" {
			t.Fatalf("%d events: %q", len(got), rec.Body)
		}
		if string(got[1].Data) != lines([]byte(data)) || got[1].ID != oneLine(id) || got[1].Name != oneLine(name) {
			t.Errorf("sent %q %q %q, got %q", id, name, data, got[1])
		}
	})
}

func TestStreamHead(t *testing.T) {
	rec := httptest.NewRecorder()
	s := NewStream(rec)
	if s.Begun() {
		t.Error("begun before anything was sent")
	}
	if err := s.Send(Event{Data: make([]byte, maxEvent+1)}); fault.KindOf(err) != fault.TooLarge || s.Begun() {
		t.Errorf("an event over the limit: %v, begun %v", err, s.Begun())
	}
	if err := s.Send(Event{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if got := rec.Header().Get("Content-Type"); !s.Begun() || !strings.HasPrefix(got, "text/event-stream") || !rec.Flushed {
		t.Errorf("begun %v, content type %q, flushed %v", s.Begun(), got, rec.Flushed)
	}
}

// broken fails to write.
type broken struct {
	http.ResponseWriter
	writes int
}

func (b *broken) Write([]byte) (int, error) {
	b.writes++
	return 0, net.ErrClosed
}

func TestStreamStaysBroken(t *testing.T) {
	w := &broken{ResponseWriter: httptest.NewRecorder()}
	s := NewStream(w)
	first := s.Send(Event{Data: []byte("x")})
	second := s.Comment("y")
	if !errors.Is(first, net.ErrClosed) || !errors.Is(second, net.ErrClosed) || !errors.Is(s.Err(), net.ErrClosed) || w.writes != 1 {
		t.Errorf("%v, %v, %v after %d writes", first, second, s.Err(), w.writes)
	}
}

// TestClientGoes: a connection that breaks is no fault of the server's, however the
// answer was written.
func TestClientGoes(t *testing.T) {
	for name, write := range map[string]func(http.ResponseWriter) error{
		"event":   func(w http.ResponseWriter) error { return NewStream(w).Send(Event{Data: []byte("x")}) },
		"comment": func(w http.ResponseWriter) error { return NewStream(w).Comment("x") },
		"json":    func(w http.ResponseWriter) error { return WriteJSON(w, http.StatusOK, 1) },
		"error":   func(w http.ResponseWriter) error { return WriteError(w, Native, errors.New("x")) },
	} {
		if err := write(&broken{ResponseWriter: httptest.NewRecorder()}); fault.KindOf(err) != fault.Canceled {
			t.Errorf("%s: %v, want canceled", name, err)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := httptest.NewRecorder()
		s := NewStream(rec)
		stop := s.KeepAlive(func(err error) { t.Errorf("failed: %v", err) })
		count := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return strings.Count(rec.Body.String(), ": keep-alive\n\n")
		}
		time.Sleep(KeepAlive - time.Second)
		if s.Begun() {
			t.Error("begun before the stream was silent for long")
		}
		time.Sleep(2 * time.Second)
		if n := count(); n != 1 {
			t.Errorf("%d comments after 16 s, want 1", n)
		}
		for range 20 { // a busy stream needs none
			time.Sleep(5 * time.Second)
			if err := s.Send(Event{Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		if n := count(); n != 1 {
			t.Errorf("%d comments on a busy stream, want 1", n)
		}
		stop()
		stop()
		time.Sleep(time.Hour)
		if n := count(); n != 1 {
			t.Errorf("%d comments after stop, want 1", n)
		}
	})
}

// pipes is a listener of in-memory connections, which synctest's clock can see.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// piped serves one handler to one client for the length of fn.
func piped(t *testing.T, h http.HandlerFunc, fn func(net.Conn)) {
	t.Helper()
	ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	client, conn := net.Pipe()
	ln.conns <- conn
	fn(client)
	_ = client.Close()
	_ = srv.Shutdown(context.Background())
	<-done
}

// TestStalledClient: a client that takes nothing is given up after 30 s, and its
// handler learns it.
func TestStalledClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan time.Duration, 1)
		piped(t, func(w http.ResponseWriter, _ *http.Request) {
			s, begin := NewStream(w), time.Now()
			for s.Send(Event{Data: bytes.Repeat([]byte("x"), 10_000)}) == nil {
			}
			gone <- time.Since(begin)
		}, func(c net.Conn) {
			if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if after := <-gone; after < writeTimeout || after > writeTimeout+time.Second {
				t.Errorf("given up after %v", after)
			}
		})
	})
}

// TestSlowBody: a body that does not come is given up, and the deadline does not
// outlive the reading.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		piped(t, func(w http.ResponseWriter, r *http.Request) {
			_, err := ReadBody(w, r)
			failed <- err
		}, func(c net.Conn) {
			if _, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; Status(err) != http.StatusBadRequest {
				t.Errorf("status %d: %v", Status(err), err)
			}
		})
	})
	for _, body := range []string{"", "abc"} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			piped(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := ReadBody(w, r); err != nil {
					t.Error(err)
				}
				select {
				case <-r.Context().Done():
					ended <- context.Cause(r.Context())
				case <-time.After(time.Hour):
					ended <- nil
				}
			}, func(c net.Conn) {
				if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
					t.Fatal(err)
				}
				if err := <-ended; err != nil {
					t.Errorf("body %q: the request ended while it was worked on: %v", body, err)
				}
			})
		})
	}
}

// TestBodyNeverEnds: a client that keeps its body back gets its answer and its
// connection closed, whatever the handler does with the body.
func TestBodyNeverEnds(t *testing.T) {
	for name, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"read": func(w http.ResponseWriter, r *http.Request) error {
			_, err := ReadBody(w, r)
			return errors.Join(RefuseBody(w, r), WriteError(w, Native, err))
		},
		"refused": func(w http.ResponseWriter, r *http.Request) error {
			return errors.Join(RefuseBody(w, r), WriteError(w, Native, fault.New(fault.NotFound, "nothing here")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				piped(t, func(w http.ResponseWriter, r *http.Request) {
					if err := errors.Join(LimitBody(w, r), handle(w, r)); err != nil {
						t.Error(err)
					}
				}, func(c net.Conn) {
					if _, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")); err != nil {
						t.Fatal(err)
					}
					begin := time.Now()
					answer, err := io.ReadAll(c)
					if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") || time.Since(begin) > bodyTimeout+writeTimeout {
						t.Errorf("%q after %v (%v)", answer, time.Since(begin), err)
					}
				})
			})
		})
	}
}

// TestBodyOfFollower: a body that is not asked for does not end a stream.
func TestBodyOfFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		piped(t, func(w http.ResponseWriter, r *http.Request) {
			if err := errors.Join(LimitBody(w, r), NewStream(w).Comment("x")); err != nil {
				t.Error(err)
			}
			select {
			case <-r.Context().Done():
				ended <- context.Cause(r.Context())
			case <-time.After(time.Hour):
				ended <- nil
			}
		}, func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("the stream ended: %v", err)
			}
		})
	})
}

func TestErrorShapes(t *testing.T) {
	withField := Invalid("n", "only 1")
	for _, tt := range []struct {
		shape Shape
		err   error
		want  string
	}{
		{Native, fault.New(fault.NotFound, "no x"), `{"error":{"kind":"not_found","message":"no x"}}`},
		{Native, withField, `{"error":{"kind":"invalid","message":"n: only 1","detail":{"field":"n"}}}`},
		{Native, errors.New("dial tcp: password=hunter2"), `{"error":{"kind":"internal","message":"internal error"}}`},
		{Native, &fault.Error{Kind: fault.Invalid, Message: "x", Detail: make(chan int)}, `{"error":{"kind":"invalid","message":"x"}}`},
		{OpenAI, withField, `{"error":{"message":"n: only 1","type":"invalid_request_error","param":"n","code":"invalid"}}`},
		{OpenAI, fault.Wrap(fault.Unavailable, errors.New("secret"), "down"), `{"error":{"message":"down","type":"server_error","param":null,"code":"unavailable"}}`},
		{OpenAI, fault.New(fault.Exhausted, "slow"), `{"error":{"message":"slow","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`},
		{OpenAI, &StatusError{401, fault.New(fault.Denied, "who")}, `{"error":{"message":"who","type":"authentication_error","param":null,"code":"invalid_api_key"}}`},
		{OpenAI, fault.New(fault.Denied, "no"), `{"error":{"message":"no","type":"permission_error","param":null,"code":"denied"}}`},
	} {
		if got := string(ErrorJSON(tt.shape, tt.err)); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	paths := []string{"/v1", "/v1/models", "/v10", "/api/status"}
	var shapes []Shape
	for _, p := range paths {
		shapes = append(shapes, ShapeOf(p))
	}
	if !slices.Equal(shapes, []Shape{OpenAI, OpenAI, Native, Native}) {
		t.Errorf("shapes of %v: %v", paths, shapes)
	}
}
