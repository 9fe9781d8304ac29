package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stats are the measures of a text.
type Stats struct {
	Characters int `json:"characters"` // Unicode code points
	NonSpace   int `json:"characters_without_spaces"`
	Bytes      int `json:"bytes"` // in UTF-8
	Words      int `json:"words"`
	Unique     int `json:"unique_words"` // letter case ignored
	Sentences  int `json:"sentences"`
	Lines      int `json:"lines"`
	Paragraphs int `json:"paragraphs"` // separated by blank lines
	// ReadingSeconds is the time to read it, rounded up.
	ReadingSeconds int         `json:"reading_seconds"`
	TopWords       []WordCount `json:"top_words"`
	SHA256         string      `json:"sha256"`
}

// WordCount is a word in lower case and how often it occurs.
type WordCount struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

// Measure measures text and lists its top most frequent words.
func Measure(text string, top, wordsPerMinute int) Stats {
	sum := sha256.Sum256([]byte(text))
	s := Stats{
		Characters: utf8.RuneCountInString(text), Bytes: len(text), SHA256: hex.EncodeToString(sum[:]),
		Lines: lines(text), Paragraphs: paragraphs(text), Sentences: sentences(text),
	}
	for _, r := range text {
		if !unicode.IsSpace(r) {
			s.NonSpace++
		}
	}
	counts := map[string]int{}
	for _, w := range words(text) {
		s.Words++
		counts[strings.ToLower(w)]++
	}
	s.Unique = len(counts)
	s.TopWords = ranked(counts, top)
	s.ReadingSeconds = (s.Words*60 + wordsPerMinute - 1) / wordsPerMinute
	return s
}

// ranked orders by frequency, then by word.
func ranked(counts map[string]int, top int) []WordCount {
	all := make([]WordCount, 0, len(counts))
	for w, n := range counts {
		all = append(all, WordCount{w, n})
	}
	slices.SortFunc(all, func(a, b WordCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
	})
	return all[:min(top, len(all))]
}

// words splits text: letters, digits and marks, with apostrophes and hyphens inside of a
// word, and points and commas inside of a number. Scripts written without spaces count a character as a word.
func words(text string) []string {
	var out []string
	start, end := -1, 0
	digit, point := false, false // what the last rune was
	flush := func() {
		if start >= 0 {
			out = append(out, text[start:end])
		}
		start = -1
	}
	for i, r := range text {
		n := i + utf8.RuneLen(max(r, 0))
		switch {
		case r == utf8.RuneError:
			flush()
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			flush()
			out = append(out, text[i:n])
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if point && !unicode.IsDigit(r) {
				flush()
			}
			if start < 0 {
				start = i
			}
			end = n
		case unicode.IsMark(r) && start >= 0:
			end = n
		case strings.ContainsRune("'’-", r) && start >= 0 && end == i:
			// Belongs to the word if the word goes on; end stays before it.
		case (r == '.' || r == ',') && digit:
			// Likewise for a number.
		case start >= 0:
			flush()
		}
		point = digit && (r == '.' || r == ',')
		digit = unicode.IsDigit(r)
	}
	flush()
	return out
}

func lines(text string) int {
	if text == "" {
		return 0
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
}

func paragraphs(text string) int {
	n, inside := 0, false
	for line := range strings.Lines(text) {
		blank := strings.TrimSpace(line) == ""
		if !blank && !inside {
			n++
		}
		inside = !blank
	}
	return n
}

// sentences counts runs of closing punctuation that end a word, and a last sentence that
// has none.
func sentences(text string) int {
	n, open, closing := 0, false, false
	for _, r := range text {
		switch {
		case strings.ContainsRune("。！？", r):
			if open {
				n++
			}
			open, closing = false, false
		case strings.ContainsRune(".!?…", r):
			closing = open
		case unicode.IsSpace(r):
			if closing {
				n++
				open, closing = false, false
			}
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			open, closing = true, false
		}
	}
	if open {
		n++
	}
	return n
}
