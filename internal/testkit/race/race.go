// Package race makes tests smaller where the race detector runs, which makes programs ten times slower: what goroutines
// share is the same in the first of many cases that differ in numbers alone.
package race

// Few returns the first n of a list where the race detector runs, and all elsewhere.
func Few[T any](n int, list []T) []T {
	if Enabled {
		return list[:min(n, len(list))]
	}
	return list
}

// Every returns n where the race detector runs, and 1 elsewhere: the step of a loop over cases.
func Every(n int) int {
	if Enabled {
		return n
	}
	return 1
}
