package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	openai "github.com/sashabaranov/go-openai"
)

// bare receives from the model with go-openai and passes each chunk on: a server that does
// nothing else.
func bare(model string) http.Handler {
	config := openai.DefaultConfig("none")
	config.BaseURL = model + "/v1"
	client := openai.NewClientWithConfig(config)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q openai.ChatCompletionRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stream, err := client.CreateChatCompletionStream(r.Context(), q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = stream.Close() }()
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return
			}
			body, err := json.Marshal(chunk)
			if err != nil {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", body)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
}
