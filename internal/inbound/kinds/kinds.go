// Package kinds says what becomes of each type of item, part, tool and block that the SDKs of OpenAI and Anthropic
// know, if a request is translated for a provider of another dialect. Translators look types up here. The SDKs' own
// definitions are compared with these tables by a test, and docs/item-types.md is made of them.
//
// A type that an SDK adds must get a decision here. Otherwise a client that sends it gets an error in every later turn
// of its session.
package kinds

import "strings"

//go:generate go run gendocs.go -o ../../../docs/item-types.md

// A Decision is what becomes of a type.
type Decision string

// The decisions.
const (
	Translated Decision = "translated" // it becomes what the provider has for it
	Text       Decision = "text"       // it becomes text for the model
	Dropped    Decision = "dropped"    // it is left out, and x-modelgate-dropped names it
	Refused    Decision = "refused"    // it is a 400 that gives the reason
)

// A Kind is a decision with its details: what the type becomes, or why it is left out or refused.
type Kind struct {
	Decision Decision
	Note     string
}

// A Table has the types of one place in a request.
type Table map[string]Kind

const (
	ranByOpenAI    = "a tool that OpenAI runs; it means nothing to other models"
	ranByAnthropic = "a tool that Anthropic runs; it means nothing to other models"
	onlyOpenAI     = "only OpenAI can read it"
	aCall          = "a call of a tool"
	aResult        = "the result of a call"
	aSearch        = "a web search, if the provider has one; otherwise it is left out and named, unless it is the only tool"
)

// Items are the items of the Responses API.
var Items = Table{
	"message":                 {Translated, "a message"},
	"reasoning":               {Translated, "the reasoning of the assistant's message, if the provider takes it back"},
	"function_call":           {Translated, aCall},
	"function_call_output":    {Translated, aResult},
	"custom_tool_call":        {Translated, "a call of the function that stands for the custom tool"},
	"custom_tool_call_output": {Translated, aResult},
	"local_shell_call":        {Translated, aCall},
	"local_shell_call_output": {Translated, aResult},
	"shell_call":              {Translated, aCall},
	"shell_call_output":       {Translated, aResult},
	"apply_patch_call":        {Translated, aCall},
	"apply_patch_call_output": {Translated, aResult},
	"computer_call":           {Translated, aCall},
	"computer_call_output":    {Translated, "the result of a call, with its picture in a message after it"},
	"tool_search_call":        {Translated, "a call, if the client ran the search; otherwise it is left out and named"},
	"tool_search_output":      {Translated, "the names of the tools that were found, as the result of the call; the tools count as the request's"},
	"additional_tools":        {Translated, "tools of the request"},
	"agent_message":           {Text, "a message of the user that begins with its author"},
	"web_search_call":         {Dropped, ranByOpenAI},
	"file_search_call":        {Dropped, ranByOpenAI},
	"code_interpreter_call":   {Dropped, ranByOpenAI},
	"image_generation_call":   {Dropped, ranByOpenAI},
	"mcp_list_tools":          {Dropped, ranByOpenAI},
	"mcp_call":                {Dropped, ranByOpenAI},
	"mcp_approval_request":    {Dropped, ranByOpenAI},
	"mcp_approval_response":   {Dropped, ranByOpenAI},
	"program":                 {Dropped, ranByOpenAI},
	"program_output":          {Dropped, ranByOpenAI},
	"compaction":              {Dropped, onlyOpenAI},
	"compaction_summary":      {Dropped, onlyOpenAI},
	"context_compaction":      {Dropped, onlyOpenAI},
	"ghost_snapshot":          {Dropped, "a note of the client to itself"},
	"compaction_trigger":      {Refused, "it asks for a compaction, which only OpenAI makes"},
	"item_reference":          {Refused, "it refers to a stored item, which the operator must have turned on"},
}

// Parts are the parts of the content of items.
var Parts = Table{
	"input_text":          {Translated, "text"},
	"output_text":         {Translated, "text"},
	"text":                {Translated, "text"},
	"refusal":             {Translated, "a refusal"},
	"input_image":         {Translated, "an image; by id it is refused"},
	"computer_screenshot": {Translated, "an image; by id it is refused"},
	"input_file":          {Translated, "a file; by id it is refused"},
	"input_audio":         {Translated, "audio, if the provider takes it"},
	"summary_text":        {Translated, "reasoning"},
	"reasoning_text":      {Translated, "reasoning"},
	"encrypted_content":   {Dropped, onlyOpenAI},
}

