package responses

import (
	"encoding/json"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// maxHeld is how much of a page is in memory before it is sent on. Until then what goes wrong is an error for the
// client; after that the answer is cut off.
const maxHeld = 64 << 10

// writePage answers with the page of items that a request asks for, newest first unless it says otherwise.
func writePage(w http.ResponseWriter, r *http.Request, at *items.Store, list *items.List) error {
	p, err := rest.PageOf(r, 20, 100, true)
	if err != nil {
		return err
	}
	from, step := list.Len()-1, -1
	if p.Ascending {
		from, step = 0, 1
	}
	if p.After != "" {
		after, _, err := at.Find(r.Context(), list, p.After)
		if err != nil {
			return err
		}
		if after < 0 {
			return rest.Cursor(store.ErrCursor, p.After)
		}
		from = after + step
	}
	left := from + 1
	if p.Ascending {
		left = list.Len() - from
	}
	page := pageWriter{w: w}
	if left > 0 {
		err = at.Walk(r.Context(), list, from, min(p.Limit, left), !p.Ascending, page.add)
	}
	if err == nil {
		return page.end(left > p.Limit)
	}
	if page.sent {
		panic(http.ErrAbortHandler) // the client sees that the answer is cut off
	}
	return err
}

// A pageWriter writes OpenAI's list of items as they come.
type pageWriter struct {
	w           http.ResponseWriter
	text        []byte
	first, last string // ids
	any, sent   bool
}

func (p *pageWriter) add(item json.RawMessage) error {
	p.last = gjson.GetBytes(item, "id").String()
	if p.any {
		p.text = append(p.text, ',')
	} else {
		p.first, p.any = p.last, true
		p.text = append(p.text, `{"object":"list","data":[`...)
	}
	if len(p.text)+len(item) <= maxHeld {
		p.text = append(p.text, item...)
		return nil
	}
	if err := p.send(p.text); err != nil {
		return err
	}
	p.text = p.text[:0]
	return p.send(item)
}

func (p *pageWriter) send(text []byte) error {
	if !p.sent {
		p.w.Header().Set("Content-Type", "application/json")
		p.sent = true
	}
	_, err := p.w.Write(text)
	return err
}

func (p *pageWriter) end(more bool) error {
	first, last := []byte("null"), []byte("null")
	if p.any {
		first, last = text(p.first), text(p.last)
	} else {
		p.text = append(p.text, `{"object":"list","data":[`...)
	}
	p.text = append(append(p.text, `],"first_id":`...), first...)
	p.text = append(append(p.text, `,"last_id":`...), last...)
	p.text = append(append(p.text, `,"has_more":`...), boolean(more)...)
	_ = p.send(append(p.text, '}')) // the client has left
	return nil
}
