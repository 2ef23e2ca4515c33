package all

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/golden"
	"github.com/modelgate/modelgate/internal/recordings"
)

// Every recorded error of a vendor has a decided status, type and code. A new recording is a line of the list, which
// somebody must look at.
func TestRecordedErrorsHaveADecidedCode(t *testing.T) {
	var list bytes.Buffer
	for _, vendor := range recordings.Vendors(t) {
		p, serves := Providers()[vendor]
		if !serves {
			continue
		}
		files := recordings.Of(t, vendor)
		metas, err := fs.Glob(files, "*/meta.json")
		require.NoError(t, err)
		slices.Sort(metas)
		for _, name := range metas {
			status := int(gjson.GetBytes(recordings.Read(t, files, name), "status").Int())
			if status < 400 {
				continue
			}
			for _, body := range recordings.Glob(t, files, strings.TrimSuffix(name, "/meta.json")+"/response.*") {
				e := p.DecodeError(status, http.Header{}, recordings.Read(t, files, body))
				require.True(t, e.Code != "" || e.Status == 400 || vendor == "openai", "%s/%s has no code", vendor, name)
				fmt.Fprintf(&list, "%s/%s: %d %s %q\n", vendor, strings.TrimSuffix(name, "/meta.json"), e.Status, e.Type, e.Code)
			}
		}
	}
	golden.Bytes(t, "testdata/recorded-errors.txt", list.Bytes())
}
