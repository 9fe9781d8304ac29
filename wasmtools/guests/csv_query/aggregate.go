package main

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Aggregate is one figure per group.
type Aggregate struct {
	Fn     string `json:"fn"`
	Column string `json:"column"`
	As     string `json:"as"`
}

func (a Aggregate) name() string {
	switch {
	case a.As != "":
		return a.As
	case a.Column == "":
		return a.Fn
	}
	return a.Fn + "_" + a.Column
}

// grouped replaces the rows by one per group, in the order of first appearance. Without
// columns to group by, all rows are one group, also if there are none.
func (q Query) grouped(t *table) (*table, error) {
	if len(q.GroupBy) == 0 && len(q.Aggregate) == 0 {
		return t, nil
	}
	keys := make([]int, len(q.GroupBy))
	out := &table{}
	for i, name := range q.GroupBy {
		var err error
		if keys[i], err = t.column(name); err != nil {
			return nil, err
		}
		out.columns = append(out.columns, t.columns[keys[i]])
	}
	for _, a := range q.Aggregate {
		out.columns = append(out.columns, a.name())
	}
	for _, g := range groups(t.rows, keys) {
		row := g.key
		for _, a := range q.Aggregate {
			v, err := a.compute(t, g.rows)
			if err != nil {
				return nil, err
			}
			row = append(row, v)
		}
		out.rows = append(out.rows, row)
	}
	return out, nil
}

type group struct {
	key  []string
	rows [][]string
}

func groups(rows [][]string, keys []int) []*group {
	if len(keys) == 0 {
		return []*group{{rows: rows}}
	}
	var all []*group
	byKey := map[string]*group{}
	for _, row := range rows {
		key := make([]string, len(keys))
		var id strings.Builder
		for i, k := range keys {
			key[i] = row[k]
			id.WriteString(strconv.Quote(row[k]))
		}
		g := byKey[id.String()]
		if g == nil {
			g = &group{key: key}
			byKey[id.String()] = g
			all = append(all, g)
		}
		g.rows = append(g.rows, row)
	}
	return all
}

// compute gives the figure. Empty cells count for nothing; a cell that is no number is an
// error for sum and avg.
func (a Aggregate) compute(t *table, rows [][]string) (string, error) {
	if a.Fn == "count" && a.Column == "" {
		return strconv.Itoa(len(rows)), nil
	}
	k, err := t.column(a.Column)
	if err != nil {
		return "", err
	}
	var cells []string
	for _, row := range rows {
		if strings.TrimSpace(row[k]) != "" {
			cells = append(cells, row[k])
		}
	}
	switch a.Fn {
	case "count":
		return strconv.Itoa(len(cells)), nil
	case "count_distinct":
		distinct := map[string]bool{}
		for _, c := range cells {
			distinct[c] = true
		}
		return strconv.Itoa(len(distinct)), nil
	case "min", "max":
		return extreme(cells, a.Fn == "max"), nil
	case "sum", "avg":
		return total(cells, a)
	}
	return "", fmt.Errorf("there is no aggregate %q; there are count, count_distinct, sum, avg, min, max", a.Fn)
}

func extreme(cells []string, most bool) string {
	var best key
	for i, c := range cells {
		k := keyOf(c)
		if order := k.compare(best); i == 0 || most && order > 0 || !most && order < 0 {
			best = k
		}
	}
	return best.text
}

// total adds up exactly. The average of nothing is empty.
func total(cells []string, a Aggregate) (string, error) {
	sum := new(big.Rat)
	for _, c := range cells {
		n, ok := numeric(c)
		if !ok {
			return "", fmt.Errorf("%s of column %q: %q is no number", a.Fn, a.Column, c)
		}
		sum.Add(sum, n)
	}
	if a.Fn == "sum" {
		return decimal(sum), nil
	}
	if len(cells) == 0 {
		return "", nil
	}
	return decimal(sum.Quo(sum, big.NewRat(int64(len(cells)), 1))), nil
}
