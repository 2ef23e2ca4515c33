package api

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/internal/httpapi"
)

// maxRows is about how many rows a table has at most.
const maxRows = 100_000

// A table is a CSV answer: it has a column for each member of any object.
type table struct {
	columns []string
	rows    []map[string]string
}

// An object is JSON. As a cell it has a name; as a row of cells it has none.
type object struct {
	name string
	text json.RawMessage
}

// add adds a row of cells.
func (t *table) add(cells ...object) error {
	row := map[string]string{}
	for _, c := range cells {
		d := json.NewDecoder(bytes.NewReader(c.text))
		d.UseNumber()
		if err := t.value(d, c.name, row); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	t.rows = append(t.rows, row)
	return nil
}

// value puts the next value into a row. The members of an object become cells of their own, in their order.
func (t *table) value(d *json.Decoder, name string, row map[string]string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		for d.More() {
			member := name
			if v == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				member = strings.TrimPrefix(name+"_"+key.(string), "_")
			}
			if err := t.value(d, member, row); err != nil {
				return err
			}
		}
		_, err := d.Token() // the end of it
		return err
	case string:
		t.cell(row, name, httpapi.CSVText(v))
	case json.Number:
		t.cell(row, name, v.String())
	case bool:
		text := "false"
		if v {
			text = "true"
		}
		t.cell(row, name, text)
	default:
		t.cell(row, name, "")
	}
	return nil
}

func (t *table) cell(row map[string]string, name, value string) {
	if !slices.Contains(t.columns, name) {
		t.columns = append(t.columns, name)
	}
	if before, ok := row[name]; ok { // of an array
		value = before + " " + value
	}
	row[name] = value
}

// text returns the table as CSV.
func (t *table) text() ([]byte, error) {
	var out bytes.Buffer
	lines := csv.NewWriter(&out)
	err := lines.Write(t.columns)
	for _, row := range t.rows {
		cells := make([]string, len(t.columns))
		for i, column := range t.columns {
			cells[i] = row[column]
		}
		err = errors.Join(err, lines.Write(cells))
	}
	lines.Flush()
	return out.Bytes(), errors.Join(err, lines.Error())
}

// writeTable answers with the text of a table.
func writeTable(w http.ResponseWriter, name string, text []byte) error {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+fileName(name)+`.csv"`)
	_, _ = w.Write(text) // the client has gone away; there is nobody to tell
	return nil
}

func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, s)
}
