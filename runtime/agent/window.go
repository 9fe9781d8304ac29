package agent

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/model"
)

// What an estimate counts: a token is four characters, or one of those scripts whose
// characters mean a syllable or a word.
const (
	charsPerToken    = 4
	tokensPerImage   = 1600
	tokensPerMessage = 4 // what a wire puts around it
)

// tokensIn estimates the tokens of a text.
func tokensIn(text string) int {
	plain, wide := 0, 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			plain++
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
			wide++
		} else {
			plain++
		}
	}
	return wide + (plain+charsPerToken-1)/charsPerToken
}

// tokensOf estimates the tokens of a message.
func tokensOf(m chat.Message) int {
	n := tokensPerMessage + tokensIn(m.Content) + tokensIn(m.Note)
	for _, p := range m.Parts {
		n += tokensIn(p.Text)
		if p.ImageURL != "" {
			n += tokensPerImage
		}
	}
	for _, c := range m.Calls {
		n += tokensPerMessage + tokensIn(c.Name) + tokensIn(c.Arguments)
	}
	return n
}

// frameTokens estimates what a request has besides its messages.
func frameTokens(req *model.Request) int {
	n := tokensIn(req.System)
	for _, d := range req.Tools {
		n += tokensIn(string(d.JSON))
	}
	return n
}

// ratios are how many tokens the last call of a session really had for each that was
// estimated. They are forgotten with the process: then estimates count as they are.
type ratios struct {
	mu        sync.Mutex // guards below
	ofSession map[string]float64
}

const (
	// maxRatios is how many sessions are remembered.
	maxRatios = 4096
	// A count out of these bounds is taken for one that the provider does not mean so.
	leastRatio, mostRatio = 0.25, 4
)

// of is the ratio of a session; 1 if nothing is known of it.
func (r *ratios) of(session string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.ofSession[session]; ok {
		return known
	}
	return 1
}

// note remembers what a call really had.
func (r *ratios) note(session string, real, estimate int) {
	if real <= 0 || estimate <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ofSession == nil {
		r.ofSession = map[string]float64{}
	}
	if _, known := r.ofSession[session]; !known && len(r.ofSession) >= maxRatios {
		for old := range r.ofSession {
			delete(r.ofSession, old)
			break
		}
	}
	r.ofSession[session] = min(max(float64(real)/float64(estimate), leastRatio), mostRatio)
}
