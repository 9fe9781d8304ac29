//go:build race

package sqlite

// stride skips indices in tests that fail or kill at every one: the race detector makes
// the database ten times slower and finds nothing there that the hammer does not.
const stride = 7
