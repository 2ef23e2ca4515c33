package openai

//go:generate go run gendocs.go -o ../../docs/errors.md

// An Entry says of a code what a developer who meets it has to know.
type Entry struct {
	Code   string
	Status []int    // none: it is not of an answer, but in an object that is answered
	Types  []string // as Status
	Means  string
	Do     string
}

// A Section of the catalogue holds codes that have one cause, sorted.
type Section struct {
	Title, Intro string
	Entries      []Entry
}

var (
	clients = []string{TypeInvalidRequest}
	ours    = []string{TypeServer}
)

// Catalogue returns every code that is the gateway's own. docs/errors.md is made of it.
func Catalogue() []Section {
	return []Section{
		{"The request", "The request is not what the API takes. The message says what to change, and `param` where.", theRequest},
		{"The path and the connection", "What arrived is no request that the API has. Envoy answers some of these before the gateway has seen them.", thePath},
		{"The key", "", theKey},
		{"Limits and budgets", "[limits.md](limits.md) says what is counted, and which headers tell how much is left.", theLimits},
		{"The gateway", "The gateway could not do its part. Nothing is wrong with the request.", theGateway},
		{"The provider", "The provider of the model failed, or refused. The gateway has tried what else the model's targets allow.", theProvider},
		{"Files, uploads, batches and fine-tuning", "These are of the job service: [jobs.md](jobs.md).", theJobs},
		{"In batches and fine-tuning jobs", "These are in objects: in `errors` of a batch, in a line of its error file, in `error` of a fine-tuning job. " +
			"The codes above can be in them, too, and so can the provider's.", inObjects},
		{"The admin API", "Only the [admin API](admin.md) and the dashboard have these; of the codes above they have some, too.", theAdminAPI},
	}
}

var theRequest = []Entry{
	{CodeArrayAboveMaxLength, []int{400}, clients, "An array has too many elements.", "Send fewer, in several requests if need be. The message says how many are allowed."},
	{CodeContentFilter, []int{400}, clients, "The provider's filter refused the content of the request.", "Change the content. The same request is refused again."},
	{CodeContextLengthExceeded, []int{400}, clients, "The prompt and the answer that is asked for have more tokens than the model takes.", "Shorten the messages, ask for fewer tokens, or choose a model with a larger context."},
	{CodeDecimalAboveMaxValue, []int{400}, clients, "A number is too large.", "Send a smaller one. The message says the bound."},
	{CodeDecimalBelowMinValue, []int{400}, clients, "A number is too small.", "Send a larger one. The message says the bound."},
	{CodeDuplicateParameter, []int{400}, clients, "The body has a member twice, or a form has a field twice.", "Send each once."},
	{CodeEmptyArray, []int{400}, clients, "An array that needs an element has none.", "Send one element at least."},
	{CodeEmptyString, []int{400}, clients, "A text that is needed is empty.", "Send a text, or leave the parameter out where it may be."},
	{CodeIncompleteBody, []int{400}, clients, "The body did not arrive whole.", "Send the request again. If it happens again, look at what is between you and the gateway."},
	{CodeIntegerAboveMaxValue, []int{400}, clients, "An integer is too large.", "Send a smaller one. The message says the bound."},
	{CodeIntegerBelowMinValue, []int{400}, clients, "An integer is too small.", "Send a larger one. The message says the bound."},
	{CodeInvalidBase64, []int{400}, clients, "The content of a file is not base64.", "Encode it as base64, or as a data URI that holds base64."},
	{CodeInvalidEncoding, []int{400}, clients, "The body is not the gzip data that `content-encoding` says.", "Compress the body with gzip, or leave the header out."},
	{CodeInvalidForm, []int{400}, clients, "The form (`multipart/form-data`) cannot be read.", "Let your HTTP library make the form, its boundary included."},
	{CodeInvalidImageFormat, []int{400}, clients, "The model takes no images of this type.", "Send JPEG, PNG, GIF or WebP."},
	{CodeInvalidImageURL, []int{400}, clients, "The URL of an image is neither of HTTP nor a data URI.", "Send an `https://` URL, or a data URI that holds base64."},
	{CodeInvalidJSON, []int{400}, clients, "The body is not JSON, or is missing.", "Send a JSON object. The message says at which byte reading ended."},
	{CodeInvalidJSONSchema, []int{400}, clients, "A JSON schema of `tools` or `response_format` is too large, or has too many references.", "Make the schema smaller. [limits.md](limits.md) has the bounds."},
	{CodeInvalidType, []int{400}, clients, "A parameter has the wrong JSON type.", "Send the type that the message names."},
	{CodeInvalidValue, []int{400}, clients, "A parameter has a value that the API does not know, or that does not go with the others.", "Send one of the values that the message names."},
	{CodeMissingRequiredParameter, []int{400}, clients, "A parameter is missing that must be there.", "Send it. `param` names it."},
	{CodeObjectAboveMaxProperties, []int{400}, clients, "The body, or `metadata`, has too many members.", "Send fewer."},
	{CodePropertyNameAboveMaxLength, []int{400}, clients, "A name in `metadata` is too long.", "Shorten it."},
	{CodeRequestTooLarge, []int{413}, clients, "The body is too large: for the gateway, or for the provider.", "Send less. An operator can raise `max_request_bytes` of the Gateway, but not the provider's limit."},
	{CodeStringAboveMaxLength, []int{400}, clients, "A text is too long.", "Shorten it. The message says the bound."},
	{CodeUnknownParameter, []int{400}, clients, "There is no parameter of this name.", "Leave it out, or correct its name."},
	{CodeUnsupportedContentEncoding, []int{415}, clients, "The body is compressed in a way that is not taken.", "Send it as the message says."},
	{CodeUnsupportedContentType, []int{415}, clients, "The body is of a type that this path does not take.", "Send the `content-type` that the message names, and a body of that type."},
	{CodeUnsupportedParameter, []int{400}, clients, "The provider of the model has no such parameter, or it has no price and the key has a budget.", "Leave it out, or choose another model. [providers.md](providers.md) says what vendors take; an operator can give what has none a price in a Catalog."},
	{CodeUnsupportedValue, []int{400}, clients, "The provider of the model does not take this value.", "Send another value, or choose another model."},
}

