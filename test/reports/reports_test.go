// Package reports is what users have reported, each with the clients that they use, against the whole gateway over HTTPS:
//
//   - [TestEarlyAnswers]: an answer that is decided before the request's body has arrived.
//     "arrive": it reaches curl, httpx and Java's HttpClient over HTTP/2, which lose one that comes while they send. Each asks with
//     300 KB, a hundred times: with a wrong key, for an unknown path, with a wrong method, a wrong content type and a limit that is used
//     up, and for what the job service refuses: a body that is too large or compressed, a form that is none, an upload and a path that
//     do not exist.
//     "leave a connection of HTTP1 good": the same cases leave one that serves the next request.
//     "wait for no more than the bounds": more than 1 MiB, announced or not, is answered at once.
//   - [TestTheJobServiceAgreesWithTheChatPath], report 7: the same fault has the same error on the chat path and at the job service.
//
// What a newcomer gets wrong: every case is bounded in count and the suite takes under 40 seconds. setup.sh installs httpx; curl and a
// JDK are the system's. The cases of a client that is missing skip.
package reports

import (
	"testing"

	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
