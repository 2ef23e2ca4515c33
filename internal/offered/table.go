package offered

import "strings"

// What a member of a request does. A member that does nothing of this is plain.
const (
	hasTools     = 1 << iota // it has tools
	hasFunctions             // it has functions, as chat completions once had them
	hasItems                 // items of a conversation, which may bring tools
	runs                     // it has the vendor run something, or may: a prompt that the vendor stores has tools
	names                    // it names models, or has the vendor choose one
	isDear                   // it has another price
	ifObject                 // it does so only if it is an object
	isOwn                    // it is the request's model
	isTier                   // it is the service tier
	isSpeed                  // it buys speed or a place, at the price of a service tier of its value's name
	isInner                  // it has the members of a request
	isTemplate               // likewise, but the template of a prompt reads them, which reaches no other model
	refersTo                 // it refers to what the vendor keeps under its account
	mayRefer                 // likewise, if it is a text, or an object that names something
)

// allInner are the members that have members of a request.
const allInner = isInner | isTemplate

type meaning struct {
	does  int
	class string // the class of the tools that it runs
}

// members are the members of requests, by their names in all dialects. Of OpenAI's dialect they include the extensions
// of vendors.
var members = table()

func table() map[string]meaning {
	t := map[string]meaning{}
	for name := range set(plain) {
		t[name] = meaning{}
	}
	add := func(does int, class string, list string) {
		for name := range set(list) {
			m := t[name]
			t[name] = meaning{m.does | does, class}
		}
	}
	add(hasTools, "tools", `tools`)
	add(hasFunctions, "tools", `functions`)
	add(hasItems, "", `input messages`)
	add(runs, classSearch, `web_search_options search_parameters enable_search web_search enable_web_search
		web_search_enabled search_options forced_search`)
	add(runs, "code_interpreter", `enable_code_interpreter code_interpreter`)
	add(runs, classMCP, `mcp_servers mcpServers mcp_tools`)
	add(runs, "container", `container`)
	add(ifObject|mayRefer, "container", `container`)
	add(runs|refersTo, "connectors", `connectors`)         // Cohere's of the first version
	add(runs|refersTo, "", `cachedContent cached_content`) // which has tools, and no other price
	add(refersTo, "", `previous_response_id conversation previous_interaction_id`)
	// What the vendor stores may have tools, and models.
	add(runs|names|refersTo, classStored, `prompt`)
	add(ifObject, classStored, `prompt`)
	add(runs|names|refersTo, classStored, `agent agent_id agents assistant assistant_id bot_id workflow workflow_id
		prompt_id`)
	add(runs|names, classStored, `preset presets compound_custom`) // of the operator, in the account's settings
	add(runs|names, "plugins", `plugins`)
	add(isDear|names, "models", `models fallbacks fallback_models fallback_model model_list context_window_fallbacks
		content_policy_fallbacks default_fallbacks judge_model judge_models moderation_model draft_model router
		speculative_model model_id modelId`)
	add(names, "", `route provider providers providerOptions provider_options gateway routingConfig routing_config`)
	add(isOwn, "", `model`)
	add(isTier, "", `service_tier serviceTier`)
	add(isSpeed, "", `speed performanceConfig performance_config inference_geo`)
	add(isInner, "", `extra_body extraBody additionalModelRequestFields google generateContentRequest
		generate_content_request toolConfig tool_config generationConfig generation_config inferenceConfig parameters
		options`)
	add(isTemplate, "", `chat_template_kwargs`) // vLLM has them in place of the request's own
	return t
}