var thePath = []Entry{
	{CodeBadRequest, []int{400}, clients, "What arrived is not HTTP.", "Look at what makes the request: a header with a line break, say."},
	{CodeClientGone, []int{499}, clients, "The client closed the connection before its body had arrived.", "Nobody gets this answer; it is in the access log."},
	{CodeHeadersTooLarge, []int{431}, clients, "The headers are too large, or too many.", "Send fewer, or shorter ones."},
	{CodeHTTPSRequired, []int{403}, clients, "The request came over plain HTTP. Its key was sent in clear.", "Use `https://`, and have the key replaced."},
	{CodeInvalidPath, []int{400}, clients, "The path has `..` that leads out of it, or a `%` that escapes nothing.", "Correct the path."},
	{CodeMethodNotSupported, []int{405}, clients, "The path does not have this method.", "Use one of those in the header `allow`."},
	{CodeRequestTimeout, []int{408}, clients, "The request did not arrive in time. In a batch: it was not answered in time.", "Send it again, over a better connection if it is large."},
	{CodeUnknownURL, []int{404}, clients, "There is nothing at this path.", "Correct the base URL, which ends with `/v1`, or the path. An operator can pass further paths on with a [Route](routes.md)."},
	{CodeUnsupportedEndpoint, []int{400, 404}, clients, "The path is one of OpenAI's, but the gateway or the provider of the model does not serve it.", "Choose another model, or another way: the message says which. [providers.md](providers.md) has what vendors serve."},
	{CodeUpgradeNotSupported, []int{403}, clients, "The request asks for another protocol, such as WebSocket.", "Use plain HTTP requests and server-sent events."},
	{CodeUpgradeRequired, []int{426}, clients, "The request is of an HTTP version before 1.1.", "Use HTTP/1.1 or HTTP/2."},
}

var theKey = []Entry{
	{CodeInsufficientPermissions, []int{403}, clients, "The key may not be used for this operation. In the admin API: the token lacks a scope.", "Ask whoever gave you the key. The message says what is missing."},
	{CodeInvalidAPIKey, []int{401}, clients, "There is no key in the request, or it is wrong, disabled, expired or revoked.", "Send `authorization: Bearer KEY` with a key that is whole, not expired and not revoked."},
	{CodeIPNotAuthorized, []int{401}, clients, "The key may not be used from this address.", "Use an address that is allowed, or ask for yours to be added. An operator who has a proxy before Envoy sets `trusted_hops` of the Gateway."},
	{CodeModelNotFound, []int{404}, clients, "The model does not exist, or the key may not use it; the two look the same. The provider may be the one that does not know it.", "Correct the name: `GET /v1/models` lists those of your key. An operator finds with `modelgate explain` why a key does not get a model."},
	{CodeRouteNotAllowed, []int{403}, clients, "The key is bound to models, and the path is passed to a provider as it is.", "Use a model by its own path, or ask for a key that is not bound to models."},
}

