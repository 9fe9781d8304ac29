//go:build !race

package agent_test

const floodBytes = 50 << 20
