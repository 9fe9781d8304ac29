//go:build race

package provision_test

// Race detection makes every step cost more; the paths are the same.
const churnTools, churnModules, churnSwaps = 60, 5, 60
