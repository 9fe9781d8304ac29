package main

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
)

// maxNesting bounds arrays and objects within each other, in both directions.
const maxNesting = 200

var errTooLong = errors.New("too long")

// encoder writes values of a script as JSON, as JSON.stringify does, and where that loses
// something, otherwise:
//
//   - BigInt is an integer with all its digits; NaN and the infinities are their names
//   - Map is an object if its keys are texts, else a list of pairs; Set, typed arrays and
//     ArrayBuffer are lists; RegExp is its text; Error is {"name","message"} and its
//     own members
//   - a function, a symbol or undefined is left out of an object and null in a list, and is
//     an error where a value is needed
//   - a promise and a value within itself are errors
//
// A lenient encoder, for the console, makes text for whatever has none.
type encoder struct {
	rt      *goja.Runtime
	what    string // what is written, for errors
	max     int    // bytes
	lenient bool

	out  []byte
	path []string
	open []*goja.Object // being written, outermost first
}

// text is the value for a reader, cut to the bound. Texts are themselves.
func (e *encoder) text(s *script, v goja.Value) string {
	if goja.IsString(v) {
		return clip(v.String(), e.max)
	}
	err := s.guarded(func() error { return e.value(v) })
	if err != nil && !errors.Is(err, errTooLong) {
		return clip(string(e.out), e.max) + "[unreadable]"
	}
	return clip(string(e.out), e.max)
}

func (e *encoder) fail(format string, args ...any) error {
	return fmt.Errorf("%s %s at $%s", e.what, fmt.Sprintf(format, args...), clip(strings.Join(e.path, ""), 120))
}

func (e *encoder) write(s string) error {
	e.out = append(e.out, s...)
	if len(e.out) <= e.max {
		return nil
	}
	if e.lenient {
		return errTooLong
	}
	return fmt.Errorf("%s is over %d bytes of JSON; give less of it: a count, a part, a summary (%w)", e.what, e.max, errTooLong)
}

// value writes a value that must be there.
func (e *encoder) value(v goja.Value) error {
	if name := absent(v); name != "" {
		if e.lenient {
			return e.write(name)
		}
		return e.fail("is %s, which JSON does not have; return a value", name)
	}
	return e.present(v)
}

// absent names what JSON.stringify leaves out.
func absent(v goja.Value) string {
	if v == nil || goja.IsUndefined(v) {
		return "undefined"
	}
	switch x := v.(type) {
	case *goja.Symbol:
		return "a symbol"
	case *goja.Object:
		if _, ok := goja.AssertFunction(x); ok {
			return "a function"
		}
	}
	return ""
}

func (e *encoder) present(v goja.Value) error {
	switch {
	case goja.IsNull(v):
		return e.write("null")
	case goja.IsString(v):
		return e.string(v.String())
	case goja.IsNaN(v) || goja.IsInfinity(v):
		return e.string(v.String())
	case goja.IsNumber(v), goja.IsBigInt(v):
		return e.write(v.String())
	}
	obj, ok := v.(*goja.Object)
	if !ok {
		return e.write(strconv.FormatBool(v.ToBoolean()))
	}
	return e.object(obj)
}

func (e *encoder) object(o *goja.Object) error {
	if slices.Contains(e.open, o) {
		if e.lenient {
			return e.write("[circular]")
		}
		return e.fail("contains itself")
	}
	if len(e.open) >= maxNesting {
		if e.lenient {
			return e.write("…")
		}
		return e.fail("is nested more than %d deep", maxNesting)
	}
	e.open = append(e.open, o)
	defer func() { e.open = e.open[:len(e.open)-1] }()
	if f, ok := goja.AssertFunction(o.Get("toJSON")); ok {
		v, err := f(o)
		if err != nil {
			return err
		}
		if v == goja.Value(o) {
			return e.members(o, nil)
		}
		return e.value(v)
	}
	return e.ofClass(o)
}

// ofClass writes an object by what it is. Collections have no class of their own, but a Go
// type that they export to.
func (e *encoder) ofClass(o *goja.Object) error {
	switch o.ClassName() {
	case "Array":
		return e.list(o)
	case "RegExp":
		return e.string(o.String())
	case "Error":
		return e.members(o, []string{"name", "message"})
	case "Number", "String", "Boolean":
		return e.present(primitive(o))
	}
	switch t := o.ExportType(); {
	case t == reflect.TypeFor[*goja.Promise]():
		if e.lenient {
			return e.write("[promise]")
		}
		return e.fail("has a promise; await it first")
	case t == reflect.TypeFor[[][2]any]():
		return e.mapping(o)
	case t == reflect.TypeFor[[]any]():
		return e.set(o)
	case t == reflect.TypeFor[goja.ArrayBuffer]():
		return e.buffer(o)
	case t == reflect.TypeFor[*big.Int]():
		return e.present(primitive(o))
	case t != nil && t.Kind() == reflect.Slice: // of numbers: a typed array
		return e.list(o)
	}
	return e.members(o, nil)
}

