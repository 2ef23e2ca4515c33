package adminflags

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// columns returns the header of a kind's table, and what makes a row of an object. The name for people comes first,
// and an id last.
func columns(kind configv1.Kind, out *console.Text) (header []string, row func(adminapi.Item) []string) {
	names, cells := columnsOf(kind, out)
	byID := kind.Name == configv1.KeyKind().Name || kind.Name == TokenKind().Name
	if header = append(append([]string{"NAME"}, names...), "STATE"); byID {
		header = append(append([]string{"NAME"}, names[1:]...), "STATE", "ID") // names has the label first
	}
	return header, func(i adminapi.Item) []string {
		row := append([]string{i.Name}, make([]string, len(names))...)
		if i.Object != nil {
			copy(row[1:], cells(i.Object))
		}
		row = append(row, stateOf(i, time.Now()))
		if byID {
			row = append(row[1:], i.Name)
		}
		return row
	}
}

// Columns are further columns of a table.
type Columns struct {
	Header []string
	Cells  func(out *console.Text, name string) []string
	// Without are columns of the kind for which there is no room then.
	Without []string
}

// beside returns columns with further ones before the last.
func (c *Columns) beside(header []string, row func(adminapi.Item) []string, out *console.Text) ([]string,
	func(adminapi.Item) []string) {
	whole := header
	fit := func(cells, more []string) (kept []string) {
		for i, cell := range cells {
			if i == len(cells)-1 {
				kept = append(kept, more...)
			}
			if !slices.Contains(c.Without, whole[i]) {
				kept = append(kept, cell)
			}
		}
		return kept
	}
	return fit(header, c.Header), func(i adminapi.Item) []string { return fit(row(i), c.Cells(out, i.Name)) }
}

// columnsOf returns what is shown of a kind besides its name and state.
func columnsOf(kind configv1.Kind, out *console.Text) (names []string, cells func(configv1.Object) []string) {
	for _, c := range kind.Options.GetColumns() {
		names = append(names, c.GetHeader())
	}
	return names, func(o configv1.Object) []string {
		m, fields := o.ProtoReflect(), o.ProtoReflect().Descriptor().Fields()
		row := make([]string, 0, len(names))
		for _, c := range kind.Options.GetColumns() {
			fd, text := fields.ByName(protoreflect.Name(c.GetField())), c.GetEmpty()
			if m.Has(fd) || text == "" && fd.Message() == nil {
				text = cell(fd, m.Get(fd), out)
			}
			row = append(row, text)
		}
		return row
	}
}

// cell shows the value of a field.
func cell(fd protoreflect.FieldDescriptor, v protoreflect.Value, out *console.Text) string {
	switch {
	case fd.IsList():
		return listCell(fd, v.List())
	case fd.Kind() == protoreflect.EnumKind:
		return strings.ToLower(string(fd.Enum().Values().ByNumber(v.Enum()).Name()))
	case fd.Kind() == protoreflect.MessageKind:
		if t, ok := v.Message().Interface().(*timestamppb.Timestamp); ok {
			return out.Time(t.AsTime())
		}
	case fd.Name() == "hint":
		return "..." + v.String()
	}
	return v.String()
}

// listCell shows a list of texts, targets, limits or budgets, or the length of another one.
func listCell(fd protoreflect.FieldDescriptor, list protoreflect.List) string {
	var texts []string
	for i := range list.Len() {
		if fd.Message() == nil {
			texts = append(texts, list.Get(i).String())
			continue
		}
		switch m := list.Get(i).Message().Interface().(type) {
		case *configv1.Target:
			texts = append(texts, m.GetProvider()+"/"+m.GetModel())
		case *configv1.Limit:
			texts = append(texts, admincli.LimitsOf([]*configv1.Limit{m}))
		case *configv1.Budget:
			texts = append(texts, admincli.BudgetsOf([]*configv1.Budget{m}))
		default:
			return strconv.Itoa(list.Len())
		}
	}
	return strings.Join(texts, ", ")
}

// stateOf says whether an object has effect.
func stateOf(i adminapi.Item, now time.Time) string {
	if i.Status.Error != "" {
		return "error: " + i.Status.Error
	}
	if a, ok := i.Object.(*configv1.Account); ok && a.Barred() {
		return "disabled"
	}
	if d, ok := i.Object.(interface{ GetDisabled() bool }); ok && d.GetDisabled() {
		return "disabled"
	}
	if e, ok := i.Object.(interface{ GetExpiresAt() *timestamppb.Timestamp }); ok && e.GetExpiresAt() != nil &&
		!e.GetExpiresAt().AsTime().After(now) {
		return "expired"
	}
	return "active"
}

// ConsumptionRows are what is used of limits and budgets: scope, what, model, used, limit, when it resets.
func ConsumptionRows(c adminapi.Consumption, out *console.Text) [][]string {
	var rows [][]string
	for _, l := range c.Limits {
		used := "?" // the ledger does not know what runs
		if l.Used != nil {
			used = strconv.FormatInt(*l.Used, 10)
		}
		what := configv1.DomainOf(l.Domain).Text()
		if l.Unit != "" {
			what += "/" + l.Unit
		}
		rows = append(rows, []string{out.Named(l.Scope), what, l.Model, used, strconv.FormatInt(l.Limit, 10), ""})
	}
	for _, b := range c.Budgets {
		rows = append(rows, []string{out.Named(b.Scope), "USD/" + b.Unit, "", b.Spent, b.USD, out.Time(b.Resets)})
	}
	return rows
}
