package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
)

func parseExpires(s string) (*time.Time, error) {
	if s == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		at := time.Now().Add(d).UTC().Truncate(time.Second)
		return &at, nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return nil, admincli.Misused("--expires is neither a time such as 2030-01-31T00:00:00Z nor a duration such as 720h")
	}
	return &at, nil
}

// listObjects prints the objects of a kind that the options choose.
func listObjects(ctx context.Context, stdout io.Writer, f adminflags.AdminFlags, o adminflags.ItemFlags,
	kind configv1.Kind, options adminapi.ListOptions) error {
	client, err := f.Client()
	if err != nil {
		return err
	}
	items, err := admincli.ListAll(ctx, client, kind, options)
	if err != nil {
		return admincli.Said(err)
	}
	return o.Show(stdout, kind, items)
}

// createObject stores an object that must not be there yet, and prints it.
func createObject(ctx context.Context, stdout io.Writer, f adminflags.AdminFlags, w *adminflags.WaitFlags,
	o adminflags.ItemFlags, object configv1.Object) error {
	client, pending, err := w.Client(f)
	if err != nil {
		return err
	}
	kind := configv1.KindOf(object)
	_, err = client.Get(ctx, kind, object.GetName())
	if err == nil {
		return fmt.Errorf("%s already exists; change it with modelgate config apply", configv1.Label(object))
	}
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.Status != http.StatusNotFound {
		return admincli.Said(err)
	}
	item, err := client.Put(ctx, object, 0)
	if err != nil {
		return admincli.Said(err)
	}
	return errors.Join(o.ShowOne(stdout, kind, item), pending.Err())
}

// change has a call change something, and prints what it returns. Without flags, the change is not waited for.
func change(stdout io.Writer, f adminflags.AdminFlags, w *adminflags.WaitFlags,
	call func(*adminapi.Client) (done string, err error)) error {
	client, pending, err := w.Client(f)
	if err != nil {
		return err
	}
	done, err := call(client)
	if err != nil {
		return admincli.Said(err)
	}
	_, err = fmt.Fprintln(stdout, done)
	return errors.Join(err, pending.Err())
}

// deleteObject deletes the object with an id or a name, and prints what it is and what was done with it.
func deleteObject(ctx context.Context, stdout io.Writer, f adminflags.AdminFlags, w *adminflags.WaitFlags,
	kind configv1.Kind, name, what, done string) error {
	return change(stdout, f, w, func(client *adminapi.Client) (string, error) {
		id, err := adminflags.IDOf(ctx, client, kind, name)
		if err == nil {
			err = client.Delete(ctx, kind, id)
		}
		return what + " " + name + " " + done, err
	})
}

func parseKind(s string) (configv1.Kind, error) {
	kind, ok := configv1.FindKind(s)
	if !ok {
		return kind, admincli.Misused("there is no kind %q; the kinds are %s", s, configv1.KindNames())
	}
	return kind, nil
}
