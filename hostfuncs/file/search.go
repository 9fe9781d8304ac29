package file

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

const (
	searchLimit   = 50
	maxMatches    = 500
	maxContext    = 5
	maxMatchChars = 500
	searchMaxSize = 8 << 20
	searchMaxRead = 256 << 20 // bytes of all files together
)

func searchFunc() hostfuncs.Func {
	return hostfuncs.Func{
		Name: "file.search",
		Description: "Find text in files, or files by name. For content, pattern is a regular expression (RE2; (?i) ignores case) " +
			"and the answer has path, line and text; for names, pattern is a glob such as *.md or docs/**/*.txt. " +
			"What was not searched is counted in skipped.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"context":{"default":0,"description":"Lines to show before and after each match","maximum":5,"minimum":0,"type":"integer"},` +
			`"files":{"description":"Only search files that match this glob, for example *.go","type":"string"},` +
			`"limit":{"default":50,"description":"How many matches at most","maximum":500,"minimum":1,"type":"integer"},` +
			`"offset":{"default":0,"description":"How many matches to pass over, to go on with a long list","minimum":0,"type":"integer"},` +
			`"path":{"default":".","description":"Folder or file to search, relative to the root","minLength":1,"type":"string"},` +
			`"pattern":{"description":"Regular expression for content, glob for names","minLength":1,"type":"string"},` +
			`"target":{"default":"content","description":"What to match","enum":["content","names"],"type":"string"}},` +
			`"required":["pattern"],"type":"object"}`),
		Config: []hostfuncs.Attr{
			rootAttr(),
			{Name: "max_size", Type: hostfuncs.Size, Default: int64(searchMaxSize), Doc: "Larger files are skipped, and counted as such."},
		},
		Capabilities: folderCapability("ro"),
		Traits:       tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		New:          newSearch,
	}
}

type searchArgs struct {
	Pattern string `json:"pattern"`
	Target  string `json:"target"`
	Path    string `json:"path"`
	Files   string `json:"files"`
	Limit   int    `json:"limit"`
	Offset  int    `json:"offset"`
	Context int    `json:"context"`
}

