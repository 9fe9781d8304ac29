package generation

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// maxShown is how many bytes of a value are shown.
const maxShown = 2 << 10

// sheet collects the attributes of one object.
type sheet struct {
	key     *keyed
	decl    *config.Decl
	project string
	// under is what the names of attributes stand below in the declaration.
	under string
	attrs []entry
}

// entry is an attribute with the whole of its value, which only the digest sees.
type entry struct {
	Attr
	whole []byte
}

// put adds an attribute; one that is empty and was not written is left out.
func (s *sheet) put(name string, v any) {
	written := s.written(name)
	if !written && empty(v) {
		return
	}
	s.value(name, v, !written)
}

// path adds a path, relative to the project.
func (s *sheet) path(name, abs string) { s.put(name, relative(s.project, abs)) }

func (s *sheet) paths(name string, abs []string) {
	list := make([]string, len(abs))
	for i, p := range abs {
		list[i] = relative(s.project, p)
	}
	s.put(name, list)
}

// size adds a number of bytes.
func (s *sheet) size(name string, n int64) { s.put(name, config.ShowSize(n)) }

// written says whether the attribute stands in the file. Blocks that may be repeated
// share one path there.
func (s *sheet) written(name string) bool {
	_, ok := s.decl.Attrs[s.place(name)]
	return ok
}

// place is the path of an attribute in its declaration.
func (s *sheet) place(name string) string {
	if strings.Contains(name, "[") {
		name = indexRE.ReplaceAllString(name, "")
	}
	return s.under + name
}

var indexRE = regexp.MustCompile(`\[\d+\]`)

// hidden says whether not even the keys of a map may be shown.
func (s *sheet) hidden(name string) bool { return s.decl.Hidden[s.place(name)] }

// value adds a value, maps by their keys.
func (s *sheet) value(name string, v any, unwritten bool) {
	switch v := v.(type) {
	case secret.Value:
		s.secret(name, []byte(v.Open()), unwritten)
	case late.Expr:
		s.late(name, v, unwritten)
	case map[string]any:
		s.table(name, v, unwritten)
	case []any:
		s.list(name, v, unwritten)
	case time.Duration:
		s.plain(name, config.ShowDuration(v), unwritten)
	default:
		s.plain(name, v, unwritten)
	}
}

func (s *sheet) table(name string, v map[string]any, unwritten bool) {
	if s.hidden(name) {
		s.secret(name, reveal(v), unwritten)
		return
	}
	if len(v) == 0 {
		s.plain(name, v, unwritten)
	}
	for _, k := range sortedKeys(v) {
		s.value(name+step(k), v[k], unwritten)
	}
}

// list adds a list whole if there is only plain data in it.
func (s *sheet) list(name string, v []any, unwritten bool) {
	if !slices.ContainsFunc(v, special) {
		s.plain(name, v, unwritten)
		return
	}
	for i, e := range v {
		s.value(name+"["+strconv.Itoa(i)+"]", e, unwritten)
	}
}

// special says whether there is more in a value than plain data.
func special(v any) bool {
	switch v := v.(type) {
	case secret.Value, late.Expr:
		return true
	case []any:
		return slices.ContainsFunc(v, special)
	case map[string]any:
		for _, e := range v {
			if special(e) {
				return true
			}
		}
	}
	return false
}

func (s *sheet) secret(name string, open []byte, unwritten bool) {
	s.attrs = append(s.attrs, entry{Attr{Name: name, Sensitive: true, Default: unwritten, Digest: s.key.of([]byte("sensitive"), open)}, open})
}

// late adds an expression: its text, and for the digest all that it was made from.
func (s *sheet) late(name string, e late.Expr, unwritten bool) {
	s.source(name, config.SourceOf(e), unwritten)
}

func (s *sheet) source(name string, src config.ExprSource, unwritten bool) {
	if src.Sensitive {
		s.secret(name, []byte(src.Digest), unwritten)
		return
	}
	text, size := cut(src.Text)
	s.attrs = append(s.attrs, entry{Attr{
		Name: name, Value: encode(text), Late: true, Size: size, Default: unwritten, Digest: s.key.of([]byte("late"), []byte(src.Digest)),
	}, []byte(src.Digest)})
}

func (s *sheet) plain(name string, v any, unwritten bool) {
	raw := encode(v)
	e := entry{Attr{Name: name, Value: raw, Default: unwritten}, raw}
	if len(raw) > maxShown {
		text, ok := v.(string)
		if !ok {
			text = string(raw)
		}
		text, e.Size = cut(text)
		e.Value, e.Digest = encode(text), s.key.of([]byte("plain"), raw)
	}
	s.attrs = append(s.attrs, e)
}

// sorted sorts what was collected, and gives it as attributes.
func (s *sheet) sorted() []Attr {
	slices.SortStableFunc(s.attrs, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	out := make([]Attr, len(s.attrs))
	for i := range s.attrs {
		out[i] = s.attrs[i].Attr
	}
	return out
}

// cut is the beginning of a text, and the size of all of it if that is more.
func cut(text string) (string, int) {
	if len(text) <= maxShown {
		return text, 0
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], len(text)
}

// reveal is all of a value, for digests.
func reveal(v any) []byte {
	var b bytes.Buffer
	feed(&b, v)
	return b.Bytes()
}

func feed(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case secret.Value:
		b.WriteString("s" + strconv.Quote(v.Open()))
	case late.Expr:
		b.WriteString("l" + config.SourceOf(v).Digest)
	case map[string]any:
		b.WriteByte('{')
		for _, k := range sortedKeys(v) {
			b.WriteString(strconv.Quote(k))
			feed(b, v[k])
		}
	case []any:
		b.WriteByte('[')
		for _, e := range v {
			feed(b, e)
		}
	default:
		b.Write(encode(v))
	}
	b.WriteByte(';')
}

// encode is JSON with escapes for HTML: what is so encoded stays as it is, however it is
// encoded again.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("generation: a value of the configuration has no JSON: " + err.Error())
	}
	return raw
}

var wordRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// step is one key of a path.
func step(key string) string {
	if wordRE.MatchString(key) {
		return "." + key
	}
	return "[" + strconv.Quote(key) + "]"
}

// empty says whether a value that was not written says nothing.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []string:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case secret.Value:
		return v.Empty()
	}
	return false
}

// relative is a path as it is written in a project, wherever that lies.
func relative(project, path string) string {
	rel, err := filepath.Rel(project, path)
	if path == "" || err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return filepath.ToSlash(rel)
}
