package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Query is one question.
type Query struct {
	CSV       *string     `json:"csv"`
	Delimiter string      `json:"delimiter"`
	Header    *bool       `json:"header"`
	Where     []Condition `json:"where"`
	GroupBy   []string    `json:"group_by"`
	Aggregate []Aggregate `json:"aggregate"`
	Select    []string    `json:"select"`
	Sort      []SortKey   `json:"sort"`
	Offset    int         `json:"offset"`
	Limit     *int        `json:"limit"`
}

// SortKey is a column to sort by.
type SortKey struct {
	Column     string `json:"column"`
	Descending bool   `json:"descending"`
}

// Answer is a table.
type Answer struct {
	Columns  []string `json:"columns"`
	Rows     [][]any  `json:"rows"`
	RowCount int      `json:"row_count"` // before offset and limit
	Scanned  int      `json:"scanned"`   // rows of the input
	More     bool     `json:"more"`      // rows were left out behind the last one
}

// Run answers the query.
func (q Query) Run() (*Answer, error) {
	if q.CSV == nil {
		return nil, errors.New("csv: required")
	}
	limit := 100
	if q.Limit != nil {
		limit = *q.Limit
	}
	if limit < 0 || q.Offset < 0 {
		return nil, errors.New("limit and offset cannot be negative")
	}
	t, err := read(*q.CSV, q.Delimiter, q.Header == nil || *q.Header)
	if err != nil {
		return nil, err
	}
	scanned := len(t.rows)
	for _, stage := range []func(*table) (*table, error){q.filtered, q.grouped, q.sorted, q.selected} {
		if t, err = stage(t); err != nil {
			return nil, err
		}
	}
	a := &Answer{Columns: t.columns, RowCount: len(t.rows), Scanned: scanned, Rows: [][]any{}}
	from := min(q.Offset, len(t.rows))
	to := from + min(limit, len(t.rows)-from)
	a.More = to < len(t.rows)
	for _, row := range t.rows[from:to] {
		a.Rows = append(a.Rows, cells(row))
	}
	return a, nil
}

func (q Query) filtered(t *table) (*table, error) {
	for _, c := range q.Where {
		holds, err := c.compile(t)
		if err != nil {
			return nil, err
		}
		t = &table{columns: t.columns, rows: slices.DeleteFunc(slices.Clone(t.rows), func(row []string) bool { return !holds(row) })}
	}
	return t, nil
}

func (q Query) sorted(t *table) (*table, error) {
	keys := make([]int, len(q.Sort))
	for i, k := range q.Sort {
		var err error
		if keys[i], err = t.column(k.Column); err != nil {
			return nil, err
		}
	}
	rows := slices.Clone(t.rows)
	slices.SortStableFunc(rows, func(a, b []string) int {
		for i, k := range keys {
			c := compareCells(a[k], b[k])
			if q.Sort[i].Descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return &table{columns: t.columns, rows: rows}, nil
}

// compareCells orders empty cells first, then numbers, then texts.
func compareCells(a, b string) int {
	x, xn := numeric(a)
	y, yn := numeric(b)
	if xn && yn {
		return x.Cmp(y)
	}
	rank := func(s string, n bool) int {
		switch {
		case s == "":
			return 0
		case n:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a, xn), rank(b, yn)), strings.Compare(a, b))
}

func (q Query) selected(t *table) (*table, error) {
	if len(q.Select) == 0 {
		return t, nil
	}
	index := make([]int, len(q.Select))
	out := &table{}
	for i, name := range q.Select {
		var err error
		if index[i], err = t.column(name); err != nil {
			return nil, err
		}
		out.columns = append(out.columns, t.columns[index[i]])
	}
	for _, row := range t.rows {
		picked := make([]string, len(index))
		for i, k := range index {
			picked[i] = row[k]
		}
		out.rows = append(out.rows, picked)
	}
	return out, nil
}

// cells renders a row: what is written as JSON writes numbers is a number, digit for
// digit, the rest text. So 007 and +1 stay text.
func cells(row []string) []any {
	out := make([]any, len(row))
	for i, c := range row {
		out[i] = c
		if plainNumber.MatchString(c) {
			out[i] = json.Number(c)
		}
	}
	return out
}

// unknown is the error for a name that is no column.
func unknown(name string, columns []string) error {
	return fmt.Errorf("there is no column %q; there are %s", name, strings.Join(columns, ", "))
}
