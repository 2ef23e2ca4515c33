package admin

import (
	"context"
	"net/http"
	"net/url"
)

// Bodies returns the kept bodies of an exchange. The audit log then says who has seen them.
func (c RequestCalls) Bodies(ctx context.Context, id string) (Bodies, error) {
	return get[Bodies](ctx, c.caller, "requests/"+url.PathEscape(id)+"/bodies")
}

// DeleteBodies deletes the kept bodies of an exchange.
func (c RequestCalls) DeleteBodies(ctx context.Context, id string) (out DeletedBodies, err error) {
	err = c.caller.call(ctx, request{method: http.MethodDelete, path: "requests/" + url.PathEscape(id) + "/bodies"}, &out)
	return out, err
}

// DeleteBodiesOf deletes all kept bodies of an owner. The filters are key, organization and project.
func (c RequestCalls) DeleteBodiesOf(ctx context.Context, o ListOptions) (out DeletedBodies, err error) {
	err = c.caller.call(ctx, request{method: http.MethodDelete, path: "bodies" + o.query()}, &out)
	return out, err
}
