package file

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	maxSiblings    = 5000
	maxSuggestions = 3
)

// suggest is what to say after "does not exist": near names in the deepest folder of
// the path that exists.
func (t tree) suggest(p string) string {
	dir, missing := path.Dir(p), path.Base(p)
	for dir != "." {
		if info, err := t.Stat(dir); err == nil && info.IsDir() {
			break
		}
		dir, missing = path.Dir(dir), path.Base(dir)
	}
	f, err := t.Open(dir)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(maxSiblings)
	if err != nil && len(names) == 0 {
		return "; the folder " + quoted(dir) + " is empty"
	}
	near := nearest(missing, names)
	if len(near) == 0 {
		return ""
	}
	for i, name := range near {
		near[i] = quoted(path.Join(dir, name))
	}
	return ". Did you mean " + strings.Join(near, " or ") + "?"
}

func quoted(s string) string { return fmt.Sprintf("%.200q", s) }

type scored struct {
	name string
	d    int
}

// nearest are the names that differ from want by case, ending or a few letters, the
// closest first.
func nearest(want string, names []string) []string {
	var found []scored
	for _, name := range names {
		d := distance(strings.ToLower(want), strings.ToLower(name))
		if strings.EqualFold(stem(want), stem(name)) {
			d = min(d, 1)
		}
		if d <= 1+len(want)/4 {
			found = append(found, scored{name, d})
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		if a.d != b.d {
			return a.d - b.d
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, f := range found[:min(len(found), maxSuggestions)] {
		out = append(out, f.name)
	}
	return out
}

func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// distance is the number of bytes to insert, delete or replace, of the first 64.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
