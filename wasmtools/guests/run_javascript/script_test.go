package main

import (
	"testing"

	"github.com/hermes-runtime/hermes/wasmtools/guests/guesttest"
)

func TestCases(t *testing.T) {
	cases, err := guesttest.Load("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := module.Call("run_javascript", c.Args)
			if diff := c.Check(got, err); diff != "" {
				t.Error(diff)
			}
		})
	}
}
