package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
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
	More     bool     `json:"more"`      // rows were left out behind the last one, by limit or by size
}

// Run answers the query.
func (q Query) Run() (*Answer, error) {
	if q.CSV == nil {
		return nil, errors.New("csv: required")
	}
	if err := q.bounds(); err != nil {
		return nil, err
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
	left := maxOutput
	for _, row := range t.rows[from:to] {
		if left -= written(row); left < 0 && len(a.Rows) > 0 {
			a.More = true
			break
		}
		a.Rows = append(a.Rows, cells(row))
	}
	return a, nil
}

// maxOutput bounds the rows of an answer, in bytes of JSON: there are more behind them then.
const maxOutput = 2 << 20

// written is about how many bytes of JSON a row has.
func written(row []string) int {
	n := 2
	for _, c := range row {
		n += len(c) + 3
		for i := range len(c) {
			if c[i] < ' ' || c[i] == '"' || c[i] == '\\' {
				n += 5
			}
		}
	}
	return n
}

// bounds are how many parts of each kind a query may have.
func (q Query) bounds() error {
	for _, part := range []struct {
		name    string
		n, most int
	}{
		{"where", len(q.Where), 50}, {"group_by", len(q.GroupBy), 20}, {"aggregate", len(q.Aggregate), 50},
		{"select", len(q.Select), maxColumns}, {"sort", len(q.Sort), 20},
	} {
		if part.n > part.most {
			return fmt.Errorf("%s has %d parts; at most %d are allowed", part.name, part.n, part.most)
		}
	}
	return nil
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
	if len(keys) == 0 {
		return t, nil
	}
	type keyed struct {
		row []string
		by  []key
	}
	rows := make([]keyed, len(t.rows))
	all := make([]key, len(t.rows)*len(keys))
	for i, row := range t.rows {
		by := all[i*len(keys) : (i+1)*len(keys)]
		for j, k := range keys {
			by[j] = keyOf(row[k])
		}
		rows[i] = keyed{row, by}
	}
	slices.SortStableFunc(rows, func(a, b keyed) int {
		for i := range keys {
			c := a.by[i].compare(b.by[i])
			if q.Sort[i].Descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	out := &table{columns: t.columns, rows: make([][]string, len(rows))}
	for i, r := range rows {
		out.rows[i] = r.row
	}
	return out, nil
}

// key is a cell to be ordered: empty ones first, then numbers, then texts.
type key struct {
	text   string
	number *big.Rat // nil: none
}

func keyOf(cell string) key {
	n, _ := numeric(cell)
	return key{cell, n}
}

func (k key) compare(other key) int {
	if k.number != nil && other.number != nil {
		return k.number.Cmp(other.number)
	}
	return cmp.Or(cmp.Compare(k.rank(), other.rank()), strings.Compare(k.text, other.text))
}

func (k key) rank() int {
	switch {
	case k.text == "":
		return 0
	case k.number != nil:
		return 1
	}
	return 2
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
	return fmt.Errorf("there is no column %q; there are %s", name, listed(columns))
}

// listed names the first columns.
func listed(columns []string) string {
	const most = 30
	if len(columns) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(columns[:most], ", "), len(columns)-most)
	}
	return strings.Join(columns, ", ")
}
