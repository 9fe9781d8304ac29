package postgres

import (
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/store/search"
)

const (
	// snippetWords is how many words a snippet has.
	snippetWords = 24
	// snippetBytes bounds a snippet, whose words may be long.
	snippetBytes = 4096
	// leading is how many words stand before the first match, if there are enough.
	leading = 6
	// ellipsis stands where text was left off.
	ellipsis = "…"
)

// span is a match: words of a text by index, end not included.
type span struct{ begin, end int }

// snippet is the part of a text around the matches of phrases, with marks around them.
func snippet(text string, list [][]string) string {
	all := words(text)
	found := matches(all, list)
	first := best(found, len(all))
	last := min(first+snippetWords, len(all))
	begin, end := 0, len(text)
	if first > 0 {
		begin = all[first].begin
	}
	if last < len(all) {
		end = all[last-1].end
	}
	var b strings.Builder
	if begin > 0 {
		b.WriteString(ellipsis)
	}
	at := begin
	for _, m := range found {
		if m.begin < first || m.end > last {
			continue
		}
		b.WriteString(text[at:all[m.begin].begin] + search.OpenMark + text[all[m.begin].begin:all[m.end-1].end] + search.CloseMark)
		at = all[m.end-1].end
	}
	b.WriteString(text[at:end])
	if end < len(text) {
		b.WriteString(ellipsis)
	}
	return shortened(b.String())
}

// shortened keeps a snippet of long words, or of much between them, small.
func shortened(text string) string {
	if len(text) <= snippetBytes {
		return text
	}
	return fault.Cut(text, snippetBytes) + ellipsis
}

// matches finds the phrases, in order and apart from each other.
func matches(all []word, list [][]string) []span {
	var found []span
	for i := 0; i < len(all); i++ {
		for _, row := range list {
			if startsWith(all[i:], row) {
				found = append(found, span{i, i + len(row)})
				i += len(row) - 1
				break
			}
		}
	}
	return found
}

func startsWith(all []word, row []string) bool {
	if len(row) > len(all) {
		return false
	}
	for i, w := range row {
		if all[i].folded != w {
			return false
		}
	}
	return true
}

// best is the word at which the snippet with the most matches begins.
func best(found []span, count int) int {
	most, first := 0, 0
	end := 0
	for i, m := range found {
		begin := max(m.begin-leading, 0)
		for end < len(found) && found[end].end <= begin+snippetWords {
			end++
		}
		if end-i > most {
			most, first = end-i, begin
		}
	}
	return max(min(first, count-snippetWords), 0)
}
