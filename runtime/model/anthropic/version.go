package anthropic

import (
	"strconv"
	"strings"
)

// version is the number in the name of a Claude model; zero: the name has none.
type version struct{ major, minor int }

func (v version) least(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

// adaptive says whether the model decides itself how much it thinks, within an effort;
// earlier ones, and what only speaks their wire, are given a budget.
func (v version) adaptive() bool { return v.least(4, 6) }

// sampled says whether the model takes temperature and top_p at all.
func (v version) sampled() bool { return !v.least(4, 7) }

// versionOf reads the version from a name: "claude-3-7-sonnet-20250219", "claude-opus-4-6",
// "anthropic/claude-opus-4.6", "us.anthropic.claude-sonnet-4-20250514-v1:0". A number of
// more than two digits is a date.
func versionOf(name string) version {
	_, rest, ok := strings.Cut(strings.ToLower(name), "claude-")
	if !ok {
		return version{}
	}
	parts := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("-.@:_", r) })
	for i, p := range parts {
		major, is := number(p)
		if !is {
			continue
		}
		v := version{major: major}
		if i+1 < len(parts) {
			v.minor, _ = number(parts[i+1])
		}
		return v
	}
	return version{}
}

func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	if err != nil || len(text) > 2 || n < 0 {
		return 0, false
	}
	return n, true
}
