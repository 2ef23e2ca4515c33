package openai

import "sync"

// A Code says what went wrong. The catalogue has the status and the type of the gateway's own codes, so that a place
// that returns an error names only its code. Codes of providers pass through and are in no list.
type Code string

// Codes of the gateway's own errors.
const (
	CodeAlreadyExists              Code = "already_exists"
	CodeApplyUnfinished            Code = "apply_unfinished"
	CodeApprovalNeeded             Code = "approval_needed"
	CodeApprovalVoid               Code = "approval_void"
	CodeArchiveDamaged             Code = "archive_damaged"
	CodeArrayAboveMaxLength        Code = "array_above_max_length"
	CodeBadRequest                 Code = "bad_request"
	CodeBatchCancelled             Code = "batch_cancelled"
	CodeBatchExpired               Code = "batch_expired"
	CodeBatchTooLarge              Code = "batch_too_large"
	CodeBodiesUnavailable          Code = "bodies_unavailable"
	CodeChecksumMismatch           Code = "checksum_mismatch"
	CodeClientGone                 Code = "client_gone"
	CodeConflict                   Code = "conflict"
	CodeConnectionError            Code = "connection_error"
	CodeCheckerUnavailable         Code = "checker_unavailable"
	CodeContentBlocked             Code = "content_blocked"
	CodeContentFilter              Code = "content_filter"
	CodeContextLengthExceeded      Code = "context_length_exceeded"
	CodeDecimalAboveMaxValue       Code = "decimal_above_max_value"
	CodeDecimalBelowMinValue       Code = "decimal_below_min_value"
	CodeDeclaredElsewhere          Code = "declared_elsewhere"
	CodeDuplicateCustomID          Code = "duplicate_custom_id"
	CodeDuplicateParameter         Code = "duplicate_parameter"
	CodeEmptyArray                 Code = "empty_array"
	CodeEmptyFile                  Code = "empty_file"
	CodeEmptyPart                  Code = "empty_part"
	CodeEmptyString                Code = "empty_string"
	CodeFileContentMissing         Code = "file_content_missing"
	CodeFileInUse                  Code = "file_in_use"
	CodeFileTooLarge               Code = "file_too_large"
	CodeFineTuneNotFound           Code = "fine_tune_not_found"
	CodeGatewayUnavailable         Code = "gateway_unavailable"
	CodeHeadersTooLarge            Code = "headers_too_large"
	CodeHTTPSRequired              Code = "https_required"
	CodeIdempotencyKeyReused       Code = "idempotency_key_reused"
	CodeInUse                      Code = "in_use"
	CodeIncompleteBody             Code = "incomplete_body"
	CodeInputFileUnavailable       Code = "input_file_unavailable"
	CodeInsufficientPermissions    Code = "insufficient_permissions"
	CodeInsufficientQuota          Code = "insufficient_quota"
	CodeIntegerAboveMaxValue       Code = "integer_above_max_value"
	CodeIntegerBelowMinValue       Code = "integer_below_min_value"
	CodeInternalError              Code = "internal_error"
	CodeInvalidAdminToken          Code = "invalid_admin_token"
	CodeInvalidAPIKey              Code = "invalid_api_key"
	CodeInvalidBase64              Code = "invalid_base64"
	CodeInvalidEncoding            Code = "invalid_encoding"
	CodeInvalidFile                Code = "invalid_file"
	CodeInvalidFilePurpose         Code = "invalid_file_purpose"
	CodeInvalidForm                Code = "invalid_form"
	CodeInvalidIdempotencyKey      Code = "invalid_idempotency_key"
	CodeInvalidImageFormat         Code = "invalid_image_format"
	CodeInvalidImageURL            Code = "invalid_image_url"
	CodeInvalidJobState            Code = "invalid_job_state"
	CodeInvalidJSON                Code = "invalid_json"
	CodeInvalidJSONLine            Code = "invalid_json_line"
	CodeInvalidJSONSchema          Code = "invalid_json_schema"
	CodeInvalidModel               Code = "invalid_model"
	CodeInvalidObject              Code = "invalid_object"
	CodeInvalidPath                Code = "invalid_path"
	CodeInvalidRange               Code = "invalid_range"
	CodeInvalidRequest             Code = "invalid_request"
	CodeInvalidResponse            Code = "invalid_response"
	CodeInvalidTrainingFile        Code = "invalid_training_file"
	CodeInvalidType                Code = "invalid_type"
	CodeInvalidValidationFile      Code = "invalid_validation_file"
	CodeInvalidValue               Code = "invalid_value"
	CodeIPNotAuthorized            Code = "ip_not_authorized"
	CodeJobLost                    Code = "job_lost"
	CodeJobsNotConfigured          Code = "jobs_not_configured"
	CodeJobsTimeout                Code = "jobs_timeout"
	CodeJobsUnavailable            Code = "jobs_unavailable"
	CodeLastOwner                  Code = "last_owner"
	CodeLedgerUnavailable          Code = "ledger_unavailable"
	CodeLimitsUnavailable          Code = "limits_unavailable"
	CodeLineTooLong                Code = "line_too_long"
	CodeMethodNotSupported         Code = "method_not_supported"
	CodeMissing                    Code = "missing"
	CodeMissingRequiredParameter   Code = "missing_required_parameter"
	CodeModelNotAllowed            Code = "model_not_allowed"
	CodeModelNotAvailable          Code = "model_not_available"
	CodeModelNotFound              Code = "model_not_found"
	CodeNoModel                    Code = "no_model"
	CodeNoProvider                 Code = "no_provider"
	CodeNotFound                   Code = "not_found"
	CodeNotCached                  Code = "not_cached"
	CodeNotGuarded                 Code = "not_guarded"
	CodeGuardrailWorkExceeded      Code = "guardrail_work_exceeded"
	CodeObjectAboveMaxProperties   Code = "object_above_max_properties"
	CodeObjectTooLarge             Code = "object_too_large"
	CodeOverloaded                 Code = "overloaded"
	CodePartContentMissing         Code = "part_content_missing"
	CodePermissionDenied           Code = "permission_denied"
	CodePolicyDenied               Code = "policy_denied"
	CodePreconditionFailed         Code = "precondition_failed"
	CodePreviousResponseNotFound   Code = "previous_response_not_found"
	CodePropertyNameAboveMaxLength Code = "property_name_above_max_length"
	CodeProviderNotConfigured      Code = "provider_not_configured"
	CodeProviderNotFound           Code = "provider_not_found"
	CodeRateLimitExceeded          Code = "rate_limit_exceeded"
	CodeReferenceNotAllowed        Code = "reference_not_allowed"
	CodeRequestTimeout             Code = "request_timeout"
	CodeRequestTooLarge            Code = "request_too_large"
	CodeResponseTooLarge           Code = "response_too_large"
	CodeResultsUnavailable         Code = "results_unavailable"
	CodeRouteNotAllowed            Code = "route_not_allowed"
	CodeServerIsOverloaded         Code = "server_is_overloaded"
	CodeSizeMismatch               Code = "size_mismatch"
	CodeStaleForm                  Code = "stale_form"
	CodeStorageFull                Code = "storage_full"
	CodeStoreFull                  Code = "store_full"
	CodeStoreRefused               Code = "store_refused"
	CodeStoreRestoring             Code = "store_restoring"
	CodeStoreUnavailable           Code = "store_unavailable"
	CodeStringAboveMaxLength       Code = "string_above_max_length"
	CodeTestRunning                Code = "test_running"
	CodeTooManyFailedAttempts      Code = "too_many_failed_attempts"
	CodeTooManyModels              Code = "too_many_models"
	CodeTooManyParts               Code = "too_many_parts"
	CodeTooManyResults             Code = "too_many_results"
	CodeTooManyTasks               Code = "too_many_tasks"
	CodeTrainingExpired            Code = "training_expired"
	CodeTrainingFailed             Code = "training_failed"
	CodeUnknownKind                Code = "unknown_kind"
	CodeUnknownParameter           Code = "unknown_parameter"
	CodeUnknownURL                 Code = "unknown_url"
	CodeUnsupportedContentEncoding Code = "unsupported_content_encoding"
	CodeUnsupportedContentType     Code = "unsupported_content_type"
	CodeUnsupportedEndpoint        Code = "unsupported_endpoint"
	CodeUnsupportedOperation       Code = "unsupported_operation"
	CodeUnsupportedParameter       Code = "unsupported_parameter"
	CodeUnsupportedValue           Code = "unsupported_value"
	CodeUpgradeNotSupported        Code = "upgrade_not_supported"
	CodeUpgradeRequired            Code = "upgrade_required"
	CodeUpstreamAuthFailed         Code = "upstream_auth_failed"
	CodeUpstreamErrorEncoded       Code = "upstream_error_encoded"
	CodeUpstreamFailed             Code = "upstream_failed"
	CodeUpstreamInvalidResponse    Code = "upstream_invalid_response"
	CodeUpstreamNotAStream         Code = "upstream_not_a_stream"
	CodeUpstreamResponseTooLarge   Code = "upstream_response_too_large"
	CodeUpstreamTimeout            Code = "upstream_timeout"
	CodeUpstreamTruncated          Code = "upstream_truncated"
	CodeUpstreamUnavailable        Code = "upstream_unavailable"
	CodeURLMismatch                Code = "url_mismatch"
)

// entries has the catalogue by code.
var entries = sync.OnceValue(func() map[Code]Entry {
	listed := map[Code]Entry{}
	for _, section := range Catalogue() {
		for _, e := range section.Entries {
			listed[e.Code] = e
		}
	}
	return listed
})

// New returns an error with this code, and with the status and the type that the catalogue lists first for it. A code
// without a status is a 400: it is a provider's, or one that only objects have.
func (c Code) New(format string, args ...any) *Error { return c.On("", format, args...) }

// On returns an error about the member param of the body, a path such as messages[0].content.
func (c Code) On(param, format string, args ...any) *Error {
	e := BadRequest(param, format, args...)
	e.Code = c
	listed := entries()[c]
	if len(listed.Status) == 0 {
		return e
	}
	e.Status, e.Type = listed.Status[0], ""
	if len(listed.Types) > 0 {
		e.Type = listed.Types[0]
	}
	return e
}
