package guard

import (
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// national are the national ids whose form is known, each with its checksum if it has one.
var national = map[configv1.SensitiveData]kind{
	configv1.SensitiveData_US_SSN: {"US_SSN", nextNumber(9, 11, ""), anchored(`\d{3}-\d{2}-\d{4}\b`), whole(isSSN)},
	configv1.SensitiveData_GB_NINO: {"GB_NINO", nextLettered(2),
		anchored(`[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b`), whole(isNINO)},
	configv1.SensitiveData_FR_NIR: {"FR_NIR", nextNumber(13, 21, ""),
		anchored(`[12] ?\d{2} ?\d{2} ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}\b`), whole(isNIR)},
	configv1.SensitiveData_ES_DNI: {"ES_DNI", nextDNI, anchored(`(?:[XYZ]-?\d{7}|\d{8})-?[A-Z]\b`), whole(isDNI)},
	configv1.SensitiveData_IT_FISCAL_CODE: {"IT_FISCAL_CODE", nextLettered(6),
		anchored(`[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b`), whole(isFiscalCode)},
	configv1.SensitiveData_DE_TAX_ID: {"DE_TAX_ID", nextNumber(11, 14, ""),
		anchored(`[1-9]\d(?:\d{9}| \d{3} \d{3} \d{3})\b`), whole(isTaxID)},
	configv1.SensitiveData_BR_CPF: {"BR_CPF", nextNumber(11, 14, ""),
		anchored(`\d{3}\.\d{3}\.\d{3}-\d{2}\b`), whole(isCPF)},
	configv1.SensitiveData_IN_AADHAAR: {"IN_AADHAAR", nextNumber(12, 14, ""),
		anchored(`[2-9]\d{3}(?: \d{4} \d{4}|-\d{4}-\d{4}|\.\d{4}\.\d{4})\b`), whole(isAadhaar)},
}

// nextLettered returns a function that finds where so many capitals begin, with a digit after them.
func nextLettered(letters int) func(string, int) int {
	return func(text string, from int) int {
		for i := from + letters; i < len(text); i++ {
			start := i - letters
			if isDigit(text[i]) && text[i-1] == ' ' && start > from { // one space may stand between
				start--
			}
			if isDigit(text[i]) && begins(text, start) &&
				strings.IndexFunc(text[start:start+letters], func(r rune) bool { return r < 'A' || r > 'Z' }) < 0 {
				return start
			}
		}
		return -1
	}
}

// nextDNI returns where a number of seven digits begins, with what may stand before it.
func nextDNI(text string, from int) int {
	run := 0
	for i := from; i < len(text); i++ {
		if !isDigit(text[i]) {
			run = 0
			continue
		}
		if run++; run < 7 {
			continue
		}
		start := i - 6
		before := strings.TrimSuffix(text[from:start], "-")
		if n := len(before); n > 0 && strings.IndexByte("XYZ", before[n-1]) >= 0 {
			start = from + n - 1
		}
		if begins(text, start) {
			return start
		}
	}
	return -1
}

// isSSN accepts numbers that the Social Security Administration may assign.
func isSSN(found string) bool {
	area, group, serial := found[:3], found[4:6], found[7:]
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// isNINO accepts the prefixes that HM Revenue and Customs allocates.
func isNINO(found string) bool {
	switch found[:2] {
	case "BG", "GB", "KN", "NK", "NT", "TN", "ZZ":
		return false
	}
	return true
}

// isNIR accepts a month, and a right key: 97 minus the remainder of the number. Corsica's letters count as numbers.
func isNIR(found string) bool {
	n := strings.ReplaceAll(found, " ", "")
	if m := n[3:5]; m == "00" || m > "12" && m < "20" {
		return false
	}
	n = strings.NewReplacer("2A", "19", "2B", "18").Replace(n)
	return modulo(n[:13], 97) == 97-modulo(n[13:], 98)
}

// isDNI accepts the right letter of an identity card, or of a foreigner, for whom a letter stands for the first digit.
func isDNI(found string) bool {
	n := strings.ReplaceAll(found, "-", "")
	if first := strings.IndexByte("XYZ", n[0]); first >= 0 {
		n = string(byte('0'+first)) + n[1:]
	}
	return "TRWAGMYFPDXBNJZSQVHLCKE"[modulo(n[:8], 23)] == n[8]
}

// isFiscalCode accepts the right last letter. Characters at odd places count by a table.
func isFiscalCode(found string) bool {
	const odd = "\x01\x00\x05\x07\x09\x0d\x0f\x11\x13\x15\x02\x04\x12\x14\x0b\x03\x06\x08\x0c\x0e\x10\x0a\x16\x19\x18\x17"
	sum := 0
	for i := range 15 {
		value := int(found[i] - '0')
		if isCapital(found[i]) {
			value = int(found[i] - 'A')
		}
		if i%2 == 0 {
			value = int(odd[value])
		}
		sum += value
	}
	return byte('A'+sum%26) == found[15]
}

// isTaxID accepts a right last digit (ISO/IEC 7064, MOD 11,10). Of the ten others, one occurs twice or three times.
func isTaxID(found string) bool {
	n := digits(found)
	var counts [10]int
	product, most, missing := 10, 0, 0
	for i := range 10 {
		d := int(n[i] - '0')
		counts[d]++
		sum := (d + product) % 10
		if sum == 0 {
			sum = 10
		}
		product = sum * 2 % 11
	}
	for _, c := range counts {
		most = max(most, c)
		if c == 0 {
			missing++
		}
	}
	return most == missing+1 && most <= 3 && missing > 0 && (11-product)%10 == int(n[10]-'0')
}

// isCPF accepts two right last digits.
func isCPF(found string) bool {
	n := digits(found)
	if strings.Trim(n, n[:1]) == "" {
		return false
	}
	for _, length := range []int{9, 10} {
		sum := 0
		for i := range length {
			sum += int(n[i]-'0') * (length + 1 - i)
		}
		if sum*10%11%10 != int(n[length]-'0') {
			return false
		}
	}
	return true
}

// isAadhaar accepts a right checksum (Verhoeff).
func isAadhaar(found string) bool {
	n, check := digits(found), 0
	for i := range len(n) {
		d := int(n[len(n)-1-i] - '0')
		for range i % 8 {
			d = int("1576283094"[d] - '0')
		}
		check = dihedral(check, d)
	}
	return check == 0
}

// dihedral multiplies in the group of the symmetries of a pentagon.
func dihedral(a, b int) int {
	switch {
	case a < 5 && b < 5:
		return (a + b) % 5
	case a < 5:
		return 5 + (a+b-5)%5
	case b < 5:
		return 5 + (a-5-b+5)%5
	}
	return (a - b + 5) % 5
}

// modulo returns the rest of a number of any length.
func modulo(number string, by int) int {
	rest := 0
	for i := range len(number) {
		rest = (rest*10 + int(number[i]-'0')) % by
	}
	return rest
}
