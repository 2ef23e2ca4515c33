// Package offered reads what a request has a vendor do besides answering: the tools that it offers, what the vendor
// runs by itself, the models that it names and the service tier. Guardrails, policies, prices and the rights of keys
// all decide on this one reading. It holds for the dialects of clients and of vendors, so the same code reads what a
// client sends and what goes out.
//
// A member that the table does not know is unknown, and not harmless: a rule that lists what is known fails it.
package offered

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/reported"
)

// A Kind is the kind of a tool.
type Kind uint8

// The kinds of tools. A Switch is a member of the request that has the vendor run something. Unknown is anything that
// may do so.
const (
	Function Kind = iota
	Custom
	Server
	MCP
	Switch
	Unknown
)

// A Tool is something that the vendor is to offer the model, or to run.
type Tool struct {
	Kind Kind
	// Name is the name of a function or of a custom tool. A tool that the vendor runs has its type as its name, whatever
	// its member "name" says. A Switch has the name of its member. What is unknown is "unknown:<member>".
	Name string
	// Class is a common name for tools that vendors name differently, such as "web_search". Functions have none.
	Class string
	// Alias is the name of a function of a namespace at vendors without namespaces.
	Alias  string
	Member string // the member of the request that it is in
}

// A Fee is something that a vendor may bill besides tokens, or at another price than usual.
type Fee struct{ Tool, Member string }

// A Model is another model that a request names, or lets the vendor choose.
type Model struct {
	Name   string // empty: it is the vendor's choice, or is not known
	Member string
}

// A List has the tools that one request has the vendor run.
type List struct {
	Tools      []Tool
	Models     []Model
	Fees       []Fee  // each once
	Model      string // the request's own
	Tier       string // the service tier; empty: none is asked for
	TierMember string
	Kept       string // the first member that refers to what the vendor keeps under its account; empty: none does
	BySpeed    bool   // the tier is a speed, or a place, that another member buys
	// Answers and Output are how many answers, and of how many tokens each, members within other members ask for, such as
	// generationConfig in a chat completion. 0: none does.
	Answers, Output int64

	depth int // depth of nested reading
}

// maxNested bounds how deep tools, options and names of models are read within one another, because each level is read
// again. What is deeper is unknown.
const maxNested = 8

// nested reads something that is within another, unless that is too deep.
func (l *List) nested(at string, read func()) {
	if l.depth == maxNested {
		l.unread(at)
		l.model(Model{Member: at})
		return
	}
	l.depth++
	read()
	l.depth--
}

// maxTools and maxModels bound what is read of a request. Beyond them everything is one unknown tool, at an unknown
// price, and one unknown model.
const (
	maxTools  = 20_000
	maxModels = 1_000
)

// maxFees bounds the fees. Vendors have about ten.
const maxFees = 64

// IsPlain reports whether a member of a request neither offers a tool, nor names another model, nor changes the price.
func IsPlain(name string, value []byte) bool {
	m, ok := members[name]
	return ok && m.isPlain(value)
}

func isPlain(name, value []byte) bool {
	m, ok := members[string(name)] // without a copy
	return ok && m.isPlain(value)
}

func (m meaning) isPlain(value []byte) bool {
	switch m.does {
	case 0:
		return true
	case isOwn:
		return value[0] == '"' && !bytes.ContainsAny(value, `\:@`)
	case hasItems:
		return value[0] != '[' || !bytes.Contains(value, []byte(`"tools"`)) && !bytes.Contains(value, []byte(`\u00`))
	}
	return m.does&ifObject != 0 && value[0] != '{' && (m.does&mayRefer == 0 || value[0] != '"')
}

// Read returns what a body has the vendor do, or nil if that is nothing. The body was checked: it is valid JSON
// without duplicate names. A body that is no JSON object has nothing.
func Read(body []byte) *List {
	at, plain := begin(body), true
	if at < 0 {
		return nil
	}
	jsonwalk.Object(body, at, func(name, nameEnd, start int) int {
		end := jsonwalk.Value(body, start)
		m, ok := members[string(text(body[name:nameEnd]))] // without a copy
		plain = plain && ok && m.isPlain(body[start:end])
		return end
	})
	if plain { // as most are
		return nil
	}
	l := &List{}
	l.object(body, "")
	return l.orNil()
}

// A Form is a request that is no JSON. Files come without their content.
type Form interface {
	Fields(each func(name string, value []byte))
}

// ReadForm is Read for a form. A vendor may read a field with brackets as a member of a member.
func ReadForm(f Form) *List {
	l := &List{}
	f.Fields(func(name string, text []byte) {
		value := openai.AppendString(nil, string(text))
		if v := gjson.ParseBytes(text); jsonwalk.Valid(text) && (v.Type == gjson.Number || v.IsBool()) {
			value = text
		}
		of, _, within := strings.Cut(name, "[")
		m, known := members[of]
		switch {
		case known && m.does == 0:
		case within || text == nil || m.does&allInner != 0: // nothing is known here
			l.unknown(name, of, gjson.Result{Type: gjson.JSON})
		default:
			l.Add(name, value)
		}
	})
	return l.orNil()
}

