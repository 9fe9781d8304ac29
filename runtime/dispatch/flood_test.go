//go:build !race

package dispatch_test

const floodBytes = 50 << 20
