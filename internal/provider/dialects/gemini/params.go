package gemini

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// refused refuses what the dialect cannot express, and what the model does not take, unless it asks for nothing.
func (e *encoder) refused() error {
	lacking := []string{"logit_bias", "prediction", "functions", "function_call", "verbosity"}
	for _, p := range []string{"n", "logprobs", "seed", "temperature", "top_p", "frequency_penalty", "presence_penalty"} {
		if e.lacks(p) {
			lacking = append(lacking, p)
		}
	}
	return e.Lacking(e.chat, lacking...)
}

// lacks reports whether the catalog says that the model does not take a parameter.
func (e *encoder) lacks(param string) bool {
	return slices.Contains(e.can.GetUnsupportedParameters(), param)
}

// maxStops is how many stop sequences the vendor takes.
const maxStops = 5

// sampling sets what maps one to one.
func (e *encoder) sampling() error {
	c := e.chat
	if n := c.OutputLimit(); n > 0 {
		e.setInt("maxOutputTokens", n)
	}
	for _, p := range []struct {
		name, own string
		value     *float64
		zeroToo   bool // 0 is not the default; some models refuse even the default of the others
	}{
		{"temperature", "temperature", c.Temperature, true},
		{"top_p", "topP", c.TopP, true},
		{"frequency_penalty", "frequencyPenalty", c.FrequencyPenalty, false},
		{"presence_penalty", "presencePenalty", c.PresencePenalty, false},
	} {
		if p.value != nil && (p.zeroToo || *p.value != 0) && !e.lacks(p.name) {
			e.set(p.own, e.body.Get(p.name))
		}
	}
	if c.N != nil && *c.N != 1 && !e.lacks("n") {
		e.setInt("candidateCount", *c.N)
	}
	if c.Seed != nil && !e.lacks("seed") {
		short := int64(int32(*c.Seed)) // the vendor's is of 32 bits
		if e.setInt("seed", short); short != *c.Seed {
			e.Adjust("seed")
		}
	}
	if c.Logprobs != nil && *c.Logprobs && !e.lacks("logprobs") {
		e.set("responseLogprobs", jsontext.Value("true"))
		if c.TopLogprobs != nil && *c.TopLogprobs > 0 {
			e.setInt("logprobs", *c.TopLogprobs)
		}
	}
	return e.stop()
}

func (e *encoder) stop() error {
	var stops []jsontext.Value
	for _, s := range e.chat.Stop {
		if s != "" {
			stops = append(stops, openai.AppendString(nil, s))
		}
	}
	if len(stops) > maxStops {
		if !e.Drops {
			return openai.BadValue("stop",
				"Invalid 'stop': the provider '%s' takes at most %d stop sequences, but there are %d.", e.Vendor, maxStops,
				len(stops))
		}
		e.Drop("stop")
		stops = stops[:maxStops]
	}
	if len(stops) > 0 {
		e.set("stopSequences", schema.AppendArray(nil, stops))
	}
	return nil
}

func (e *encoder) setInt(name string, n int64) { e.set(name, strconv.AppendInt(nil, n, 10)) }

// output sets what kind of answer is wanted, and how urgently.
func (e *encoder) output() error {
	if err := e.modalities(); err != nil {
		return err
	}
	switch tier := e.chat.ServiceTier; tier {
	case "", "auto":
	case "default":
		e.out.ServiceTier = "standard"
	case "flex", "priority":
		e.out.ServiceTier = tier
	default:
		return e.Unsupported("service_tier")
	}
	if p := e.chat.ParallelToolCalls; p != nil && !*p {
		if e.answer.oneCall = true; len(e.chat.Tools) > 0 {
			e.Drop("parallel_tool_calls") // the model does not learn of it
		}
	}
	return nil
}

// modalityNames are the vendor's names of modalities.
var modalityNames = map[string]string{"text": `"TEXT"`, "image": `"IMAGE"`, "audio": `"AUDIO"`}

func (e *encoder) modalities() error {
	wanted := e.chat.Modalities
	if slices.Contains(wanted, "audio") {
		e.set("responseModalities", jsontext.Value(`["AUDIO"]`)) // its models for speech give nothing else
		return e.speech()
	}
	var names []jsontext.Value
	for _, m := range wanted {
		if modalityNames[m] == "" {
			return openai.BadValue("modalities", "Answers of the modality '%s' are not supported by the provider '%s'.", m,
				e.Vendor)
		}
		names = append(names, jsontext.Value(modalityNames[m]))
	}
	if slices.Contains(wanted, "image") {
		e.set("responseModalities", schema.AppendArray(nil, names))
	}
	return nil
}

// speech translates the parameter audio. The vendor has voices of its own, by whose names the client asks for them.
func (e *encoder) speech() error {
	members := schema.Members(e.chat.Audio)
	format, voice := unquote(schema.Find(members, "format")), schema.Find(members, "voice")
	if format != formatPCM && (format != formatWave || e.body.Stream) {
		return openai.BadValue("audio.format",
			"Speech in the format '%s' is not supported by the provider '%s'. Ask for 'pcm16', or for 'wav' without 'stream'.",
			format, e.Vendor)
	}
	e.answer.audioFormat = format
	if voice.Kind() == '{' {
		voice = schema.Find(schema.Members(voice), "id")
	}
	if voice.Kind() == '"' {
		e.set("speechConfig", slices.Concat([]byte(`{"voiceConfig":{"prebuiltVoiceConfig":{"voiceName":`), voice,
			[]byte("}}}")))
	}
	return nil
}

// unquote returns the text of a JSON string, or nothing.
func unquote(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, v) // it was read as JSON before
	return string(s)
}
