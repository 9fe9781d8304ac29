package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns = 2000
	maxCells   = 1_000_000 // with the empty ones that short rows are filled with
	maxDigits  = 100       // of a number; a longer one is a text
)

// table is rows of cells, all as long as columns.
type table struct {
	columns []string
	rows    [][]string
	cells   int
}

// column finds a column: by its name, else by its name without regard to case and to
// space around it, if that is one.
func (t *table) column(name string) (int, error) {
	found := -1
	for i, c := range t.columns {
		if c == name {
			return i, nil
		}
		if strings.EqualFold(strings.TrimSpace(c), strings.TrimSpace(name)) {
			if found >= 0 {
				return 0, fmt.Errorf("the column %q is ambiguous; there are %s", name, listed(t.columns))
			}
			found = i
		}
	}
	if found < 0 {
		return 0, unknown(name, t.columns)
	}
	return found, nil
}

// read parses the text. Short rows are filled with empty cells; longer ones are errors,
// since their cells belong to no column.
func read(text, delimiter string, header bool) (*table, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	comma, err := delimiterOf(text, delimiter)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = comma, -1, false
	t := &table{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the csv cannot be read: %w", err)
		}
		if err := t.add(row, header); err != nil {
			line, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if t.columns == nil {
		return nil, errors.New("the csv is empty")
	}
	return t, nil
}

func (t *table) add(row []string, header bool) error {
	if t.columns == nil {
		if len(row) > maxColumns {
			return fmt.Errorf("%d columns; at most %d can be queried", len(row), maxColumns)
		}
		t.columns = columnNames(row, header)
		if header {
			return nil
		}
	}
	if len(row) > len(t.columns) {
		return fmt.Errorf("%d cells, but there are %d columns", len(row), len(t.columns))
	}
	if t.cells += len(t.columns); t.cells > maxCells {
		return fmt.Errorf("more than %d cells; query a part of the table", maxCells)
	}
	for len(row) < len(t.columns) {
		row = append(row, "")
	}
	t.rows = append(t.rows, row)
	return nil
}

// columnNames makes distinct names: c2 for an empty one, name_2 for a second one.
func columnNames(row []string, header bool) []string {
	names := make([]string, len(row))
	used := map[string]bool{}
	next := map[string]int{} // suffix to try, by name without one
	for i, name := range row {
		name = strings.TrimSpace(name)
		if !header || name == "" {
			name = fmt.Sprintf("c%d", i+1)
		}
		base := name
		for used[name] {
			n := max(2, next[base])
			name = fmt.Sprintf("%s_%d", base, n)
			next[base] = n + 1
		}
		used[name] = true
		names[i] = name
	}
	return names
}

func delimiterOf(text, given string) (rune, error) {
	if given == `\t` {
		given = "\t"
	}
	if given != "" {
		r, n := utf8.DecodeRuneInString(given)
		if n != len(given) || strings.ContainsRune("\"\r\n\ufffd", r) {
			return 0, fmt.Errorf("delimiter must be one character and no quote or line end, not %q", given)
		}
		return r, nil
	}
	line, _, _ := strings.Cut(text, "\n")
	best, most := ',', 0
	for _, r := range ",;\t|" {
		if n := strings.Count(line, string(r)); n > most {
			best, most = r, n
		}
	}
	return best, nil
}

var (
	plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	anyNumber   = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$`)
)

// numeric is the number in a cell, exactly.
func numeric(cell string) (*big.Rat, bool) {
	cell = strings.TrimSpace(cell)
	if len(cell) == 0 || len(cell) > maxDigits || cell[0] > '9' || !anyNumber.MatchString(cell) {
		return nil, false
	}
	return new(big.Rat).SetString(cell)
}

// decimal writes a number without an exponent: exactly if it has a finite expansion of at
// most 12 decimals, else rounded to that.
func decimal(r *big.Rat) string {
	s := r.FloatString(12)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
