package usage

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Nano is an amount of money in nano-dollars: a billionth of a US dollar.
type Nano int64

// Dollar is one US dollar.
const Dollar Nano = 1e9

// Plus returns the sum of two amounts that are not negative, or the maximum if it overflows.
func (n Nano) Plus(m Nano) Nano {
	if n > math.MaxInt64-m {
		return math.MaxInt64
	}
	return n + m
}

// String returns the amount in US dollars as an exact decimal without an exponent, such as 0.001234.
func (n Nano) String() string {
	sign, abs := "", uint64(n)
	if n < 0 {
		sign, abs = "-", -abs
	}
	whole, part := strconv.FormatUint(abs/1e9, 10), abs%1e9
	if part == 0 {
		return sign + whole
	}
	digits := strconv.FormatUint(part+1e9, 10)[1:] // with leading zeros
	return sign + whole + "." + strings.TrimRight(digits, "0")
}

// ParseUSD reads an amount of US dollars: decimal digits, at most nine of them after the point, no sign and no
// exponent.
func ParseUSD(text string) (Nano, error) {
	n, ok := parseDecimal(text, 9)
	if !ok || n > math.MaxInt64 {
		return 0, errNotUSD
	}
	return Nano(n), nil
}

var errNotUSD = errors.New("must be US dollars, such as 10 or 0.25, with at most nine digits after the point")

// parseDecimal parses a decimal as an integer: with 2 places, 1.5 is 150. Further digits must be 0.
func parseDecimal(text string, places int) (uint64, bool) {
	whole, part, _ := strings.Cut(text, ".")
	if whole == "" && part == "" {
		return 0, false
	}
	part = strings.TrimRight(part, "0")
	if len(part) > places {
		return 0, false
	}
	// the digits without the point are the integer
	n := uint64(0)
	for _, digits := range [3]string{whole, part, strings.Repeat("0", places-len(part))} {
		for i := range len(digits) {
			d := uint64(digits[i] - '0')
			if d > 9 || n > (math.MaxUint64-d)/10 {
				return 0, false
			}
			n = n*10 + d
		}
	}
	return n, true
}
