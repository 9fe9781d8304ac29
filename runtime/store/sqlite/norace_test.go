//go:build !race

package sqlite

// stride is how tests that fail or kill at every index count.
const stride = 1