type match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line,omitempty"`
	Text   string   `json:"text,omitempty"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// skipped counts, by reason, what was not searched.
type skipped struct {
	Binary     int `json:"binary,omitempty"`
	TooLarge   int `json:"too_large,omitempty"`
	Unreadable int `json:"unreadable,omitempty"`
	Links      int `json:"links,omitempty"`
	Special    int `json:"special,omitempty"`     // pipes, sockets, devices
	Git        int `json:"git_folders,omitempty"` // .git
}

type searchAnswer struct {
	Matches       []match `json:"matches"`
	SearchedFiles int     `json:"searched_files"`
	Truncated     bool    `json:"truncated"`
	NextOffset    int     `json:"next_offset,omitempty"`
	Skipped       skipped `json:"skipped"`
	Incomplete    string  `json:"incomplete,omitempty"`
}

func newSearch(b hostfuncs.Binding) (tool.Handler, error) {
	maxSize, err := positive(b, "max_size", searchMaxSize)
	if err != nil {
		return nil, err
	}
	return bind(b, func(ctx context.Context, t tree, args searchArgs) (any, error) {
		s, err := newSearching(t, args, maxSize)
		if err != nil {
			return nil, err
		}
		return s.run(ctx, orRoot(args.Path))
	})
}

// errEnough ends a search that has what was asked for, and knows of one match more.
var errEnough = errors.New("enough matches")

// errRead ends a search that has read its share.
var errRead = errors.New("read enough")

// searching is one search under way.
type searching struct {
	t       tree
	names   func(p string) bool // nil: search content
	content *regexp.Regexp
	files   func(p string) bool
	maxSize int64
	limit   int
	offset  int
	context int
	maxRead int64
	walked  int // bound on entries; 0: maxWalked

	found int
	read  int64
	out   searchAnswer
}

func newSearching(t tree, args searchArgs, maxSize int64) (*searching, error) {
	s := &searching{
		t: t, maxSize: maxSize, limit: min(or(args.Limit, searchLimit), maxMatches), offset: args.Offset,
		context: min(args.Context, maxContext), maxRead: searchMaxRead, out: searchAnswer{Matches: []match{}},
	}
	var err error
	if s.files, err = globMatcher(args.Files); err != nil {
		return nil, fault.New(fault.Invalid, "files: %s", err.Error())
	}
	if args.Target == "names" {
		if s.names, err = globMatcher(args.Pattern); err != nil {
			return nil, fault.New(fault.Invalid, "pattern: %s", err.Error())
		}
		return s, nil
	}
	s.content, err = regexp.Compile(args.Pattern)
	if err != nil {
		return nil, fault.New(fault.Invalid, "pattern: %s. It is a regular expression (RE2, without lookaround and backreferences); put \\ before characters that are meant as such", err.Error())
	}
	return s, nil
}

func (s *searching) run(ctx context.Context, start string) (*searchAnswer, error) {
	p, err := locate(start)
	if err != nil {
		return nil, err
	}
	info, err := s.t.start(p)
	if err != nil {
		return nil, err
	}
	w := walk{t: s.t, max: s.walked}
	if info.IsDir() {
		err = w.run(ctx, p, func(at string, info fs.FileInfo) (bool, error) { return s.visit(ctx, at, info) })
	} else {
		_, err = s.visit(ctx, p, info)
	}
	s.out.Skipped.Unreadable += w.unreadable
	return s.finish(err)
}

func (s *searching) finish(err error) (*searchAnswer, error) {
	switch {
	case err == nil:
	case errors.Is(err, errEnough):
		s.out.Truncated, s.out.NextOffset = true, s.offset+len(s.out.Matches)
	case errors.Is(err, errWalked):
		s.out.Incomplete = "there are more entries than one call looks at; search a folder further down"
	case errors.Is(err, errRead):
		s.out.Incomplete = "stopped after reading " + humanSize(s.maxRead) + "; narrow it with path or files"
	default:
		return nil, err
	}
	return &s.out, nil
}

func (s *searching) visit(ctx context.Context, p string, info fs.FileInfo) (bool, error) {
	switch {
	case info.IsDir() && path.Base(p) == ".git":
		s.out.Skipped.Git++
		return false, nil
	case s.names != nil:
		return true, s.matchName(p, info)
	case info.IsDir():
		return true, nil
	case s.files != nil && !s.files(p):
		return false, nil
	case info.Mode()&fs.ModeSymlink != 0:
		s.out.Skipped.Links++
	case !info.Mode().IsRegular():
		s.out.Skipped.Special++
	case info.Size() > s.maxSize:
		s.out.Skipped.TooLarge++
	default:
		return false, s.searchFile(ctx, p)
	}
	return false, nil
}

func (s *searching) matchName(p string, info fs.FileInfo) error {
	if !info.IsDir() {
		s.out.SearchedFiles++
	}
	if !s.names(p) || (s.files != nil && !s.files(p)) {
		return nil
	}
	if info.IsDir() {
		p += "/"
	}
	return s.add(match{Path: p})
}

// add keeps a match that was asked for; the first one beyond ends the search.
func (s *searching) add(m match) error {
	s.found++
	switch {
	case s.found <= s.offset:
		return nil
	case len(s.out.Matches) == s.limit:
		return errEnough
	}
	s.out.Matches = append(s.out.Matches, m)
	return nil
}

// globMatcher matches a path against a glob: * and ? within a name, ** over folders,
// [a-z] one of them. A glob without a slash is matched against the last name alone. An
// empty glob gives nil.
func globMatcher(glob string) (func(p string) bool, error) {
	if glob == "" {
		return nil, nil // no filter
	}
	if _, err := path.Match(glob, ""); err != nil {
		return nil, errors.New("the glob has a bracket without its other half")
	}
	re, err := regexp.Compile("^" + globExpr(strings.TrimPrefix(glob, "./")) + "$")
	if err != nil {
		return nil, errors.New("the glob has brackets that make no sense")
	}
	if !strings.Contains(glob, "/") {
		return func(p string) bool { return re.MatchString(path.Base(p)) }, nil
	}
	return re.MatchString, nil
}

func globExpr(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); {
		rest := glob[i:]
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 3
			continue
		case strings.HasPrefix(rest, "**"):
			b.WriteString(`.*`)
			i += 2
			continue
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
		case rest[0] == '?':
			b.WriteString(`[^/]`)
		case rest[0] == '[':
			if end := strings.IndexByte(rest, ']'); end > 1 {
				b.WriteString(strings.Replace(rest[:end+1], "[!", "[^", 1))
				i += end + 1
				continue
			}
			b.WriteString(`\[`)
		default:
			r, size := utf8.DecodeRuneInString(rest)
			b.WriteString(regexp.QuoteMeta(string(r)))
			i += size
			continue
		}
		i++
	}
	return b.String()
}
