package redact

import "bytes"

// pattern is a format in which keys are given out.
type pattern struct {
	prefix string
	// least is how many characters of the alphabet follow the prefix at least; exact, if
	// over 0, how many exactly.
	least, exact int
	alphabet     func(c byte) bool
	digit        bool // one of them is a digit, and one a letter
}

// formats are those of OpenAI and Anthropic (sk-), Stripe (sk_live_ and its like), GitHub
// (ghp_ and its like, github_pat_), GitLab (glpat-), AWS (AKIA, ASIA), Google (AIza), Slack
// (xoxb- and its like), Hugging Face (hf_) and npm (npm_), by their first byte.
//
//nolint:gochecknoglobals // immutable
var formats = [256][]pattern{
	's': {{"sk-", 20, 0, wordDash, true}, {"sk_live_", 16, 0, alnum, true}, {"sk_test_", 16, 0, alnum, true}},
	'r': {{"rk_live_", 16, 0, alnum, true}, {"rk_test_", 16, 0, alnum, true}},
	'g': {
		{"ghp_", 36, 0, alnum, true}, {"gho_", 36, 0, alnum, true}, {"ghu_", 36, 0, alnum, true}, {"ghs_", 36, 0, alnum, true}, {"ghr_", 36, 0, alnum, true},
		{"github_pat_", 22, 0, word, true}, {"glpat-", 20, 0, wordDash, true},
	},
	'A': {{"AKIA", 0, 16, upper, true}, {"ASIA", 0, 16, upper, true}, {"AIza", 0, 35, wordDash, true}},
	'x': {
		{"xoxb-", 20, 0, wordDash, true}, {"xoxp-", 20, 0, wordDash, true}, {"xoxa-", 20, 0, wordDash, true}, {"xoxr-", 20, 0, wordDash, true}, {"xoxs-", 20, 0, wordDash, true},
	},
	'h': {{"hf_", 30, 0, alnum, true}},
	'n': {{"npm_", 36, 0, alnum, true}},
}

func alnum(c byte) bool    { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func upper(c byte) bool    { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' }
func word(c byte) bool     { return alnum(c) || c == '_' }
func wordDash(c byte) bool { return word(c) || c == '-' }

// maxKey is how long a key may be.
const maxKey = 16 << 10

// keyAt is how many bytes of a key of a known format stand at a place; 0: none does. A key
// begins where a word does.
func keyAt(text []byte, i int) int {
	c := text[i]
	switch c {
	case 's', 'r', 'g', 'A', 'x', 'h', 'n', 'e', '-':
	default:
		return 0
	}
	if i > 0 && wordDash(text[i-1]) && (i < 2 || text[i-2] != '\\') { // \n, as JSON has it, ends a word
		return 0
	}
	rest := text[i:min(len(text), i+maxKey)]
	switch c {
	case 'e':
		return tokenAt(rest)
	case '-':
		return privateKeyAt(rest)
	}
	for i := range formats[c] {
		if n := formats[c][i].at(rest); n > 0 {
			return n
		}
	}
	return 0
}

func (p *pattern) at(rest []byte) int {
	if len(rest) < len(p.prefix) || string(rest[:len(p.prefix)]) != p.prefix {
		return 0
	}
	n, digits, letters := len(p.prefix), 0, 0
	for n < len(rest) && p.alphabet(rest[n]) {
		switch c := rest[n]; {
		case c >= '0' && c <= '9':
			digits++
		case c != '-' && c != '_':
			letters++
		}
		n++
	}
	body := n - len(p.prefix)
	if p.exact > 0 && body != p.exact || body < p.least || p.digit && (digits == 0 || letters == 0) {
		return 0
	}
	return n
}

// tokenAt finds a JSON Web Token: three parts in base64, the first of which is JSON.
func tokenAt(rest []byte) int {
	if !bytes.HasPrefix(rest, []byte("eyJ")) {
		return 0
	}
	n := 0
	for part := range 3 {
		begin := n
		for n < len(rest) && wordDash(rest[n]) {
			n++
		}
		if n-begin < 10 {
			return 0
		}
		if part < 2 {
			if n >= len(rest) || rest[n] != '.' {
				return 0
			}
			n++
		}
	}
	return n
}

// privateKeyAt finds a private key in PEM. One that is cut off reaches to the end of what
// looks like it.
func privateKeyAt(rest []byte) int {
	const begin, key = "-----BEGIN ", "PRIVATE KEY-----"
	if !bytes.HasPrefix(rest, []byte(begin)) {
		return 0
	}
	head := bytes.Index(rest[:min(len(rest), 64)], []byte(key))
	if head < 0 {
		return 0
	}
	end := bytes.Index(rest[head+len(key):], []byte("-----END "))
	if end < 0 {
		return head + len(key)
	}
	n := head + len(key) + end
	if tail := bytes.Index(rest[n:min(len(rest), n+64)], []byte(key)); tail >= 0 {
		return n + tail + len(key)
	}
	return n
}
