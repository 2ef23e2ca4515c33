package adminflags

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// Forms of what commands print.
const (
	formTable = "table"
	FormJSON  = "json"
	formYAML  = "yaml"
	formName  = "name"
)

// ErrUnhealthy ends a report that found something wrong, so that scripts can tell by the exit code.
var ErrUnhealthy = errors.New("problems were found")

// OutputFlags choose the form of what a command prints.
type OutputFlags struct {
	Output string `short:"o" enum:"table,text,json,yaml" default:"table" help:"table, json or yaml."`
}

// Show writes v as JSON on one line or as YAML, or else the text for a person.
func (f OutputFlags) Show(w io.Writer, v any, text func(*console.Text)) error {
	out := console.For(w)
	switch f.Output {
	case FormJSON, formYAML:
		b, err := json.Marshal(v)
		if err == nil && f.Output == formYAML {
			b, err = yaml.JSONToYAML(b)
		} else if err == nil {
			b = append(b, '\n')
		}
		if err != nil {
			return err
		}
		out.Write(b)
	default:
		text(out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Ask calls the admin API and shows what it answers.
func Ask[T any](ctx context.Context, f AdminFlags, o OutputFlags, w io.Writer, call func(*adminapi.Client) (T, error),
	text func(*console.Text, T)) error {
	client, err := f.Client()
	if err != nil {
		return err
	}
	answer, err := call(client)
	if err != nil {
		return admincli.Said(err)
	}
	return o.Show(w, answer, func(out *console.Text) {
		out.Names = adminapi.Names(ctx, client)
		text(out, answer)
	})
}

// ItemFlags choose the form of objects of the configuration.
type ItemFlags struct {
	Output string `short:"o" enum:"table,text,json,yaml,name" default:"table" help:"table, json, yaml or name."`
}

// ShowOne is Show of one object, which is no list of one.
func (f ItemFlags) ShowOne(w io.Writer, kind configv1.Kind, item adminapi.Item) error {
	if f.Output != FormJSON {
		return f.Show(w, kind, []adminapi.Item{item})
	}
	text, err := item.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, string(text))
	return err
}

// Show writes objects as an array of JSON or as YAML, which apply takes back, as names, or as a table with the
// columns of the kind.
func (f ItemFlags) Show(w io.Writer, kind configv1.Kind, items []adminapi.Item) error {
	return f.ShowMore(w, kind, items, nil, nil)
}

// ShowMore is Show with further columns in the table, of the object with a name, and what follows the table.
func (f ItemFlags) ShowMore(w io.Writer, kind configv1.Kind, items []adminapi.Item, more *Columns,
	end func(*console.Text)) error {
	switch f.Output {
	case FormJSON:
		return OutputFlags{FormJSON}.Show(w, append([]adminapi.Item{}, items...), nil) // never null
	case formYAML, formName:
		return printItems(w, f.Output, items)
	}
	out := console.For(w)
	header, row := columns(kind, out)
	if more != nil {
		header, row = more.beside(header, row, out)
	}
	out.Table("There are no "+kind.Plural+".", header, admincli.Rows(items, row))
	if end != nil {
		end(out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func printItems(w io.Writer, format string, items []adminapi.Item) error {
	for i, item := range items {
		text := []byte(item.Name)
		var err error
		if format == formYAML {
			text, err = yamlOf(item, i > 0)
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n")); err != nil {
			return err
		}
	}
	return nil
}

// yamlOf returns a document; what is wrong with the object stands above it.
func yamlOf(item adminapi.Item, further bool) ([]byte, error) {
	var head string
	if further {
		head = "---\n"
	}
	if item.Status.Error != "" {
		head += "# error: " + strings.ReplaceAll(item.Status.Error, "\n", "\n# ") + "\n"
	}
	if item.Object == nil { // it cannot be read
		return []byte(head + "# kind: " + item.Kind.Name + "\n# name: " + item.Name + "\n"), nil
	}
	text, err := configv1.MarshalYAML(item.Object)
	return append([]byte(head), text...), err
}
