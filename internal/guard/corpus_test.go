package guard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A corpus makes texts of which it is known what is in them.
type corpus struct{ *rand.Rand }

func (c corpus) digits(n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(byte('0' + c.IntN(10)))
	}
	return b.String()
}

func (c corpus) letters(n int, of string) string {
	var b strings.Builder
	for range n {
		b.WriteByte(of[c.IntN(len(of))])
	}
	return b.String()
}

// grouped writes digits in groups.
func grouped(s, separator string, sizes ...int) string {
	var parts []string
	for _, n := range sizes {
		parts, s = append(parts, s[:n]), s[n:]
	}
	return strings.Join(parts, separator)
}

func (c corpus) card() string {
	for { // the last digit of ten is the checksum
		if n := string("3456"[1+c.IntN(3)]) + c.digits(15); isCard(n) {
			return grouped(n, []string{"", " ", "-"}[c.IntN(3)], 4, 4, 4, 4)
		}
	}
}

func (c corpus) iban() string {
	country, length := "DE", 18
	if c.IntN(2) == 0 {
		country, length = "FR", 23
	}
	account := c.digits(length)
	for check := 2; ; check++ {
		if n := fmt.Sprintf("%s%02d%s", country, check, account); isIBAN(n) {
			if c.IntN(2) == 0 {
				return n
			}
			var parts []string
			for ; len(n) > 4; n = n[4:] {
				parts = append(parts, n[:4])
			}
			return strings.Join(append(parts, n), " ")
		}
	}
}

const (
	lower = "abcdefghijklmnopqrstuvwxyz"
	token = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// one returns something of a kind, in one of its usual forms.
func (c corpus) one(d configv1.SensitiveData) string {
	pick := func(of ...string) string { return of[c.IntN(len(of))] }
	switch d {
	case configv1.SensitiveData_EMAIL:
		return c.letters(6, lower) + pick("", ".x", "+tag", "_1") + "@" + c.letters(5, lower) +
			pick(".com", ".co.uk", ".museum")
	case configv1.SensitiveData_PHONE:
		return pick("+1 "+grouped("2"+c.digits(9), "-", 3, 3, 4), "+49 30 "+grouped(c.digits(7), " ", 3, 4),
			"+44"+c.digits(10), "("+"3"+c.digits(2)+") "+grouped(c.digits(7), "-", 3, 4))
	case configv1.SensitiveData_CARD:
		return c.card()
	case configv1.SensitiveData_IBAN:
		return c.iban()
	case configv1.SensitiveData_US_SSN, configv1.SensitiveData_GB_NINO, configv1.SensitiveData_FR_NIR,
		configv1.SensitiveData_ES_DNI, configv1.SensitiveData_IT_FISCAL_CODE, configv1.SensitiveData_DE_TAX_ID,
		configv1.SensitiveData_BR_CPF, configv1.SensitiveData_IN_AADHAAR:
		return c.nationalID(d)
	case configv1.SensitiveData_IP_ADDRESS:
		return pick(fmt.Sprintf("%d.%d.%d.%d", c.IntN(256), c.IntN(256), c.IntN(256), c.IntN(256)),
			fmt.Sprintf("2001:db8:%x:%x::%x", c.IntN(65536), c.IntN(65536), 1+c.IntN(65535)))
	}
	return pick("sk-"+c.letters(40, token), "sk-ant-api03-"+c.letters(60, token), "ghp_"+c.letters(36, token),
		"AKIA"+c.letters(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), "AIza"+c.letters(35, token),
		"xoxb-"+c.digits(12)+"-"+c.letters(24, token),
		"eyJ"+c.letters(20, token)+".eyJ"+c.letters(60, token)+"."+c.letters(43, token))
}

// none returns something that looks like one of the kinds, and is not.
func (c corpus) none() string {
	switch c.IntN(13) {
	case 0:
		return "order " + c.digits(10)
	case 1:
		return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02d.%s+00:00", 1+c.IntN(12), 1+c.IntN(28), c.IntN(24), c.IntN(60), c.IntN(60), c.digits(6))
	case 2:
		return c.letters(8, "0123456789abcdef") + "-" + c.letters(4, "0123456789abcdef") +
			"-4" + c.letters(3, "0123456789abcdef") +
			"-a" + c.letters(3, "0123456789abcdef") + "-" + c.letters(12, "0123456789abcdef")
	case 3:
		return "version " + fmt.Sprintf("%d.%d.%d", c.IntN(20), c.IntN(20), c.IntN(100))
	case 4:
		return "sha256 " + c.letters(64, "0123456789abcdef")
	case 5:
		return "std::" + c.letters(6, lower) + "::" + c.letters(4, lower)
	case 6:
		return "@" + c.letters(8, lower) + " said " + c.digits(3) + "," + c.digits(3) + "." + c.digits(2)
	case 7:
		return "pi is 3.14159265358979 and " + c.digits(4) + " * " + c.digits(5) + " = " + c.digits(9)
	case 8:
		return "a risk-averse task-force, asia-pacific, npm_config"
	case 10:
		return "invoice " + c.digits(11)
	case 11:
		return "part " + c.digits(8) + c.letters(1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") // of which one in 26 is a DNI
	case 9:
		return "tracking " + c.digits(16) // of which one in 22 has the form and checksum of a card
	}
	return "ISBN 978-" + c.digits(1) + "-" + c.digits(5) + "-" + c.digits(3) + "-" + c.digits(1)
}

// TestPrecisionAndRecall is the measurement that docs/guardrails.md states.
func TestPrecisionAndRecall(t *testing.T) {
	s := set(t, everyKind())
	c := corpus{rand.New(rand.NewPCG(1, 2))}
	found, there, right, wrong := 0, 0, 0, map[string]int{}
	for n := range 7000 {
		d := configv1.SensitiveData(1 + n%14)
		want := c.one(d)
		text := "About " + c.none() + ": use " + want + ", not " + c.none() + ". OK."
		there++
		for _, f := range s.inRequest(text) {
			found++
			if text[f.from:f.to] == want && f.label == d.String() {
				right++
			} else {
				wrong[f.label]++
				t.Logf("%s %q in %q", f.label, text[f.from:f.to], text)
			}
		}
	}
	precision, recall := float64(right)/float64(found), float64(right)/float64(there)
	t.Logf("precision %.4f, recall %.4f; wrong: %v", precision, recall, wrong)
	require.GreaterOrEqual(t, precision, 0.98)
	require.GreaterOrEqual(t, recall, 0.999)
}
