package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	chunkBytes = 24
	chunkEvery = 200 * time.Millisecond
)

// question is what is read of a request to the model.
type question struct {
	Model    string `json:"model"`
	Messages []struct {
		Role string `json:"role"`
	} `json:"messages"`
}

// answering is the model server. The model "slow-N" sends N chunks; "tool" asks for a tool
// first; any other answers at once.
func answering(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := &chunks{w: w}
	switch n, slow := slowness(q.Model); {
	case slow:
		for i := range n {
			s.send(fmt.Sprintf(`{"content":%q}`, stamped(i, time.Now())), "")
			time.Sleep(chunkEvery)
		}
		s.send(`{}`, "stop")
	case q.Model == "tool" && q.Messages[len(q.Messages)-1].Role == "user":
		s.send(`{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"text_stats","arguments":"{\"text\":\"a b c\"}"}}]}`, "")
		s.send(`{}`, "tool_calls")
	default:
		s.send(`{"role":"assistant","content":"Hello there, "}`, "")
		s.send(`{"content":"this is an answer."}`, "")
		s.send(`{}`, "stop")
	}
	s.write("data: [DONE]\n\n")
}

const answer = "Hello there, this is an answer."

// slowness is how many chunks a model sends slowly.
func slowness(model string) (chunks int, slow bool) {
	var n int
	_, err := fmt.Sscanf(model, "slow-%d", &n)
	return n, err == nil
}

// stamped is a chunk of 24 bytes that says which it is and when it was sent.
func stamped(number int, t time.Time) string {
	return fmt.Sprintf("%-*s", chunkBytes, fmt.Sprintf("%d %d", number, t.UnixMicro()))
}

// sentAt reads a chunk.
func sentAt(chunk string) (number int, sent time.Time, err error) {
	var micro int64
	_, err = fmt.Sscanf(chunk, "%d %d", &number, &micro)
	return number, time.UnixMicro(micro), err
}

type chunks struct{ w http.ResponseWriter }

func (c *chunks) send(delta, finish string) {
	reason := "null"
	if finish != "" {
		reason = strconv.Quote(finish)
	}
	c.write(fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, reason))
}

func (c *chunks) write(text string) {
	_, _ = c.w.Write([]byte(text)) // the client may have gone
	c.w.(http.Flusher).Flush()
}