var theLimits = []Entry{
	{CodeInsufficientQuota, []int{429}, []string{TypeInsufficientQuota}, "A budget or a quota is used up, or the provider's account has no credit.", "Do not repeat it: `x-should-retry` is `false`. The message says what is used up and when it begins anew; an operator can raise it, or pay the provider."},
	{CodeLimitsUnavailable, []int{503}, ours, "The gateway cannot check the limits of the key at the moment.", "Repeat the request after `retry-after`. An operator looks at the store of limits."},
	{CodeRateLimitExceeded, []int{429}, []string{TypeRequests, TypeTokens}, "A limit is reached: of the key, its project or organization, of the address, or of the provider. The type says what is counted.", "Wait for `retry-after`, and send fewer requests or tokens at a time. With `x-should-retry: false` the request alone is too large for the limit, or the address has sent wrong keys."},
	{CodeServerIsOverloaded, []int{503}, ours, "The providers of the model have as many requests as they take, or the gateway has no memory left for another.", "Repeat the request after `retry-after`. An operator raises `concurrency` of the Provider, or adds replicas."},
}

var theGateway = []Entry{
	{CodeGatewayUnavailable, []int{502, 503}, ours, "A part of the gateway is not ready or cannot be reached.", "Repeat the request. An operator runs `modelgate doctor`."},
	{CodeInternalError, []int{500}, ours, "The gateway has a fault.", "Repeat the request once. Give an operator the `x-request-id`: the log says more."},
	{CodeLedgerUnavailable, []int{503}, ours, "The record of usage cannot be read at the moment.", "Repeat the request. An operator looks at the ledger."},
	{CodeNoProvider, []int{503}, ours, "No provider of the model is enabled, or the gateway is getting a credential for it.", "Repeat the request where there is a `retry-after`; or else ask an operator to enable a provider."},
	{CodeProviderNotFound, []int{404}, clients, "The provider does not exist, or is disabled. Only the gateway's own job service gets this.", "An operator enables the provider."},
}

var theProvider = []Entry{
	{CodeOverloaded, []int{503}, ours, "The provider is overloaded, or Envoy is.", "Repeat the request later, after `retry-after` where there is one."},
	{CodePermissionDenied, []int{403}, clients, "The provider does not let the gateway's account do this.", "Choose another model, or ask an operator to get access to it from the provider."},
	{CodeUpstreamAuthFailed, []int{502}, ours, "The provider refused the gateway's credential, or the gateway has none that can be used.", "Your key is good. An operator replaces the credential of the Provider."},
	{CodeUpstreamErrorEncoded, nil, ours, "The provider answered with an error in an encoding that it was not asked for. The status is the provider's.", "As for the status: repeat a 5xx."},
	{CodeUpstreamFailed, []int{502}, ours, "The provider's model failed before its answer was complete.", "Repeat the request, unless `x-should-retry` is `false`."},
	{CodeUpstreamInvalidResponse, []int{502}, ours, "The provider's answer could not be understood.", "Repeating it costs as much again, and an SDK does not. An operator looks at the provider's endpoint and vendor."},
	{CodeUpstreamNotAStream, []int{502}, ours, "The provider answered a request for a stream with something else.", "As above; or ask without `stream`."},
	{CodeUpstreamResponseTooLarge, []int{502}, ours, "The provider's answer is larger than the gateway can hold.", "Ask for less, or for a stream."},
	{CodeUpstreamTimeout, []int{504}, ours, "The provider did not answer in time.", "Repeat the request; ask for a stream where answers are long. An operator can raise the timeout."},
	{CodeUpstreamTruncated, []int{502}, ours, "The provider's answer ended before it was complete. In a stream it is the last event.", "Repeat the request."},
	{CodeUpstreamUnavailable, []int{503}, ours, "The provider cannot be reached.", "Repeat the request later. An operator runs `modelgate doctor`."},
}