// Tools are the tools of the Responses API.
var Tools = Table{
	"function":                      {Translated, "a function"},
	"custom":                        {Translated, "a function with one string; its calls come back as calls of the custom tool"},
	"namespace":                     {Translated, "its functions and custom tools, with names such as NAMESPACE__NAME"},
	"local_shell":                   {Translated, "a function; its calls come back as local_shell_call"},
	"shell":                         {Translated, "a function, if the client runs it; its calls come back as shell_call"},
	"apply_patch":                   {Translated, "a function; its calls come back as apply_patch_call"},
	"tool_search":                   {Translated, "a function, if the client runs the search; otherwise it is left out and named, because all tools are sent"},
	"web_search":                    {Translated, aSearch},
	"web_search_preview":            {Translated, aSearch},
	"web_search_2025_08_26":         {Translated, aSearch},
	"web_search_preview_2025_03_11": {Translated, aSearch},
	"file_search":                   {Refused, ranByOpenAI},
	"computer":                      {Refused, "it needs a model that was made for it"},
	"computer_use_preview":          {Refused, "it needs a model that was made for it"},
	"mcp":                           {Refused, ranByOpenAI},
	"code_interpreter":              {Refused, ranByOpenAI},
	"programmatic_tool_calling":     {Refused, ranByOpenAI},
	"image_generation":              {Refused, ranByOpenAI},
}

// MessageTools are the tools of the Messages API, without the dates in their types.
var MessageTools = Table{
	"custom":                 {Translated, "a function"},
	"bash":                   {Translated, "a function"},
	"text_editor":            {Translated, "a function"},
	"memory":                 {Translated, "a function"},
	"web_search":             {Translated, aSearch},
	"tool_search_tool_bm25":  {Dropped, "all tools are sent"},
	"tool_search_tool_regex": {Dropped, "all tools are sent"},
	"computer":               {Refused, "it needs a model that was made for it"},
	"computer_toolset":       {Refused, "it needs a model that was made for it"},
	"browser_toolset":        {Refused, "it needs a model that was made for it"},
	"web_fetch":              {Refused, ranByAnthropic},
	"code_execution":         {Refused, ranByAnthropic},
	"advisor":                {Refused, ranByAnthropic},
	"mcp_toolset":            {Refused, ranByAnthropic},
}

// Undated returns a type of tools without the date at its end.
func Undated(typ string) string {
	at := strings.LastIndexByte(typ, '_')
	if at > 0 && len(typ)-at == len("_20250305") && strings.Trim(typ[at+1:], "0123456789") == "" {
		return typ[:at]
	}
	return typ
}

// Blocks are the blocks of messages in the Messages API.
var Blocks = Table{
	"text":                                   {Translated, "text"},
	"image":                                  {Translated, "an image; by id it is refused"},
	"document":                               {Translated, "text or a file; by id it is refused"},
	"search_result":                          {Text, "its title, source and text"},
	"thinking":                               {Translated, "reasoning, if the provider takes it back"},
	"redacted_thinking":                      {Translated, "reasoning, for Claude alone"},
	"tool_use":                               {Translated, aCall},
	"tool_result":                            {Translated, aResult},
	"compaction":                             {Text, "the summary, as a message of the user; what stands before it is left out. Without a readable summary it is left out and named"},
	"tool_addition":                          {Text, "a sentence; a tool that it defines counts as the request's"},
	"tool_removal":                           {Text, "a sentence"},
	"server_tool_use":                        {Dropped, ranByAnthropic},
	"web_search_tool_result":                 {Dropped, ranByAnthropic},
	"web_fetch_tool_result":                  {Dropped, ranByAnthropic},
	"advisor_tool_result":                    {Dropped, ranByAnthropic},
	"code_execution_tool_result":             {Dropped, ranByAnthropic},
	"bash_code_execution_tool_result":        {Dropped, ranByAnthropic},
	"text_editor_code_execution_tool_result": {Dropped, ranByAnthropic},
	"tool_search_tool_result":                {Dropped, ranByAnthropic},
	"mcp_tool_use":                           {Dropped, ranByAnthropic},
	"mcp_tool_result":                        {Dropped, ranByAnthropic},
	"mcp_tool_listing":                       {Dropped, ranByAnthropic},
	"fallback":                               {Dropped, "a note about which of Anthropic's models answered"},
	"container_upload":                       {Refused, "a file in a container of Anthropic"},
}

// AssistantBlocks are the blocks that mean something else in messages of the assistant.
var AssistantBlocks = Table{
	"image": {Dropped, "an image that a model has made; providers take images of the user alone"},
}

// ResultBlocks are the blocks of a tool_result.
var ResultBlocks = Table{
	"text":           {Translated, "text"},
	"image":          {Translated, "an image in a message of the user after the results"},
	"document":       {Translated, "text or a file in a message of the user after the results"},
	"search_result":  {Text, "its title, source and text"},
	"tool_reference": {Text, "a sentence that the tool is loaded; it is among the request's tools"},
	"browser_state":  {Text, "its JSON"},
}

// SystemBlocks are the blocks of system messages.
var SystemBlocks = Table{
	"text":          {Translated, "text"},
	"tool_addition": {Text, "a sentence; a tool that it defines counts as the request's"},
	"tool_removal":  {Text, "a sentence"},
}
