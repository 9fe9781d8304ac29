package anthropic_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/model"
	"github.com/hermes-runtime/hermes/runtime/model/anthropic"
	"github.com/hermes-runtime/hermes/runtime/model/modeltest"
)

// paced sends texts, with a wait before each, and then nothing.
type paced struct {
	wait  time.Duration
	texts []string
}

func (p paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, text := range p.texts {
		select {
		case <-time.After(p.wait):
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
	}
	<-r.Context().Done()
}

// TestTimeouts: pings and the start of a message are no piece of an answer, and the end of
// one is not waited out.
func TestTimeouts(t *testing.T) {
	const (
		begun = `data: {"type":"message_start","message":{}}` + "\n\n"
		ping  = "event: ping\n" + `data: {"type":"ping"}` + "\n\n"
		piece = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}` + "\n\n"
		ended = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
	)
	alive := make([]string, 20)
	for i := range alive {
		alive[i] = ping
	}
	tests := []struct {
		name  string
		texts []string
		want  string // of the error; empty: an answer
		again bool
		after time.Duration
	}{
		{"pings only", append([]string{begun}, alive...), `model "main": no token within 1m0s of the request (timeouts.first_token)`, true, time.Minute},
		{"pings after a piece", append([]string{begun, piece}, alive...), `model "main": the answer stalled for 30s (timeouts.idle)`, false, 50 * time.Second},
		{"endless", []string{begun, piece, piece, piece, piece, piece, piece, piece, piece, piece, piece}, `model "main": the answer was not complete after 1m35s (timeouts.total)`, false, 95 * time.Second},
		{"alive", []string{begun, piece, piece, piece, piece, piece, ended}, "", false, 70*time.Second + 50*time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := open(t, modeltest.NewPipeServer(t, paced{10 * time.Second, tt.texts}), anthropic.Options{Label: "main", Timeouts: model.Timeouts{
					FirstToken: time.Minute, Idle: 30 * time.Second, Total: 95 * time.Second,
				}})
				start := time.Now()
				_, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, ignore)
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				if tt.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if fault.KindOf(err) != fault.Timeout || fault.Message(err) != tt.want || model.Retryable(err) != tt.again {
					t.Errorf("error %v, retryable %v; want %s", err, model.Retryable(err), tt.want)
				}
			})
		})
	}
}

// A reader that takes its time is not a model that stalls.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modeltest.NewPipeServer(t, modeltest.Messages{Text: []string{"a ", "b"}})
		p := open(t, s, anthropic.Options{Timeouts: model.Timeouts{FirstToken: time.Second, Idle: time.Second}})
		resp, err := p.Stream(t.Context(), &model.Request{Messages: hi()}, func(model.Delta) error {
			time.Sleep(time.Minute)
			return nil
		})
		if err != nil || resp.Message.Content != "a b" {
			t.Errorf("%+v, error %v", resp, err)
		}
	})
}