var theJobs = []Entry{
	{CodeArchiveDamaged, []int{500}, ours, "A part of the archive of what has ended is missing or damaged.", "Objects that are not in it can be read. An operator restores the bucket."},
	{CodeBatchTooLarge, []int{400}, clients, "The provider's own batches take fewer lines or bytes.", "Split the batch."},
	{CodeChecksumMismatch, []int{400}, clients, "The parts of the upload do not have the checksum that `md5` says.", "Name the parts in their order, or send the wrong one again. The upload is still pending."},
	{CodeConflict, []int{400, 409}, clients, "Another request changed the object at the same time.", "Repeat the request. In the dashboard: choose another name."},
	{CodeEmptyFile, []int{400}, clients, "The file is empty. It may be the input of a batch.", "Send a file with content."},
	{CodeEmptyPart, []int{400}, clients, "The part of the upload is empty.", "Send a part with content."},
	{CodeFileContentMissing, []int{410}, clients, "The content of the file is missing from the gateway's storage.", "Delete the file and upload it again. An operator looks at the bucket."},
	{CodeFileInUse, []int{409}, clients, "A job that has not ended uses the file.", "Cancel the job, or wait for its end."},
	{CodeFileTooLarge, []int{400, 413}, clients, "The file is larger than is allowed for its purpose, or by the provider.", "Send a smaller one. Large files go up in parts, as uploads."},
	{CodeFineTuneNotFound, []int{404}, clients, "There is no such fine-tuning job, or the provider does not know it any more.", "Correct the id, and use a key of the project that made the job."},
	{CodeIdempotencyKeyReused, []int{409}, clients, "The `idempotency-key` was used for another request.", "Repeat that request unchanged, or choose a new key."},
	{CodeInvalidFile, []int{400}, clients, "There is no such file, or the provider could not process it.", "Correct the id, or the content."},
	{CodeInvalidFilePurpose, []int{400}, clients, "The file was uploaded for another purpose.", "Upload it again, with the purpose that the message names."},
	{CodeInvalidIdempotencyKey, []int{400}, clients, "The `idempotency-key` is too long, or has other characters than visible ASCII.", "Choose another key, such as a UUID."},
	{CodeInvalidJobState, []int{400}, clients, "The job has ended, or is otherwise not where this can be done.", "Get the job, and look at its status."},
	{CodeInvalidRange, []int{416}, clients, "The header `range` names bytes that the file does not have.", "Send a range within the size of the file."},
	{CodeInvalidTrainingFile, []int{400}, clients, "The training file is missing or cannot be read by the provider.", "Correct the file, upload it again, and create a new job."},
	{CodeJobsNotConfigured, []int{503}, ours, "The gateway has no job service.", "An operator sets one up, with an object of kind JobService."},
	{CodeJobsTimeout, []int{504}, ours, "The job service did not answer in time.", "Repeat the request."},
	{CodeJobsUnavailable, []int{503}, ours, "The job service cannot be reached.", "Repeat the request. An operator looks at the job service."},
	{CodeModelNotAvailable, []int{400}, clients, "The model cannot be fine-tuned here, or does not exist.", "Choose one of those that the message names."},
	{CodePartContentMissing, []int{500}, ours, "The content of a part is missing from the gateway's storage.", "Cancel the upload and begin a new one. An operator looks at the bucket."},
	{CodeProviderNotConfigured, []int{400}, clients, "The provider lacks a setting that fine-tuning needs.", "An operator sets what the message names."},
	{CodeSizeMismatch, []int{400}, clients, "The parts together do not have the size that the upload was created for.", "Name all parts, or send what is missing. The upload is still pending."},
	{CodeStorageFull, []int{507}, ours, "The gateway's storage has no room left.", "Delete files that you do not need. An operator makes room."},
	{CodeStoreFull, []int{507}, ours, "etcd is full, or nearly: nothing new is taken, but deleting goes on.", "Repeat the request after `retry-after`, and delete what you do not need. An operator runs `modelgate doctor`."},
	{CodeTooManyParts, []int{400}, clients, "The upload has as many parts as there can be.", "Create a new upload, with larger parts."},
	{CodeUnsupportedOperation, []int{400}, clients, "The provider of the job cannot do this, or is not configured any more.", "Do without, or ask an operator. Jobs can be cancelled."},
}

