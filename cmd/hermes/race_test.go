//go:build race

package main

// raceEnabled says that the race detector watches the test binary, which is what scripts
// run as hermes.
const raceEnabled = true
