package openapi

import "maps"

// Limits holds the bounds of requests that depend on the server.
type Limits struct {
	Context, Vocab     int
	Choices            int // per prompt
	Stops, Top, Biases int // stop strings, alternatives per token, entries of logit_bias
	Prompts, Messages  int
	Tools, MaxBias     int
	Integer            int // largest integer
	Penalty            int
	Example            string   // name of a model
	Models             []string // names of all models; nil = any name is accepted
}

// Types of fields. A null field counts as absent.
var (
	text     = object{"type": []string{"string", "null"}}
	boolean  = object{"type": []string{"boolean", "null"}}
	aObject  = object{"type": []string{"object", "null"}}
	anything = object{}
	word     = object{"type": "string"}
	filled   = object{"type": "string", "minLength": 1}
)

func integer(least, most int) object {
	return object{"type": []string{"integer", "null"}, "minimum": least, "maximum": most}
}

func number(least, most int) object {
	return object{"type": []string{"number", "null"}, "minimum": least, "maximum": most}
}

func listOf(items object, least, most int) object {
	return object{"type": "array", "items": items, "minItems": least, "maxItems": most}
}

func anyOf(schemas ...object) object { return object{"anyOf": schemas} }

func only(values ...any) object { return object{"enum": values} }

// optional also allows null.
func optional(schema object) object { return anyOf(schema, object{"type": "null"}) }

