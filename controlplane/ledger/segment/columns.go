package segment

import (
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"

	"github.com/modelgate/modelgate/internal/usage"
)

// A Column is a field of the schema, by its id.
type Column int

// The columns, apart from those of usage, which [UsedColumn] returns. Ids are for ever.
const (
	ID            Column = 1
	RequestID     Column = 2
	StartedAt     Column = 3
	DurationMS    Column = 4
	FirstByteMS   Column = 5
	Key           Column = 6
	Organization  Column = 7
	Project       Column = 8
	User          Column = 9
	Operation     Column = 10
	Model         Column = 11
	Provider      Column = 12
	UpstreamModel Column = 13
	Attempts      Column = 14
	Stream        Column = 15
	Status        Column = 16
	Outcome       Column = 17
	ErrorCode     Column = 18
	RefusedBy     Column = 19
	KeyHint       Column = 20
	Requests      Column = 21
	Estimated     Column = 22
	Batch         Column = 23
	Cost          Column = 24
	Fees          Column = 25
	Priced        Column = 26
	PriceVersion  Column = 27
	TraceID       Column = 28
	UpstreamID    Column = 29
	Dropped       Column = 30
	Adjusted      Column = 31
	Cache         Column = 32
	Policy        Column = 33
	Message       Column = 34

	Plan        Column = 40 // and 41 its elements
	Guards      Column = 42 // and 43 its elements
	Limits      Column = 44 // and 45 to 47 the fields of its elements
	AttemptList Column = 50 // and 51 to 59 the fields of its elements

	firstUsed Column = 100
)

// UsedColumn returns the column of a kind of usage.
func UsedColumn(k usage.Kind) Column { return firstUsed + Column(usage.Fields[k].Number) }

// A form says how the values of a column are kept.
type form int

const (
	text    form = iota // a string of few values
	unique              // a string of many values
	number              // an int64 of few values
	count               // an int64 of many values
	instant             // microseconds
	money               // nano-dollars
	flag
)

// A column is a leaf of the schema. One of a list gets the index of the element, all others 0.
type column struct {
	id    Column
	name  string
	form  form
	about string
	in    *list // nil: a field of the row

	text   func(*Row, int) *string // if the form is text or unique
	flag   func(*Row, int) *bool   // if it is flag
	number func(*Row, int) *int64  // if it is another

	leaf int // index among the leaves of the schema
}

// A list is a field with elements. Its elements have one column, without a name, or several.
type list struct {
	id     Column
	name   string
	about  string
	length func(*Row) int
	resize func(*Row, int) // to that many elements
}

func texts(id Column, f form, name, about string, get func(*Row) *string) column {
	return column{id: id, name: name, form: f, about: about, text: func(r *Row, _ int) *string { return get(r) }}
}

func numbers(id Column, f form, name, about string, get func(*Row) *int64) column {
	return column{id: id, name: name, form: f, about: about, number: func(r *Row, _ int) *int64 { return get(r) }}
}

func flags(id Column, name, about string, get func(*Row) *bool) column {
	return column{id: id, name: name, form: flag, about: about, flag: func(r *Row, _ int) *bool { return get(r) }}
}

// A schema is the table of all columns, and what follows from it. It is immutable.
type schema struct {
	columns []column // in the order of their leaves
	byID    map[Column]int
	parquet *parquet.Schema
}

// Text returns the text of a column, which is of no list.
func (r *Row) Text(c Column) string {
	s := theSchema()
	return *s.columns[s.byID[c]].text(r, 0)
}

// theSchema returns the one schema.
var theSchema = sync.OnceValue(newSchema)

func newSchema() *schema {
	s := &schema{byID: map[Column]int{}}
	s.columns = slices.Concat(who(), what(), used(), costs(), details(), lists())
	for i := range s.columns {
		c := &s.columns[i]
		c.leaf = i
		s.byID[c.id] = i
		if c.in != nil && c.name == "" { // the list is as good a name for its elements
			s.byID[c.in.id] = i
		}
	}
	s.parquet = parquet.NewSchema("exchange", s.root())
	return s
}

// column returns a column, or nil.
func (s *schema) column(id Column) *column {
	if i, ok := s.byID[id]; ok {
		return &s.columns[i]
	}
	return nil
}

// root returns the group of all fields, in their order.
func (s *schema) root() parquet.Node {
	root := &group{}
	for i := 0; i < len(s.columns); i++ {
		c := &s.columns[i]
		if c.in == nil {
			root.add(c.name, parquet.FieldID(c.node(), int(c.id)))
			continue
		}
		element := &group{}
		for ; i < len(s.columns) && s.columns[i].in == c.in; i++ {
			element.add(s.columns[i].name, parquet.FieldID(s.columns[i].node(), int(s.columns[i].id)))
		}
		i--
		of := parquet.Node(element)
		if c.name == "" {
			of = parquet.FieldID(c.node(), int(c.id))
		}
		root.add(c.in.name, parquet.FieldID(parquet.List(of), int(c.in.id)))
	}
	return root
}

func (c *column) node() parquet.Node {
	switch c.form {
	case text:
		return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	case unique:
		return parquet.Encoded(parquet.String(), &parquet.DeltaLengthByteArray)
	case number:
		return parquet.Encoded(parquet.Leaf(parquet.Int64Type), &parquet.RLEDictionary)
	case instant:
		return parquet.Encoded(parquet.Timestamp(parquet.Microsecond), &parquet.DeltaBinaryPacked)
	case money:
		return parquet.Encoded(parquet.Decimal(9, 18, parquet.Int64Type), &parquet.Plain)
	case flag:
		return parquet.Leaf(parquet.BooleanType)
	}
	return parquet.Encoded(parquet.Leaf(parquet.Int64Type), &parquet.DeltaBinaryPacked)
}

// A group is a [parquet.Group] whose fields are in the order in which they were added.
type group struct {
	parquet.Group
	names []string
}

func (g *group) add(name string, n parquet.Node) {
	if g.Group == nil {
		g.Group = parquet.Group{}
	}
	g.Group[name] = n
	g.names = append(g.names, name)
}

// Fields implements [parquet.Node].
func (g *group) Fields() []parquet.Field {
	fields := g.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int {
		return slices.Index(g.names, a.Name()) - slices.Index(g.names, b.Name())
	})
	return fields
}

// A Description is what the documentation says of a field.
type Description struct {
	ID                Column
	Name, Type, About string
}

// Describe returns all fields, each list before the fields of its elements.
func Describe() (all []Description) {
	s := theSchema()
	for i := range s.columns {
		c := &s.columns[i]
		if c.in != nil && (i == 0 || s.columns[i-1].in != c.in) {
			all = append(all, Description{c.in.id, c.in.name, "list", c.in.about})
		}
		name := c.path()
		if c.in != nil && c.name == "" {
			name += "[]"
		}
		all = append(all, Description{c.id, name, c.form.String(), c.about})
	}
	return all
}

// String names the type of a form's values in Parquet.
func (f form) String() string {
	switch f {
	case text, unique:
		return "STRING"
	case instant:
		return "TIMESTAMP(MICROS, UTC)"
	case money:
		return "DECIMAL(18, 9)"
	case flag:
		return "BOOLEAN"
	}
	return "INT64"
}
