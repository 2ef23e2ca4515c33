package guard

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A walk judges a body: every string in it, and the names of members, except for those that are proven harmless.
type walk struct {
	set        *Set // nil: nothing is looked for
	work       *Work
	side       configv1.GuardSide
	body       []byte
	findings   Findings
	masks      *Masks
	blocked    string // the rule that refuses the body
	unmaskable string // the member with a text that must be masked but cannot be
	characters uint64
	messages   uint32
	inside     int  // how many strings with JSON the walk is in
	gathers    bool // texts are gathered, for checkers
	again      bool // there are placeholders already
	texts      []string
	tokens     bool // prompts are tokens, which no rule reads
}

var errBlocked = errors.New("a rule refuses the request")

// An edit replaces a part of a document.
type edit struct {
	from, to int
	by       []byte
}

// A document is a JSON document that is walked through: a body, or one in a string.
type document struct {
	*walk
	data  []byte
	dec   *jsontext.Decoder
	edits []edit
}

// document judges a JSON document. It returns it with placeholders, or itself.
func (w *walk) document(ctx context.Context, data []byte, root spot) ([]byte, error) {
	d := &document{walk: w, data: data, dec: jsontext.NewDecoder(bytes.NewReader(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if err := d.value(ctx, root); err != nil {
		return data, err
	}
	if len(d.edits) == 0 {
		return data, nil
	}
	slices.SortStableFunc(d.edits, func(a, b edit) int { return a.from - b.from })
	out, from := make([]byte, 0, len(data)), 0
	for _, e := range d.edits {
		out = append(append(out, data[from:e.from]...), e.by...)
		from = e.to
	}
	return append(out, data[from:]...), nil
}

// value reads a value.
func (d *document) value(ctx context.Context, at spot) error {
	switch d.dec.PeekKind() {
	case '{':
		return d.object(ctx, at)
	case '[':
		return d.list(ctx, at)
	case '"', '0':
		raw, end, err := d.read()
		switch {
		case err != nil:
			return err
		case raw[0] == '"':
			return d.text(ctx, raw, end, at)
		}
		return d.number(ctx, raw, end, at)
	}
	return d.dec.SkipValue()
}

// read reads a value, and returns it and where it ends.
func (d *document) read() (raw []byte, end int, err error) {
	value, err := d.dec.ReadValue()
	end = int(d.dec.InputOffset())
	return d.data[end-len(value) : end], end, err
}

func (d *document) list(ctx context.Context, at spot) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	counts := at.depth == 1 && isMessages(at.name) && d.dec.StackDepth() == 2
	for d.dec.PeekKind() != ']' {
		if counts {
			d.messages++
		}
		if err := d.value(ctx, at); err != nil {
			return err
		}
	}
	_, err := d.dec.ReadToken()
	return err
}

// isMessages reports whether a list of this name has the messages of a request, in the dialect of any client.
func isMessages(name string) bool { return name == "messages" || name == "contents" || name == "input" }

// A held string is judged when all of its object was read.
type held struct {
	raw []byte
	end int
	at  spot
}

// An object has the facts about an object after all of it was read.
type object struct {
	media string // its media types
	types []string
	data  []held
}

func (d *document) object(ctx context.Context, at spot) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	var o object
	for d.dec.PeekKind() != '}' {
		name, err := d.key(ctx, at)
		if err != nil {
			return err
		}
		if err := d.member(ctx, at.in(name), &o); err != nil {
			return err
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	for _, h := range o.data {
		if err := d.heldData(ctx, h, &o); err != nil {
			return err
		}
	}
	return nil
}

// key reads and judges the name of a member of the object at a spot.
func (d *document) key(ctx context.Context, at spot) (string, error) {
	before := int(d.dec.InputOffset())
	token, err := d.dec.ReadToken()
	if err != nil {
		return "", err
	}
	name, end := token.String(), int(d.dec.InputOffset())
	if !at.judgesKey(name) {
		return name, nil
	}
	kind := inFixed
	if at.free || freely[at.name] && at.depth > 0 {
		kind = inText
	}
	out, changed, err := d.judgeOnly(ctx, name, kind, at.in("key"))
	if changed {
		start := before + bytes.IndexByte(d.data[before:end], '"')
		d.edits = append(d.edits, edit{start, end, openai.AppendString(nil, out)})
	}
	return name, err
}

// member reads the value of a member.
func (d *document) member(ctx context.Context, at spot, o *object) error {
	if d.dec.PeekKind() != '"' {
		return d.value(ctx, at)
	}
	raw, end, err := d.read()
	if err != nil {
		return err
	}
	switch at.name {
	case "type":
		o.types = append(o.types, openai.Unquote(raw))
	case "media_type", "mimeType", "mime_type":
		o.media += " " + openai.Unquote(raw)
	}
	if at.mayHaveData() || at.name == "data" && !at.free {
		o.data = append(o.data, held{raw, end, at})
		return nil
	}
	return d.text(ctx, raw, end, at)
}

// heldData judges a string that may be data, by what else is in its object.
func (d *document) heldData(ctx context.Context, h held, o *object) error {
	isData := h.at.mayHaveData()
	if h.at.within == "source" && h.at.name == "data" {
		isData = len(o.types) > 0 && !slices.ContainsFunc(o.types, func(t string) bool { return t != "base64" })
	}
	text := openai.Unquote(h.raw)
	switch {
	case slices.Contains(o.types, "redacted_thinking") && hasSecretForm(text):
		return nil
	case isData:
		out, changed, err := d.walk.data(ctx, text, o.media, h.at)
		return d.set(out, changed, err, len(h.raw), h.end)
	}
	return d.text(ctx, h.raw, h.end, h.at)
}

// text judges a string that ends at a place.
func (d *document) text(ctx context.Context, raw []byte, end int, at spot) error {
	text, kind := openai.Unquote(raw), at.kind()
	switch {
	case text == "", kind == inModel && d.side == configv1.GuardSide_REQUESTS, kind == inChoice && choices[text],
		kind == inSecret && hasSecretForm(text):
		return nil
	}
	if kind == inSecret {
		if found, err := d.numbers(ctx, text, at); found || err != nil {
			return d.set("", found, err, len(raw), end)
		}
	}
	out, changed, err := d.judge(ctx, text, kind, at)
	return d.set(out, changed, err, len(raw), end)
}

// set notes what a string becomes.
func (d *document) set(out string, changed bool, err error, length, end int) error {
	if changed {
		d.edits = append(d.edits, edit{end - length, end, openai.AppendString(nil, out)})
	}
	return err
}

// number judges a number: within arguments and results all, elsewhere those that are too long to be a parameter.
func (d *document) number(ctx context.Context, raw []byte, end int, at spot) error {
	if !at.free && at.depth <= 2 && (at.name == "prompt" || at.name == "input") {
		d.tokens = true
	}
	if !at.free && (len(raw) <= maxDigits || at.name == "seed") {
		return nil
	}
	kind := inText
	if !at.free {
		kind = inFixed
	}
	text := string(raw)
	if bytes.ContainsAny(raw, ".eE") { // 4.1e15 is written in another way, and a measure is no number of anything
		f, _ := strconv.ParseFloat(text, 64) // infinite, if it is out of range
		if whole, _, _ := bytes.Cut(raw, []byte(".")); math.Trunc(f) == f && math.Abs(f) <= 1e20 {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		} else if whole, _, _ = bytes.Cut(bytes.ToLower(whole), []byte("e")); len(whole) > maxDigits {
			text = string(whole)
		} else {
			return nil
		}
	}
	out, changed, err := d.judgeOnly(ctx, text, kind, at)
	return d.set(out, changed, err, len(raw), end)
}

// judge judges a string. It returns it with placeholders.
func (w *walk) judge(ctx context.Context, text string, kind placeKind, at spot) (out string, changed bool, err error) {
	isText := kind == inText && !at.defines && w.inside == 0
	if isText {
		w.characters += uint64(utf8.RuneCountInString(text))
	}
	if kind == inFixed && strings.IndexByte(text, '%') >= 0 {
		if plain, err := url.QueryUnescape(text); err == nil && plain != text {
			if out, changed, err := w.judgeOnly(ctx, plain, kind, at); changed || err != nil {
				return out, changed, err
			}
		}
	}
	if out, err = w.inner(ctx, text, kind); errors.Is(err, errNotJSON) {
		out, changed, err = w.judgeOnly(ctx, text, kind, at)
	} else {
		changed = out != text
	}
	if isText && w.gathers && err == nil && out != "" {
		w.texts = append(w.texts, out)
	}
	return out, changed, err
}

var errNotJSON = errors.New("a string is not JSON")

// looksLikeJSON reports whether a text may be a JSON document with strings or numbers in it.
func looksLikeJSON(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 2 && (text[0] == '{' && text[len(text)-1] == '}' || text[0] == '[' && text[len(text)-1] == ']' ||
		text[0] == '"' && text[len(text)-1] == '"')
}

// inner judges a text that is a JSON document.
func (w *walk) inner(ctx context.Context, text string, kind placeKind) (string, error) {
	if kind != inText || !looksLikeJSON(text) {
		return text, errNotJSON
	}
	data := []byte(text)
	if !jsonwalk.Valid(data) {
		return text, errNotJSON
	}
	w.inside++
	out, err := w.document(ctx, data, spot{free: true, depth: 1})
	w.inside--
	if err != nil || len(out) == len(data) && &out[0] == &data[0] {
		return text, err
	}
	return string(out), nil
}

// judgeOnly judges a text that is no JSON document.
func (w *walk) judgeOnly(ctx context.Context, text string, kind placeKind, at spot) (_ string, _ bool, err error) {
	var found []span
	if w.set != nil {
		if found, err = w.set.found(ctx, w.work, text, w.side); err != nil {
			return text, false, err
		}
	}
	if w.again {
		found = slices.DeleteFunc(found, func(f span) bool { return w.masks.cuts(text, f.from) || w.masks.cuts(text, f.to) })
	}
	masked := found[:0]
	for _, f := range found {
		switch f.rule.config.GetMode() {
		case configv1.GuardMode_BLOCK:
			w.findings.add(f.rule, w.name())
			w.blocked = f.rule.name
			return text, false, errBlocked
		case configv1.GuardMode_MASK:
			masked = append(masked, f)
		}
		w.findings.add(f.rule, w.name())
	}
	if w.side == configv1.GuardSide_ANSWERS {
		return w.forClient(text, masked, kind)
	}
	if len(masked) == 0 {
		return text, false, nil
	}
	if kind != inText && kind != inName {
		w.blocked, w.unmaskable = masked[0].rule.name, at.name
		return text, false, errBlocked
	}
	w.masks.take(w.body)
	if kind == inName {
		return w.masks.rename(text, masked), true, nil
	}
	out, from := []byte(nil), 0
	for _, f := range masked {
		out = append(append(out, text[from:f.from]...), w.masks.mask(text[f.from:f.to], f.label)...)
		from = f.to
	}
	return string(append(out, text[from:]...)), true, nil
}

// forClient returns a text of an answer with labels in place of the masked parts, and with the client's own texts.
func (w *walk) forClient(text string, masked []span, kind placeKind) (string, bool, error) {
	if len(masked) == 0 && w.masks.IsEmpty() {
		return text, false, nil
	}
	var b strings.Builder
	from := 0
	for _, f := range masked {
		b.WriteString(w.masks.restore(text[from:f.from], nil))
		if kind == inText {
			b.WriteString("[" + f.label + "]")
		} else {
			b.WriteString(f.label)
		}
		from = f.to
	}
	b.WriteString(w.masks.restore(text[from:], nil))
	out := b.String()
	if kind == inName {
		out = w.masks.restoreName(out)
	}
	return out, out != text, nil
}

// name returns how findings name the side.
func (w *walk) name() string {
	if w.side == configv1.GuardSide_ANSWERS {
		return SideAnswer
	}
	return SideRequest
}
