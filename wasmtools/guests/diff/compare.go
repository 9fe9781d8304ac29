package main

import "slices"

// maxSteps bounds the work of one comparison, in steps of the search. Texts that are
// alike, and texts that have little in common, need far less.
const maxSteps = 40_000_000

// change says that old lines [old, oldEnd) became new lines [new, newEnd).
type change struct{ old, oldEnd, new, newEnd int }

type comparison struct {
	changes []change // in order, never touching
	coarse  bool
}

// compare finds the lines that stay: a longest common subsequence, by Myers's algorithm in
// linear space; coarser when that takes too long.
func compare(x, y []int32) comparison {
	s := search{removed: make([]bool, len(x)), added: make([]bool, len(y)), left: maxSteps}
	s.x, s.xAt = common(x, y, s.removed)
	s.y, s.yAt = common(y, x, s.added)
	s.box(0, len(s.x), 0, len(s.y))
	slide(x, s.removed)
	slide(y, s.added)
	return comparison{changes: changesOf(s.removed, s.added), coarse: s.coarse}
}

// common keeps the lines that the other text has too, with their places, and marks the
// others as changed: they are in no common subsequence.
func common(lines, other []int32, changed []bool) (kept []int32, at []int) {
	there := make(map[int32]bool, len(other))
	for _, n := range other {
		there[n] = true
	}
	for i, n := range lines {
		if !there[n] {
			changed[i] = true
			continue
		}
		kept, at = append(kept, n), append(at, i)
	}
	return kept, at
}

// search marks what changes between x and y.
type search struct {
	x, y           []int32
	xAt, yAt       []int // where a line of x and y is in the text
	removed, added []bool
	left           int // steps
	coarse         bool
	ahead, back    []int // scratch of middle
}

// box compares x[x0:x1] and y[y0:y1].
func (s *search) box(x0, x1, y0, y1 int) {
	x0, x1, y0, y1 = s.trim(x0, x1, y0, y1)
	if x0 == x1 || y0 == y1 {
		s.replace(x0, x1, y0, y1)
		return
	}
	i, j, ok := s.middle(s.x[x0:x1], s.y[y0:y1])
	if !ok {
		s.anchored(x0, x1, y0, y1)
		return
	}
	s.box(x0, x0+i, y0, y0+j)
	s.box(x0+i, x1, y0+j, y1)
}

// trim takes off what is equal at both ends.
func (s *search) trim(x0, x1, y0, y1 int) (int, int, int, int) {
	for x0 < x1 && y0 < y1 && s.x[x0] == s.y[y0] {
		x0, y0 = x0+1, y0+1
	}
	for x0 < x1 && y0 < y1 && s.x[x1-1] == s.y[y1-1] {
		x1, y1 = x1-1, y1-1
	}
	return x0, x1, y0, y1
}

func (s *search) replace(x0, x1, y0, y1 int) {
	for i := x0; i < x1; i++ {
		s.removed[s.xAt[i]] = true
	}
	for j := y0; j < y1; j++ {
		s.added[s.yAt[j]] = true
	}
}

// unreached marks a diagonal that no path has come to.
const unreached = -1

// middle finds a point on a shortest path from the beginning of both to their end, by
// searching from both sides until the searches meet. A path of d changes ends on one of
// the diagonals k = i - j from -d to d; ahead[k] is how far it has come in x. Not ok: the
// steps are used up.
//
//	ahead  from (0,0), k = i - j
//	back   from the end, in coordinates counted from there
func (s *search) middle(x, y []int32) (i, j int, ok bool) {
	n, m := len(x), len(y)
	delta, zero := n-m, m+1
	s.ahead = filled(s.ahead, n+m+3)
	s.back = filled(s.back, n+m+3)
	s.left -= n + m
	forward := func(i, j int) bool { return x[i] == y[j] }
	backward := func(i, j int) bool { return x[n-1-i] == y[m-1-j] }
	for d := 0; s.left > 0; d++ {
		lo, hi := diagonals(d, n, m)
		for k := lo; k <= hi; k += 2 {
			i := s.advance(s.ahead[zero+k-1:], d == 0, k, n, m, forward)
			if other := s.back[zero+delta-k]; delta%2 != 0 && i >= 0 && other >= 0 && i+other >= n {
				return i, i - k, true
			}
		}
		for k := lo; k <= hi; k += 2 {
			i := s.advance(s.back[zero+k-1:], d == 0, k, n, m, backward)
			if other := s.ahead[zero+delta-k]; delta%2 == 0 && i >= 0 && other >= 0 && i+other >= n {
				return n - i, m - (i - k), true
			}
		}
		s.left -= hi - lo + 2
	}
	return 0, 0, false
}

