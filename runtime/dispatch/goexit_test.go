package dispatch_test

import "runtime"

// goexit ends the goroutine without a panic, as a misplaced test assertion does.
func goexit() { runtime.Goexit() }
