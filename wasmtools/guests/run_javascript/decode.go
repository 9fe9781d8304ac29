package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/dop251/goja"
)

// maxSafe is the largest integer that a number of a script holds with all its digits.
const maxSafe = 1<<53 - 1

// toScript makes a value of the script of JSON. Integers that a number cannot hold become
// BigInt, so that arithmetic with them is exact or an error, and never silently wrong.
func toScript(rt *goja.Runtime, text json.RawMessage) (goja.Value, error) {
	d := decoder{rt: rt, d: json.NewDecoder(bytes.NewReader(text))}
	d.d.UseNumber()
	return d.value(0)
}

type decoder struct {
	rt *goja.Runtime
	d  *json.Decoder
}

func (d *decoder) value(depth int) (goja.Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	token, err := d.d.Token()
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return d.list(depth)
		}
		return d.object(depth)
	case json.Number:
		return d.number(string(t))
	case nil:
		return goja.Null(), nil
	}
	return d.rt.ToValue(token), nil
}

func (d *decoder) list(depth int) (goja.Value, error) {
	var items []any
	for d.d.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	if _, err := d.d.Token(); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return d.rt.NewArray(items...), nil
}

func (d *decoder) object(depth int) (goja.Value, error) {
	o := d.rt.NewObject()
	for d.d.More() {
		key, err := d.d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		// Defined, not set: a member may be named __proto__.
		if err := o.DefineDataProperty(fmt.Sprint(key), v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE); err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
	}
	if _, err := d.d.Token(); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return o, nil
}

func (d *decoder) number(s string) (goja.Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is out of range", clip(s, 40))
		}
		return d.rt.ToValue(f), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && -maxSafe <= n && n <= maxSafe {
		return d.rt.ToValue(n), nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%s is no number", clip(s, 40))
	}
	return d.rt.ToValue(n), nil
}