var inObjects = []Entry{
	{CodeBatchCancelled, nil, nil, "The batch was cancelled before this request was executed.", "Send the request in another batch if you need its answer."},
	{CodeBatchExpired, nil, nil, "The completion window was over before this request was executed.", "Send the request in another batch."},
	{CodeConnectionError, nil, nil, "The connection broke before the request was answered.", "Send the request in another batch."},
	{CodeDuplicateCustomID, nil, nil, "Two lines have the same `custom_id`.", "Give each line one of its own."},
	{CodeInputFileUnavailable, nil, nil, "The input file was deleted, or its content is missing.", "Upload it again, and create a new batch."},
	{CodeInvalidJSONLine, nil, nil, "The line is not JSON.", "Correct the line. Each line is one JSON object."},
	{CodeInvalidModel, nil, nil, "The model that was trained cannot be configured in the gateway.", "Ask an operator: the message says why."},
	{CodeInvalidRequest, nil, nil, "The line is not a request, or the provider refused the job and gave no code.", "Do what the message says."},
	{CodeInvalidResponse, nil, nil, "The answer to the request is not JSON.", "Send the request in another batch."},
	{CodeInvalidValidationFile, nil, nil, "The content of the validation file is missing.", "Upload it again, and create a new job."},
	{CodeJobLost, nil, nil, "The provider does not know the fine-tuning job any more.", "Create a new job. An operator looks at the provider's account."},
	{CodeLineTooLong, nil, nil, "The line is too long.", "Send a smaller request. The message says the bound."},
	{CodeNoModel, nil, nil, "The job has ended, and the provider names no model that it made.", "Create a new job. An operator looks at the provider's account."},
	{CodeResponseTooLarge, nil, nil, "The answer to the request is larger than a line may be.", "Ask for less."},
	{CodeResultsUnavailable, nil, nil, "Answers of the batch were lost in the gateway's storage.", "Create the batch again. An operator looks at the bucket."},
	{CodeTooManyModels, nil, nil, "The lines name too many models.", "Split the file into several batches."},
	{CodeTooManyTasks, nil, nil, "The input file has too many lines.", "Split the file into several batches."},
	{CodeTrainingExpired, nil, nil, "The training took too long at the provider.", "Train with less data, or for fewer epochs."},
	{CodeTrainingFailed, nil, nil, "The training failed, and the provider gives no code of its own.", "Do what the message says; ask the provider if it says nothing."},
	{CodeURLMismatch, nil, nil, "The `url` of the line is not the endpoint of the batch.", "Make one batch for each endpoint."},
}

var theAdminAPI = []Entry{
	{CodeAlreadyExists, []int{409}, clients, "There is an object of this kind and name.", "Replace it with `PUT`, or choose another name."},
	{CodeApplyUnfinished, []int{503}, ours, "The changes are decided, and etcd has not taken all of them yet.", "Wait: control planes write the rest as soon as etcd does."},
	{CodeInUse, []int{409}, clients, "Other objects or keys refer to the object.", "Change or delete those first. The message names them."},
	{CodeInvalidAdminToken, []int{401}, clients, "There is no admin token in the request, or it is wrong.", "Send `authorization: Bearer TOKEN`."},
	{CodeInvalidObject, []int{400}, clients, "The object is not valid.", "Correct what the message names, field by field."},
	{CodeLastOwner, []int{409}, clients, "It is the last account with the role OWNER that can sign in.", "Make another one first."},
	{CodeMissing, []int{400}, clients, "A name is missing.", "Give one."},
	{CodeNotFound, []int{404}, clients, "There is no such object.", "Correct the name or the id."},
	{CodeObjectTooLarge, []int{413}, clients, "The object is too large to be stored, or an apply has too many.", "Split it."},
	{CodePreconditionFailed, []int{412}, clients, "The object is not at the version that `if-match` or `if-none-match` wants.", "Get the object again, and change that."},
	{CodeStaleForm, []int{403}, nil, "The form was not sent from this dashboard, or you have signed in or out since.", "Load the page again."},
	{CodeStoreRefused, []int{502}, ours, "etcd is there, and refuses the change.", "Do what the message says."},
	{CodeStoreRestoring, []int{503}, ours, "A backup is being restored.", "Repeat the request when that is done."},
	{CodeStoreUnavailable, []int{503}, ours, "etcd cannot be reached. Traffic goes on with the last configuration.", "Repeat the request. Run `modelgate doctor`."},
	{CodeTestRunning, []int{409}, clients, "The provider is being tested already.", "Wait for the end of that test."},
	{CodeTooManyFailedAttempts, []int{429}, []string{TypeRequests}, "Too many wrong tokens or passwords came from the address.", "Wait for `retry-after`."},
	{CodeTooManyResults, []int{400}, clients, "The answer would have too many results.", "Ask for fewer buckets, or group by fewer fields."},
	{CodeUnknownKind, []int{404}, clients, "There is no such kind of object.", "Use one of those that the message names."},
}
