// Package reports is what users have reported, each with the clients that they use, against the whole gateway over
// HTTPS:
//
//   - [TestEarlyAnswers]: an answer that is decided before the request's body has arrived.
//     "arrive": it reaches curl, httpx and Java's HttpClient over HTTP/2, which lose one that comes while they send.
//     Each asks with 300 KB, a hundred times: with a wrong key, for an unknown path, with a wrong method, a wrong
//     content type and a limit that is used up, and for what the job service refuses: a body that is too large or
//     compressed, a form that is none, an upload and a path that do not exist. "leave a connection of HTTP1 good": the
//     same cases leave one that serves the next request. "wait for no more than the bounds": more than 1 MiB,
//     announced or not, is answered at once.
//   - [TestTheJobServiceAgreesWithTheChatPath], report 7: the same fault has the same error on the chat path and at
//     the job service.
//   - [TestManyObjectsInOneApply], report 13: 20,000 objects.
//
// Reports whose defect is in one package have their cases there:
//
//   - report 4, checks of known members whatever the vendor: api/openai (departure_test.go); new words, schemas
//     without a name: internal/provider/all (own_test.go).
//   - report 5, values that are adjusted: test/cases (dialects.go), and the sections "adjusted" of vendors' golden
//     cases.
//   - report 8, thinking as parts, marks for the cache and vendors' own tools: golden cases of the vendors
//     (thinking-parts-and-marks, own-tools-by-type).
//   - report 9, words of a vendor's own that OpenAI refuses: api/openai (departure_test.go), internal/provider/all
//     (own_test.go); lists of deltas that are given whole: internal/provider/dialects/openaicompat (lists_test.go),
//     and test/sdk with OpenAI's Python SDK.
//   - report 9, models of a provider whose credential cannot be renewed: extproc/exchange (waiting_test.go),
//     controlplane (exchanger_test.go) and controlplane/xds (build_test.go).
//   - report 13, staged changes and errors of etcd: internal/configstore (staged_test.go), controlplane/api
//     (errors_internal_test.go).
//   - report 15, the command line: cmd/modelgate (main_test.go and the tests of each command).
//
// Every case is bounded in count, and the suite takes about a minute. setup.sh installs httpx; curl and a
// JDK are the system's. The cases of a client that is missing skip.
package reports

import (
	"testing"

	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