// primitive is what is in a boxed value.
func primitive(o *goja.Object) goja.Value {
	if f, ok := goja.AssertFunction(o.Get("valueOf")); ok {
		if v, err := f(o); err == nil {
			if _, boxed := v.(*goja.Object); !boxed {
				return v
			}
		}
	}
	return o.ToString()
}

// list writes what has a length and elements.
func (e *encoder) list(o *goja.Object) error {
	return e.elements(func(add func(goja.Value) error) error {
		n := o.Get("length")
		if n == nil {
			return nil
		}
		for i := range n.ToInteger() {
			if err := add(o.Get(strconv.FormatInt(i, 10))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *encoder) set(o *goja.Object) error {
	return e.elements(func(add func(goja.Value) error) (err error) {
		e.rt.ForOf(o, func(v goja.Value) bool {
			err = add(v)
			return err == nil
		})
		return err
	})
}

func (e *encoder) buffer(o *goja.Object) error {
	b, ok := o.Export().(goja.ArrayBuffer)
	if !ok {
		return e.fail("has a buffer that cannot be read")
	}
	return e.elements(func(add func(goja.Value) error) error {
		for _, x := range b.Bytes() {
			if err := add(e.rt.ToValue(int64(x))); err != nil {
				return err
			}
		}
		return nil
	})
}

// elements writes a list of what each gives to its argument.
func (e *encoder) elements(each func(add func(goja.Value) error) error) error {
	if err := e.write("["); err != nil {
		return err
	}
	i := 0
	err := each(func(v goja.Value) error {
		if i > 0 {
			if err := e.write(","); err != nil {
				return err
			}
		}
		e.path = append(e.path, "["+strconv.Itoa(i)+"]")
		i++
		defer func() { e.path = e.path[:len(e.path)-1] }()
		if !e.lenient && absent(v) != "" {
			return e.write("null")
		}
		return e.value(v)
	})
	if err != nil {
		return err
	}
	return e.write("]")
}

type member struct {
	key   string
	value goja.Value
}

func (e *encoder) mapping(o *goja.Object) error {
	var all []member
	texts := true
	e.rt.ForOf(o, func(pair goja.Value) bool {
		p := pair.ToObject(e.rt)
		key := p.Get("0")
		texts = texts && goja.IsString(key)
		all = append(all, member{value: p.Get("1")})
		if texts {
			all[len(all)-1].key = key.String()
		}
		return texts && len(all) <= e.max
	})
	if !texts {
		return e.set(o) // whose elements are the pairs
	}
	return e.pairs(func(add func(member) error) error {
		for _, m := range all {
			if err := add(m); err != nil {
				return err
			}
		}
		return nil
	})
}

// members writes the own members, after the extra ones that are elsewhere.
func (e *encoder) members(o *goja.Object, extra []string) error {
	keys := o.Keys()
	keys = append(extra, slices.DeleteFunc(keys, func(k string) bool { return slices.Contains(extra, k) })...)
	return e.pairs(func(add func(member) error) error {
		for _, k := range keys {
			if err := add(member{k, o.Get(k)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// pairs writes an object of what each gives to its argument.
func (e *encoder) pairs(each func(add func(member) error) error) error {
	if err := e.write("{"); err != nil {
		return err
	}
	first := true
	err := each(func(m member) error {
		if !e.lenient && absent(m.value) != "" {
			return nil
		}
		if !first {
			if err := e.write(","); err != nil {
				return err
			}
		}
		first = false
		if err := e.string(m.key); err != nil {
			return err
		}
		if err := e.write(":"); err != nil {
			return err
		}
		e.path = append(e.path, "."+clip(m.key, 40))
		defer func() { e.path = e.path[:len(e.path)-1] }()
		return e.value(m.value)
	})
	if err != nil {
		return err
	}
	return e.write("}")
}

// string writes a text. Halves of characters, which UTF-8 cannot say, become U+FFFD.
func (e *encoder) string(s string) error {
	if len(s) > e.max {
		s = s[:e.max+1] // enough to be over the limit
	}
	const hex = "0123456789abcdef"
	b := append(e.out, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < 0x20:
			b = append(b, `\u00`...)
			b = append(b, hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	e.out = b
	return e.write(`"`)
}