// An Indexed is a body whose members were found before: see [openai.Members.Member].
type Indexed interface {
	Member(i int) (name string, value []byte, ok bool)
}

// ReadIndexed is Read for a body whose members were found before. PlainItems says that nobody asks what items of the
// conversation bring: then a long conversation is not searched.
func ReadIndexed(o Indexed, plainItems bool) *List {
	var l *List
	for i := 0; ; i++ {
		name, value, ok := o.Member(i)
		if !ok {
			return l.orNil()
		}
		m, known := members[name]
		if known && (plainItems && m.does == hasItems || m.isPlain(value)) {
			continue
		}
		if l == nil {
			l = &List{}
		}
		l.member("", name, value)
	}
}

// orNil returns nil if a list is empty.
func (l *List) orNil() *List {
	if l == nil || len(l.Tools)+len(l.Models)+len(l.Fees) == 0 && l.Tier+l.Model+l.Kept == "" &&
		l.Answers+l.Output == 0 {
		return nil
	}
	return l
}

// Add adds a member of the request.
func (l *List) Add(name string, value []byte) {
	if !IsPlain(name, value) {
		l.member("", name, value)
	}
}

// WithModel returns the list with another model that the request names. It may change the list.
func (l *List) WithModel(m Model) *List {
	if l == nil {
		l = &List{}
	}
	l.Models = append(l.Models, m)
	return l
}

// HasMore reports whether a request does more than to offer functions of the client.
func (l *List) HasMore() bool {
	return l != nil && (len(l.Models)+len(l.Fees) > 0 || l.Tier+l.Kept != "" ||
		slices.ContainsFunc(l.Tools, func(t Tool) bool { return t.Kind > Custom }))
}

// begin returns where the object of a body begins, or -1.
func begin(body []byte) int {
	at := len(body) - len(bytes.TrimLeft(body, " \t\r\n"))
	if at == len(body) || body[at] != '{' {
		return -1
	}
	return at
}

// text returns the text of a JSON string.
func text(quoted []byte) []byte {
	inside := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	return []byte(openai.Unquote(quoted))
}

// object reads the members of a request, or of an object with the same members in it.
func (l *List) object(data []byte, within string) {
	jsonwalk.Object(data, begin(data), func(name, nameEnd, start int) int {
		end := jsonwalk.Value(data, start)
		named := text(data[name:nameEnd])
		switch value := data[start:end]; {
		case within == "":
		case answers[string(named)]:
			l.Answers = max(l.Answers, count(value))
		case outputs[string(named)]:
			l.Output = max(l.Output, count(value))
		}
		if !isPlain(named, data[start:end]) || within != "" && string(named) == "model" {
			l.member(within, string(named), data[start:end:end])
		}
		return end
	})
}

// count returns a number that may be written as a text; 0 if it is none.
func count(value []byte) int64 {
	v := gjson.ParseBytes(value)
	if v.Type != gjson.Number && v.Type != gjson.String {
		return 0
	}
	return min(max(v.Int(), 0), math.MaxInt32)
}

// member reads one member that is not plain.
func (l *List) member(within, name string, raw []byte) {
	v := gjson.ParseBytes(raw)
	m, known := members[name]
	at := within + name
	switch {
	case isOff(v):
		return
	case !known:
		l.unknown(at, name, v)
		return
	}
	if m.does&isOwn != 0 {
		l.own(at, v)
	}
	if m.does&refersTo != 0 && (m.does&ifObject == 0 || v.IsObject()) || m.does&mayRefer != 0 && isContainer(v) {
		l.keeps(at)
	}
	if m.does&(hasTools|hasFunctions) != 0 {
		l.list(at, v, m.does&hasFunctions != 0)
	}
	if m.does&ifObject == 0 || v.IsObject() {
		l.acts(at, m, v)
	}
	if m.does&isTier != 0 {
		if v.IsObject() { // Bedrock's
			v = v.Get("type")
		}
		l.tier(at, v, v.Str, false)
	}
	if m.does&isSpeed != 0 && v.Type != gjson.Number {
		if v.IsObject() {
			v = v.Get("latency")
		}
		if speed := strings.ToLower(v.Str); v.Type != gjson.String || !reported.IsUsual(speed) {
			l.tier(at, v, speed, true)
		}
	}
	if m.does&isInner != 0 {
		l.inner(at, v)
	}
	if m.does&isTemplate != 0 {
		before := len(l.Models)
		l.inner(at, v)
		l.Models = l.Models[:before]
	}
	if m.does&hasItems != 0 {
		l.items(at, v)
	}
}

// acts reads a member that has the vendor run something, or name a model.
func (l *List) acts(at string, m meaning, v gjson.Result) {
	switch {
	case m.does&runs != 0 && m.class == classMCP:
		l.add(Tool{Kind: MCP, Name: at, Class: m.class, Member: at})
	case m.does&runs != 0:
		l.add(Tool{Kind: Switch, Name: at, Class: m.class, Member: at})
		if m.class != "" {
			l.fee(m.class, at)
		}
	case m.does&isDear != 0:
		l.fee(m.class, at)
	}
	switch {
	case m.does&names == 0:
		if m.does&runs != 0 {
			l.deep(at, v)
		}
	case m.class == "models":
		l.models(at, v)
	default:
		l.model(Model{Member: at})
		l.deep(at, v)
	}
}

