package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"reflect"
	"slices"

	"github.com/dop251/goja"
)

const (
	maxCalls  = 400     // depth of calls within a script
	maxResult = 2 << 20 // bytes of the result
)

// script is one interpreter and what its script is given.
type script struct {
	rt      *goja.Runtime
	console console
	// unhandled are promises that were rejected while nobody listened, in order.
	unhandled []*goja.Promise
}

func newScript(ctx context.Context, input json.RawMessage, call caller) (*script, error) {
	s := &script{rt: goja.New()}
	s.rt.SetMaxCallStackSize(maxCalls)
	s.rt.SetRandSource(randomSource())
	s.rt.SetPromiseRejectionTracker(s.track)
	if len(input) > 0 {
		v, err := toScript(s.rt, input)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		if err := s.rt.Set("input", v); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
	} else if err := s.rt.Set("input", goja.Undefined()); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if err := s.rt.Set("console", s.console.object(s)); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	t := tools{ctx: ctx, rt: s.rt, call: call, newError: s.rt.Get("Error")}
	if err := s.rt.Set("tools", t.object()); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	return s, nil
}

// randomSource is seeded by the host. The generators of the standard library are not: they
// take their seed when the program starts, and a call may begin with the memory of an
// earlier start.
func randomSource() goja.RandSource {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails, or ends the program
	return mathrand.New(mathrand.NewChaCha8(seed)).Float64
}

func (s *script) track(p *goja.Promise, op goja.PromiseRejectionOperation) {
	if op == goja.PromiseRejectionReject {
		s.unhandled = append(s.unhandled, p)
		return
	}
	s.unhandled = slices.DeleteFunc(s.unhandled, func(q *goja.Promise) bool { return p == q })
}

// run runs the program and every job that its promises leave.
func (s *script) run(p program) (*answer, error) {
	v, err := s.rt.RunProgram(p.code)
	if err == nil && p.body {
		f, ok := goja.AssertFunction(v)
		if !ok {
			return nil, errors.New("the script is no function body")
		}
		v, err = f(goja.Undefined())
	}
	if err != nil {
		return nil, s.failure(err, p)
	}
	if v, err = s.settled(v, p); err != nil {
		return nil, err
	}
	if len(s.unhandled) > 0 {
		return nil, fmt.Errorf("a promise was rejected and nothing handled it: %w", s.rejection(s.unhandled[0].Result(), p))
	}
	return s.answer(v, p)
}

// settled is the value that a promise came to; another value is itself.
func (s *script) settled(v goja.Value, p program) (goja.Value, error) {
	promise := promiseOf(v)
	if promise == nil {
		return v, nil
	}
	switch promise.State() {
	case goja.PromiseStateFulfilled:
		return promise.Result(), nil
	case goja.PromiseStateRejected:
		return nil, s.rejection(promise.Result(), p)
	case goja.PromiseStatePending:
	}
	return nil, errors.New("the promise that is the script's value was never settled: nothing is left to run that could do it, and there are no timers")
}

func (s *script) answer(v goja.Value, p program) (*answer, error) {
	out := &answer{Console: s.console.lines()}
	if v == nil || goja.IsUndefined(v) {
		out.Result = json.RawMessage("null")
		if len(out.Console) == 0 {
			out.Note = "the script has no value: end it with an expression, or return one"
		}
		return out, nil
	}
	e := encoder{rt: s.rt, max: maxResult, what: "the result"}
	err := s.guarded(func() error { return e.value(v) })
	if isThrown(err) {
		return nil, fmt.Errorf("while the result was read: %w", s.failure(err, p))
	}
	if err != nil {
		return nil, err
	}
	out.Result = bytes.Clone(e.out)
	return out, nil
}

// guarded runs f, which may run code of the script; what that throws is the error.
func (s *script) guarded(f func() error) error {
	var inner error
	call, _ := goja.AssertFunction(s.rt.ToValue(func(goja.FunctionCall) goja.Value {
		inner = f()
		return nil
	}))
	if _, err := call(goja.Undefined()); err != nil {
		return err
	}
	return inner
}

// promiseOf is v as a promise, nil if it is none.
func promiseOf(v goja.Value) *goja.Promise {
	o, ok := v.(*goja.Object)
	if !ok || o.ExportType() != reflect.TypeFor[*goja.Promise]() {
		return nil
	}
	p, _ := o.Export().(*goja.Promise)
	return p
}
