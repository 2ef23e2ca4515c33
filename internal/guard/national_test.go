package guard

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Numbers that the authorities publish as examples, or that everybody knows.
func TestNationalIDs(t *testing.T) {
	for d, c := range map[configv1.SensitiveData]struct{ are, arenot []string }{
		configv1.SensitiveData_US_SSN: {[]string{"123-45-6789"}, []string{"000-45-6789", "666-45-6789", "912-45-6789",
			"123-00-6789", "123-45-0000", "1123-45-6789"}},
		configv1.SensitiveData_GB_NINO: {[]string{"AB123456C", "AB 12 34 56 C", "JG103759A"},
			[]string{"QQ123456C", "GB123456A", "AB123456E", "AB12345C", "XAB123456C"}},
		configv1.SensitiveData_FR_NIR: {[]string{"1 84 12 76 451 089 46", "184127645108946", "2 69 05 49 588 157 80"},
			[]string{"1 84 12 76 451 089 47", "3 84 12 76 451 089 46", "1 84 13 76 451 089 46"}},
		configv1.SensitiveData_ES_DNI: {[]string{"12345678Z", "12345678-Z", "X1234567L", "X-1234567-L", "Y1234567X"},
			[]string{"12345678A", "X1234567A", "112345678Z", "12345678z"}},
		configv1.SensitiveData_IT_FISCAL_CODE: {[]string{"RSSMRA85T10A562S", "MRTMTT91D08F205J"},
			[]string{"RSSMRA85T10A562T", "RSSMRA85G10A562S", "rssmra85t10a562s"}},
		configv1.SensitiveData_DE_TAX_ID: {[]string{"86095742719", "47036892816", "65929970489", "65 929 970 489"},
			[]string{"86095742718", "11111111111", "02476291358", "12345678901"}},
		configv1.SensitiveData_BR_CPF: {[]string{"529.982.247-25", "111.444.777-35"},
			[]string{"529.982.247-26", "111.111.111-11", "52998224725"}},
		configv1.SensitiveData_IN_AADHAAR: {[]string{"2341 2341 2346", "2341-2341-2346", "9999 4105 7058"},
			[]string{"2341 2341 2345", "1341 2341 2346", "234123412346"}},
	} {
		s := set(t, finds(mask, d))
		found := func(text string) (all []string) {
			for _, f := range s.inRequest(text) {
				require.Equal(t, d.String(), f.label)
				all = append(all, text[f.from:f.to])
			}
			return all
		}
		for _, n := range c.are {
			for _, text := range []string{n, "id " + n + ".", "(" + n + ")", "no. 7, " + n + ", 12", "ref-" + n} {
				require.Equal(t, []string{n}, found(text), "%s: %s", d, text)
			}
		}
		for _, n := range c.arenot {
			require.Empty(t, found("id "+n+"."), d)
		}
	}
}

// nationalID returns a number in one of its usual forms, with the checksum that is right.
func (c corpus) nationalID(d configv1.SensitiveData) string {
	accept := national[d].accept
	for {
		n := ""
		switch d {
		case configv1.SensitiveData_US_SSN:
			n = "1" + c.digits(2) + "-1" + c.digits(1) + "-1" + c.digits(3)
		case configv1.SensitiveData_GB_NINO:
			n = c.letters(2, "ABCEHJL") + grouped(c.digits(6), []string{"", " "}[c.IntN(2)], 2, 2, 2) + "A"
		case configv1.SensitiveData_FR_NIR:
			n = fmt.Sprintf("%d%s%02d%s", 1+c.IntN(2), c.digits(2), 1+c.IntN(12), c.digits(10))
		case configv1.SensitiveData_ES_DNI:
			n = []string{"", "X", "Y"}[c.IntN(3)]
			n += c.digits(8-len(n)) + c.letters(1, "TRWAGMYFPDXBNJZSQVHLCKE")
		case configv1.SensitiveData_IT_FISCAL_CODE:
			const capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			n = c.letters(6, capitals) + c.digits(2) + c.letters(1, "ABCDEHLMPRST") + "1" + c.digits(1) +
				c.letters(1, capitals) + c.digits(3) + c.letters(1, capitals)
		case configv1.SensitiveData_DE_TAX_ID:
			n = "1" + c.digits(10)
		case configv1.SensitiveData_BR_CPF:
			n = grouped(c.digits(9), ".", 3, 3, 3) + "-" + c.digits(2)
		case configv1.SensitiveData_IN_AADHAAR:
			n = grouped("2"+c.digits(11), " ", 4, 4, 4)
		}
		if accept(n) > 0 {
			return n
		}
	}
}

func TestEveryKindOfDataHasItsName(t *testing.T) {
	for n, name := range configv1.SensitiveData_name {
		if n > 0 {
			all, err := finders(&configv1.GuardRule{Data: []configv1.SensitiveData{configv1.SensitiveData(n)}})
			require.NoError(t, err)
			require.Equal(t, name, all[0].label)
		}
	}
}
