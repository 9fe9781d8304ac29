//go:build !race

package provision_test

const churnTools, churnModules, churnSwaps = 500, 20, 1000
