//go:build race

package agent_test

// Race detection makes every byte cost more; the path is the same.
const floodBytes = 4 << 20
