// Command table reads the output of the benchmarks on stdin and writes one table in
// Markdown: a line for each way of doing the work, with its time in every language, how
// many times that of hermes' isolated call it is, calls a second on all processors, and
// memory.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// row is a way of doing the work.
type row struct{ name, title, isolation string }

// rows are the lines of the table, in order. What was not measured is left out.
func rows() []row {
	return []row{
		{"native", "native Go handler", "none"},
		{"exec", "`os/exec` of a native program", "process"},
		{"wazero-command", "wazero, command, an instance per call", "full"},
		{"wazero-fresh", "wazero, reactor, an instance per call", "full"},
		{"wazero-pooled", "wazero, pooled", "none"},
		{"wazero-pooled-unchecked", "wazero, pooled, cannot be ended", "none"},
		{"wazero-pooled-fuel", "wazero, pooled, rewritten for fuel", "none"},
		{"extism-fresh", "Extism SDK, fresh, cannot be ended", "full"},
		{"extism-fresh-timeout", "Extism SDK, fresh", "full"},
		{"extism-pooled", "Extism SDK, pooled, cannot be ended", "none"},
		{"extism-pooled-timeout", "Extism SDK, pooled", "none"},
		{"hermes-plugin", "hermes, Extism plug-in", "full"},
		{"hermes-command", "hermes, command", "full"},
		{"hermes-fresh", "hermes, reactor, fresh", "full"},
		{"hermes-snapshot", "**hermes, reactor, snapshot**", "full"},
	}
}

type language struct{ key, title string }

func languages() []language {
	return []language{{"go", "Go"}, {"c", "C"}, {"rust", "Rust"}, {"as", "AssemblyScript"}}
}

// base is what the ratios are of.
const base = "hermes-snapshot"

// results maps benchmark/language/variant to the last value of each unit.
type results map[string]map[string]float64

func main() {
	res, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reading benchmarks:", err)
		os.Exit(1)
	}
	if len(res) == 0 {
		fmt.Fprintln(os.Stderr, "no benchmark results on stdin: run make -C bench bench")
		os.Exit(1)
	}
	write(os.Stdout, res)
}

// read takes the lines of results, "BenchmarkCall/go/native-2  1000  1234 ns/op  …".
func read(r io.Reader) (results, error) {
	out := results{}
	for in := bufio.NewScanner(r); ; {
		if !in.Scan() {
			return out, in.Err()
		}
		f := strings.Fields(in.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > strings.LastIndexByte(name, '/') {
			name = name[:i] // the number of processors
		}
		name = strings.TrimSuffix(name, "/parallel")
		units := map[string]float64{}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				units[f[i+1]] = v
			}
		}
		out[name] = units
	}
}

func write(w io.Writer, res results) {
	section(w, res, "Call", "ns/op", "Time of one call", func(v float64) string { return duration(v) })
	section(w, res, "AllCores", "calls/s", "Calls a second on all processors", func(v float64) string { return thousands(v) })
	section(w, res, "Memory", "KiB/instance", "Private memory of an idle instance, after calls", func(v float64) string { return kib(v) })
}

func section(w io.Writer, res results, bench, unit, title string, show func(float64) string) {
	fmt.Fprintf(w, "\n%s; in brackets, how many times hermes' snapshot:\n\n| | isolation |", title)
	for _, l := range languages() {
		fmt.Fprintf(w, " %s |", l.title)
	}
	fmt.Fprint(w, "\n|---|---|"+strings.Repeat("---:|", len(languages()))+"\n")
	for _, r := range rows() {
		cells, any := line(res, bench, unit, r.name, show)
		if any {
			fmt.Fprintf(w, "| %s | %s |%s\n", r.title, r.isolation, cells)
		}
	}
}

func line(res results, bench, unit, name string, show func(float64) string) (cells string, any bool) {
	for _, l := range languages() {
		v, ok := res[bench+"/"+l.key+"/"+name][unit]
		cell := ""
		if ok {
			any, cell = true, show(v)
			if b, ok := res[bench+"/"+l.key+"/"+base][unit]; ok && name != base && b > 0 {
				cell += fmt.Sprintf(" (%s)", ratio(v/b))
			}
		}
		cells += " " + cell + " |"
	}
	return cells, any
}

func ratio(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f×", v)
	}
	if v >= 0.1 {
		return fmt.Sprintf("%.1f×", v)
	}
	return fmt.Sprintf("%.2f×", v)
}

func duration(ns float64) string {
	switch {
	case ns >= 1e6:
		return fmt.Sprintf("%.1f ms", ns/1e6)
	case ns >= 1e5:
		return fmt.Sprintf("%.0f µs", ns/1e3)
	}
	return fmt.Sprintf("%.1f µs", ns/1e3)
}

// thousands renders a rate, rounded where its last digits mean nothing.
func thousands(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f million", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f,000", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

func kib(v float64) string {
	if v >= 1024 {
		return fmt.Sprintf("%.1f MiB", v/1024)
	}
	return fmt.Sprintf("%.0f KiB", v)
}