// with returns the schema of an object with some fields and the names of the required ones.
func with(fields object, required ...string) object {
	schema := object{"type": "object", "properties": fields}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// model is the schema of a model name, which may be absent.
func (l *Limits) model() object {
	if l.Models == nil {
		return text
	}
	names := []any{"", nil}
	for _, name := range l.Models {
		names = append(names, name)
	}
	return only(names...)
}

// managed is the schema of a request that names a model.
func (l *Limits) managed() object {
	name := filled
	if len(l.Models) > 0 { // an enum has a value
		name = object{"type": "string", "enum": l.Models}
	}
	return with(object{"model": name}, "model")
}

// ids is the schema of a list of token ids.
func (l *Limits) ids(least, most int) object {
	return listOf(object{"type": "integer", "minimum": 0, "maximum": max(0, l.Vocab-1)}, least, most)
}

// sampled returns the fields shared by all generating endpoints.
func (l *Limits) sampled() object {
	return object{
		"model":              l.model(),
		"temperature":        number(0, 2),
		"top_p":              number(0, 1),
		"top_k":              integer(-1, l.Integer),
		"min_p":              number(0, 1),
		"repetition_penalty": object{"type": []string{"number", "null"}, "exclusiveMinimum": 0, "maximum": 100},
		"frequency_penalty":  number(-l.Penalty, l.Penalty),
		"presence_penalty":   number(-l.Penalty, l.Penalty),
		"logit_bias": object{"type": []string{"object", "null"}, "maxProperties": l.Biases,
			"propertyNames":        object{"pattern": "^(0|[1-9][0-9]*)$"},
			"additionalProperties": object{"type": "number", "minimum": -l.MaxBias, "maximum": l.MaxBias}},
		"seed": object{"type": []string{"integer", "null"}, "format": "int64", "minimum": int64(-1 << 63),
			"maximum": int64(1<<63 - 1)},
		"stop":           optional(anyOf(filled, listOf(filled, 0, l.Stops))),
		"stop_token_ids": optional(l.ids(0, l.Biases)),
		"ignore_eos":     boolean,
		"min_tokens":     integer(0, l.Context),
		"stream":         boolean,
		"stream_options": optional(with(object{"include_usage": boolean})),
		"n":              integer(1, l.Choices),
		"best_of":        integer(1, l.Choices),
		"prediction":     optional(with(object{"type": only("content"), "content": content()}, "type", "content")),
		"guided_json":    anything,
		"guided_regex":   text,
		"guided_choice":  optional(anyOf(filled, listOf(filled, 0, l.Biases))),
		"grammar":        text,
		"response_format": optional(anyOf(
			with(object{"type": only("text", "json_object"), "schema": anything,
				"json_schema": optional(with(object{"schema": anything}))}, "type"),
			with(object{"type": only("json_schema"), "json_schema": with(object{"schema": anything}, "schema")}, "type",
				"json_schema"),
		)),
	}
}

// content is the schema of a string or a list of text parts.
func content() object {
	part := with(object{"type": only("text", "input_text", "output_text"), "text": word}, "type", "text")
	return anyOf(word, object{"type": "array", "items": part})
}

// message is the schema of a message; only the assistant's may have no content.
func message() object {
	call := with(object{"id": text, "type": text,
		"function": with(object{"name": filled, "arguments": anything}, "name")},
		"function")
	fields := func(content object, roles ...any) object {
		return object{"role": only(roles...), "content": content, "name": text, "tool_call_id": text,
			"reasoning_content": text,
			"tool_calls":        optional(object{"type": "array", "items": call})}
	}
	return anyOf(
		with(fields(content(), "system", "developer", "user", "tool"), "role", "content"),
		with(fields(optional(content()), "assistant"), "role"),
	)
}

// rendered returns the options of the chat template.
func rendered() object {
	return object{
		"chat_template_kwargs":   aObject,
		"documents":              object{"type": []string{"array", "null"}},
		"add_generation_prompt":  boolean,
		"continue_final_message": boolean,
	}
}

// reasoned is the schema of reasoning_format.
var reasoned = only("auto", "deepseek", "none", "", nil)

// conversation returns the fields of a chat.
func (l *Limits) conversation() object {
	function := with(object{"name": filled, "description": anything, "parameters": anything, "strict": boolean}, "name")
	fields := rendered()
	fields["messages"], fields["reasoning_effort"] = listOf(message(), 1, l.Messages), text
	fields["tools"] = optional(listOf(with(object{"type": only("function"), "function": function}, "type", "function"),
		0, l.Tools))
	return fields
}

// choice is the schema of tool_choice.
var choice = anyOf(
	only("none", "auto", "required", nil),
	with(object{"type": only("function"), "name": filled, "function": optional(with(object{"name": text}))},
		"type", "name"),
	with(object{"type": only("function"), "name": text, "function": with(object{"name": filled}, "name")}, "type",
		"function"),
)

// item is the schema of an input item of a response.
func item() object {
	said := message()
	for _, m := range said["anyOf"].([]object) {
		m["properties"].(object)["type"] = only("message", "", nil)
	}
	thoughts := optional(object{"type": "array", "items": with(object{"text": text})})
	return anyOf(
		said,
		with(object{"type": only("reasoning"), "content": thoughts, "summary": thoughts}, "type"),
		with(object{"type": only("function_call"), "name": filled, "call_id": text, "arguments": text}, "type", "name"),
		with(object{"type": only("function_call_output"), "call_id": text, "output": content()}, "type", "output"),
	)
}

// bodies returns the request schemas by path.
func (l *Limits) bodies() map[string]object {
	prompt := anyOf(word, listOf(word, 1, l.Prompts), l.ids(1, l.Integer), listOf(l.ids(1, l.Integer), 1, l.Prompts))
	format := anyOf(
		with(object{"type": only("text", "json_object")}, "type"),
		with(object{"type": only("json_schema"), "schema": anything}, "type", "schema"),
	)
	tool := with(object{"type": only("function"), "name": filled, "description": text, "parameters": anything,
		"strict": boolean}, "type", "name")
	named := object{"model": l.model()}
	tokenized := bodyOf(named, l.conversation(), object{
		"content":            text,
		"prompt":             text,
		"add_special":        boolean,
		"add_special_tokens": boolean,
		"with_pieces":        boolean,
		"return_token_strs":  boolean,
	})
	tokenized["properties"].(object)["messages"] = optional(l.conversation()["messages"].(object))
	tokenized["anyOf"] = []object{
		with(object{"content": word}, "content"), with(object{"prompt": word}, "prompt"),
		with(object{"messages": object{"type": "array"}}, "messages"),
	}
	all := map[string]object{
		"/v1/batches": with(object{"input_file_id": word, "endpoint": word, "completion_window": only("24h"),
			"metadata": aObject}, "input_file_id", "endpoint", "completion_window"),
		"/v1/completions": bodyOf(l.sampled(),
			object{"prompt": prompt, "max_tokens": integer(0, l.Context), "logprobs": integer(0, l.Top),
				"echo": boolean}, "prompt"),
		"/v1/chat/completions": bodyOf(l.sampled(), l.conversation(), object{
			"max_tokens":            integer(1, l.Context),
			"max_completion_tokens": integer(1, l.Context),
			"logprobs":              boolean,
			"top_logprobs":          integer(0, l.Top),
			"reasoning_format":      reasoned,
			"tool_choice":           choice,
			"parallel_tool_calls":   boolean,
		}, "messages"),
		"/v1/responses": bodyOf(l.sampled(), rendered(), object{
			"input":               anyOf(word, listOf(item(), 1, l.Messages)),
			"instructions":        text,
			"max_output_tokens":   integer(1, l.Context),
			"text":                optional(with(object{"format": optional(format)})),
			"reasoning":           optional(with(object{"effort": text})),
			"reasoning_format":    reasoned,
			"n":                   integer(1, 1),
			"include":             optional(object{"type": "array", "items": word}),
			"top_logprobs":        integer(0, l.Top),
			"tools":               optional(listOf(tool, 0, l.Tools)),
			"tool_choice":         choice,
			"parallel_tool_calls": boolean,
			"truncation":          only("disabled", nil),
		}, "input"),
		"/v1/embeddings": bodyOf(named, object{"input": prompt, "encoding_format": only("float", "base64", nil),
			"dimensions": integer(1, l.Integer)}, "input"),
		"/tokenize":       tokenized,
		"/models/load":    l.managed(),
		"/models/unload":  l.managed(),
		"/detokenize":     bodyOf(named, object{"tokens": l.ids(0, l.Integer)}, "tokens"),
		"/apply-template": bodyOf(named, l.conversation(), "messages"),
	}
	for _, path := range RerankPaths {
		all[path] = l.rerank()
	}
	for _, path := range ScorePaths {
		all[path] = l.score()
	}
	return all
}

// Paths of the same endpoints: those of Cohere, Jina, vLLM and llama-server.
var (
	RerankPaths = []string{"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"}
	ScorePaths  = []string{"/v1/score", "/score"}
)

// rerank is the schema of a query with its documents.
func (l *Limits) rerank() object {
	document := anyOf(word, with(object{"text": word}, "text"))
	return bodyOf(object{"model": l.model(), "query": word, "documents": listOf(document, 1, l.Prompts),
		"top_n": integer(0, l.Integer), "return_documents": boolean, "instruction": text}, "query", "documents")
}

// score is the schema of queries and documents under each of their names.
func (l *Limits) score() object {
	texts := anyOf(word, listOf(word, 1, l.Prompts))
	schema := bodyOf(object{"model": l.model(), "instruction": text})
	var choices []object
	for _, names := range [][2]string{{"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"}} {
		for _, name := range names {
			schema["properties"].(object)[name] = optional(texts)
		}
		choices = append(choices, with(object{names[0]: texts, names[1]: texts}, names[0], names[1]))
	}
	schema["anyOf"] = choices
	return schema
}

// bodyOf returns a schema with the fields of some groups, where later groups override, and the names of required
// fields.
func bodyOf(parts ...any) object {
	fields := object{}
	var required []string
	for _, p := range parts {
		switch p := p.(type) {
		case object:
			maps.Copy(fields, p)
		case string:
			required = append(required, p)
		}
	}
	return with(fields, required...)
}
