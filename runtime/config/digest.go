package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/schema"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// digestOf is the hex sha256 of every evaluated value of an object, secrets included.
// Where it was declared does not count.
func digestOf(v any) string {
	h := sha256.New()
	feed(h, reflect.ValueOf(v))
	return hex.EncodeToString(h.Sum(nil))
}

// digester is implemented by late expressions.
type digester interface{ digest() string }

func feed(h hash.Hash, v reflect.Value) {
	if !v.IsValid() {
		h.Write([]byte("nil;"))
		return
	}
	if v.CanInterface() && feedSpecial(h, v.Interface()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		feed(h, v.Elem())
	case reflect.Struct:
		feedStruct(h, v)
	case reflect.Slice, reflect.Array:
		fmt.Fprintf(h, "[%d", v.Len())
		for i := range v.Len() {
			feed(h, v.Index(i))
		}
	case reflect.Map:
		fmt.Fprintf(h, "{%d", v.Len())
		for _, k := range slices.SortedFunc(maps.Keys(mapOf(v)), strings.Compare) {
			fmt.Fprintf(h, "%q:", k)
			feed(h, v.MapIndex(reflect.ValueOf(k).Convert(v.Type().Key())))
		}
	case reflect.String:
		fmt.Fprintf(h, "%q;", v.String())
	default:
		fmt.Fprintf(h, "%v;", v)
	}
}

func mapOf(v reflect.Value) map[string]struct{} {
	out := make(map[string]struct{}, v.Len())
	for _, k := range v.MapKeys() {
		out[k.String()] = struct{}{}
	}
	return out
}

func feedSpecial(h hash.Hash, v any) bool {
	switch v := v.(type) {
	case secret.Value:
		fmt.Fprintf(h, "secret %q;", v.Open())
	case digester:
		if rv := reflect.ValueOf(v); rv.Kind() == reflect.Pointer && rv.IsNil() {
			return false
		}
		fmt.Fprintf(h, "late %s;", v.digest())
	case *schema.Schema:
		if v == nil {
			return false
		}
		fmt.Fprintf(h, "schema %s;", v.JSON())
	case *regexp.Regexp:
		if v == nil {
			return false
		}
		fmt.Fprintf(h, "re %q;", v.String())
	default:
		return false
	}
	return true
}

func feedStruct(h hash.Hash, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name == "Decl" || f.Name == "Pos" || f.Name == "Digest" || !f.IsExported() {
			continue
		}
		fmt.Fprintf(h, "%s=", f.Name)
		feed(h, v.Field(i))
	}
}

// valueKey is the key of a named value and of what it was made from.
func valueKey(n *named) string {
	h := sha256.New()
	feedValue(h, n.value)
	fmt.Fprintf(h, "%v %q", n.failed, append(n.deps.paths(""), n.rng.Filename))
	return hex.EncodeToString(h.Sum(nil))
}

func feedValue(h hash.Hash, v cty.Value) {
	bare, paths := v.UnmarkDeepWithPaths()
	fmt.Fprintf(h, "%#v %d", bare, len(paths))
}

func tableKey(table map[string]*named) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		parts = append(parts, name, table[name].key)
	}
	return hashOf(parts...)
}

// key is the present key of "var.x", "local.x" or a whole table; "" if there is none.
func (s *scope) key(name string) string {
	root, rest, one := strings.Cut(name, ".")
	if !one {
		return "*" + tableKey(s.table(root))
	}
	if n := s.table(root)[rest]; n != nil {
		return n.key
	}
	return ""
}
