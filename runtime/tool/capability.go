package tool

import (
	"slices"
	"strconv"
	"strings"
)

// Hidden stands in a capability for a name that is a secret. Since two of them cannot be
// told apart, no capability covers one that has it.
const Hidden = "(sensitive)"

// Covers says whether everything in old may be done with live too, in any order: whether
// live narrows nothing. It may say no where a person would see that nothing is lost, and
// never yes where something is.
//
// A capability is one line of words, and covers itself. Beyond that
//
//	http WHAT https://*.example.com   covers   http WHAT https://api.example.com
//	http WHAT https://*               covers   every https host on its usual port
//	files rw PATH …                   covers   files ro PATH …     (kv alike)
//	tools depth 3                     covers   tools depth 2
//
// where WHAT is a method, "private" (addresses that are not public) or "header NAME" (a
// credential that the host adds). Paths are not ordered: a link below one may lead
// anywhere.
func Covers(live, old []string) bool { return len(Uncovered(live, old)) == 0 }

// Uncovered gives what of old cannot be done with live, in the order of old.
func Uncovered(live, old []string) []string {
	var out []string
	for _, o := range old {
		if !slices.ContainsFunc(live, func(l string) bool { return coversOne(l, o) }) {
			out = append(out, o)
		}
	}
	return out
}

func coversOne(live, old string) bool {
	if strings.Contains(old, Hidden) {
		return false
	}
	if live == old {
		return true
	}
	kind, l, _ := strings.Cut(live, " ")
	other, o, _ := strings.Cut(old, " ")
	if kind != other {
		return false
	}
	switch kind {
	case "http":
		return coversRequest(l, o)
	case "files", "kv":
		rest, writes := strings.CutPrefix(l, "rw ")
		return writes && o == "ro "+rest
	case "tools":
		return coversDepth(l, o)
	}
	return false
}

func coversRequest(live, old string) bool {
	i, j := strings.LastIndexByte(live, ' '), strings.LastIndexByte(old, ' ')
	return i >= 0 && j >= 0 && live[:i] == old[:j] && coversOrigin(live[i+1:], old[j+1:])
}

// coversOrigin compares origins as egress writes them: lower case, a usual port left out.
func coversOrigin(live, old string) bool {
	scheme, host, ok1 := strings.Cut(live, "://")
	other, at, ok2 := strings.Cut(old, "://")
	switch {
	case !ok1 || !ok2 || scheme != other:
		return false
	case host == "*":
		return usualPort(at)
	case strings.HasPrefix(host, "*."):
		return strings.HasSuffix(at, host[1:])
	}
	return host == at
}

func usualPort(host string) bool {
	return strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']')
}

func coversDepth(live, old string) bool {
	l, ok1 := strings.CutPrefix(live, "depth ")
	o, ok2 := strings.CutPrefix(old, "depth ")
	n, err1 := strconv.Atoi(l)
	m, err2 := strconv.Atoi(o)
	return ok1 && ok2 && err1 == nil && err2 == nil && n >= m
}
