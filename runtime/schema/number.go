package schema

import (
	"math"
	"strings"
)

// number is the anatomy of a JSON number literal at the start of a text.
type number struct {
	length   int // of the literal; 0: there is none
	read     int // how far the scan came, also when there is none
	point    int // index of the decimal point; 0: none
	e        int // index of the exponent's letter; 0: none
	exponent int // saturated at ±math.MaxInt32
}

// scanNumber finds the longest JSON number literal at the start of s.
func scanNumber(s string) number {
	var n number
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	first := i
	if i = digits(s, i); i == first {
		return number{read: i}
	}
	if s[first] == '0' {
		i = first + 1
	}
	if i < len(s) && s[i] == '.' {
		n.point = i
		j := digits(s, i+1)
		if j == i+1 {
			return number{read: j}
		}
		i = j
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		n.e = i
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		k := digits(s, j)
		if k == j {
			return number{read: k}
		}
		n.exponent = exponent(s[i+1 : k])
		i = k
	}
	n.length, n.read = i, i
	return n
}

func digits(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

func exponent(s string) int {
	sign := 1
	switch s[0] {
	case '-':
		sign, s = -1, s[1:]
	case '+':
		s = s[1:]
	}
	n := 0
	for _, c := range []byte(s) {
		if n = n*10 + int(c-'0'); n > math.MaxInt32 {
			return sign * math.MaxInt32
		}
	}
	return sign * n
}

// isNumber says whether all of s is a JSON number literal within bounds.
func isNumber(s string) bool {
	n := scanNumber(s)
	return n.length == len(s) && n.length > 0 && n.length <= maxNumberBytes &&
		n.exponent <= maxExponent && n.exponent >= -maxExponent
}

// integral gives the plain decimal form of a number literal whose value is an
// integer: "3.0" and "30e-1" are "3", "-0" is "0".
func integral(s string) (string, bool) {
	n := scanNumber(s)
	if n.point == 0 && n.e == 0 {
		if s == "-0" {
			return "0", true
		}
		return s, true
	}
	if n.exponent > maxExponent || n.exponent < -maxExponent {
		return "", false
	}
	mantissa := s
	if n.e > 0 {
		mantissa = s[:n.e]
	}
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all, places := whole+fraction, len(fraction)-n.exponent
	return shifted(sign, all, places)
}

// shifted is the integer with the digits all and the decimal point places from the
// right, if it is one.
func shifted(sign, all string, places int) (string, bool) {
	switch {
	case places < 0:
		all += strings.Repeat("0", -places)
	case places >= len(all):
		if strings.Trim(all, "0") != "" {
			return "", false
		}
		return "0", true
	case strings.Trim(all[len(all)-places:], "0") != "":
		return "", false
	default:
		all = all[:len(all)-places]
	}
	if all = strings.TrimLeft(all, "0"); all == "" {
		return "0", true
	}
	return sign + all, true
}
