package anthropic

import (
	"encoding/json"

	"github.com/hermes-runtime/hermes/runtime/model/wire"
)

// event is what we read of one event of the stream. Imitators leave fields out or send
// them in another type, so every one is optional; one that is not read breaks nothing.
type event struct {
	Type    wire.Lenient    `json:"type"`
	Index   json.RawMessage `json:"index"`
	Message *whole          `json:"message"`       // message_start
	Block   *content        `json:"content_block"` // content_block_start
	Delta   *delta          `json:"delta"`         // content_block_delta, message_delta
	Usage   *usage          `json:"usage"`         // message_delta
	Error   json.RawMessage `json:"error"`

	// The fields of an answer that is not streamed, with type "message".
	Content    []*content   `json:"content"`
	StopReason wire.Lenient `json:"stop_reason"`
}

// whole is a message: at the start of a stream only its usage is of interest.
type whole struct {
	Usage *usage `json:"usage"`
}

// content is one block of an answer, at its start or whole.
type content struct {
	Type      wire.Lenient    `json:"type"`
	Text      wire.Lenient    `json:"text"`
	Thinking  wire.Lenient    `json:"thinking"`
	Signature *wire.Lenient   `json:"signature"`
	Data      wire.Lenient    `json:"data"`
	ID        wire.Lenient    `json:"id"`
	Name      wire.Lenient    `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// delta is what is added to a block, or how the message ends.
type delta struct {
	Type       wire.Lenient `json:"type"`
	Text       wire.Lenient `json:"text"`
	Thinking   wire.Lenient `json:"thinking"`
	Signature  wire.Lenient `json:"signature"`
	JSON       wire.Lenient `json:"partial_json"`
	StopReason wire.Lenient `json:"stop_reason"`
}

// usage counts tokens; the input is without what was cached. Later counts are totals, and
// may leave out what was told before.
type usage struct {
	Input      wire.Tokens `json:"input_tokens"`
	Output     wire.Tokens `json:"output_tokens"`
	CacheRead  wire.Tokens `json:"cache_read_input_tokens"`
	CacheWrite wire.Tokens `json:"cache_creation_input_tokens"`
}

// reported gives the error that an event carries; nil: none.
func (e *event) reported() error {
	switch {
	case wire.HasValue(e.Error):
		return wire.ParseError(e.Error)
	case e.Type == "error":
		return &wire.Report{}
	}
	return nil
}
