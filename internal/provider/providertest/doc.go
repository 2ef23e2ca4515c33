// Package providertest has the tests that every provider must pass. [Run] runs the cases in a provider's
// testdata/*.txtar, and [Replay] replays recorded traffic. Both cut streams anywhere and check what clients rely on.
// [Fuzz] tests with generated input, and [Bench] measures:
//
//	func TestCases(t *testing.T)       { providertest.Run(t, Provider()) }
//	func FuzzAnswers(f *testing.F)     { providertest.Fuzz(f, Provider()) }
//	func BenchmarkCodec(b *testing.B)  { providertest.Bench(b, Provider()) }
//
// A case states its inputs, and -update writes the rest. Read what it wrote before committing
// it: the file is the specification.
//
// # Cases
//
// A case is a txtar archive. Its comment says where the traffic came from. The inputs are
//
//	endpoint           optional: chat (the default), completions, embeddings, messages or rerank
//	request.json       the client's request, in the endpoint's dialect; its model is the name the client knows
//	target             the provider's own name of the model
//	config.json        optional: the configured Provider, as protojson
//	credential         optional: what the request is signed with, where the file testdata/credential, or else [Credential],
//	                   will not do; it holds [Credential] where it is secret
//	provider-response  optional: what the vendor answers: a line with the status, header lines, a blank line, and the
//	                   body
//	provider-frames    the same of a stream in AWS's framing: the body is lines of JSON such as {"messageStop":{...}}, each
//	                   an event by its name; an exception is {":exception":{"throttlingException":{...}}}, and an
//	                   event of InvokeModel is {"chunk":{...}}, whose value is sent in base64
//
// and the golden sections, which -update rewrites, are
//
//	provider-request   what the vendor must get: method and path (relative to the endpoint's), the signed headers, a blank
//	                   line, the body
//	dropped            the parameters left out, one a line; absent if there are none
//	adjusted           the parameters whose values are not as the client sent them, likewise
//	client-response    what the client must get: a line with the status, an error's headers, a blank line, the body
//	usage              what was counted, as OpenAI's usage object; absent if nothing was
//	error              what the codec returned; absent if it succeeded
//
// A body in provider-response is taken as it stands, line ends included, so that a stream's last blank line is in the
// file. A request that the provider refuses has neither provider-request nor provider-response. The answer to a
// streamed request with status 200 is read as a stream and rendered as the gateway does it: [DONE] after success, an
// error event after an error in band, the error's own status if nothing was written before it, and nothing more
// after a truncated stream.
//
// Completions at a vendor that has none of its own are played over its chat completions.
package providertest
