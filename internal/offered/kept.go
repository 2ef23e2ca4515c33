package offered

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
)

// All tenants share a vendor's account. What the vendor keeps there, such as files, caches and earlier responses, has
// an owner that nobody knows.

// ids are the members of tools and of content whose texts name something that a vendor keeps.
var ids = set(`file_id file_ids vector_store_ids vector_store_id container_id skill_id file_search_store_names
	fileSearchStoreNames datastore dataStore rag_corpus ragCorpus collection_ids library_ids`)

// MayName reports whether a member of this name in a conversation can refer to what a vendor keeps.
func MayName(name string) bool { return ids[name] || addresses[name] }

// addresses are the members with an address of content. Only the vendor can read what is not on the web.
var addresses = set(`url uri image_url video_url audio_url file_url fileUri file_uri file_data`)

// echoes are the members that repeat an earlier answer, or have any JSON of the client. What they name is not looked
// up.
var echoes = set(`annotations citations results tools tool_calls function_call parameters args arguments response
	output metadata labels json`)

// keepers are the types of tools that search what a vendor keeps, without a date.
var keepers = set(`file_search retrieval collections_search document_library knowledge_base connector`)

// googleFiles is the host of the files that Google keeps.
const googleFiles = "generativelanguage.googleapis.com"

// keeps notes a member that refers to what the vendor keeps.
func (l *List) keeps(at string) {
	if l.Kept == "" {
		l.Kept = at
	}
}

// isContainer reports whether a value names a container of an earlier answer.
func isContainer(v gjson.Result) bool {
	return v.Type == gjson.String || v.Get("id").Type == gjson.String
}

// MayRefer reports whether something in the conversation of a body may refer to what a vendor keeps. It only looks for
// parts of names, and for escapes, by bytes that are rare in texts.
func MayRefer(body []byte) bool {
	for at := 0; ; at++ {
		n := bytes.IndexByte(body[at:], '_')
		if n < 0 {
			break
		}
		if at += n; refersAt(body[:at], body[at+1:]) {
			return true
		}
	}
	for at := 0; ; at++ {
		n := bytes.Index(body[at:], []byte("00"))
		if n < 0 {
			break
		}
		if at += n; bytes.HasSuffix(body[:at], []byte(`\u`)) {
			return true
		}
	}
	return bytes.Contains(body, []byte(`Uri"`))
}

// refersAt reports whether an underscore may be in the name of a reference.
func refersAt(before, after []byte) bool {
	if len(after) < len("id") {
		return false
	}
	switch string(after[:2]) {
	case "id", "da": // file_id, file_data
		return bytes.HasSuffix(before, []byte("file"))
	case "ur": // file_uri, and addresses
		return !bytes.HasPrefix(after, []byte(`url"`)) || !isWeb(after[len(`url"`):])
	case "re":
		return bytes.HasPrefix(after, []byte("reference"))
	}
	return false
}

// isWeb reports whether a member's value is content or an address on the web, or an object that begins with one.
func isWeb(value []byte) bool {
	const space = " \t\r\n:"
	value = bytes.TrimLeft(value, space)
	if inner, ok := bytes.CutPrefix(value, []byte("{")); ok {
		if value, ok = bytes.CutPrefix(bytes.TrimLeft(inner, space), []byte(`"url"`)); !ok {
			return false
		}
		value = bytes.TrimLeft(value, space)
	}
	return bytes.HasPrefix(value, []byte(`"data:`)) || bytes.HasPrefix(value, []byte(`"http`)) &&
		!bytes.Contains(value[:min(len(value), 2*len(googleFiles))], []byte(googleFiles))
}

// Reference returns the first member that refers to what a vendor keeps, or "": of what the list was read from, or
// within the conversation of a body that may refer to it.
func (l *List) Reference(conversation []byte) string {
	if l != nil && l.Kept != "" {
		return l.Kept
	}
	return refersIn(conversation)
}

// Reference returns the first member of a body that refers to what a vendor keeps, or "".
func Reference(body []byte) string {
	var conversation []byte
	if MayRefer(body) {
		conversation = body
	}
	return Read(body).Reference(conversation)
}

func refersIn(body []byte) (member string) {
	gjson.ParseBytes(body).ForEach(func(name, v gjson.Result) bool {
		if (v.IsArray() || v.IsObject()) && !echoes[name.Str] {
			member = refers(name.Str, v)
		}
		return member == ""
	})
	return member
}

func refers(at string, v gjson.Result) (member string) {
	if v.IsObject() {
		switch typ := v.Get("type").Str; {
		case typ == "item_reference":
			return at
		case strings.HasSuffix(typ, "_call"), strings.HasSuffix(typ, "_output"), strings.HasSuffix(typ, "_result"),
			strings.HasSuffix(typ, "tool_use"):
			return refers(at, v.Get("content")) // what an earlier answer has named
		}
	}
	v.ForEach(func(key, of gjson.Result) bool {
		name := key.Str
		switch {
		case of.Type == gjson.String && of.Str != "" && (ids[name] || addresses[name] && isKept(of.Str)):
			member = at + "." + name
		case (of.IsObject() || of.IsArray()) && !echoes[name]:
			member = refers(at, of)
		}
		return member == ""
	})
	return member
}

// isKept reports whether an address leads to what only the vendor can read.
func isKept(address string) bool {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return false
	}
	switch strings.ToLower(scheme) {
	case "http", "https":
		return strings.HasPrefix(strings.ToLower(rest), googleFiles)
	}
	return !strings.HasPrefix(address, "data:")
}
