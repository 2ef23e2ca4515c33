package responses

import (
	"encoding/json"
	"net/http"

	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// maxAdded is how many items one request may add to a conversation, as at OpenAI.
const maxAdded = 20

// A conversation is OpenAI's object.
type conversation struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"` // conversation, or conversation.deleted
	CreatedAt int64             `json:"created_at,omitzero"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Deleted   bool              `json:"deleted,omitempty"`
}

func writeConversation(w http.ResponseWriter, c *store.Record[Conversation]) error {
	return httpapi.WriteJSON(w, http.StatusOK, struct {
		conversation
		Metadata map[string]string `json:"metadata"`
	}{conversation{ID: c.ID, Object: "conversation", CreatedAt: c.Value.CreatedAt}, c.Value.Metadata})
}

// newItems takes the items of a request.
func newItems(o *rest.Object) []json.RawMessage {
	var all []json.RawMessage
	for _, v := range o.Array("items", maxAdded) {
		all = append(all, json.RawMessage(v))
	}
	checkItems(o, "items", all)
	return all
}

func (s *conversations) create(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	o, _, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return err
	}
	said, metadata := newItems(o), o.Metadata()
	o.Done()
	if err := o.Err(); err != nil {
		return err
	}
	if said, err = known(said, nothing, "items"); err != nil {
		return err
	}
	if metadata == nil {
		metadata = map[string]string{}
	}
	made := &store.Record[Conversation]{Tenant: c.Tenant, ID: Conversations.NewID(), Value: Conversation{
		Key: c.Key, CreatedAt: s.Now().Unix(), Metadata: metadata}}
	t := s.Store.BeginCreation()
	t.Within(c.Bounds)
	none := &items.List{}
	undo, done, err := s.put(r.Context(), t, made, settings.Sealer, none, none.Plus(identified(said)))
	if err != nil {
		return err
	}
	if err := t.Commit(r.Context()); err != nil {
		undo()
		return err
	}
	done()
	return writeConversation(w, made)
}

func (s *conversations) retrieve(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, err := s.find(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeConversation(w, found)
}

// update replaces the metadata.
func (s *conversations) update(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, _, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return err
	}
	if !o.Has("metadata") {
		o.Missing("metadata")
	}
	metadata := o.Metadata()
	o.Done()
	if err := o.Err(); err != nil {
		return err
	}
	found, err := s.find(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	err = s.change(r.Context(), found, c.Bounds, func(_ *items.Store, list *items.List) (*items.List, error) {
		found.Value.Metadata = metadata
		return list, nil
	})
	if err != nil {
		return err
	}
	return writeConversation(w, found)
}

func (s *conversations) remove(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, err := s.find(r.Context(), c.Tenant, r.PathValue("id"))
	if err == nil {
		err = s.drop(r.Context(), found)
	}
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, conversation{ID: found.ID, Object: "conversation.deleted", Deleted: true})
}

// readNamed gives the items of the conversation that a request names to do.
func (s *conversations) readNamed(r *http.Request, c rest.Caller, do func(*items.Store, *items.List) error) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	found, err := s.find(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.read(r.Context(), found, settings.Sealer, do)
}

func (s *conversations) listItems(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	return s.readNamed(r, c, func(at *items.Store, list *items.List) error { return writePage(w, r, at, list) })
}

func (s *conversations) addItems(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, _, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return err
	}
	if !o.Has("items") {
		o.Missing("items")
	}
	said := newItems(o)
	o.Done()
	if err := o.Err(); err != nil {
		return err
	}
	found, err := s.find(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	var added []json.RawMessage
	err = s.change(r.Context(), found, c.Bounds, func(at *items.Store, list *items.List) (*items.List, error) {
		more, err := known(said, finding(r.Context(), at, list), "items")
		if err != nil {
			return nil, err
		}
		added = identified(more)
		return list.Plus(added), fits("items", list.Bytes()+items.Size(added))
	})
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, listOf(added, false))
}

func (s *conversations) retrieveItem(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	return s.readNamed(r, c, func(at *items.Store, list *items.List) error {
		found, item, err := at.Find(r.Context(), list, r.PathValue("item"))
		if err != nil {
			return err
		}
		if found < 0 {
			return notFound("Item", r.PathValue("item"))
		}
		rest.WriteBody(w, item)
		return nil
	})
}

func (s *conversations) removeItem(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, err := s.find(r.Context(), c.Tenant, r.PathValue("id"))
	if err != nil {
		return err
	}
	err = s.change(r.Context(), found, nil, func(at *items.Store, list *items.List) (*items.List, error) {
		position, _, err := at.Find(r.Context(), list, r.PathValue("item"))
		if err != nil {
			return nil, err
		}
		if position < 0 {
			return nil, notFound("Item", r.PathValue("item"))
		}
		return at.Without(r.Context(), list, position)
	})
	if err != nil {
		return err
	}
	return writeConversation(w, found)
}