// plain are the members that neither run, nor name, nor price anything.
const plain = `
	messages stream stream_options max_tokens max_completion_tokens temperature top_p n stop seed frequency_penalty
	presence_penalty logit_bias logprobs top_logprobs user safety_identifier response_format tool_choice
	parallel_tool_calls function_call modalities audio prediction metadata store reasoning_effort verbosity
	prompt_cache_key prompt_cache_retention prompt_cache_options echo suffix best_of moderation

	instructions include text reasoning truncation background max_output_tokens
	max_tool_calls client_metadata context_management

	system stop_sequences top_k thinking output_config output_format cache_control anthropic_version anthropic_beta
	betas diagnostics

	contents systemInstruction system_instruction safetySettings safety_settings labels
	modelArmorConfig model_armor_config content requests taskType task_type title outputDimensionality
	output_dimensionality autoTruncate auto_truncate instances parameters embedContentConfig
	candidateCount candidate_count maxOutputTokens stopSequences topP topK presencePenalty frequencyPenalty
	responseLogprobs response_logprobs responseMimeType response_mime_type responseSchema response_schema
	responseJsonSchema response_json_schema _responseJsonSchema responseFormat responseModalities response_modalities
	thinkingConfig thinking_config speechConfig speech_config mediaResolution media_resolution imageConfig image_config
	enableEnhancedCivicAnswers enable_enhanced_civic_answers audioTimestamp audio_timestamp enableAffectiveDialog
	functionCallingConfig function_calling_config retrievalConfig retrieval_config includeServerSideToolInvocations
	include_server_side_tool_invocations

	additionalModelResponseFieldPaths guardrailConfig guardrails outputConfig promptVariables requestMetadata maxTokens
	toolChoice reasoningConfig reasoning_config inputText inputTexts normalize embeddingTypes singleEmbeddingParams
	segmentedEmbeddingParams embeddingConfig

	query documents top_n topN return_documents returnDocuments max_tokens_per_doc rank_fields records
	ignoreRecordDetailsInResponse max_chunks_per_doc api_version score_threshold

	encoding_format dimensions input_type embedding_types truncate texts images inputs output_dimension output_dtype
	encoding late_chunking task instruction

	k p citation_options safety_mode strict_tools preamble chat_history message raw_prompting force_single_step

	size quality style background output_compression partial_images input_fidelity mask image aspect_ratio resolution
	negative_prompt guidance_scale steps num_inference_steps width height voice language timestamp_granularities
	file file_url file_id url diarize context_bias chunking_strategy known_speaker_names known_speaker_references sample_rate stream_format

	min_p top_a typical_p repetition_penalty min_tokens ignore_eos stop_token_ids skip_special_tokens
	spaces_between_special_tokens include_stop_str_in_output length_penalty early_stopping use_beam_search
	bad_words allowed_token_ids logits_processors guided_json guided_regex guided_choice guided_grammar
	guided_decoding_backend guided_whitespace_pattern structured_outputs chat_template
	add_generation_prompt continue_final_message add_special_tokens mm_processor_kwargs cache_salt priority request_id
	return_token_ids return_tokens_as_token_ids prompt_logprobs truncate_prompt_tokens thinking_token_budget
	mirostat mirostat_tau mirostat_eta mirostat_lr mirostat_ent tfs_z typical dynatemp_range dynatemp_exponent
	dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers xtc_probability xtc_threshold
	n_predict n_probs n_keep min_keep id_slot cache_prompt grammar json_schema samplers penalize_nl repeat_penalty
	repeat_last_n ignore_eos_token post_sampling_probs return_progress reasoning_format parse_tool_calls
	keep_alive format options think raw template
	max_new_tokens do_sample details watermark best_of_sequences return_full_text

	random_seed safe_prompt prompt_mode document_image_limit document_page_limit
	thinking_budget enable_thinking preserve_thinking vl_high_resolution_images incremental_output result_format
	do_meta tool_stream request_user_id user_id sensitive_word_check clear_thinking
	search_mode search_domain_filter search_recency_filter search_after_date_filter search_before_date_filter
	last_updated_after_filter last_updated_before_filter return_images return_related_questions disable_search
	enable_search_classifier image_domain_filter image_format_filter language_preference search_language_filter
	media_response stream_mode return_citations
	deferred transforms usage session_id trace debug structured_outputs include_reasoning
	citation_options include_domains exclude_domains search_settings disable_tool_validation reasoning_content
	perf_metrics_in_response context_length_exceeded_behavior prompt_truncate_len prompt_cache_isolation_key
	prompt_cache_max_len raw_output return_token_details mirostat_target safe_mode safety_model_off compliance
	nvext thought_tag_marker min_thinking_tokens max_thinking_tokens
	`

// answers are the members with a number of answers, and outputs those with a number of tokens of each.
var (
	answers = set(`n best_of candidateCount candidate_count`)
	outputs = set(`max_tokens max_completion_tokens max_output_tokens maxOutputTokens maxTokens max_new_tokens n_predict
		num_predict`)
)

// folded are the members that are not plain, by how they read without regard to case, underscores and dashes.
var folded = foldMembers(members)

// foldedTools are the types of vendors' tools, likewise.
var foldedTools = foldTools()

func foldMembers(all map[string]meaning) map[string]meaning {
	out := map[string]meaning{}
	for name, m := range all {
		if m.does != 0 {
			out[fold(name)] = m
		}
	}
	return out
}

func foldTools() map[string]bool {
	out := map[string]bool{fold("functionDeclarations"): true}
	for name := range vendorTools {
		out[fold(name)] = true
	}
	return out
}

// fold returns a name without regard to how it is written.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

func set(list string) map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(list) {
		all[name] = true
	}
	return all
}