// advance extends the best path with one more change to the diagonal k, the middle one of
// reach, and then along equal lines. A path does not leave the texts.
func (s *search) advance(reach []int, first bool, k, n, m int, equal func(i, j int) bool) int {
	i := unreached
	switch below, above := reach[0], reach[2]; {
	case first:
		i = 0
	default:
		if below != unreached && below < n { // one of x is removed
			i = below + 1
		}
		if above != unreached && above-k <= m { // one of y is added
			i = max(i, above)
		}
	}
	if i != unreached {
		for start := i; ; i++ {
			if i >= n || i-k >= m || !equal(i, i-k) {
				s.left -= i - start
				break
			}
		}
	}
	reach[1] = i
	return i
}

// diagonals are those that d changes can end on, within texts of n and m lines.
func diagonals(d, n, m int) (lo, hi int) {
	lo, hi = -min(d, m), min(d, n)
	if (lo+d)%2 != 0 {
		lo++
	}
	if (hi+d)%2 != 0 {
		hi--
	}
	return lo, hi
}

func filled(v []int, n int) []int {
	v = slices.Grow(v[:0], n)[:n]
	for i := range v {
		v[i] = unreached
	}
	return v
}

// anchored splits a box at the lines that both texts have once, as far as they are in the
// same order, and takes the rest between them for replaced.
func (s *search) anchored(x0, x1, y0, y1 int) {
	s.coarse = true
	for _, p := range increasing(s.unique(x0, x1, y0, y1)) {
		s.rest(x0, p.x, y0, p.y)
		x0, y0 = p.x+1, p.y+1
	}
	s.rest(x0, x1, y0, y1)
}

func (s *search) rest(x0, x1, y0, y1 int) {
	s.replace(s.trim(x0, x1, y0, y1))
}

type pair struct{ x, y int }

// unique lists lines that occur once on each side of the box, in the order of x.
func (s *search) unique(x0, x1, y0, y1 int) []pair {
	type count struct{ x, y, at int }
	counts := make(map[int32]count)
	for _, n := range s.x[x0:x1] {
		c := counts[n]
		c.x++
		counts[n] = c
	}
	for j, n := range s.y[y0:y1] {
		if c, ok := counts[n]; ok {
			c.y, c.at = c.y+1, y0+j
			counts[n] = c
		}
	}
	var out []pair
	for i, n := range s.x[x0:x1] {
		if c := counts[n]; c.x == 1 && c.y == 1 {
			out = append(out, pair{x0 + i, c.at})
		}
	}
	return out
}

// increasing is a longest part of the pairs whose y increase: patience sorting.
func increasing(pairs []pair) []pair {
	var tops []int // of the piles: indexes of pairs
	before := make([]int, len(pairs))
	for i, p := range pairs {
		pile, _ := slices.BinarySearchFunc(tops, p.y, func(at, y int) int { return pairs[at].y - y })
		before[i] = -1
		if pile > 0 {
			before[i] = tops[pile-1]
		}
		tops = append(tops[:pile], append([]int{i}, tops[min(pile+1, len(tops)):]...)...)
	}
	if len(tops) == 0 {
		return nil
	}
	out := make([]pair, 0, len(tops))
	for i := tops[len(tops)-1]; i >= 0; i = before[i] {
		out = append(out, pairs[i])
	}
	slices.Reverse(out)
	return out
}

// slide moves runs of changed lines down as far as the lines around them are equal, where
// people expect them: a block that was added behind a like one is the second. The lines
// that stay are as before, in number and in text.
func slide(lines []int32, changed []bool) {
	for end := len(lines); end > 0; end-- {
		if !changed[end-1] {
			continue
		}
		start := end - 1
		for start > 0 && changed[start-1] {
			start--
		}
		next := start
		for end < len(lines) && !changed[end] && lines[start] == lines[end] {
			changed[start], changed[end] = false, true
			start, end = start+1, end+1
		}
		end = next + 1
	}
}

// changesOf lists the runs of changed lines.
func changesOf(removed, added []bool) []change {
	var out []change
	i, j := 0, 0
	for i < len(removed) || j < len(added) {
		c := change{old: i, new: j}
		for i < len(removed) && removed[i] {
			i++
		}
		for j < len(added) && added[j] {
			j++
		}
		if c.oldEnd, c.newEnd = i, j; c.old < i || c.new < j {
			out = append(out, c)
			continue
		}
		i, j = i+1, j+1
	}
	return out
}
