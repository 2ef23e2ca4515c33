package httpapi

import "strings"

// CSVText returns a cell of CSV that spreadsheets do not take for a formula: what a client has named may be meant to
// be one (https://owasp.org/www-community/attacks/CSV_Injection).
func CSVText(s string) string {
	if strings.IndexAny(s, "=+-@＝＋－＠\t\r\n") == 0 {
		return "'" + s
	}
	return s
}