// isOff reports whether a value asks for nothing. An empty object may ask for a search.
func isOff(v gjson.Result) bool {
	switch v.Type {
	case gjson.Null, gjson.False:
		return true
	case gjson.Number:
		return v.Num == 0
	case gjson.String:
		return v.Str == ""
	}
	return v.IsArray() && !v.Get("0").Exists()
}

// unknown reads a member that the table does not have. If it differs from a known one only in how it is written, a
// vendor may take it for that one.
func (l *List) unknown(at, name string, v gjson.Result) {
	l.add(Tool{Kind: Unknown, Name: "unknown:" + at, Member: at})
	like, ok := folded[fold(name)]
	if ok && like.does&^(isInner|isOwn|hasItems) != 0 {
		l.fee("unknown:"+at, at)
	}
	if ok || v.Type == gjson.String || v.Type == gjson.JSON {
		l.model(Model{Member: at})
	}
}

// own reads the request's own model. OpenRouter's suffix has the vendor search the web.
func (l *List) own(at string, v gjson.Result) {
	if v.Type != gjson.String {
		l.models(at, v)
		return
	}
	if at == "model" || strings.HasSuffix(at, "equest.model") { // Gemini's count has the request as a member
		l.Model = v.Str
	} else {
		l.model(Model{v.Str, at})
	}
	l.suffix(at, v.Str)
}

// suffix reads OpenRouter's suffixes of a model: variants, and a preset. One variant searches the web.
func (l *List) suffix(at, model string) {
	model = strings.ToLower(model)
	if strings.HasSuffix(model, ":online") || strings.Contains(model, ":online:") || strings.Contains(model, ":online@") {
		l.add(Tool{Kind: Switch, Name: classSearch, Class: classSearch, Member: at})
		l.fee(classSearch, at)
	}
	if strings.Contains(model, "@preset") {
		l.add(Tool{Kind: Switch, Name: "preset", Class: classStored, Member: at})
		l.fee(classStored, at)
	}
}

// models reads models that are named: a text, a list of texts, or anything with members that name models. If it
// names none, the vendor chooses.
func (l *List) models(at string, v gjson.Result) {
	before := len(l.Models)
	switch {
	case v.IsArray():
		v.ForEach(func(_, one gjson.Result) bool {
			l.nested(at, func() { l.models(at, one) })
			return len(l.Models) <= maxModels
		})
	case v.Type == gjson.String:
		l.model(Model{v.Str, at})
		l.suffix(at, v.Str)
	}
	if len(l.Models) == before {
		l.model(Model{Member: at})
	}
}

func (l *List) model(m Model) {
	switch {
	case len(l.Models) < maxModels:
		l.Models = append(l.Models, m)
	case len(l.Models) == maxModels:
		l.Models = append(l.Models, Model{Member: m.Member})
		l.unread(m.Member)
	}
}

// tier takes in a service tier. One tier besides the usual one has a price. Two at once have none.
func (l *List) tier(at string, v gjson.Result, name string, speed bool) {
	switch {
	case v.Type != gjson.String, !reported.IsUsual(name) && !reported.IsUsual(l.Tier) && l.Tier != name:
		l.fee("unknown:"+at, at)
	case l.Tier != "" && reported.IsUsual(name):
	default:
		l.Tier, l.TierMember, l.BySpeed = name, at, speed
	}
}

// inner reads an object with the members of a request, such as extra_body.
func (l *List) inner(at string, v gjson.Result) {
	if v.IsObject() {
		l.nested(at, func() { l.object([]byte(v.Raw), at+".") })
	} else if v.IsArray() {
		l.add(Tool{Kind: Unknown, Name: "unknown:" + at, Member: at})
	}
}

// items reads the tools that items or messages of a conversation bring with them, as OpenAI's results of a search for
// tools and Kimi's messages of the system do.
func (l *List) items(at string, v gjson.Result) {
	if !v.IsArray() {
		return
	}
	v.ForEach(func(_, item gjson.Result) bool {
		if tools := item.Get("tools"); tools.Exists() && (at != "input" || item.Get("type").Str != "mcp_list_tools") {
			l.list(at+"[].tools", tools, false)
		}
		return true
	})
}

func (l *List) add(t Tool) {
	switch {
	case len(l.Tools) < maxTools:
		l.Tools = append(l.Tools, t)
	case len(l.Tools) == maxTools:
		l.Tools = append(l.Tools, Tool{Kind: Unknown, Name: "unknown:tools", Member: t.Member})
		l.fee("unknown:"+t.Member, t.Member)
	}
}

func (l *List) fee(tool, member string) {
	if of := (Fee{tool, member}); len(l.Fees) < maxFees && !slices.Contains(l.Fees, of) {
		l.Fees = append(l.Fees, of)
	}
}
