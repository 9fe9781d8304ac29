package main

import "strings"

// split cuts a text into lines, each with its line end; the last may have none.
func split(text string) []string {
	lines := make([]string, 0, strings.Count(text, "\n")+1)
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

// equality gives the part of a line that decides whether it equals another.
func (a arguments) equality() func(line string) string {
	return func(line string) string {
		if a.IgnoreWhitespace {
			line = strings.Join(strings.Fields(line), " ")
		}
		if a.IgnoreCase {
			line = strings.ToLower(line)
		}
		return line
	}
}

// intern numbers lines so that equal ones have the same number.
func intern(old, new []string, key func(string) string) (x, y []int32) {
	numbers := make(map[string]int32)
	number := func(lines []string) []int32 {
		out := make([]int32, len(lines))
		for i, line := range lines {
			k := key(line)
			n, ok := numbers[k]
			if !ok {
				n = int32(len(numbers)) // at most two million
				numbers[k] = n
			}
			out[i] = n
		}
		return out
	}
	return number(old), number(new)
}
