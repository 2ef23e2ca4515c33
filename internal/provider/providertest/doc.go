// Package providertest holds the tests that every provider must pass. [Run] plays the cases that a provider's folder
// keeps in testdata/*.txtar, [Replay] plays recorded traffic; both cut streams anywhere and check what clients rely on.
//
// What a newcomer gets wrong: a case states its inputs, and -update writes the rest. Read what it wrote before committing
// it: the file is the specification.
//
// # Cases
//
// A case is a txtar archive. Its comment says where the traffic came from. The inputs are
//
//	request.json       the client's request, in OpenAI's dialect; its model is the name the client knows
//	target             the provider's own name of the model
//	config.json        optional: the configured Provider, as protojson
//	provider-response  optional: what the vendor answers: a line with the status, header lines, a blank line, and the body
//
// and the golden sections, which -update rewrites, are
//
//	provider-request   what the vendor must get: method and path (relative to the endpoint's), headers with the credential
//	                   [Credential], a blank line, the body
//	dropped            the parameters left out, one a line; absent where there are none
//	client-response    what the client must get: a line with the status, an error's headers, a blank line, the body
//	usage              what was counted, as OpenAI's usage object; absent where nothing was
//	error              what the codec returned; absent where it succeeded
//
// A body in provider-response is taken as it stands, line ends included, so that a stream's last blank line is in the
// file. A request that the provider refuses has neither provider-request nor provider-response. The answer to a streamed
// request with status 200 is read as a stream and rendered as the gateway does it: [DONE] after success, an error event
// after an error in band, the error's own status where nothing was written before it, and nothing more after a truncated
// stream.
package providertest
